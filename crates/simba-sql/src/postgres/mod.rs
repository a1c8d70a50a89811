//! Leases on PostgreSQL 14 or later, also behind PgBouncer in transaction mode.
//!
//! ```no_run
//! use simba_sql::postgres::{PostgresBackend, PostgresConfig};
//!
//! let store = PostgresBackend::new(PostgresConfig::from_url("postgres://app@db.example/app")?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it keeps the contract
//! * **One judge.** Every call is one statement, which calls one function of the schema, which is one transaction. The
//!   own session's row is locked before the clock is read; whoever finds a session over deletes its row in that same
//!   transaction. A statement that has waited for a lock still believes in the instant at which it began, and a condition
//!   in its `where` was judged before the wait: neither the one nor the other decides anything here. The page above the
//!   functions, in `schema.sql`, tells the order of the locks, and why there is no circle of waits.
//! * **The clock** is the server's, `clock_timestamp()`.
//! * **Tokens** stand in rows that are never deleted. Where the server or the role has `synchronous_commit = off`, it is
//!   on for these transactions.
//! * **The version** of a session is raised by triggers, so that a change made at `psql` raises it too.
//! * **Releases are told** by `NOTIFY` in the same transaction. Behind a pooler nobody can listen: write
//!   `?broadcast=off` there, and waiting nodes find a free lease by polling.
//!
//! # Connections
//! Three, each opened when it is first needed: sessions, leases, and what people ask for; a watch has a fourth. A
//! connection on which a call did not finish is thrown away, and nothing is ever sent twice. No statement is prepared
//! by name, nothing is set for a session: a pooler may give each call another server connection. With several hosts in
//! the URL the one that takes writes is used.
//!
//! # Limits
//! A step of the server's wall clock moves all expiries. Replication is asynchronous unless
//! `synchronous_standby_names` is set: after a failover, writes of the last moment may be missing, and a token may be
//! given a second time. Transactions must be read committed, which is the server's default. `simba doctor` says what
//! holds for a server.

mod backend;
mod config;
mod connection;
mod doctor;
mod failure;
pub mod fence;
pub mod schema;
mod store;
mod watch;

pub use backend::PostgresBackend;
pub use config::{PostgresConfig, UrlError};
pub use tokio_postgres;
