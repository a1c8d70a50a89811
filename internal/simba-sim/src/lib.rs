//! The world simulator: many real engines, one store, clocks, a network and all that goes wrong between them, in one
//! thread, out of one seed.
//!
//! A world has two acts. In the first everything fails that the seed has chosen. In the second the faults stop, but
//! for one node that may stay broken, and the rest must recover within bounds. Every act is watched by the
//! invariants in `invariant/`, each with its own book-keeping, none of which trusts the engine's.
//!
//! `docs/sim.md` is the user's manual.

mod cli;
mod clock;
mod corpus;
mod explore;
mod invariant;
mod ledger;
mod liveness;
mod node;
mod oracle;
mod planted;
mod reach;
mod report;
mod rng;
mod shrink;
mod store;
mod swarm;
mod world;

pub use cli::command;
pub use corpus::{Entry, FOLDER, load};
pub use explore::{Bounds, Explored, explore};
pub use oracle::Level;
pub use planted::{Bug, Catch, catch};
pub use report::{Run, Seeds, run};
pub use shrink::shrink;
pub use swarm::{Options, Regime};
pub use world::{Outcome, Plan, Violation, simulate};

/// A duration as nanoseconds; what does not fit becomes the largest number.
pub(crate) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A text cut to at most so many characters, for messages.
pub(crate) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
