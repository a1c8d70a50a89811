//! Where the file is, and how it is used.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use simba_backend::Namespace;

use super::StoreClock;

/// How to use an `SQLite` file as a store.
///
/// ```
/// use simba_sql::sqlite::SqliteConfig;
///
/// let config = SqliteConfig::new("/var/lib/app/simba.db").namespace("staging".parse()?);
/// assert_eq!(SqliteConfig::from_url("sqlite:/var/lib/app/simba.db")?.path(), config.path());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a configuration does nothing by itself"]
pub struct SqliteConfig {
    path: PathBuf,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) create: bool,
    pub(crate) clock: Option<StoreClock>,
    pub(crate) max_pages: Option<u32>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<super::Planted>,
}

impl SqliteConfig {
    /// The file at `path`. It and its tables are created when the first session is opened, also when many
    /// processes do so at once.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            namespace: None,
            create: true,
            clock: None,
            max_pages: None,
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// From `sqlite:PATH`. `sqlite://` with an absolute path behind it is taken too, as other tools write it.
    ///
    /// # Errors
    /// [`UrlError`] says what was given and what is allowed.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let refuse = |fault| Err(UrlError { given: url.to_owned(), fault });
        let Some(rest) = url.strip_prefix("sqlite:") else {
            return refuse("it does not begin with sqlite:");
        };
        let path = match rest.strip_prefix("//") {
            Some(path) if path.starts_with('/') => path,
            Some(_) => return refuse("a file has no host; write one slash, or three"),
            None => rest,
        };
        if path.is_empty() {
            return refuse("the path is missing");
        }
        if path == ":memory:" {
            return refuse("a database in memory cannot be shared between processes");
        }
        if path.contains(['?', '#']) {
            return refuse("parameters behind ? or # are not known here");
        }
        if path.contains('\0') {
            return refuse("a path cannot contain a NUL character");
        }
        Ok(Self::new(path))
    }

    /// Keeps the leases apart from those of other namespaces in the same file.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Whether a missing file or missing tables are created; by default they are.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Measures leases with this clock instead of the kernel's; for tests. Every process that uses the file must
    /// use the same one.
    pub fn clock(mut self, clock: StoreClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Lets the file grow to this many pages of 4 KiB at most; beyond it calls fail as on a full disk.
    pub const fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }

    /// The same file by its one full name: neither a change of the working folder nor another link to it matters
    /// from then on.
    pub(crate) fn settled(mut self) -> Self {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let full = self.path.canonicalize().or_else(|error| {
            let name = self.path.file_name().ok_or(error)?;
            Ok::<_, std::io::Error>(folder.unwrap_or(Path::new(".")).canonicalize()?.join(name))
        });
        // Where even the folder cannot be looked at, the first call says so.
        if let Ok(full) = full {
            self.path = full;
        }
        self
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    pub const fn plant(mut self, bug: super::Planted) -> Self {
        self.planted = Some(bug);
        self
    }
}

/// Why a text is not the URL of an `SQLite` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError {
    given: String,
    fault: &'static str,
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not the URL of an SQLite file: {}; write sqlite:/absolute/path.db or sqlite:relative.db",
            self.given, self.fault
        )
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (url, path) in [
            ("sqlite:/a/b.db", "/a/b.db"),
            ("sqlite:b.db", "b.db"),
            ("sqlite:///a/b.db", "/a/b.db"),
            ("sqlite:/with space.db", "/with space.db"),
        ] {
            assert_eq!(SqliteConfig::from_url(url).unwrap().path(), Path::new(path), "{url}");
        }
        for url in [
            "sqlite:",
            "sqlite://host/x",
            "sqlite:a?mode=ro",
            "sqlite::memory:",
            "postgres:x",
            "",
            "sqlite:a\0",
        ] {
            let error = SqliteConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains("write sqlite:/absolute/path.db"), "{error}");
        }
    }
}
