//! The engine of Simba: one node's sessions, elections and terms as a pure state machine.
//!
//! # What is absent, on purpose
//! No clock, no socket, no task, no thread, no lock, no logging, no randomness of its own. The crate is `no_std`,
//! has no dependency but the contract, and so cannot reach any of them. Input and the present instant go in;
//! obligations come out, in one ordered queue. State, seed and inputs decide the outputs bit for bit, so that the
//! same engine runs in production and in the simulator.
//!
//! # The model in one page
//! A client has one **session** on the store and renews it with one **keep-alive**, whatever the number of leases
//! ([`session`](self)). A keep-alive that counts moves one shared **deadline**, computed from when it was *sent*
//! ([`local_validity`]). Each **election** contends for one name; a win that may be adopted becomes a **term**,
//! which shares the session's deadline cell and is read without the engine ([`DeadlineCell`]). A term ends once,
//! with one [`RevokeReason`]; only then can a release be written. By the node's own wish it goes through a
//! **handover** that waits for its work; lost any other way it ends at once.
//!
//! | module | rule |
//! |---|---|
//! | `deadline` | the formula and why it is safe |
//! | `validity` | the latch: what has read invalid stays invalid |
//! | `session` | open, keep-alive, backoff, shortened lease, expiry, close |
//! | `lease` | when candidates try, which wins are adopted |
//! | `floor` | which tokens are spent |
//! | `takeover` | the store's list against our own view; orphans |
//! | `handover` | stop, step-down, release |
//! | `engine` | composition: inputs, outputs, wake-ups |
//!
//! See [`Engine`] for the one rule of the loop.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod call;
mod check;
mod deadline;
mod election;
mod engine;
mod floor;
mod handover;
mod lease;
mod mark;
mod notice;
mod output;
mod pending;
mod planted;
mod rng;
mod session;
mod snapshot;
mod takeover;
mod term;
mod time;
mod timing;
mod validity;

pub use call::{CallId, Release, Reply, Request};
pub use deadline::local_validity;
pub use election::{ElectionId, StartError, StartOptions};
pub use engine::Engine;
pub use mark::{Mark, Marks};
pub use notice::{Notice, SessionEnd};
pub use output::{Output, Ticket};
#[cfg(feature = "planted")]
pub use planted::Planted;
pub use snapshot::{ElectionView, Role, SessionStatus, SessionView, Snapshot};
pub use term::{RevokeReason, Term, TermId};
pub use time::Instant;
pub use timing::{Drift, DriftError, Timing, TimingBuilder, TimingError};
pub use validity::{DeadlineCell, DeadlineWriter, Latched};
