//! Which servers, and how they are used.

use std::{fmt, path::PathBuf};

use simba_backend::Namespace;

/// How a new token is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokens {
    /// One more than the last.
    #[default]
    Counter,
    /// The server's time in microseconds, or one more than the last if that is higher: so they rise also when writes
    /// were lost, as long as the clocks of the servers do not step back by more than a term lasts.
    Clock,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Alone,
    /// The name of the master.
    Sentinel(String),
    Cluster,
}

/// A host and its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// How to use Redis as a store. Its `Debug` form shows no password.
///
/// ```
/// use simba_redis::{RedisConfig, Tokens};
///
/// let config = RedisConfig::from_url("redis://app:secret@cache.example:6380/2")?.tokens(Tokens::Clock);
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), simba_redis::UrlError>(())
/// ```
#[derive(Clone)]
#[must_use = "a configuration does nothing by itself"]
pub struct RedisConfig {
    pub(crate) topology: Topology,
    pub(crate) addresses: Vec<Address>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
    pub(crate) tls: bool,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) prefix: String,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) tokens: Tokens,
    pub(crate) broadcast: bool,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::Planted>,
    #[cfg(feature = "planted")]
    pub(crate) moved_clock: bool,
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisConfig")
            .field("topology", &self.topology)
            .field("addresses", &self.addresses)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "hidden"))
            .field("db", &self.db)
            .field("tls", &self.tls)
            .field("prefix", &self.prefix())
            .field("tokens", &self.tokens)
            .field("broadcast", &self.broadcast)
            .finish_non_exhaustive()
    }
}

const MAX_PREFIX: usize = 64;

impl RedisConfig {
    /// From a URL:
    ///
    /// | form | store |
    /// |---|---|
    /// | `redis://[USER:PASSWORD@]HOST[:PORT][/DB]` | one server |
    /// | `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST../MASTER[/DB]` | the master that the Sentinels name |
    /// | `redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST..` | the master of one slot of a Cluster |
    ///
    /// With `rediss` instead of `redis` the servers speak TLS. Parameters: `prefix` (of all keys; `simba:`, or `{simba}:`
    /// in a Cluster), `tokens` (`counter`, `clock`), `broadcast` (`on`, `off`), `ca` (a PEM file of the authorities to
    /// trust instead of the system's).
    ///
    /// # Errors
    /// [`UrlError`] says what is wrong. It never shows the URL, which may hold a password.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse("it has no ://"))?;
        let (tls, kind) = match scheme.strip_prefix("rediss") {
            Some(kind) => (true, kind),
            None => {
                (false, scheme.strip_prefix("redis").ok_or_else(|| refuse("it does not begin with redis"))?)
            }
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if rest.contains('#') || query.contains('#') {
            return Err(refuse("a # must be written %23"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (who, hosts) = match authority.rsplit_once('@') {
            Some((who, hosts)) => (Some(who), hosts),
            None => (None, authority),
        };
        let (user, password) = match who.map(|who| who.split_once(':').unwrap_or((who, ""))) {
            Some((user, password)) => (text(user), text(password)),
            None => (None, None),
        };
        let mut path = path.split('/').filter(|part| !part.is_empty());
        let (topology, port) = match kind {
            "" => (Topology::Alone, 6379),
            "+sentinel" => {
                let master = path
                    .next()
                    .ok_or_else(|| refuse("the name of the master is missing behind the hosts"))?;
                (Topology::Sentinel(decode(master)), 26379)
            }
            "+cluster" => (Topology::Cluster, 6379),
            _ => return Err(refuse("behind redis there may be +sentinel or +cluster")),
        };
        let addresses: Vec<Address> =
            hosts.split(',').map(|host| address(host, port)).collect::<Result<_, _>>()?;
        if topology == Topology::Alone && addresses.len() > 1 {
            return Err(refuse("several hosts need redis+sentinel: or redis+cluster:"));
        }
        let db = match path.next() {
            Some(db) => db.parse().map_err(|_| refuse("the number of the database is no number"))?,
            None => 0,
        };
        if path.next().is_some() || (topology == Topology::Cluster && db != 0) {
            return Err(refuse("there is more behind the hosts than it takes"));
        }
        let prefix = if topology == Topology::Cluster { "{simba}:" } else { "simba:" }.to_owned();
        let mut config = Self {
            topology,
            addresses,
            user,
            password,
            db,
            tls,
            ca: None,
            prefix,
            namespace: None,
            tokens: Tokens::default(),
            broadcast: true,
            #[cfg(feature = "planted")]
            planted: None,
            #[cfg(feature = "planted")]
            moved_clock: false,
        };
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            config.parameter(&name, &value)?;
        }
        Ok(config)
    }

    fn parameter(&mut self, name: &str, value: &str) -> Result<(), UrlError> {
        match (name, value) {
            ("prefix", _) => {
                let fits =
                    (1..=MAX_PREFIX).contains(&value.len()) && value.bytes().all(|b| b.is_ascii_graphic());
                if !fits {
                    return Err(refuse("the prefix must be 1 to 64 visible ASCII characters"));
                }
                if self.topology == Topology::Cluster && !has_one_tag(value) {
                    return Err(refuse(
                        "in a Cluster all keys must lie in one slot: the prefix needs exactly one {tag}, such as {simba}:",
                    ));
                }
                value.clone_into(&mut self.prefix);
            }
            ("tokens", "counter") => self.tokens = Tokens::Counter,
            ("tokens", "clock") => self.tokens = Tokens::Clock,
            ("tokens", _) => return Err(refuse("tokens is counter or clock")),
            ("broadcast", "on") => self.broadcast = true,
            ("broadcast", "off") => self.broadcast = false,
            ("broadcast", _) => return Err(refuse("broadcast is on or off")),
            ("ca", _) if self.tls => self.ca = Some(PathBuf::from(value)),
            ("ca", _) => return Err(refuse("ca is for rediss:, which speaks TLS")),
            _ => {
                let shown: String = name.chars().take(40).collect();
                return Err(UrlError(format!(
                    "the parameter {shown:?} is not known; there are prefix, tokens, broadcast, ca"
                )));
            }
        }
        Ok(())
    }

    /// Keeps the leases apart from those of other namespaces on the same server.
    pub fn namespace(mut self, namespace: Namespace) -> Self {
        self.namespace = Some(namespace);
        self
    }

    /// How tokens are found.
    pub const fn tokens(mut self, tokens: Tokens) -> Self {
        self.tokens = tokens;
        self
    }

    /// Whether releases are told to those who wait.
    pub const fn broadcast(mut self, broadcast: bool) -> Self {
        self.broadcast = broadcast;
        self
    }

    /// What all keys begin with.
    #[must_use]
    pub fn prefix(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{}{namespace}/", self.prefix),
            None => self.prefix.clone(),
        }
    }

    /// The servers, for people.
    pub(crate) fn shown(&self) -> String {
        let hosts: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        match &self.topology {
            Topology::Alone => format!("Redis at {}", hosts.join(",")),
            Topology::Sentinel(master) => {
                format!("Redis master {master:?} of the Sentinels at {}", hosts.join(","))
            }
            Topology::Cluster => format!("Redis Cluster at {}", hosts.join(",")),
        }
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    pub const fn plant(mut self, bug: crate::Planted) -> Self {
        self.planted = Some(bug);
        self
    }

    /// Adds the microseconds in the key `test-clock` to the server's clock, for tests.
    #[cfg(feature = "planted")]
    pub const fn moved_clock(mut self) -> Self {
        self.moved_clock = true;
        self
    }
}

fn has_one_tag(prefix: &str) -> bool {
    let inside = prefix.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inside.is_some_and(|(tag, rest)| !tag.is_empty() && !rest.contains(['{', '}']) && !tag.contains('{'))
}

fn address(host: &str, port: u16) -> Result<Address, UrlError> {
    let (host, port) = match host.rsplit_once(':') {
        Some((host, text)) if !text.contains(']') => {
            (host, text.parse().map_err(|_| refuse("a port must be a number from 1 to 65535"))?)
        }
        _ => (host, port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || port == 0 {
        return Err(refuse("a host is missing, or its port is 0"));
    }
    Ok(Address { host: host.to_owned(), port })
}

fn text(raw: &str) -> Option<String> {
    (!raw.is_empty()).then(|| decode(raw))
}

fn decode(raw: &str) -> String {
    // In front of a host a plus sign stands for itself.
    let pair = format!("v={}", raw.replace('+', "%2B").replace('&', "%26"));
    url::form_urlencoded::parse(pair.as_bytes())
        .next()
        .map_or_else(String::new, |(_, value)| value.into_owned())
}

/// Why a text is not the URL of a Redis store. It never shows the text, which may hold a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlError(String);

fn refuse(fault: &str) -> UrlError {
    UrlError(fault.to_owned())
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the URL of the Redis store cannot be used: {}; write redis://host:6379, redis+sentinel://host,host/master or \
             redis+cluster://host,host",
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
        let config =
            RedisConfig::from_url("redis://app:p%40ss+w@cache:7000/3?tokens=clock&broadcast=off").unwrap();
        assert_eq!(config.addresses, [Address { host: "cache".into(), port: 7000 }]);
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("app"), Some("p@ss+w")));
        assert_eq!(
            (config.db, config.tokens, config.broadcast, config.tls),
            (3, Tokens::Clock, false, false)
        );
        let config = RedisConfig::from_url("rediss+sentinel://:x@a,b:1,[::1]:2/main/1").unwrap();
        assert_eq!(config.topology, Topology::Sentinel("main".into()));
        let hosts: Vec<_> = config.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["a:26379", "b:1", "::1:2"]);
        assert!(config.tls && config.db == 1 && config.user.is_none());
        assert_eq!(RedisConfig::from_url("redis+cluster://a,b").unwrap().prefix(), "{simba}:");
        let spaced = RedisConfig::from_url("redis://a").unwrap().namespace("staging".parse().unwrap());
        assert_eq!(spaced.prefix(), "simba:staging/");
    }

    #[test]
    fn refusals_say_what_to_write_and_never_show_a_password() {
        for (url, word) in [
            ("redis:x:hunter2", "no ://"),
            ("http://a:hunter2@b", "redis"),
            ("redis://a:hunter2@", "host is missing"),
            ("redis://a:hunter2@h:99999", "port"),
            ("redis://a:hunter2@h,i", "several hosts"),
            ("redis+sentinel://a:hunter2@h", "master"),
            ("redis://a:hunter2@h?pool=3", "\"pool\" is not known"),
            ("redis://a:hunter2@h/x", "no number"),
            ("redis://a:hunter2@h?tokens=uuid", "counter or clock"),
            ("redis://a:hunter2@h?ca=/x", "rediss"),
            ("redis+cluster://a:hunter2@h?prefix=simba:", "{tag}"),
            ("redis+cluster://a:hunter2@h?prefix={a}{b}:", "{tag}"),
            ("redis+other://a:hunter2@h", "+sentinel or +cluster"),
        ] {
            let error = RedisConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(word) && error.contains("write redis://"), "{url}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
