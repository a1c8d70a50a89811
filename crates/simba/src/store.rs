//! URLs of stores.

use simba_backend::DynBackend;
use std::sync::Arc;

use crate::error::Error;

/// The kinds of stores there are: scheme, feature, whether this build has it, and an example.
const KINDS: [(&str, bool, &str); 2] = [
    ("sqlite", cfg!(feature = "sqlite"), "sqlite:/var/lib/app/simba.db"),
    ("memory", cfg!(feature = "memory"), "memory:"),
];

/// The store that a URL names. Nothing is connected yet.
pub(crate) fn open(url: &str) -> Result<Arc<dyn DynBackend>, Error> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(refuse("a store's URL begins with the kind of the store and a colon".into()));
    };
    match scheme {
        #[cfg(feature = "memory")]
        "memory" => memory(rest),
        #[cfg(feature = "sqlite")]
        "sqlite" => sqlite(rest),
        _ => {
            let known = KINDS.iter().any(|(kind, ..)| *kind == scheme);
            let shown: String = scheme.chars().take(40).collect();
            let why = if known { "is not compiled into this program" } else { "is not a kind of store" };
            Err(refuse(format!("{shown:?} {why}")))
        }
    }
}

/// What was given, what there is, what to do. Never the URL itself, which may hold a password.
fn refuse(what: String) -> Error {
    let list = |wanted: bool, show: fn(&(&str, bool, &str)) -> String| {
        let found: Vec<_> = KINDS.iter().filter(|kind| kind.1 == wanted).map(show).collect();
        if found.is_empty() { "none".to_owned() } else { found.join(", ") }
    };
    let present = list(true, |(_, _, example)| format!("{example:?}"));
    let absent = list(false, |(kind, ..)| format!("{kind} (feature \"{kind}\" of simba-lease)"));
    Error::Url(
        format!("{what}; compiled in, with an example each: {present}; not compiled in: {absent}").into(),
    )
}

#[cfg(feature = "memory")]
fn memory(rest: &str) -> Result<Arc<dyn DynBackend>, Error> {
    use crate::clock::{BootClock, Clock};

    if !rest.is_empty() {
        return Err(refuse("a memory store has no name: it is a new one each time".into()));
    }
    Ok(Arc::new(simba_memory::MemoryBackend::new(|| BootClock.now().as_nanos())))
}

#[cfg(feature = "sqlite")]
fn sqlite(rest: &str) -> Result<Arc<dyn DynBackend>, Error> {
    use simba_sql::sqlite::{SqliteBackend, SqliteConfig};

    // Somebody who took the URL of a server for this one has perhaps given a password, which must not be shown.
    if rest.starts_with("//") && rest.contains('@') {
        return Err(refuse("a SQLite file has no user and no host: write sqlite:/absolute/path.db".into()));
    }
    let config = SqliteConfig::from_url(&format!("sqlite:{rest}"))
        .map_err(|error| Error::Url(error.to_string().into()))?;
    Ok(Arc::new(SqliteBackend::new(config)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lists_what_there_is_and_never_shows_a_secret() {
        for url in ["postgres://app:hunter2@db/app", "hunter2", "", ":", "sqlite2:hunter2"] {
            let error = open(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("not compiled in:"), "{error}");
        }
        let error = open("redis:x").unwrap_err().to_string();
        assert!(error.contains("\"redis\" is not a kind of store"), "{error}");
    }

    #[cfg(feature = "sqlite")]
    #[test]
    fn a_server_like_url_of_a_file_does_not_show_its_password() {
        let error = open("sqlite://app:hunter2@db/app").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("sqlite:/absolute/path.db"), "{error}");
    }

    #[cfg(not(feature = "sqlite"))]
    #[test]
    fn a_kind_that_is_left_out_is_named_with_its_feature() {
        let error = open("sqlite:/tmp/x").unwrap_err().to_string();
        assert!(error.contains("\"sqlite\" is not compiled into this program"), "{error}");
        assert!(error.contains("sqlite (feature \"sqlite\" of simba-lease)"), "{error}");
    }
}
