//! Which servers, and how they are used.

use std::{fmt, path::PathBuf};

use simba_backend::Namespace;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How to use PostgreSQL as a store. Its `Debug` form shows no password.
///
/// ```
/// use simba_sql::postgres::PostgresConfig;
///
/// let config = PostgresConfig::from_url("postgres://app:secret@db.example/app")?.namespace("staging".parse()?);
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a configuration does nothing by itself"]
pub struct PostgresConfig {
    pub(crate) server: tokio_postgres::Config,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) broadcast: bool,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) create: bool,
}

impl fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("server", &self.shown())
            .field("user", &self.server.get_user())
            .field("password", &self.server.get_password().map(|_| "hidden"))
            .field("tls", &self.tls())
            .field("ca", &self.ca)
            .field("broadcast", &self.broadcast)
            .field("namespace", &self.namespace)
            .field("create", &self.create)
            .finish()
    }
}

/// What is handed on to the driver as it is.
const DRIVERS: [&str; 4] = ["application_name", "channel_binding", "connect_timeout", "dbname"];

impl PostgresConfig {
    /// From `postgres://USER[:PASSWORD]@HOST[:PORT][,HOST..]/DATABASE`. Of several hosts the one that takes writes is
    /// used. Parameters:
    ///
    /// | parameter | values |
    /// |---|---|
    /// | `sslmode` | `disable` (the default), `require`, `verify-ca` or `verify-full`, which all check the certificate and the host's name |
    /// | `sslrootcert` | a PEM file of the authorities to trust instead of the system's |
    /// | `broadcast` | `on` (the default), or `off` behind a pooler |
    /// | `application_name`, `channel_binding`, `connect_timeout` | as elsewhere |
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong. It never shows the URL, which may hold a password.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse("it has no ://"))?;
        if !matches!(scheme, "postgres" | "postgresql") {
            return Err(refuse("it does not begin with postgres or postgresql"));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if rest.contains('#') || query.contains('@') {
            return Err(refuse("a ?, # or @ in a name or password must be written %3F, %23, %40"));
        }
        let mut server: tokio_postgres::Config = format!("postgres://{place}").parse().map_err(|_| {
            refuse(
                "user, password, host, port or database cannot be read; write what is special in them as %XX",
            )
        })?;
        if server.get_hosts().is_empty() {
            return Err(refuse("the host is missing"));
        }
        if server.get_user().is_none_or(str::is_empty) {
            return Err(refuse("the user is missing"));
        }
        let (mut mode, mut ca, mut broadcast) = (SslMode::Disable, None, true);
        let mut driver = Vec::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match (&*name, &*value) {
                ("sslmode", "disable") => mode = SslMode::Disable,
                ("sslmode", "require" | "verify-ca" | "verify-full") => mode = SslMode::Require,
                ("sslmode", _) => {
                    return Err(refuse(
                        "sslmode is disable, or require, verify-ca or verify-full, which all check the certificate",
                    ));
                }
                ("sslrootcert", path) => ca = Some(PathBuf::from(path)),
                ("broadcast", "on") => broadcast = true,
                ("broadcast", "off") => broadcast = false,
                ("broadcast", _) => return Err(refuse("broadcast is on or off")),
                (known, _) if DRIVERS.contains(&known) => {
                    driver.push((name.into_owned(), value.into_owned()))
                }
                (other, _) => {
                    let shown: String = other.chars().take(40).collect();
                    return Err(UrlError(format!(
                        "the parameter {shown:?} is not known; there are sslmode, sslrootcert, broadcast, {}",
                        DRIVERS.join(", ")
                    )));
                }
            }
        }
        if ca.is_some() && mode == SslMode::Disable {
            return Err(refuse("sslrootcert is for sslmode=verify-full"));
        }
        if !driver.is_empty() {
            let pairs = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(driver).finish();
            // The driver decodes %20, but not a plus sign.
            server = format!("postgres://{place}?{}", pairs.replace('+', "%20"))
                .parse()
                .map_err(|_| refuse("a parameter has a value that the driver does not know"))?;
        }
        server.ssl_mode(mode).target_session_attrs(TargetSessionAttrs::ReadWrite);
        if server.get_application_name().is_none() {
            server.application_name("simba");
        }
        Ok(Self { server, ca, broadcast, namespace: None, create: true })
    }

    /// Keeps the leases apart from those of other namespaces in the same tables.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// Whether missing tables are made with the first session; by default they are.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Whether releases are told to those who wait, and listened for.
    pub const fn broadcast(mut self, broadcast: bool) -> Self {
        self.broadcast = broadcast;
        self
    }

    pub(crate) fn tls(&self) -> bool {
        self.server.get_ssl_mode() != SslMode::Disable
    }

    /// The servers, for people.
    pub(crate) fn shown(&self) -> String {
        let ports = self.server.get_ports();
        let hosts = self.server.get_hosts().iter().enumerate().map(|(index, host)| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        let database = self.server.get_dbname().or(self.server.get_user()).unwrap_or_default();
        format!("PostgreSQL at {}/{database}", hosts.collect::<Vec<_>>().join(","))
    }
}

/// Why a text is not the URL of a PostgreSQL store. It never shows the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

fn refuse(fault: &str) -> UrlError {
    UrlError(fault.to_owned())
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the URL of the PostgreSQL store cannot be used: {}; write postgres://user@host:5432/database",
            self.0
        )
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let url = "postgresql://app:p%40ss@a,b:7000/leases?sslmode=verify-full&sslrootcert=/ca.pem&application_name=x+y";
        let config = PostgresConfig::from_url(url).unwrap();
        assert_eq!(config.shown(), "PostgreSQL at a:5432,b:7000/leases");
        assert_eq!(config.server.get_password(), Some(&b"p@ss"[..]));
        assert_eq!(config.server.get_application_name(), Some("x y"));
        assert!(config.tls() && config.broadcast);
        let plain = PostgresConfig::from_url("postgres://app@h?broadcast=off").unwrap();
        assert!(!plain.tls() && !plain.broadcast);
        assert_eq!(plain.server.get_application_name(), Some("simba"));
    }

    #[test]
    fn refusals_say_what_to_write_and_never_show_a_password() {
        for (url, word) in [
            ("postgres:x:hunter2", "no ://"),
            ("http://a:hunter2@b", "postgres"),
            ("postgres://a:hunter2@", "host is missing"),
            ("postgres://a:hunter2@h:99999/x", "cannot be read"),
            ("postgres://h/x", "user is missing"),
            ("postgres://a:hunter2?x=1@h/x", "%3F"),
            ("postgres://a:hun#ter2@h/x", "%23"),
            ("postgres://a:hunter2@h?pool=3", "\"pool\" is not known"),
            ("postgres://a:hunter2@h?sslmode=prefer", "verify-full"),
            ("postgres://a:hunter2@h?sslrootcert=/x", "sslmode=verify-full"),
            ("postgres://a:hunter2@h?broadcast=1", "on or off"),
            ("postgres://a:hunter2@h?connect_timeout=x", "does not know"),
        ] {
            let error = PostgresConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("write postgres://"), "{url}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("ter2"), "{error}");
        }
    }
}
