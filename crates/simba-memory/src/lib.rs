//! The reference store of Simba: exact, in memory, driven by a clock that is handed in.
//!
//! [`Store`] is a plain value: no clock, no lock, no randomness. Every operation takes the store's present instant
//! as nanoseconds. It is the executable form of the contract (clauses C1 to C10 of `simba-backend`), the model that
//! the simulator runs engines against, and what the conformance suite was written against.
//!
//! [`MemoryBackend`] puts it behind a mutex and a clock, for tests and for examples.

mod backend;
mod planted;
mod store;

pub use backend::MemoryBackend;
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use store::Store;
