//! Leases on MariaDB 10.6 or later, and MySQL 8.0 or later. Tested on MariaDB.
//!
//! ```no_run
//! use simba_sql::mysql::{MysqlBackend, MysqlConfig};
//!
//! let store = MysqlBackend::new(MysqlConfig::from_url("mysql://app@db.example/app")?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it keeps the contract
//! * **One judge.** Every call is one `call` of a procedure, which is one transaction. The own session's row is locked before
//!   the clock is read; whoever finds a session over deletes its row in that same transaction. The page above the
//!   procedures, in `schema.sql`, tells the order of the locks.
//! * **The clock** is the server's, read by `sysdate(6)`: `now(6)` stands still at the begin of a statement, also while it
//!   waits for a lock. A server that was started with `--sysdate-is-now` makes both the same, and is refused.
//! * **Tokens** stand in rows that are never deleted.
//! * **The version** of a session is counted by the procedures. A change that a person makes at the prompt is seen by the
//!   owner only if it goes through `simba_force_release` or deletes the session: triggers would need rights that managed
//!   servers do not give.
//! * **Releases** are told to nobody: a waiting node finds them by polling.
//!
//! # Connections
//! Three, each opened when it is first needed: sessions, leases, and what people ask for. A connection on which a call did
//! not finish is thrown away, and nothing is ever sent twice. Each is set to read committed, to strict mode and to UTC.
//!
//! # Limits
//! A step of the server's wall clock moves all expiries. Replication is asynchronous: after a failover, writes of the last
//! moment may be missing, and a token may be given a second time. A lock is waited for in whole seconds, so that a call
//! that is lost may go on for a second on the server. `simba doctor` says what holds for a server.

mod backend;
mod config;
mod connection;
mod doctor;
mod failure;
pub mod fence;
pub mod schema;
mod store;

pub use backend::MysqlBackend;
pub use config::{MysqlConfig, UrlError};
pub use mysql_async;
