//! Leases on SQL stores.
//!
//! | module | store | for |
//! |---|---|---|
//! | `sqlite` (feature `sqlite`) | a file | the processes of one host |
//!
//! Each store is one implementation of `simba_backend::Backend`; see the module's page for what it promises and
//! where its limits are.

#[cfg(feature = "sqlite")]
pub mod sqlite;
