//! Leases in an `SQLite` file, for the processes of one host.
//!
//! ```no_run
//! use simba_sql::sqlite::{SqliteBackend, SqliteConfig};
//!
//! let store = SqliteBackend::new(SqliteConfig::new("/var/lib/app/simba.db"))?;
//! # Ok::<(), simba_backend::Failure>(())
//! ```
//!
//! # How it keeps the contract
//! * **One judge.** Every call is one `BEGIN IMMEDIATE` transaction, and the store's clock is read after the write
//!   lock is held. A session that is judged dead is deleted in that transaction, by whoever judges it, so that no
//!   later call finds it, whatever the clock does. A lease whose session is not there is free.
//! * **The clock** is the boot-time clock of the kernel, which every process of the host shares, together with
//!   the boot's id: no step of the wall clock touches it, it runs on while the machine is suspended, and a reboot
//!   ends every session. The offset of a time namespace is taken out.
//! * **Tokens** are never reset: rows of `simba_lease` are never deleted by this code. A transaction that hands
//!   out a token is synced to the disk before it is answered (`synchronous = FULL`), so that a token survives a
//!   loss of power. Renewals and releases are not synced (`NORMAL`): a loss of power is a reboot, which ends the
//!   sessions that they speak of, and the database stays whole without it.
//! * **The version** of a session is raised by triggers, so that a change made at the database's own prompt raises
//!   it too.
//! * **Releases are told** to waiting processes at once: the names go into `simba_freed` in the same transaction,
//!   and after the commit a small file beside the database is touched, which the others watch.
//!
//! # Threads
//! Two, each with a connection of its own: one for sessions, one for leases. A keep-alive never queues behind a
//! batch of acquires inside the process. A watch has a third. They start with the first call and end with the last
//! handle. After a `fork` a child must not use an `SQLite` connection of its parent: every call in it is refused.
//!
//! # Limits
//! One host: a file on a network file system is refused, since neither its locks nor the clock are shared there.
//! If the file is replaced by another one, the sessions of the old one end at their next keep-alive, and until
//! then their terms may overlap with new ones: the tokens of the new file begin anew.
//!
//! A file with a second hard link is refused: `SQLite` names its log after the path, so it would have two. And a
//! process must not open the file by any other means than this crate's copy of `SQLite`, not even to read it: when a
//! descriptor of a file is closed, the kernel drops every lock that the process holds on that file.

mod backend;
mod clock;
mod config;
mod connection;
mod doctor;
mod failure;
pub mod fence;
mod planted;
pub mod schema;
mod store;
mod wake;
mod worker;

pub use backend::SqliteBackend;
pub use clock::StoreClock;
pub use config::{SqliteConfig, UrlError};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use rusqlite;
