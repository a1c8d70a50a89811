//! Planted bugs: each one must be caught, or the simulator is blind to its kind.

use crate::{
    oracle::Level,
    swarm::Options,
    world::{Plan, Violation},
};

/// A bug that is switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// In every node's engine.
    Engine(simba_core::Planted),
    /// In the store.
    Store(simba_memory::Planted),
}

impl Bug {
    /// All that a simulation can be given.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let engine = simba_core::Planted::ALL.iter().copied().map(Self::Engine);
        engine.chain(simba_memory::Planted::ALL.iter().copied().map(Self::Store)).collect()
    }

    /// Its name, as in the list of planted bugs.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Engine(bug) => format!("{bug:?}"),
            Self::Store(bug) => format!("{bug:?}"),
        }
    }

    /// The bugs whose name begins with this text.
    #[must_use]
    pub fn named(text: &str) -> Vec<Self> {
        Self::all().into_iter().filter(|bug| bug.name().starts_with(text)).collect()
    }
}

/// How a bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    /// How many seeds it took.
    pub seeds: u64,
    /// The world.
    pub options: Options,
    /// What was seen.
    pub violation: Violation,
}

/// Simulates worlds with this bug until one shows it; `None` if none of so many does.
#[must_use]
pub fn catch(bug: Bug, base: u64, most: u64, level: Level) -> Option<Catch> {
    for tried in 0..most {
        let options = Options::draw(base + tried);
        let plan = Plan { bug: Some(bug), level, ..Plan::of(options.clone()) };
        if let Some(violation) = crate::report::guarded(&plan).violation {
            return Some(Catch { seeds: tried + 1, options, violation });
        }
    }
    None
}
