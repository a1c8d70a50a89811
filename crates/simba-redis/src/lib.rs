//! Leases on Redis and Valkey: alone, with Sentinel, as a Cluster.
//!
//! ```no_run
//! use simba_redis::{RedisBackend, RedisConfig};
//!
//! let store = RedisBackend::new(RedisConfig::from_url("redis://cache.example")?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it keeps the contract
//! * **One judge.** Every call is one script, which Redis runs alone. The clock is the server's, read in the script. A
//!   session is a hash with its expiry as a number; whoever finds it past deletes it in that script, so that no later
//!   call finds it, whatever the clock does.
//! * **Tokens** stand in the hash of their lease, which is never deleted and never expires. `tokens=counter` adds one;
//!   `tokens=clock` takes the server's microseconds if that is more, so that tokens rise also after a failover or an
//!   eviction that lost writes. They are text from end to end, never Lua numbers.
//! * **The version** of a session rises in the same script as each change of what it owns. Records that were changed
//!   past the contract (at `redis-cli`, by an eviction) are found by looking at eight leases in each keep-alive.
//! * **Releases are told** by `PUBLISH` in the same script.
//!
//! # Connections
//! Three, each opened when it is first needed: sessions, leases, and what people ask for; a watch has a fourth. A
//! connection on which a call did not finish is thrown away, and each new one asks anew where the master is: the
//! Sentinels, or the Cluster for the one slot in which all keys lie. The client library never sends a call again; only a
//! script that the server did not know, and so did not run, is sent once more in full.
//!
//! # Limits
//! Replication is asynchronous: after a failover, writes of the last moment may be missing. A lease may then be handed
//! out twice, with the same token if tokens are counted; `tokens=clock` keeps them apart, and only a resource that checks
//! them is safe. A step of the server's wall clock moves all expiries. `simba doctor` says what holds for a server.

mod backend;
mod config;
mod connection;
mod doctor;
mod failure;
pub mod fence;
mod locate;
mod planted;
mod script;
mod store;
mod watch;

pub use backend::RedisBackend;
pub use config::{RedisConfig, Tokens, UrlError};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use redis;
