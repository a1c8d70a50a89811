//! Elections, recomputed.

use std::sync::Arc;

use simba_backend::{FencingToken, LeaseName, Outcome, SessionId};
use simba_core::{CallId, ElectionId, RevokeReason, Term, TermId, Ticket};

use super::{Fault, Ledger};
use crate::nanos;

/// One started election.
#[derive(Clone, Debug)]
pub(crate) struct Election {
    pub(crate) id: ElectionId,
    pub(crate) work: bool,
    pub(crate) state: State,
    pub(crate) last_token: Option<FencingToken>,
    /// The work of the present or the last term runs.
    pub(crate) running: bool,
    /// The listener never learnt of the present term.
    silent: bool,
    /// Until when nothing may be tried, whatever the state.
    pub(crate) cool_until: u64,
    /// The last two attempts that came sooner than a candidate tries by itself.
    early: [Option<u64>; 2],
}

/// A term that is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    pub(crate) term: TermId,
    pub(crate) token: FencingToken,
    /// Which adoption of the node it was.
    pub(crate) adoption: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum State {
    /// A candidate; tries at the latest at this instant, if there is a session.
    Idle {
        try_by: Option<u64>,
    },
    Attempt(CallId),
    /// The predicate of adoption holds; the engine's word is awaited in this turn.
    Won(FencingToken),
    Held(Holding),
    Handover(Handover),
    /// Work of a lost term runs on.
    Drain {
        term: TermId,
        until: u64,
    },
    Cool {
        until: u64,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Handover {
    pub(crate) held: Holding,
    reason: RevokeReason,
    /// The deadline as it was at the stop, while the work is waited for.
    pub(crate) working_until: Option<u64>,
    release: Option<CallId>,
    /// `None`: the election is over then.
    cool_until: Option<u64>,
    tickets: Vec<Ticket>,
}

impl State {
    /// The token that this node has a claim on.
    pub(crate) const fn owned(&self) -> Option<FencingToken> {
        match self {
            Self::Held(held) => Some(held.token),
            Self::Handover(handover) => Some(handover.held.token),
            _ => None,
        }
    }
}

impl Election {
    pub(super) fn wake_by(&self) -> Option<u64> {
        match &self.state {
            State::Idle { try_by } => *try_by,
            State::Cool { until } => Some(*until),
            State::Handover(handover) => handover.working_until,
            State::Attempt(_) | State::Won(_) | State::Held(_) | State::Drain { .. } => None,
        }
    }
}

/// The application.
impl Ledger {
    pub(crate) fn start(&mut self, name: usize, id: ElectionId, work: bool) {
        let try_by = self.session.is_some().then_some(self.now);
        self.elections[name] = Some(Election {
            id,
            work,
            state: State::Idle { try_by },
            last_token: None,
            running: false,
            silent: false,
            cool_until: 0,
            early: [None; 2],
        });
    }

    pub(crate) fn stop(&mut self, id: ElectionId, ticket: Option<Ticket>) {
        let Some(name) = self.find(id) else {
            self.due.finished.extend(ticket);
            return;
        };
        let Some(election) = &mut self.elections[name] else { return };
        match &mut election.state {
            State::Held(_) => self.give_up_term(name, RevokeReason::Stopped, None, ticket),
            State::Handover(handover) => {
                handover.cool_until = None;
                handover.tickets.extend(ticket);
            }
            _ => {
                self.elections[name] = None;
                self.due.finished.extend(ticket);
            }
        }
        self.go_on_closing();
    }

    pub(crate) fn step_down(&mut self, id: ElectionId, until: u64, ticket: Option<Ticket>) {
        let Some(name) = self.find(id) else {
            self.due.finished.extend(ticket);
            return;
        };
        let Some(election) = &mut self.elections[name] else { return };
        election.cool_until = election.cool_until.max(until);
        match &mut election.state {
            State::Held(_) => return self.give_up_term(name, RevokeReason::SteppedDown, Some(until), ticket),
            State::Handover(handover) => {
                handover.cool_until = handover.cool_until.map(|other| other.max(until));
                handover.tickets.extend(ticket);
                return;
            }
            State::Drain { until: present, .. } | State::Cool { until: present } => {
                *present = (*present).max(until);
            }
            State::Idle { .. } | State::Attempt(_) | State::Won(_) => election.state = State::Cool { until },
        }
        self.due.finished.extend(ticket);
    }

    fn give_up_term(&mut self, name: usize, reason: RevokeReason, cool: Option<u64>, ticket: Option<Ticket>) {
        let (Some(session), Some(election)) = (&self.session, &mut self.elections[name]) else { return };
        let State::Held(held) = election.state else { return };
        let (id, working) = (session.id, election.running);
        self.due.ended.push((held.term, reason));
        election.state = State::Handover(Handover {
            held,
            reason,
            working_until: working.then_some(session.deadline),
            release: None,
            cool_until: cool,
            tickets: ticket.into_iter().collect(),
        });
        if !working {
            self.hand_over(name, id);
        }
    }

    /// The release of a handover is due now, and the listener is told after it.
    fn hand_over(&mut self, name: usize, session: SessionId) {
        let Some(election) = &mut self.elections[name] else { return };
        let State::Handover(handover) = &mut election.state else { return };
        handover.working_until = None;
        let (term, token, reason) = (handover.held.term, handover.held.token, handover.reason);
        let silent = election.silent;
        self.release_due(session, name, token);
        if !silent {
            self.due.revoked.push((term, reason));
        }
    }

    pub(crate) fn work_exited(&mut self, term: TermId) {
        let now = self.now;
        let session = self.session.as_ref().map(|s| s.id);
        for name in 0..self.names.len() {
            let Some(election) = &mut self.elections[name] else { continue };
            match &mut election.state {
                State::Held(held) if held.term == term => election.running = false,
                State::Handover(handover) if handover.held.term == term => {
                    election.running = false;
                    let waited = handover.working_until.is_some();
                    if let Some(session) = session.filter(|_| waited) {
                        self.hand_over(name, session);
                    }
                }
                State::Drain { term: lost, until } if *lost == term => {
                    election.running = false;
                    let until = *until;
                    election.state = Self::after(until, now, session.is_some());
                }
                _ => {}
            }
        }
    }

    fn after(until: u64, now: u64, session: bool) -> State {
        if until > now { State::Cool { until } } else { State::Idle { try_by: session.then_some(now) } }
    }

    pub(crate) fn refused(&mut self, term: TermId) {
        let until = self.now.saturating_add(nanos(self.timing.lease()));
        let owner = self.elections.iter().flatten().find(|e| match &e.state {
            State::Held(held) => held.term == term,
            State::Handover(handover) => handover.held.term == term,
            _ => false,
        });
        if let Some(id) = owner.map(|e| e.id)
            && let Some(name) = self.find(id)
        {
            if let Some(election) = &mut self.elections[name] {
                election.silent = true;
            }
            // A listener that is told of nothing hears of no end either, also of one that is decided now.
            self.step_down(id, until, None);
        }
        self.work_exited(term);
        self.go_on_closing();
    }
}

/// Attempts.
impl Ledger {
    pub(super) fn acquire_sent(
        &mut self,
        id: CallId,
        session: SessionId,
        names: &Arc<[LeaseName]>,
    ) -> Result<(), Fault> {
        if !self.is_current(session) {
            return Err(("I22", format!("an acquire in session {session}, which is not the present one")));
        }
        let (jitter, spread) = (nanos(self.timing.retry_jitter()), nanos(self.timing.spread()));
        for name in names.iter() {
            let index = self.index(name);
            let Some(election) = self.elections.get_mut(index).and_then(Option::as_mut) else {
                return Err(("I25", format!("an acquire of {name:?}, which is not started")));
            };
            if self.now < election.cool_until {
                let until = election.cool_until;
                return Err((
                    "I44",
                    format!("an acquire of {name:?} at {}, cooling down until {until}", self.now),
                ));
            }
            if !matches!(election.state, State::Idle { .. }) {
                return Err(("I24", format!("an acquire of {name:?} in state {:?}", election.state)));
            }
            if let State::Idle { try_by: Some(by) } = election.state
                && self.now.saturating_add(jitter) < by
            {
                let before_last = election.early[0];
                if before_last.is_some_and(|before| self.now - before < spread) {
                    return Err((
                        "I55",
                        format!("{name:?} is tried a third time within a spread, by hints alone"),
                    ));
                }
                election.early = [election.early[1], Some(self.now)];
            }
            election.state = State::Attempt(id);
        }
        Ok(())
    }

    fn back_to_waiting(&mut self, name: usize) {
        let longest = nanos(self.timing.renew()) / 2 + nanos(self.timing.retry_jitter());
        let try_by = self.session.is_some().then_some(self.now.saturating_add(longest));
        if let Some(election) = &mut self.elections[name] {
            election.state = State::Idle { try_by };
        }
    }

    pub(super) fn attempt_failed(&mut self, id: CallId) {
        for name in 0..self.names.len() {
            if self.is_attempt(name, id) {
                self.back_to_waiting(name);
            }
        }
    }

    fn is_release_under_way(&self, name: usize) -> bool {
        self.calls.values().any(|call| {
            !call.over
                && matches!(&call.kind, super::CallKind::Release(_, grants) if grants.iter().any(|(n, _)| *n == name))
        })
    }

    fn is_attempt(&self, name: usize, id: CallId) -> bool {
        let state = self.elections[name].as_ref().map(|e| &e.state);
        matches!(state, Some(State::Attempt(call)) if *call == id)
    }

    /// The predicate of adoption, name by name.
    pub(super) fn judged(
        &mut self,
        id: CallId,
        session: SessionId,
        names: &[LeaseName],
        outcomes: &[Outcome],
    ) {
        for (name, outcome) in names.iter().zip(outcomes) {
            let name = self.index(name);
            let (current, here) = (self.is_attempt(name, id), self.is_current(session));
            let Outcome::Won { token } = *outcome else {
                if current {
                    self.back_to_waiting(name);
                }
                continue;
            };
            if self.last_won[name].replace((session, token)) == Some((session, token)) {
                self.same_token_twice = true;
            }
            let spent = here && self.floors[name].is_some_and(|floor| token <= floor);
            let election = self.elections[name].as_mut();
            let fresh = election.as_ref().is_some_and(|e| e.last_token.is_none_or(|last| token > last));
            // A token below one that was spent or adopted here: the store has lost writes, and that is told.
            let below = self.floors[name].is_some_and(|floor| token < floor) || (!spent && !fresh);
            self.due.regressed += u32::from(current && here && below);
            if let Some(election) = election.filter(|_| current && here && !spent && fresh) {
                election.state = State::Won(token);
                self.due.adopted.push((name, token));
                continue;
            }
            let ours = here && self.elections[name].as_ref().and_then(|e| e.state.owned()) == Some(token);
            // Its release is decided; if none is under way any more, it was lost, or the store has lost it.
            let decided = spent && self.is_release_under_way(name);
            if !ours && !decided && !self.is_past_close() {
                self.release_due(session, name, token);
            }
            if current {
                self.back_to_waiting(name);
            }
        }
    }

    pub(super) fn adopt(&mut self, name: usize, term: &Term) -> Result<(), Fault> {
        let adoption = self.adoptions;
        self.adoptions += 1;
        let Some(election) = self.elections.get_mut(name).and_then(Option::as_mut) else {
            return Err(("I25", format!("{term:?} was adopted by no election")));
        };
        if !matches!(election.state, State::Won(token) if token == term.token()) {
            return Err(("I25", format!("{term:?} was adopted in state {:?}", election.state)));
        }
        if election.running {
            return Err(("I46", format!("{term:?} was adopted while the work of the last term runs")));
        }
        if let Some(session) = &self.session {
            self.cells.insert(term.id(), session.id);
        }
        election.state = State::Held(Holding { term: term.id(), token: term.token(), adoption });
        election.last_token = Some(term.token());
        election.running = election.work;
        election.silent = false;
        Ok(())
    }
}

/// The ends.
impl Ledger {
    /// A term is lost against the node's will: everything follows at once.
    pub(super) fn lose(&mut self, name: usize, reason: RevokeReason) {
        let now = self.now;
        let Some(election) = &mut self.elections[name] else { return };
        let State::Held(held) = election.state else { return };
        self.due.ended.push((held.term, reason));
        if !election.silent {
            self.due.revoked.push((held.term, reason));
        }
        if election.running {
            election.state = State::Drain { term: held.term, until: now };
        } else {
            self.back_to_waiting(name);
        }
    }

    pub(super) fn session_over_for(&mut self, name: usize, reason: RevokeReason) {
        let Some(election) = &mut self.elections[name] else { return };
        let silent = election.silent;
        match &election.state {
            State::Held(_) => self.lose(name, reason),
            State::Handover(handover) => {
                // Told already if the release had gone out before.
                if handover.release.is_none() && !silent {
                    self.due.revoked.push((handover.held.term, handover.reason));
                }
                self.finish_handover(name);
            }
            State::Idle { .. } | State::Attempt(_) | State::Won(_) => {
                election.state = State::Idle { try_by: None }
            }
            State::Drain { .. } | State::Cool { .. } => {}
        }
    }

    pub(super) fn release_sent(&mut self, id: CallId, session: SessionId, name: usize, token: FencingToken) {
        if !self.is_current(session) {
            return;
        }
        if let Some(election) = self.elections.get_mut(name).and_then(Option::as_mut)
            && let State::Handover(handover) = &mut election.state
            && handover.held.token == token
            && handover.release.is_none()
        {
            handover.release = Some(id);
        }
    }

    pub(super) fn release_answered(&mut self, id: CallId) {
        for name in 0..self.names.len() {
            let state = self.elections[name].as_ref().map(|e| &e.state);
            if matches!(state, Some(State::Handover(h)) if h.release == Some(id)) {
                self.finish_handover(name);
            }
        }
    }

    fn finish_handover(&mut self, name: usize) {
        let (now, session) = (self.now, self.session.is_some());
        let Some(election) = &mut self.elections[name] else { return };
        let State::Handover(handover) = &mut election.state else { return };
        let (term, cool) = (handover.held.term, handover.cool_until);
        self.due.finished.append(&mut handover.tickets);
        match cool {
            None => self.elections[name] = None,
            Some(until) if election.running => election.state = State::Drain { term, until },
            Some(until) => election.state = Self::after(until, now, session),
        }
    }

    /// What a wake-up must do for elections.
    pub(super) fn elections_due(&mut self) {
        let (now, session) = (self.now, self.session.as_ref().map(|s| s.id));
        for name in 0..self.names.len() {
            let Some(election) = &mut self.elections[name] else { continue };
            match &election.state {
                State::Cool { until } if *until <= now => {
                    election.state = State::Idle { try_by: session.map(|_| now) };
                }
                State::Handover(handover) if handover.working_until.is_some_and(|until| until <= now) => {
                    if let Some(session) = session {
                        self.hand_over(name, session);
                    }
                }
                _ => {}
            }
        }
    }
}
