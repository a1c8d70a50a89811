//! The second, deliberately plain account of one node: what each input must lead to, recomputed from the rules and
//! from what goes in and out of the engine. It shares no code with the engine.
//!
//! At the end of each turn the invariants compare what was [`Due`] with what was [`Seen`].

mod election;
mod session;

use std::{collections::BTreeMap, rc::Rc, sync::Arc};

use simba_backend::{FencingToken, LeaseName, SessionId};
use simba_core::{
    CallId, ElectionId, Output, Request, RevokeReason, SessionEnd, Term, TermId, Ticket, Timing,
};

pub(crate) use election::{Election, Holding, State};
pub(crate) use session::Session;

/// A call under way.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: CallKind,
    pub(crate) sent: u64,
    pub(crate) give_up: u64,
    /// The engine waits for it no longer.
    pub(crate) over: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum CallKind {
    Open,
    KeepAlive(SessionId),
    Acquire(SessionId, Arc<[LeaseName]>),
    Release(SessionId, Vec<(usize, FencingToken)>),
    Close,
}

/// What a turn must bring, or what it has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    pub(crate) opened: Vec<SessionId>,
    pub(crate) over: Vec<(SessionId, SessionEnd)>,
    pub(crate) shortened: u32,
    pub(crate) regressed: u32,
    pub(crate) adopted: Vec<(usize, FencingToken)>,
    pub(crate) ended: Vec<(TermId, RevokeReason)>,
    pub(crate) revoked: Vec<(TermId, RevokeReason)>,
    pub(crate) released: Vec<(SessionId, usize, FencingToken)>,
    pub(crate) closed: Vec<SessionId>,
    pub(crate) finished: Vec<Ticket>,
}

impl Effects {
    fn clear(&mut self) {
        self.opened.clear();
        self.over.clear();
        self.shortened = 0;
        self.regressed = 0;
        self.adopted.clear();
        self.ended.clear();
        self.revoked.clear();
        self.released.clear();
        self.closed.clear();
        self.finished.clear();
    }
}

/// Something that is wrong at once, not only at the end of the turn.
pub(crate) type Fault = (&'static str, String);

/// The account of one node, from its boot on.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    pub(crate) names: Rc<[LeaseName]>,
    pub(crate) timing: Timing,
    pub(crate) now: u64,
    pub(crate) session: Option<Session>,
    /// The open that is waited for, and when the next one must go out at the latest.
    pub(crate) open: Option<CallId>,
    pub(crate) open_by: u64,
    /// How many have failed in a row, with sessions that were over before their first renewal.
    pub(crate) open_failures: u32,
    pub(crate) calls: BTreeMap<CallId, Call>,
    pub(crate) elections: Vec<Option<Election>>,
    /// The greatest token released, by name, in the present session.
    pub(crate) floors: Vec<Option<FencingToken>>,
    pub(crate) closing: bool,
    pub(crate) close_call: Option<CallId>,
    pub(crate) closed: bool,
    close_tickets: Vec<Ticket>,
    /// Releases that are decided go out with this turn's wake-up.
    queued: bool,
    /// A close of the session that ends the client is due.
    close_due: bool,
    adoptions: u64,
    /// The deadline of the session that ended last.
    pub(crate) last_deadline: u64,
    /// What every name was won with last.
    /// Whose cell each adopted term reads.
    pub(crate) cells: BTreeMap<TermId, SessionId>,
    last_won: Vec<Option<(SessionId, FencingToken)>>,
    pub(crate) same_token_twice: bool,
    pub(crate) shorter_promise: bool,
    pub(crate) due: Effects,
    pub(crate) seen: Effects,
}

impl Ledger {
    pub(crate) fn new(names: Rc<[LeaseName]>, timing: Timing, now: u64) -> Self {
        let count = names.len();
        Self {
            names,
            timing,
            now,
            session: None,
            open: None,
            open_by: now,
            open_failures: 0,
            calls: BTreeMap::new(),
            elections: vec![None; count],
            floors: vec![None; count],
            closing: false,
            close_call: None,
            closed: false,
            close_tickets: Vec::new(),
            queued: false,
            close_due: false,
            adoptions: 0,
            last_deadline: 0,
            cells: BTreeMap::new(),
            last_won: vec![None; count],
            same_token_twice: false,
            shorter_promise: false,
            due: Effects::default(),
            seen: Effects::default(),
        }
    }

    pub(crate) fn index(&self, name: &LeaseName) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or(usize::MAX)
    }

    /// A turn begins: one input at this instant of the node's clock.
    pub(crate) fn begin(&mut self, now: u64) {
        self.due.clear();
        self.seen.clear();
        self.pass(now);
    }

    /// Time passes; a deadline that has passed comes before everything else.
    pub(crate) fn pass(&mut self, now: u64) {
        self.now = self.now.max(now);
        if self.session.as_ref().is_some_and(|s| self.now >= s.deadline) {
            self.session_over(SessionEnd::DeadlinePassed);
        }
    }

    /// The wake-up of the turn.
    pub(crate) fn wakeup(&mut self, now: u64) {
        self.pass(now);
        let mut late: Vec<_> = self
            .calls
            .iter()
            .filter(|(_, c)| !c.over && c.give_up <= self.now)
            .map(|(id, c)| (c.give_up, *id))
            .collect();
        late.sort_unstable();
        for (_, id) in late {
            self.give_up(id);
        }
        self.elections_due();
        self.queued = false;
        self.go_on_closing();
    }

    fn give_up(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id).filter(|c| !c.over) else { return };
        call.over = true;
        let kind = call.kind.clone();
        match kind {
            CallKind::Open if self.open == Some(id) => self.open_failed(),
            CallKind::KeepAlive(session) => self.keep_alive_failed(id, session),
            CallKind::Acquire(..) => self.attempt_failed(id),
            CallKind::Release(..) => self.release_answered(id),
            CallKind::Close => self.close_answered(id),
            CallKind::Open => {}
        }
    }

    /// Queued releases of this turn have yet to go out.
    pub(crate) fn release_due(&mut self, session: SessionId, name: usize, token: FencingToken) {
        self.due.released.push((session, name, token));
        self.queued = true;
        if self.is_current(session) {
            self.floors[name] = self.floors[name].max(Some(token));
        }
    }

    pub(crate) fn is_current(&self, session: SessionId) -> bool {
        self.session.as_ref().is_some_and(|s| s.id == session)
    }

    /// Takes an output in.
    pub(crate) fn output(&mut self, output: &Output) -> Result<(), Fault> {
        match output {
            Output::Call { id, request, patience } => self.call(*id, request, crate::nanos(*patience))?,
            Output::Elected { term, .. } => self.elected(term)?,
            Output::Ended { term, reason } => self.seen.ended.push((*term, *reason)),
            Output::Revoked { term, reason, .. } => self.seen.revoked.push((*term, *reason)),
            Output::Finished { ticket } => self.seen.finished.push(*ticket),
            Output::Notice(notice) => self.notice(notice)?,
        }
        Ok(())
    }

    fn call(&mut self, id: CallId, request: &Request, patience: u64) -> Result<(), Fault> {
        let now = self.now;
        let most = self
            .session
            .as_ref()
            .map_or(crate::nanos(self.timing.renew()), |s| s.period.min(s.deadline.saturating_sub(now)));
        let kind = match request {
            Request::Open { lease } => {
                if self.session.is_some()
                    || self.open.is_some()
                    || self.closing
                    || *lease != self.timing.lease()
                {
                    return Err((
                        "I18",
                        format!("an open goes out although {:?}", (&self.session, self.open)),
                    ));
                }
                self.open = Some(id);
                CallKind::Open
            }
            Request::KeepAlive { session, .. } => {
                self.keep_alive_sent(id, *session, patience, most)?;
                CallKind::KeepAlive(*session)
            }
            Request::Acquire { session, names } => {
                self.acquire_sent(id, *session, names)?;
                CallKind::Acquire(*session, Arc::clone(names))
            }
            Request::Release(release) => {
                let session = release.session();
                let grants: Vec<_> =
                    release.grants().iter().map(|g| (self.index(&g.name), g.token)).collect();
                for &(name, token) in &grants {
                    self.seen.released.push((session, name, token));
                    self.release_sent(id, session, name, token);
                }
                CallKind::Release(session, grants)
            }
            Request::Close { session } => {
                if self.close_due && self.is_current(*session) {
                    self.close_due = false;
                    self.close_call = Some(id);
                    self.session = None;
                    self.abandon(*session);
                } else {
                    self.seen.closed.push(*session);
                }
                CallKind::Close
            }
        };
        let in_session = matches!(kind, CallKind::Acquire(..) | CallKind::Release(..));
        if in_session && patience > most {
            return Err((
                "I19",
                format!("a call is given {patience} ns, at most {most} are allowed: {request:?}"),
            ));
        }
        self.calls.insert(id, Call { kind, sent: now, give_up: now.saturating_add(patience), over: false });
        Ok(())
    }

    /// Stops waiting for every call of a session.
    fn abandon(&mut self, session: SessionId) {
        for call in self.calls.values_mut() {
            match call.kind {
                CallKind::KeepAlive(of) | CallKind::Acquire(of, _) | CallKind::Release(of, _)
                    if of == session =>
                {
                    call.over = true;
                }
                _ => {}
            }
        }
    }

    /// The client is to be closed.
    pub(crate) fn close(&mut self, ticket: Ticket) {
        if self.closed {
            self.due.finished.push(ticket);
            return;
        }
        self.close_tickets.push(ticket);
        if !std::mem::replace(&mut self.closing, true) {
            for name in 0..self.names.len() {
                if let Some(id) = self.elections[name].as_ref().map(|e| e.id) {
                    self.stop(id, None);
                }
            }
        }
        self.go_on_closing();
    }

    /// After each input of a client that is being closed.
    pub(crate) fn go_on_closing(&mut self) {
        let busy = !self.closing || self.queued || self.closed || self.close_call.is_some();
        if busy || self.elections.iter().any(Option::is_some) {
            return;
        }
        if self.session.is_some() {
            self.close_due = true;
        } else if self.open.is_none() {
            self.finish_closing();
        }
    }

    fn close_answered(&mut self, id: CallId) {
        if self.close_call == Some(id) {
            self.close_call = None;
            self.finish_closing();
        }
    }

    fn finish_closing(&mut self) {
        self.closed = true;
        self.due.finished.append(&mut self.close_tickets);
    }

    /// Whether the present session is being closed, or was, by the client's own close.
    pub(crate) const fn is_past_close(&self) -> bool {
        self.closed || self.close_call.is_some()
    }

    /// The latest instant at which the engine must be woken, as far as anything here waits for a time.
    pub(crate) fn wake_by(&self) -> Option<u64> {
        let calls = self.calls.values().filter(|c| !c.over).map(|c| c.give_up);
        let open = (self.session.is_none() && self.open.is_none() && !self.closing).then_some(self.open_by);
        let elections = self.elections.iter().flatten().filter_map(Election::wake_by);
        let session = self.session.as_ref().map(|s| s.wake_by());
        calls.chain(open).chain(elections).chain(session).min()
    }

    /// Whether a close that the client asked for has yet to go out in this turn.
    pub(crate) const fn is_close_missing(&self) -> bool {
        self.close_due
    }

    pub(crate) fn holding(&self, name: usize) -> Option<&Holding> {
        match &self.elections.get(name)?.as_ref()?.state {
            State::Held(held) => Some(held),
            _ => None,
        }
    }

    fn elected(&mut self, term: &Term) -> Result<(), Fault> {
        let name = self.index(term.name());
        self.seen.adopted.push((name, term.token()));
        self.adopt(name, term)
    }

    /// The name of an election that has this id.
    fn find(&self, id: ElectionId) -> Option<usize> {
        self.elections.iter().position(|e| e.as_ref().is_some_and(|e| e.id == id))
    }
}
