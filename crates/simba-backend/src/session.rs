//! Sessions and the people behind them.

use crate::NodeLabel;
use alloc::string::String;
use core::{fmt, str::FromStr};

/// One incarnation of a node's liveness on a store. Never reused, never revived.
///
/// Random 128 bits on SQL, Redis and memory; the server's own number on `ZooKeeper` and etcd.
///
/// ```
/// use simba_backend::SessionId;
///
/// let id = SessionId::new(0x5f0c);
/// assert_eq!(id.to_string(), "00000000000000000000000000005f0c");
/// assert_eq!(id.to_string().parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// An id from its number.
    #[must_use]
    pub const fn new(value: u128) -> Self {
        Self(value)
    }

    /// The id as a number.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a session id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionIdError;

impl fmt::Display for SessionIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a session id is 32 hexadecimal digits in lower case")
    }
}

impl core::error::Error for SessionIdError {}

impl FromStr for SessionId {
    type Err = SessionIdError;

    fn from_str(text: &str) -> Result<Self, SessionIdError> {
        let plain = text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !plain {
            return Err(SessionIdError);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| SessionIdError)
    }
}

/// Who opened a session: stored with it for people to read. It decides nothing.
///
/// ```
/// use simba_backend::{NodeLabel, Owner};
///
/// let (node, host) = (NodeLabel::sanitized("web-2"), NodeLabel::sanitized("rack7"));
/// let owner = Owner { node, host, pid: 4711, version: "0.1.0".into() };
/// assert_eq!(owner.to_string(), "web-2 (pid 4711 on rack7)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The node's label, by default the host's name.
    pub node: NodeLabel,
    /// The host that the process runs on, as the host calls itself.
    pub host: NodeLabel,
    /// The process that opened the session.
    pub pid: u32,
    /// The version of this library in that process.
    pub version: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}", self.node, self.pid)?;
        if self.host != self.node {
            write!(f, " on {}", self.host)?;
        }
        f.write_str(")")
    }
}
