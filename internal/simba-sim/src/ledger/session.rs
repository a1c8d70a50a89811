//! The session, recomputed.

use std::time::Duration;

use simba_backend::{Acquired, Failure, FencingToken, KeepAlive, Opened, Owned, SessionId};
use simba_core::{CallId, Notice, Reply, RevokeReason, SessionEnd, Timing};

use super::{CallKind, Fault, Ledger, State};
use crate::nanos;

/// A session, as the replies make it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) deadline: u64,
    pub(crate) granted: Duration,
    pub(crate) period: u64,
    pub(crate) suspended: bool,
    /// Until the first renewal: how many opens had failed before.
    unproven: Option<u32>,
    /// The keep-alive in flight, and how many terms had been adopted when it was sent.
    keep_alive: Option<(CallId, u64)>,
    /// When the next one goes out.
    next_at: Option<u64>,
    /// A reader has seen the deadline passed.
    pub(crate) latched: bool,
    /// The state that the notices tell.
    told: Option<bool>,
}

impl Session {
    pub(super) fn wake_by(&self) -> u64 {
        let next = if self.keep_alive.is_none() { self.next_at } else { None };
        next.map_or(self.deadline, |next| next.min(self.deadline))
    }
}

/// `remaining x (1 - drift) - margin`, in plain numbers.
fn validity(remaining: Duration, timing: &Timing) -> u64 {
    let kept = u128::from(1_000_000_000 - timing.drift().parts_per_billion());
    let scaled = remaining.as_nanos() * kept / 1_000_000_000;
    u64::try_from(scaled.saturating_sub(timing.margin().as_nanos())).unwrap_or(u64::MAX)
}

impl Ledger {
    /// The answer to a call.
    pub(crate) fn reply(&mut self, id: CallId, result: &Result<Reply, Failure>) {
        let Some(call) = self.calls.remove(&id) else { return };
        match call.kind {
            CallKind::Open => self.opened(id, call.sent, result),
            CallKind::KeepAlive(session) => self.kept_alive(id, session, call.sent, result),
            CallKind::Acquire(session, names) => match result {
                Ok(Reply::Acquired(Acquired::Judged { outcomes, .. })) => {
                    self.judged(id, session, &names, outcomes);
                }
                Ok(Reply::Acquired(Acquired::Expired)) => self.told_expired(session),
                Ok(_) | Err(_) => self.attempt_failed(id),
            },
            CallKind::Release(session, _) => {
                if matches!(result, Ok(Reply::Released(released)) if released.step.is_none()) {
                    self.told_expired(session);
                }
                self.release_answered(id);
            }
            CallKind::Close => self.close_answered(id),
        }
        self.go_on_closing();
    }

    fn told_expired(&mut self, session: SessionId) {
        if self.is_current(session) {
            self.session_over(SessionEnd::Expired);
        }
    }

    fn opened(&mut self, id: CallId, sent: u64, result: &Result<Reply, Failure>) {
        let expected = self.open == Some(id);
        if let Ok(Reply::Opened(opened)) = result {
            if expected && !self.closing && self.go_live(opened, sent) {
                return;
            }
            self.due.closed.push(opened.session);
        }
        if expected {
            self.open_failed();
        }
    }

    pub(super) fn open_failed(&mut self) {
        self.open = None;
        self.open_failures += 1;
        self.open_by = self.now + nanos(self.timing.renew());
    }

    /// Whether the answer to an open makes a session.
    fn go_live(&mut self, opened: &Opened, sent: u64) -> bool {
        let timing = self.timing;
        let local = validity(opened.granted, &timing);
        let renew = nanos(timing.renew());
        let shortened = opened.granted < timing.lease() && 2 * renew > local;
        let period = if shortened { local / 3 } else { renew };
        let deadline = sent + validity(opened.remaining, &timing);
        if period < 1_000_000 || deadline <= self.now {
            return false;
        }
        self.open = None;
        self.due.opened.push(opened.session);
        self.due.shortened = u32::from(shortened);
        self.session = Some(Session {
            id: opened.session,
            deadline,
            granted: opened.granted,
            period,
            suspended: false,
            unproven: Some(core::mem::take(&mut self.open_failures)),
            keep_alive: None,
            next_at: Some(sent + period),
            latched: false,
            told: None,
        });
        self.floors.fill(None);
        let now = self.now;
        for election in self.elections.iter_mut().flatten() {
            if matches!(election.state, State::Idle { .. }) {
                election.state = State::Idle { try_by: Some(now) };
            }
        }
        true
    }

    pub(super) fn keep_alive_sent(
        &mut self,
        id: CallId,
        session: SessionId,
        patience: u64,
        most: u64,
    ) -> Result<(), Fault> {
        let (now, adoptions) = (self.now, self.adoptions);
        let Some(live) = self.session.as_mut().filter(|s| s.id == session) else {
            return Err(("I22", format!("a keep-alive of session {session}, which is not the present one")));
        };
        if let Some((other, _)) = live.keep_alive {
            return Err(("I19", format!("a second keep-alive, while {other:?} is in flight")));
        }
        if live.next_at.is_none_or(|at| now < at) {
            return Err(("I19", format!("a keep-alive at {now}, the next was due at {:?}", live.next_at)));
        }
        if patience != most {
            return Err(("I19", format!("a keep-alive is given {patience} ns instead of {most}")));
        }
        live.keep_alive = Some((id, adoptions));
        Ok(())
    }

    fn kept_alive(&mut self, id: CallId, session: SessionId, sent: u64, result: &Result<Reply, Failure>) {
        let now = self.now;
        let Some(live) = self.session.as_mut().filter(|s| s.id == session) else { return };
        let counted = live.keep_alive.filter(|(call, _)| *call == id).map(|(_, mark)| mark);
        match result {
            Ok(Reply::KeepAlive(KeepAlive::Expired)) => self.session_over(SessionEnd::Expired),
            Ok(Reply::KeepAlive(KeepAlive::Alive { remaining, owned })) => {
                let Some(mark) = counted else { return };
                let to = sent + validity(*remaining, &self.timing);
                live.keep_alive = None;
                live.suspended = false;
                live.unproven = None;
                // The newest promise counts, also a shorter one; what it leaves no period for is renewed half-way.
                self.shorter_promise |= to < live.deadline;
                live.deadline = to;
                let half = now + (to.saturating_sub(now) / 2).max(nanos(self.timing.min_backoff()));
                let periodic = sent + live.period;
                let next = if periodic < to { periodic } else { half };
                live.next_at = (next < to).then_some(next);
                if live.latched || to <= now {
                    self.session_over(SessionEnd::DeadlinePassed);
                    return;
                }
                if let Owned::Listed { leases, .. } = owned {
                    let listed: Vec<_> = leases.iter().map(|g| (self.index(&g.name), g.token)).collect();
                    self.listed(session, &listed, mark);
                }
            }
            Ok(_) | Err(_) => self.keep_alive_failed(id, session),
        }
    }

    pub(super) fn keep_alive_failed(&mut self, id: CallId, session: SessionId) {
        let (now, least) = (self.now, nanos(self.timing.min_backoff()));
        let Some(live) = self.session.as_mut().filter(|s| s.id == session) else { return };
        if live.keep_alive.is_none_or(|(call, _)| call != id) {
            return;
        }
        live.keep_alive = None;
        live.suspended = true;
        let left = live.deadline - now;
        let at = now + (left / 2).min(live.period).max(least);
        live.next_at = (at < live.deadline).then_some(at);
    }

    /// The store's list against the terms.
    fn listed(&mut self, session: SessionId, listed: &[(usize, FencingToken)], mark: u64) {
        let token = |name: usize| listed.iter().find(|(n, _)| *n == name).map(|(_, token)| *token);
        let lost: Vec<_> = (0..self.names.len())
            .filter(|&name| {
                self.holding(name).is_some_and(|h| h.adoption < mark && token(name) != Some(h.token))
            })
            .collect();
        for name in lost {
            self.lose(name, RevokeReason::TakenOver);
        }
        for &(name, token) in listed {
            let owned = self.elections.get(name).and_then(Option::as_ref).and_then(|e| e.state.owned());
            if owned.is_none() && !self.is_under_way(name) {
                self.release_due(session, name, token);
            }
        }
    }

    fn is_under_way(&self, name: usize) -> bool {
        self.calls.values().any(|call| match &call.kind {
            CallKind::Acquire(_, names) => names.contains(&self.names[name]),
            CallKind::Release(_, grants) => grants.iter().any(|(released, _)| *released == name),
            CallKind::Open | CallKind::KeepAlive(_) | CallKind::Close => false,
        })
    }

    /// The session is over for every reader.
    pub(super) fn session_over(&mut self, reason: SessionEnd) {
        let Some(session) = self.session.take() else { return };
        self.last_deadline = session.deadline;
        self.cells.clear();
        self.due.over.push((session.id, reason));
        if reason == SessionEnd::DeadlinePassed {
            self.due.closed.push(session.id);
        }
        self.abandon(session.id);
        // What was decided for a handover goes with the session; it is not sent any more.
        self.open_by = self.now;
        if let Some(failures) = session.unproven
            && reason == SessionEnd::Expired
        {
            self.open_failures = failures + 1;
            if failures > 0 {
                self.open_failed();
            }
        }
        let revoke = match reason {
            SessionEnd::DeadlinePassed => RevokeReason::DeadlinePassed,
            SessionEnd::Expired => RevokeReason::SessionExpired,
            SessionEnd::Closed => RevokeReason::Stopped,
        };
        for name in 0..self.names.len() {
            self.session_over_for(name, revoke);
        }
    }

    /// News must tell the same story.
    pub(super) fn notice(&mut self, notice: &Notice) -> Result<(), Fault> {
        match notice {
            Notice::SessionOpened { session, .. } => self.seen.opened.push(*session),
            // The end of a closed client comes when its close is answered.
            Notice::SessionEnded { session, reason } if *reason != SessionEnd::Closed => {
                self.seen.over.push((*session, *reason));
            }
            Notice::LeaseShortened { .. } => self.seen.shortened += 1,
            Notice::TokenRegressed { .. } => self.seen.regressed += 1,
            Notice::SessionSuspended { session, .. } => {
                let told = self.session.as_mut().filter(|s| s.id == *session).map(|s| s.told.replace(true));
                if told == Some(Some(true)) {
                    return Err(("I18", "a session was suspended twice without a recovery".into()));
                }
            }
            Notice::SessionResumed { session } => {
                let told = self.session.as_mut().filter(|s| s.id == *session).map(|s| s.told.replace(false));
                if told.is_some_and(|told| told != Some(true)) {
                    return Err(("I18", "a session recovered that was not suspended".into()));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
