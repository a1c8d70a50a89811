//! The driver: owns the clock and the runtime, makes the calls, carries out what the engine says. It holds no rule
//! of its own; where a rule seems to need code here, the engine lacks an output.
//!
//! The engine runs on a thread of its own with its own current-thread runtime, and the store's connections with
//! it: user code that blocks every other thread cannot make a keep-alive late. No user code runs on that thread.

mod calls;
mod sink;
mod task;
mod wake;

use simba_backend::{
    DynBackend, Failure, FencingToken, Forced, Hint, InspectQuery, Inspection, LeaseName, NodeLabel, Owner,
    SessionId,
};
use simba_core::{CallId, Engine, Reply, SessionStatus, TermId, Timing};
use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    clock::Source,
    contender::{Contender, EndGuard},
    error::Error,
    events::Hub,
    mailbox::Message,
    term::TermTable,
    wait::{Completion, Done, Latch},
};

pub(crate) use task::Driver;

/// What a person wants of the store.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Page(InspectQuery),
    ForceRelease(LeaseName, FencingToken),
    Evict(SessionId),
}

/// What the store says to it.
#[derive(Debug)]
pub(crate) enum Said {
    Page(Inspection),
    Forced(Forced),
    Evicted(bool),
}

impl Question {
    pub(crate) async fn put(&self, store: &dyn DynBackend, limit: Duration) -> Result<Said, Failure> {
        Ok(match self {
            Self::Page(query) => Said::Page(store.inspect(query, limit).await?),
            Self::ForceRelease(name, token) => Said::Forced(store.force_release(name, *token, limit).await?),
            Self::Evict(session) => Said::Evicted(store.evict(*session, limit).await?),
        })
    }
}

/// One input of the engine, or a small service of its thread.
#[derive(Debug)]
pub(crate) enum Input {
    Start {
        contender: Arc<Contender>,
        mailbox: Option<mpsc::UnboundedSender<Message>>,
        end: EndGuard,
    },
    Stop {
        contender: Arc<Contender>,
    },
    StepDown {
        contender: Arc<Contender>,
        cooldown: Duration,
        done: Done,
    },
    Close,
    Reply {
        id: CallId,
        result: Result<Reply, Failure>,
    },
    Hint(Hint),
    WorkExited(TermId),
    Refused(TermId),
    /// Time may have moved.
    Nudge,
    /// Finishes after a while.
    Sleep {
        time: Duration,
        done: Done,
    },
    /// Asks the store on behalf of a person; the engine takes no part in it.
    Ask {
        question: Question,
        limit: Duration,
        answer: oneshot::Sender<Result<Said, Failure>>,
    },
}

/// What the handles of one client share with its driver.
pub(crate) struct Shared {
    /// Greater than zero, and different for every client of the process.
    pub(crate) id: u64,
    pub(crate) pid: u32,
    pub(crate) node: NodeLabel,
    pub(crate) timing: Timing,
    pub(crate) clock: Source,
    pub(crate) terms: TermTable,
    pub(crate) events: Hub,
    pub(crate) closed: Arc<Latch>,
    /// Sets `closed` when it is dropped: by the driver when it has closed, and by the last callback of each
    /// election.
    pub(crate) open: Mutex<Option<Arc<Done>>>,
    pub(crate) session: watch::Sender<SessionNow>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::Planted>,
    /// Locked by the driver for each input and by a snapshot; never while user code runs.
    pub(crate) engine: Mutex<Engine>,
    /// The names in use, from the start of an election until its last callback has run.
    pub(crate) names: Mutex<HashSet<LeaseName>>,
    closing: AtomicBool,
    inputs: mpsc::UnboundedSender<Input>,
}

/// The session's state, as it is told to whoever waits for it.
#[derive(Clone, Debug)]
pub(crate) struct SessionNow {
    pub(crate) status: SessionStatus,
    pub(crate) last_failure: Option<Failure>,
}

impl Shared {
    pub(crate) fn send(&self, input: Input) {
        // Without a driver nobody takes the input; what it carries tells its waiters as it is dropped.
        drop(self.inputs.send(input));
    }

    /// Whether this is a child that was forked from the client's process.
    pub(crate) fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }

    /// Whether this client can be used.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked { parent: self.pid });
        }
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        Ok(())
    }

    pub(crate) fn mark_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn close(&self) {
        self.mark_closing();
        self.send(Input::Close);
    }

    /// Resolves after `time`, on any executor: the engine's thread keeps the timer.
    pub(crate) fn sleep(&self, time: Duration) -> Completion {
        let latch = Arc::new(Latch::default());
        self.send(Input::Sleep { time, done: Done(Arc::clone(&latch)) });
        Completion::anywhere(latch)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({} {})", self.id, self.node)
    }
}

/// What a driver is made of.
pub(crate) struct Parts {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    pub(crate) timing: Timing,
    pub(crate) clock: Source,
    pub(crate) seed: u64,
    pub(crate) backend: Arc<dyn DynBackend>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::Planted>,
}

/// A driver that has not begun to run, and what the handles share with it.
pub(crate) fn assemble(parts: Parts) -> (Arc<Shared>, Driver) {
    #[cfg(feature = "planted")]
    let planted = parts.planted;
    let Parts { id, owner, timing, clock, seed, backend, .. } = parts;
    let (inputs, queue) = mpsc::unbounded_channel();
    let engine = Engine::new(timing, seed, clock.now());
    let session = watch::Sender::new(SessionNow { status: SessionStatus::Opening, last_failure: None });
    let closed = Arc::new(Latch::default());
    let shared = Arc::new(Shared {
        id,
        pid: owner.pid,
        node: owner.node.clone(),
        timing,
        clock,
        terms: TermTable::default(),
        events: Hub::default(),
        open: Mutex::new(Some(Arc::new(Done(Arc::clone(&closed))))),
        closed,
        session,
        #[cfg(feature = "planted")]
        planted,
        engine: Mutex::new(engine),
        names: Mutex::default(),
        closing: AtomicBool::new(false),
        inputs,
    });
    if let Source::Other(clock) = &shared.clock {
        let weak = Arc::downgrade(&shared);
        clock.on_move(Arc::new(move || {
            if let Some(shared) = weak.upgrade() {
                shared.send(Input::Nudge);
            }
        }));
    }
    let driver = Driver::new(Arc::clone(&shared), queue, backend, owner);
    (shared, driver)
}

#[cfg(test)]
mod tests;
