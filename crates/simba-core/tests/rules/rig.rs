//! One engine on a bench: time is moved by hand, every call is answered by hand.

use simba_backend::{
    Acquired, Effect, Failure, FailureKind, FencingToken, Grant, Held, KeepAlive, LeaseName, Opened, Outcome,
    Owned, Released, SessionId, Version, VersionStep,
};
use simba_core::{
    CallId, ElectionId, Engine, Instant, Notice, Output, Reply, Request, RevokeReason, StartOptions, Term,
    TermId, Ticket, Timing,
};
use std::{cell::Cell, rc::Rc, time::Duration};

pub(crate) const MS: u64 = 1_000_000;

/// What happened, in a form that tests compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Open,
    KeepAlive(Option<u64>),
    Acquire(Vec<String>),
    Release(Vec<(String, u64)>),
    Close(SessionId),
    Elected(String, u64),
    Ended(TermId, RevokeReason),
    Revoked(TermId, RevokeReason),
    Finished(Ticket),
}

pub(crate) struct Rig {
    pub(crate) engine: Engine,
    now: Rc<Cell<u64>>,
    sessions: u128,
    pub(crate) events: Vec<Event>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) terms: Vec<Term>,
    /// Calls that have not been answered, oldest first.
    pub(crate) calls: Vec<(CallId, Request, Duration)>,
    version: u64,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(Timing::default())
    }

    pub(crate) fn with(timing: Timing) -> Self {
        let start = 1_000 * MS;
        let mut rig = Self {
            engine: Engine::new(timing, 7, Instant::from_nanos(start)),
            now: Rc::new(Cell::new(start)),
            sessions: 0,
            events: Vec::new(),
            notices: Vec::new(),
            terms: Vec::new(),
            calls: Vec::new(),
            version: 0,
        };
        rig.wake();
        rig
    }

    /// A rig whose first session is live since this very instant.
    pub(crate) fn live() -> Self {
        let mut rig = Self::new();
        rig.open(15_000);
        rig.events.clear();
        rig
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.now.get())
    }

    /// Milliseconds since the rig was made.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        self.now.get() / MS - 1_000
    }

    pub(crate) fn clock(&self) -> impl Fn() -> Instant + use<> {
        let now = Rc::clone(&self.now);
        move || Instant::from_nanos(now.get())
    }

    /// Moves the clock, and nothing else: as after a pause, before the engine has run.
    pub(crate) fn pause(&self, ms: u64) {
        self.now.set(self.now.get() + ms * MS);
    }

    /// Does what is due now.
    pub(crate) fn wake(&mut self) {
        while self.engine.next_wakeup().is_some_and(|at| at <= self.now()) {
            self.engine.handle_wakeup(self.now());
            self.drain();
        }
        self.drain();
    }

    /// Moves time on, and does what is due on the way, each thing at its own instant.
    pub(crate) fn advance(&mut self, ms: u64) {
        let until = self.now.get() + ms * MS;
        while let Some(at) = self.engine.next_wakeup().filter(|at| at.as_nanos() <= until) {
            self.now.set(self.now.get().max(at.as_nanos()));
            self.wake();
        }
        self.now.set(until);
    }

    /// Moves time on like `advance`, answering every keep-alive at once.
    pub(crate) fn advance_renewing(&mut self, ms: u64) {
        for _ in 0..ms {
            self.advance(1);
            while let Some(at) =
                self.calls.iter().position(|(_, r, _)| matches!(r, Request::KeepAlive { .. }))
            {
                let (id, ..) = self.calls[at];
                self.answer(id, Ok(alive(15_000, Owned::Unchanged)));
            }
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            let event = match output {
                Output::Call { id, request, patience } => {
                    let event = match &request {
                        Request::Open { .. } => Event::Open,
                        Request::KeepAlive { known, .. } => Event::KeepAlive(known.map(|v| v.0)),
                        Request::Acquire { names, .. } => {
                            Event::Acquire(names.iter().map(ToString::to_string).collect())
                        }
                        Request::Release(release) => Event::Release(
                            release.grants().iter().map(|g| (g.name.to_string(), g.token.get())).collect(),
                        ),
                        Request::Close { session } => Event::Close(*session),
                    };
                    self.calls.push((id, request, patience));
                    event
                }
                Output::Elected { term, .. } => {
                    let event = Event::Elected(term.name().to_string(), term.token().get());
                    self.terms.push(term);
                    event
                }
                Output::Ended { term, reason } => Event::Ended(term, reason),
                Output::Revoked { term, reason, .. } => Event::Revoked(term, reason),
                Output::Finished { ticket } => Event::Finished(ticket),
                Output::Notice(notice) => {
                    self.notices.push(notice);
                    continue;
                }
            };
            self.events.push(event);
        }
    }

    /// What happened since the last look.
    pub(crate) fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn answer(&mut self, id: CallId, result: Result<Reply, Failure>) {
        self.calls.retain(|(call, ..)| *call != id);
        self.engine.handle_reply(self.now(), id, result);
        self.drain();
        self.wake();
    }

    /// The one open call whose request satisfies the test.
    pub(crate) fn call(&self, wanted: impl Fn(&Request) -> bool) -> CallId {
        let found: Vec<_> = self.calls.iter().filter(|(_, r, _)| wanted(r)).collect();
        assert_eq!(found.len(), 1, "one such call is open: {:?}", self.calls);
        found[0].0
    }

    pub(crate) fn patience(&self, id: CallId) -> Duration {
        self.calls
            .iter()
            .find(|(call, ..)| *call == id)
            .map(|(.., patience)| *patience)
            .expect("an open call")
    }

    pub(crate) fn open_call(&self) -> CallId {
        self.call(|r| matches!(r, Request::Open { .. }))
    }

    pub(crate) fn keep_alive(&self) -> CallId {
        self.call(|r| matches!(r, Request::KeepAlive { .. }))
    }

    pub(crate) fn acquire(&self) -> CallId {
        self.call(|r| matches!(r, Request::Acquire { .. }))
    }

    pub(crate) fn release(&self) -> CallId {
        self.call(|r| matches!(r, Request::Release(_)))
    }

    /// Answers the open call: a session with this much time.
    pub(crate) fn open(&mut self, remaining_ms: u64) -> SessionId {
        self.open_granted(remaining_ms, remaining_ms)
    }

    pub(crate) fn open_granted(&mut self, granted_ms: u64, remaining_ms: u64) -> SessionId {
        self.sessions += 1;
        self.version = 0;
        let session = SessionId::new(self.sessions);
        let opened = Opened { session, granted: millis(granted_ms), remaining: millis(remaining_ms) };
        self.answer(self.open_call(), Ok(Reply::Opened(opened)));
        session
    }

    pub(crate) fn start(&mut self, name: &str) -> ElectionId {
        self.start_with(name, StartOptions::default())
    }

    pub(crate) fn start_working(&mut self, name: &str) -> ElectionId {
        self.start_with(name, StartOptions { work: true })
    }

    fn start_with(&mut self, name: &str, options: StartOptions) -> ElectionId {
        let id = self.engine.start(self.now(), lease(name), options).expect("the name is free");
        self.wake();
        id
    }

    /// Answers the open acquire, which is for one name: won.
    pub(crate) fn win(&mut self, token: u64) -> Term {
        self.win_call(self.acquire(), token);
        self.terms.last().cloned().expect("a term")
    }

    pub(crate) fn win_call(&mut self, id: CallId, token: u64) {
        let step = self.step(1);
        self.answer(id, Ok(won(token, step)));
    }

    /// The next step of the session's version.
    pub(crate) fn step(&mut self, changes: u64) -> VersionStep {
        let before = Version(self.version);
        self.version += changes;
        VersionStep { before, after: Version(self.version) }
    }

    pub(crate) fn released(&mut self, id: CallId) {
        let step = Some(self.step(1));
        self.answer(id, Ok(Reply::Released(Released { step })));
    }

    pub(crate) fn stop(&mut self, election: ElectionId) -> Ticket {
        let ticket = self.engine.stop(self.now(), election);
        self.wake();
        ticket
    }

    pub(crate) fn step_down(&mut self, election: ElectionId, cooldown_ms: u64) -> Ticket {
        let ticket = self.engine.step_down(self.now(), election, millis(cooldown_ms));
        self.wake();
        ticket
    }

    pub(crate) fn close(&mut self) -> Ticket {
        let ticket = self.engine.close(self.now());
        self.wake();
        ticket
    }

    pub(crate) fn work_exits(&mut self, term: &Term) {
        self.engine.handle_work_exited(self.now(), term.id());
        self.wake();
    }

    pub(crate) fn is_valid(&self, term: &Term) -> bool {
        term.is_valid(self.clock())
    }

    pub(crate) fn remaining_ms(&self, term: &Term) -> u64 {
        u64::try_from(term.remaining(self.clock()).as_millis()).expect("small")
    }

    /// A leader of `job` with token 1, nothing open.
    pub(crate) fn leading(working: bool) -> (Self, ElectionId, Term) {
        let mut rig = Self::live();
        let election = if working { rig.start_working("job") } else { rig.start("job") };
        let term = rig.win(1);
        rig.events.clear();
        (rig, election, term)
    }
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn lease(name: &str) -> LeaseName {
    LeaseName::new(name).expect("a name")
}

pub(crate) fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("a token")
}

pub(crate) fn grant(name: &str, value: u64) -> Grant {
    Grant { name: lease(name), token: token(value) }
}

pub(crate) fn won(value: u64, step: VersionStep) -> Reply {
    Reply::Acquired(Acquired::Judged { step, outcomes: vec![Outcome::Won { token: token(value) }] })
}

pub(crate) fn held(remaining_ms: Option<u64>) -> Reply {
    let held = Held { holder: None, token: None, remaining: remaining_ms.map(millis) };
    Reply::Acquired(Acquired::Judged { step: VersionStep::default(), outcomes: vec![Outcome::Held(held)] })
}

pub(crate) fn alive(remaining_ms: u64, owned: Owned) -> Reply {
    Reply::KeepAlive(KeepAlive::Alive { remaining: millis(remaining_ms), owned })
}

pub(crate) fn listed(version: u64, leases: Vec<Grant>) -> Owned {
    Owned::Listed { version: Version(version), leases }
}

pub(crate) const EXPIRED: Reply = Reply::KeepAlive(KeepAlive::Expired);

pub(crate) fn failed() -> Failure {
    Failure::new(FailureKind::Unreachable, Effect::Unknown, "the line is cut")
}
