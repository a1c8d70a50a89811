//! A started election on this side of the engine: what its handles, its streams and the driver share.

use simba_backend::{FencingToken, LeaseName};
use simba_core::{ElectionId, RevokeReason};
use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tokio::sync::mpsc;

use crate::{
    Error, Leadership, TermEvent,
    driver::{Input, Shared},
    term::Term,
    wait::{Completion, Done, Latch, Waiters, lock},
};

/// What is known about a started election on this side of the engine.
pub(crate) struct Contender {
    pub(crate) shared: Arc<Shared>,
    pub(crate) name: LeaseName,
    /// Set by the driver before it looks at any later input.
    pub(crate) id: OnceLock<ElectionId>,
    pub(crate) state: Mutex<State>,
    pub(crate) over: Arc<Latch>,
}

pub(crate) struct State {
    pub(crate) leadership: Leadership,
    /// Rises with every change.
    pub(crate) version: u64,
    pub(crate) waiters: Waiters,
    streams: Vec<Subscriber>,
    /// Step-downs that were overtaken by a stop.
    late: Vec<Done>,
}

struct Subscriber {
    events: mpsc::UnboundedSender<TermEvent>,
    /// The term whose end is to be told: only of one whose beginning was.
    told: Option<FencingToken>,
}

impl Subscriber {
    fn elected(&mut self, term: &Term) -> bool {
        self.told = Some(term.token());
        self.events.send(TermEvent::Elected(term.clone())).is_ok()
    }
}

impl Contender {
    /// Takes the name; the guard gives it back.
    pub(crate) fn new(shared: &Arc<Shared>, name: LeaseName) -> Result<(Arc<Self>, EndGuard), Error> {
        let open = lock(&shared.open).clone().ok_or(Error::Closed)?;
        if !lock(&shared.names).insert(name.clone()) {
            return Err(Error::AlreadyStarted(name));
        }
        let state = State {
            leadership: Leadership::Candidate,
            version: 0,
            waiters: Waiters::default(),
            streams: Vec::new(),
            late: Vec::new(),
        };
        let contender = Arc::new(Self {
            shared: Arc::clone(shared),
            name,
            id: OnceLock::new(),
            state: Mutex::new(state),
            over: Arc::default(),
        });
        let end = EndGuard { contender: Arc::clone(&contender), open };
        Ok((contender, end))
    }

    pub(crate) fn started(&self, id: ElectionId) {
        let first = self.id.set(id);
        debug_assert!(first.is_ok(), "the driver starts each election once");
    }

    pub(crate) fn stop(self: &Arc<Self>) {
        self.shared.send(Input::Stop { contender: Arc::clone(self) });
    }

    pub(crate) fn step_down(self: &Arc<Self>, cooldown: Duration) -> Completion {
        let latch = Arc::new(Latch::default());
        let done = Done(Arc::clone(&latch));
        self.shared.send(Input::StepDown { contender: Arc::clone(self), cooldown, done });
        Completion::new(latch, self.shared.id)
    }

    /// Changes the leadership, then tells the streams and the watches: without the lock, since a waker is somebody
    /// else's code.
    fn change(&self, leadership: Leadership, tell: impl FnOnce(&mut Vec<Subscriber>)) {
        let (waiters, mut streams) = {
            let mut state = lock(&self.state);
            state.leadership = leadership;
            state.version += 1;
            (state.waiters.take(), std::mem::take(&mut state.streams))
        };
        tell(&mut streams);
        self.put_back(streams);
        for (_, waker) in waiters {
            waker.wake();
        }
    }

    /// Those who have subscribed meanwhile have been told of the present state already.
    fn put_back(&self, mut streams: Vec<Subscriber>) {
        let mut state = lock(&self.state);
        streams.append(&mut state.streams);
        state.streams = streams;
    }

    pub(crate) fn elected(&self, term: &Term) {
        self.change(Leadership::Leader(term.clone()), |streams| {
            streams.retain_mut(|stream| stream.elected(term));
        });
    }

    /// The term has ended for its readers.
    pub(crate) fn ended(&self) {
        self.change(Leadership::Candidate, |_| {});
    }

    /// The end of the term may be told.
    pub(crate) fn revoked(&self, term: &Term, reason: RevokeReason) {
        let mut streams = std::mem::take(&mut lock(&self.state).streams);
        for stream in &mut streams {
            if stream.told.take_if(|token| *token == term.token()).is_some() {
                // A stream that is gone is forgotten with the next term.
                drop(stream.events.send(TermEvent::Revoked { term: term.clone(), reason }));
            }
        }
        self.put_back(streams);
    }

    /// Finishes `done` when the last callback has run.
    pub(crate) fn finish_with_end(&self, done: Done) {
        let over = {
            let mut state = lock(&self.state);
            if matches!(state.leadership, Leadership::Over) {
                Some(done)
            } else {
                state.late.push(done);
                None
            }
        };
        drop(over);
    }

    pub(crate) fn subscribe(&self) -> mpsc::UnboundedReceiver<TermEvent> {
        let (events, receiver) = mpsc::unbounded_channel();
        let mut stream = Subscriber { events, told: None };
        let mut state = lock(&self.state);
        match &state.leadership {
            Leadership::Leader(term) => {
                let term = term.clone();
                stream.elected(&term);
                state.streams.push(stream);
            }
            Leadership::Candidate => state.streams.push(stream),
            Leadership::Over => {}
        }
        receiver
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Election({} {:?})", self.name, lock(&self.state).leadership)
    }
}

/// Dropped when the last callback of an election has run, or nobody is left to run one: frees the name and tells
/// everyone.
#[derive(Debug)]
pub(crate) struct EndGuard {
    contender: Arc<Contender>,
    /// The client is not closed before its last callback has run.
    #[expect(dead_code, reason = "dropping it is what matters")]
    open: Arc<Done>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let contender = &self.contender;
        lock(&contender.shared.names).remove(&contender.name);
        contender.change(Leadership::Over, Vec::clear);
        contender.over.set();
        let late = std::mem::take(&mut lock(&contender.state).late);
        drop(late);
    }
}
