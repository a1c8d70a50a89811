//! Candidates: when they try, and which wins they may adopt.
//!
//! # The problem
//! A reply says "you own it". Between the store's word and the reading of it lie any delay, other attempts of the
//! same node, and releases that are under way. Adopting the wrong word makes two owners.
//!
//! # Wrong answers
//! * *Every "won" is a win.* A reply to an attempt that was given up may have been released since.
//! * *Only the newest attempt's.* Two attempts may have been answered with one token, and the first reply's
//!   release is under way ([`crate::floor`]).
//! * *With a lease time of its own, from the reply.* The lease lives and dies with the session, whose deadline may
//!   be nearer.
//!
//! # The idea
//! A term is adopted only from the reply to the election's **current** attempt, in the present session, before the
//! local deadline, with a token above the floor of the name. It shares the session's deadline cell. Any other win
//! is released with the token it named, unless that token is the very term's that is held.
//!
//! # When candidates try
//! All that are due together go out in one call. A refusal sends them back for half a renew interval plus jitter,
//! or, where the store told how long the owner's session lives, to the instant at which it runs out, if that is
//! sooner. Those refused together wait together, and a candidate joins an instant that another one waits for, if
//! it lies in its own allowed range: so a node that contends for ten thousand names makes the calls of one that
//! contends for one. A release that is announced brings candidates forward by a small random spread, so that the
//! store does not meet all of them in one millisecond; and however many announcements come, a node's attempts
//! that follow from them are a spread apart.

use alloc::{sync::Arc, vec::Vec};
use simba_backend::{
    Acquired, Effect, Failure, FailureKind, FencingToken, Grant, Held as Holder, Hint, LeaseName,
};
use simba_backend::{Outcome, SessionId, VersionStep};

use crate::{
    call::{CallId, Reply, Request},
    election::Phase,
    engine::{Engine, QueuedRelease},
    mark::Mark,
    notice::{Notice, SessionEnd},
    output::Output,
    pending::Kind,
    planted::planted,
    session::Session,
    term::{Held, Releasable},
    time::Instant,
};

/// The most names in one call; beyond it a batch is cut, so that no single call holds a store up for long.
const MAX_BATCH: usize = 10_000;

/// Trying.
impl Engine {
    /// Lets an election contend from now on: at once if there is a session, else as soon as there is one.
    pub(crate) fn contend(&mut self, slot: u32) {
        let phase = if self.live().is_some() { Phase::Waiting { at: self.now } } else { Phase::Parked };
        self.elections.set_phase(slot, phase);
    }

    /// Does what is due for elections, and answers those that try now.
    pub(crate) fn handle_due_elections(&mut self) -> Vec<u32> {
        let mut attempts = Vec::new();
        while let Some(slot) = self.elections.next_due(self.now) {
            match self.elections.get(slot).map(|e| e.phase()) {
                Some(Phase::Waiting { .. }) => {
                    // Out of the index of wake-ups; `send_attempts` gives it its call.
                    self.elections.set_phase(slot, Phase::Parked);
                    attempts.push(slot);
                }
                Some(Phase::HandingOver(_)) => self.handover_timed_out(slot),
                Some(Phase::CoolingDown { .. }) => self.contend(slot),
                // None of these waits for a time, so none of them is in the index.
                Some(Phase::Parked | Phase::Attempting { .. } | Phase::Holding(_) | Phase::Draining(_))
                | None => {
                    debug_assert!(false, "an election is due that waits for nothing");
                    return attempts;
                }
            }
        }
        attempts
    }

    pub(crate) fn send_attempts(&mut self, attempts: Vec<u32>) {
        if attempts.is_empty() {
            return;
        }
        let patience = self.patience();
        let Some(session) = self.live().map(|live| live.id) else { return };
        self.last_attempt = Some(self.now);
        // Drawn before this attempt, so not a spread apart from it.
        self.hinted_at = None;
        for slots in attempts.chunks(MAX_BATCH) {
            let name = |&slot: &u32| self.elections.get(slot).map(|e| e.name.clone());
            let names: Arc<[LeaseName]> = slots.iter().filter_map(name).collect();
            let kind = Kind::Acquire { session, names: Arc::clone(&names), slots: slots.into() };
            let call = self.call(kind, Request::Acquire { session, names }, patience);
            for &slot in slots {
                self.elections.set_phase(slot, Phase::Attempting { call, hinted: false });
            }
        }
    }

    /// When a candidate that was refused or got no answer tries again.
    fn retry_at(&mut self) -> Instant {
        let from = self.now.saturating_add(self.timing.renew() / 2);
        let to = from.saturating_add(self.timing.retry_jitter());
        if let Some(joined) = self.elections.retry_between(from, to) {
            self.mark(Mark::JoinedRetry);
            return joined;
        }
        from.saturating_add(self.rng.below(self.timing.retry_jitter()))
    }

    /// When candidates that learn now of a release try: within the spread, and a spread after the last attempt.
    fn hinted_at(&mut self) -> Instant {
        if let Some(planned) = self.hinted_at.filter(|&at| at > self.now) {
            return planned;
        }
        let spread = self.timing.spread();
        let soon = self.now.saturating_add(self.rng.below(spread));
        let paced = self.last_attempt.map_or(soon, |last| soon.max(last.saturating_add(spread)));
        self.hinted_at = Some(paced);
        paced
    }

    pub(crate) fn on_hint(&mut self, hint: &Hint) {
        match hint {
            Hint::Freed(name) => {
                if let Some(slot) = self.elections.by_name(name) {
                    self.hint_election(slot);
                }
            }
            Hint::Missed => {
                for slot in self.elections.in_name_order() {
                    self.hint_election(slot);
                }
            }
        }
    }

    fn hint_election(&mut self, slot: u32) {
        match self.elections.get(slot).map(|e| e.phase()) {
            Some(&Phase::Waiting { at }) => {
                let soon = if planted!(self, M42HintAlwaysTries) { self.now } else { self.hinted_at() };
                if soon < at {
                    self.elections.set_phase(slot, Phase::Waiting { at: soon });
                }
            }
            Some(&Phase::Attempting { call, .. }) => {
                self.mark(Mark::HintDuringAttempt);
                let phase = if planted!(self, M41TwoAttemptsInFlight) {
                    Phase::Waiting { at: self.now }
                } else {
                    Phase::Attempting { call, hinted: true }
                };
                self.elections.set_phase(slot, phase);
            }
            Some(
                Phase::Parked
                | Phase::Holding(_)
                | Phase::HandingOver(_)
                | Phase::Draining(_)
                | Phase::CoolingDown { .. },
            )
            | None => {}
        }
    }
}

/// The answer.
impl Engine {
    pub(crate) fn on_acquired(
        &mut self,
        id: CallId,
        session: SessionId,
        names: &Arc<[LeaseName]>,
        slots: &[u32],
        result: Result<Reply, Failure>,
    ) {
        match result {
            Ok(Reply::Acquired(Acquired::Judged { step, outcomes })) if outcomes.len() == names.len() => {
                self.apply_step(session, step);
                self.judge_outcomes(id, session, names, slots, outcomes);
            }
            Ok(Reply::Acquired(Acquired::Expired)) => {
                if self.is_current(session) {
                    self.end_session(SessionEnd::Expired);
                }
            }
            Ok(_) => {
                let text = "the store answered an acquire with something else; its backend is faulty";
                let failure = Failure::new(FailureKind::Unsuitable, Effect::Unknown, text);
                self.attempt_failed(id, names, slots, failure);
            }
            Err(failure) => self.attempt_failed(id, names, slots, failure),
        }
    }

    /// A call told the session's version before and after it. If it follows on the version that is known, the new one
    /// is known too; if not, something happened that has not been seen here, and the next keep-alive asks for the
    /// list. That holds for a version that went back as well: a store that has lost writes may come to the known
    /// number again with another set of leases.
    pub(crate) fn apply_step(&mut self, session: SessionId, step: VersionStep) {
        let Some(live) = self.live_mut().filter(|live| live.id == session) else { return };
        live.known = live.known.filter(|&known| step.before == known).map(|_| step.after);
    }

    fn judge_outcomes(
        &mut self,
        id: CallId,
        session: SessionId,
        names: &[LeaseName],
        slots: &[u32],
        outcomes: Vec<Outcome>,
    ) {
        // Drawn once a reply, so that those refused together stay together.
        let mut retry = None;
        let mut aim_slot = None;
        for ((name, &slot), outcome) in names.iter().zip(slots).zip(outcomes) {
            let current = self.attempt_of(slot, id);
            match outcome {
                Outcome::Won { token } => {
                    if self.may_adopt(session, current.is_some(), slot, name, token) {
                        self.adopt(slot, session, token);
                    } else {
                        self.refuse_win(session, current.is_some(), name, token);
                        if current.is_some() {
                            let at = *retry.get_or_insert_with(|| self.retry_at());
                            self.elections.set_phase(slot, Phase::Waiting { at });
                        }
                    }
                }
                Outcome::Held(held) => {
                    if let Some(hinted) = current {
                        let normal = *retry.get_or_insert_with(|| self.retry_at());
                        // A hint brings a candidate forward, never back, however wide the spread is.
                        let at = if hinted { normal.min(self.hinted_at()) } else { normal };
                        let at = at.min(self.aim(&held, &mut aim_slot).unwrap_or(at));
                        self.elections.set_phase(slot, Phase::Waiting { at });
                    }
                    self.push(Output::Notice(Notice::Refused { name: name.clone(), held }));
                }
            }
        }
    }

    /// Whether this call is the election's current attempt, and if so whether a hint came meanwhile.
    fn attempt_of(&self, slot: u32, id: CallId) -> Option<bool> {
        match self.elections.get(slot).map(|e| e.phase()) {
            Some(&Phase::Attempting { call, hinted }) if call == id => Some(hinted),
            Some(&Phase::Waiting { .. } | &Phase::Attempting { .. }) if planted!(self, M18AdoptAbandoned) => {
                Some(false)
            }
            _ => None,
        }
    }

    /// The instant at which the holder's session runs out, if the store told it: just after it, and not within a
    /// spread of the attempt before, so that a store that says "no time left" again and again is not hammered.
    fn aim(&mut self, held: &Holder, slot: &mut Option<Instant>) -> Option<Instant> {
        let remaining = held.remaining?;
        let spread = self.timing.spread();
        let soonest = *slot.get_or_insert_with(|| {
            let drawn = self.now.saturating_add(self.rng.below(spread));
            self.last_attempt.map_or(drawn, |last| drawn.max(last.saturating_add(spread)))
        });
        self.mark(Mark::AimedAtExpiry);
        Some(soonest.saturating_add(remaining))
    }

    /// The adoption rule.
    fn may_adopt(
        &mut self,
        session: SessionId,
        current: bool,
        slot: u32,
        name: &LeaseName,
        token: FencingToken,
    ) -> bool {
        // The deadline needs no look of its own here: `advance` has ended the session if it had passed.
        if !current || !self.is_current(session) {
            return false;
        }
        if let Some(floor) =
            self.floors.get(name).filter(|&floor| token <= floor && !planted!(self, M21NoFloor))
        {
            self.mark(Mark::WinBelowFloor);
            if token < floor {
                let notice = Notice::TokenRegressed { name: name.clone(), seen: floor, given: token };
                self.push(Output::Notice(notice));
            }
            return false;
        }
        let seen = self.elections.get(slot).and_then(|e| e.last_token);
        if let Some(seen) = seen.filter(|&seen| token <= seen) {
            self.mark(Mark::TokenRegressed);
            self.push(Output::Notice(Notice::TokenRegressed { name: name.clone(), seen, given: token }));
            return false;
        }
        true
    }

    fn adopt(&mut self, slot: u32, session: SessionId, token: FencingToken) {
        let serial = self.next_serial;
        let Some(live) = self.live() else { return };
        #[cfg(feature = "planted")]
        let fresh = crate::deadline::local_deadline(self.now, self.timing.lease(), &self.timing);
        #[cfg(feature = "planted")]
        let cell = if planted!(self, M19AdoptWithFreshLease) {
            crate::validity::DeadlineWriter::new(fresh).cell()
        } else {
            live.writer.cell()
        };
        #[cfg(not(feature = "planted"))]
        let cell = live.writer.cell();
        debug_assert!(live.id == session);
        let held = Held::new(serial, slot, token, cell);
        self.next_serial += 1;
        let id = self.elections.id(slot);
        let Some(election) = self.elections.get_mut(slot) else { return };
        election.last_token = Some(token);
        election.running = election.work;
        election.silent = false;
        let term = held.term(election.name.clone());
        self.elections.set_phase(slot, Phase::Holding(held));
        self.push(Output::Elected { election: id, term });
    }

    /// A win that is not adopted is released, unless it is the very term that is held or being given back, or its
    /// release is decided already.
    fn refuse_win(&mut self, session: SessionId, current: bool, name: &LeaseName, token: FencingToken) {
        if !current {
            self.mark(Mark::LateWinReleased);
        }
        let owned =
            self.elections.by_name(name).and_then(|s| self.elections.get(s)).and_then(|e| e.phase().owned());
        if self.is_current(session) && owned.is_some_and(|(_, held)| held == token) {
            self.mark(Mark::LateWinIsCurrent);
            return;
        }
        if self.is_current(session) && self.floors.get(name).is_some_and(|floor| token <= floor) {
            self.mark(Mark::WonAgain);
            // Without a release under way it was lost, or a store that loses writes has taken it back; the lease
            // would stay recorded for us, and nobody could win it.
            if self.is_release_under_way(name) {
                return;
            }
        }
        if planted!(self, M22UnadoptedNotReleased) {
            return;
        }
        self.queue_unadopted(session, Grant { name: name.clone(), token });
    }

    /// Decides the release of a lease that no term explains.
    pub(crate) fn queue_unadopted(&mut self, session: SessionId, grant: Grant) {
        if matches!(self.session, Session::Closing { .. } | Session::Closed) {
            return;
        }
        if self.is_current(session) && !planted!(self, M20FloorIgnoresUnadopted) {
            self.floors.raise(&grant.name, grant.token);
        }
        self.queued.push(QueuedRelease { session, lease: Releasable::unadopted(grant), slot: None });
    }

    fn attempt_failed(&mut self, id: CallId, names: &Arc<[LeaseName]>, slots: &[u32], failure: Failure) {
        if self.retry_attempts(id, slots) {
            self.push(Output::Notice(Notice::AttemptFailed { names: Arc::clone(names), failure }));
        }
    }

    pub(crate) fn attempt_gave_up(&mut self, id: CallId) {
        let Some(Kind::Acquire { names, slots, .. }) = self.calls.get(id).map(|p| &p.kind) else { return };
        let (names, slots) = (Arc::clone(names), slots.clone());
        let text = "no answer within the call's time limit";
        self.attempt_failed(id, &names, &slots, Failure::new(FailureKind::TimedOut, Effect::Unknown, text));
    }

    /// Sends the elections of a failed attempt back to wait; answers whether there were any.
    fn retry_attempts(&mut self, id: CallId, slots: &[u32]) -> bool {
        let mut retry = None;
        for &slot in slots {
            if let Some(&Phase::Attempting { call, .. }) = self.elections.get(slot).map(|e| e.phase())
                && call == id
            {
                let at = *retry.get_or_insert_with(|| self.retry_at());
                self.elections.set_phase(slot, Phase::Waiting { at });
            }
        }
        retry.is_some()
    }

    /// A term was lost against the node's will: it ends, its work is asked to stop, the listener is told, all at
    /// once; the store may have given the lease away already, so nothing is waited for and nothing is released.
    pub(crate) fn lose_term(&mut self, slot: u32, reason: crate::RevokeReason) {
        let Some(running) = self.elections.get(slot).map(|e| e.running) else { return };
        let Phase::Holding(held) = self.elections.set_phase(slot, Phase::Parked) else { return };
        let ended = held.end(reason);
        self.push(Output::Ended { term: ended.id, reason });
        if !(running && planted!(self, M40LostTermWaitsForWork)) {
            self.push_revoked_as(slot, ended.id, reason);
        }
        if running {
            // Two runs of one election never overlap in one process: it contends again when the old one is out.
            self.mark(Mark::Draining);
            let draining = crate::election::Draining { serial: ended.id.serial, until: self.now };
            self.elections.set_phase(slot, Phase::Draining(draining.into()));
        } else if reason == crate::RevokeReason::TakenOver {
            let at = self.retry_at();
            self.elections.set_phase(slot, Phase::Waiting { at });
        }
    }
}
