//! A node: the real engine, and an obedient driver's book-keeping around it.

use std::collections::{BTreeMap, BTreeSet};

use simba_backend::{Failure, Hint};
use simba_core::{CallId, ElectionId, Engine, Reply, Term, TermId};

use crate::world::Event;

/// One input of the engine, as the driver hands it in.
#[derive(Debug)]
pub(crate) enum Input {
    Wakeup,
    Reply(CallId, Result<Reply, Failure>),
    Hint(Hint),
    WorkExited(TermId),
    Refused(TermId),
    /// Several commands that are due together.
    Commands(Vec<Command>),
}

/// What an application asks; names by number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command {
    Start { name: usize, work: bool },
    Stop { name: usize },
    StepDown { name: usize, cooldown: std::time::Duration },
    Close,
}

/// A call that the driver carries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    /// The store has committed it.
    pub(crate) committed: bool,
}

/// One process on one machine; the process may be down.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) engine: Option<Box<Engine>>,
    /// Counts the processes: what was meant for an earlier one is dropped.
    pub(crate) boot: u32,
    pub(crate) calls: BTreeMap<CallId, Carried>,
    /// Calls of which a failure was reported before an answer came.
    pub(crate) reported: BTreeSet<CallId>,
    /// The election that was started last, by name. It may be over.
    pub(crate) elections: Vec<Option<ElectionId>>,
    /// Terms that were delivered to the listener and have not been revoked, or whose work runs.
    pub(crate) terms: BTreeMap<TermId, Delivered>,
    /// What came in while the node was paused.
    pub(crate) paused: Option<Pause>,
    /// The wake-up that is planned, and its number.
    pub(crate) wake: Option<u64>,
    pub(crate) wake_number: u64,
    /// The instant of the node's clock to hand in next, if it was read before a pause.
    pub(crate) stale: Option<u64>,
    /// Links that are cut.
    pub(crate) cannot_send: u32,
    pub(crate) hears_nothing: u32,
    /// Broken for good in the second act.
    pub(crate) broken: bool,
    pub(crate) closed: bool,
}

/// A term that the driver has told of.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) term: Term,
    /// The executor refused; nobody was told, nothing runs.
    pub(crate) refused: bool,
    pub(crate) running: bool,
}

#[derive(Debug)]
pub(crate) struct Pause {
    pub(crate) since: u64,
    pub(crate) number: u64,
    pub(crate) inbox: Vec<Event>,
}

impl Node {
    /// The process is gone, and all that it knew.
    pub(crate) fn die(&mut self) {
        self.engine = None;
        self.boot += 1;
        self.calls.clear();
        self.reported.clear();
        self.elections.clear();
        self.terms.clear();
        self.paused = None;
        self.wake = None;
        self.stale = None;
        self.closed = false;
    }
}
