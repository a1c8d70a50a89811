//! Leases on SQL stores.
//!
//! | module | store | for |
//! |---|---|---|
//! | `sqlite` (feature `sqlite`) | a file | the processes of one host |
//! | `mysql` (feature `mysql`) | MariaDB 10.6 or later, MySQL 8.0 or later | every host that reaches it |
//! | `postgres` (feature `postgres`) | PostgreSQL 14 or later | every host that reaches it |
//!
//! Each store is one implementation of `simba_backend::Backend`; see the module's page for what it promises and
//! where its limits are.

#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod fence;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;
