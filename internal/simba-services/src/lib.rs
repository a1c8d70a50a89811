//! Private servers of every store, for tests: on free loopback ports, in temporary folders, ended with their handle
//! or with the process that started them, however that ends.
//!
//! ```no_run
//! let server = simba_services::Redis::start();
//! println!("{}", server.url());
//! server.process().freeze();
//! server.process().thaw();
//! ```
//!
//! A test that needs a server whose program is not installed fails, with the package's name: `cargo xtask test` installs
//! what is missing first, where it may.

mod mariadb;
mod ports;
mod postgres;
mod process;
mod programs;
mod redis;
mod tls;

pub use mariadb::MariaDb;
pub use ports::free_port;
pub use postgres::{PgBouncer, Postgres, Standby};
pub use process::{Folder, Process, wait_until};
pub use programs::{install, missing};
pub use redis::{Cluster, Redis, Sentinels};
pub use tls::Certificates;
