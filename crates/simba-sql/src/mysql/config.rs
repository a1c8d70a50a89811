//! Which server, and how it is used.

use std::{fmt, path::PathBuf};

use simba_backend::Namespace;

/// How to use MySQL or MariaDB as a store. Its `Debug` form shows no password.
///
/// ```
/// use simba_sql::mysql::MysqlConfig;
///
/// let config = MysqlConfig::from_url("mysql://app:secret@db.example/app")?.namespace("staging".parse()?);
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a configuration does nothing by itself"]
pub struct MysqlConfig {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) tls: bool,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) create: bool,
}

impl fmt::Debug for MysqlConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MysqlConfig")
            .field("server", &self.shown())
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "hidden"))
            .field("tls", &self.tls)
            .field("ca", &self.ca)
            .field("namespace", &self.namespace)
            .field("create", &self.create)
            .finish()
    }
}

impl MysqlConfig {
    /// From `mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE`, or `mariadb://..`. Parameters:
    ///
    /// | parameter | values |
    /// |---|---|
    /// | `ssl-mode` | `disabled` (the default), or `verify_identity`, which checks the certificate and the host's name |
    /// | `ssl-ca` | a PEM file of the authorities to trust instead of the common ones |
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong. It never shows the URL, which may hold a password.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse("it has no ://"))?;
        if !matches!(scheme, "mysql" | "mariadb") {
            return Err(refuse("it does not begin with mysql or mariadb"));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if rest.contains('#') || query.contains('@') {
            return Err(refuse("a ?, # or @ in a name or password must be written %3F, %23, %40"));
        }
        let (authority, database) = place.split_once('/').unwrap_or((place, ""));
        let (who, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| refuse("a port must be a number from 1 to 65535"))?)
            }
            _ => (host, 3306),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        for (given, what) in [(host, "host"), (user, "user"), (database, "database")] {
            if given.is_empty() {
                return Err(UrlError(format!("the {what} is missing")));
            }
        }
        if host.contains([',', '/']) || database.contains('/') || port == 0 {
            return Err(refuse("there may be one host, one port above 0, and one database"));
        }
        let mut config = Self {
            host: host.to_owned(),
            port,
            user: decode(user),
            password: (!password.is_empty()).then(|| decode(password)),
            database: decode(database),
            tls: false,
            ca: None,
            namespace: None,
            create: true,
        };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match (&*name, value.to_ascii_lowercase().as_str()) {
                ("ssl-mode", "disabled") => config.tls = false,
                ("ssl-mode", "verify_identity") => config.tls = true,
                ("ssl-mode", _) => return Err(refuse("ssl-mode is disabled or verify_identity")),
                ("ssl-ca", _) => config.ca = Some(PathBuf::from(&*value)),
                (other, _) => {
                    let shown: String = other.chars().take(40).collect();
                    return Err(UrlError(format!(
                        "the parameter {shown:?} is not known; there are ssl-mode, ssl-ca"
                    )));
                }
            }
        }
        if config.ca.is_some() && !config.tls {
            return Err(refuse("ssl-ca is for ssl-mode=verify_identity"));
        }
        Ok(config)
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

    /// The server, for people.
    pub(crate) fn shown(&self) -> String {
        format!("MySQL at {}:{}/{}", self.host, self.port, self.database)
    }
}

fn decode(raw: &str) -> String {
    // In front of a host a plus sign stands for itself.
    let pair = format!("v={}", raw.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(pair.as_bytes())
        .next()
        .map_or_else(String::new, |(_, value)| value.into_owned())
}

/// Why a text is not the URL of a MySQL store. It never shows the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

fn refuse(fault: &str) -> UrlError {
    UrlError(fault.to_owned())
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the URL of the MySQL store cannot be used: {}; write mysql://user@host:3306/database",
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
        let url = "mariadb://app:p%40s+s@[::1]:7000/leases?ssl-mode=VERIFY_IDENTITY&ssl-ca=/ca.pem";
        let config = MysqlConfig::from_url(url).unwrap();
        assert_eq!(config.shown(), "MySQL at ::1:7000/leases");
        assert_eq!((config.user.as_str(), config.password.as_deref()), ("app", Some("p@s+s")));
        assert!(config.tls && config.ca.is_some());
        let plain = MysqlConfig::from_url("mysql://app@h/x").unwrap();
        assert_eq!((plain.port, plain.tls, plain.password), (3306, false, None));
    }

    #[test]
    fn refusals_say_what_to_write_and_never_show_a_password() {
        for (url, word) in [
            ("mysql:x:hunter2", "no ://"),
            ("http://a:hunter2@b/x", "mysql or mariadb"),
            ("mysql://a:hunter2@/x", "host is missing"),
            ("mysql://a:hunter2@h", "database is missing"),
            ("mysql://h/x", "user is missing"),
            ("mysql://a:hunter2@h:99999/x", "port"),
            ("mysql://a:hunter2@h,i/x", "one host"),
            ("mysql://a:hunter2?x=1@h/x", "%3F"),
            ("mysql://a:hun#ter2@h/x", "%23"),
            ("mysql://a:hunter2@h/x?pool=3", "\"pool\" is not known"),
            ("mysql://a:hunter2@h/x?ssl-mode=preferred", "verify_identity"),
            ("mysql://a:hunter2@h/x?ssl-ca=/x", "ssl-mode=verify_identity"),
        ] {
            let error = MysqlConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("write mysql://"), "{url}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("ter2"), "{error}");
        }
    }
}
