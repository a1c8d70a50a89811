//! URLs of stores.

use simba_backend::{DynBackend, Namespace, Schema};
use std::sync::Arc;

use crate::error::Error;

/// A kind of store.
struct Kind {
    /// What its URLs begin with.
    schemes: &'static [&'static str],
    feature: &'static str,
    /// Whether this build has it.
    present: bool,
    example: &'static str,
}

const KINDS: [Kind; 5] = [
    Kind {
        schemes: &["sqlite"],
        feature: "sqlite",
        present: cfg!(feature = "sqlite"),
        example: "sqlite:/var/lib/app/simba.db",
    },
    Kind {
        schemes: &["postgres", "postgresql"],
        feature: "postgres",
        present: cfg!(feature = "postgres"),
        example: "postgres://app@db.example/app",
    },
    Kind {
        schemes: &["mysql", "mariadb"],
        feature: "mysql",
        present: cfg!(feature = "mysql"),
        example: "mysql://app@db.example/app",
    },
    Kind {
        schemes: &["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"],
        feature: "redis",
        present: cfg!(feature = "redis"),
        example: "redis://cache.example",
    },
    Kind { schemes: &["memory"], feature: "memory", present: cfg!(feature = "memory"), example: "memory:" },
];

/// How a store is opened, beside its URL.
///
/// ```
/// let options = simba::StoreOptions::default().namespace("staging".parse()?).create(false);
/// # let _options = options;
/// # Ok::<(), simba::NameError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct StoreOptions {
    namespace: Option<Namespace>,
    create: bool,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { namespace: None, create: true }
    }
}

impl StoreOptions {
    /// Keeps the names apart from those of other namespaces in the same store.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Whether missing tables, or a missing file, are made with the first session; by default they are.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }
}

/// The store that a URL names; see [`Simba::connect`](crate::Simba::connect) for the kinds. Nothing is connected yet.
///
/// # Errors
/// [`Error::Url`] says what is wrong with the URL, and never shows a password; [`Error::Store`] if the store can be
/// seen to be unfit without a connection.
///
/// ```
/// # #[cfg(feature = "memory")] {
/// let store = simba::open_store("memory:", &simba::StoreOptions::default())?;
/// assert!(store.schema().is_none());
/// # }
/// # Ok::<(), simba::Error>(())
/// ```
pub fn open_store(url: &str, options: &StoreOptions) -> Result<Arc<dyn DynBackend>, Error> {
    let Some((scheme, _rest)) = url.split_once(':') else {
        return Err(refuse("a store's URL begins with the kind of the store and a colon".into()));
    };
    let StoreOptions { namespace: _namespace, create: _create } = options;
    let kind = KINDS.iter().find(|kind| kind.schemes.contains(&scheme));
    match kind.map(|kind| kind.feature) {
        #[cfg(feature = "memory")]
        Some("memory") => memory(_rest),
        #[cfg(feature = "sqlite")]
        Some("sqlite") => sqlite(_rest, options),
        #[cfg(feature = "postgres")]
        Some("postgres") => postgres(url, options),
        #[cfg(feature = "mysql")]
        Some("mysql") => mysql(url, options),
        #[cfg(feature = "redis")]
        Some("redis") => redis(url, options),
        _ => {
            let shown: String = scheme.chars().take(40).collect();
            let why =
                if kind.is_some() { "is not compiled into this program" } else { "is not a kind of store" };
            Err(refuse(format!("{shown:?} {why}")))
        }
    }
}

/// The tables of the kind of store that a URL names, `None` if it has none. Nothing is opened, and nothing need be there.
///
/// # Errors
/// [`Error::Url`] says what is wrong with the URL, and never shows a password.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// let schema = simba::store_schema("sqlite:/nowhere/simba.db")?.expect("tables");
/// assert!(schema.sql.contains("create table simba_lease"));
/// # }
/// # Ok::<(), simba::Error>(())
/// ```
pub fn store_schema(url: &str) -> Result<Option<Schema>, Error> {
    #[cfg(feature = "sqlite")]
    if url.starts_with("sqlite:") {
        return Ok(Some(simba_sql::sqlite::schema::schema()));
    }
    Ok(open(url)?.schema())
}

/// As [`open_store`], with no options.
pub(crate) fn open(url: &str) -> Result<Arc<dyn DynBackend>, Error> {
    open_store(url, &StoreOptions::default())
}

/// What was given, what there is, what to do. Never the URL itself, which may hold a password.
fn refuse(what: String) -> Error {
    let list = |wanted: bool, show: fn(&Kind) -> String| {
        let found: Vec<_> = KINDS.iter().filter(|kind| kind.present == wanted).map(show).collect();
        if found.is_empty() { "none".to_owned() } else { found.join(", ") }
    };
    let present = list(true, |kind| format!("{:?}", kind.example));
    let absent = list(false, |kind| format!("{0} (feature \"{0}\" of simba-lease)", kind.feature));
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

#[cfg(feature = "postgres")]
fn postgres(url: &str, options: &StoreOptions) -> Result<Arc<dyn DynBackend>, Error> {
    use simba_sql::postgres::{PostgresBackend, PostgresConfig};

    let mut config = PostgresConfig::from_url(url)
        .map_err(|error| Error::Url(error.to_string().into()))?
        .create(options.create);
    if let Some(namespace) = &options.namespace {
        config = config.namespace(namespace.clone());
    }
    Ok(Arc::new(PostgresBackend::new(config)?))
}

#[cfg(feature = "mysql")]
fn mysql(url: &str, options: &StoreOptions) -> Result<Arc<dyn DynBackend>, Error> {
    use simba_sql::mysql::{MysqlBackend, MysqlConfig};

    let mut config = MysqlConfig::from_url(url)
        .map_err(|error| Error::Url(error.to_string().into()))?
        .create(options.create);
    if let Some(namespace) = &options.namespace {
        config = config.namespace(namespace.clone());
    }
    Ok(Arc::new(MysqlBackend::new(config)?))
}

#[cfg(feature = "redis")]
fn redis(url: &str, options: &StoreOptions) -> Result<Arc<dyn DynBackend>, Error> {
    use simba_redis::{RedisBackend, RedisConfig};

    let mut config = RedisConfig::from_url(url).map_err(|error| Error::Url(error.to_string().into()))?;
    if let Some(namespace) = &options.namespace {
        config = config.namespace(namespace.clone());
    }
    Ok(Arc::new(RedisBackend::new(config)?))
}

#[cfg(feature = "sqlite")]
fn sqlite(rest: &str, options: &StoreOptions) -> Result<Arc<dyn DynBackend>, Error> {
    use simba_sql::sqlite::{SqliteBackend, SqliteConfig};

    // Somebody who took the URL of a server for this one has perhaps given a password, which must not be shown.
    if rest.starts_with("//") && rest.contains('@') {
        return Err(refuse("a SQLite file has no user and no host: write sqlite:/absolute/path.db".into()));
    }
    let mut config = SqliteConfig::from_url(&format!("sqlite:{rest}"))
        .map_err(|error| Error::Url(error.to_string().into()))?
        .create(options.create);
    if let Some(namespace) = &options.namespace {
        config = config.namespace(namespace.clone());
    }
    Ok(Arc::new(SqliteBackend::new(config)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lists_what_there_is_and_never_shows_a_secret() {
        for url in ["cassandra://app:hunter2@db/app", "hunter2", "", ":", "sqlite2:hunter2"] {
            let error = open(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("not compiled in:"), "{error}");
        }
        let error = open("mongo:x").unwrap_err().to_string();
        assert!(error.contains("\"mongo\" is not a kind of store"), "{error}");
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
