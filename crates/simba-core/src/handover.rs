//! Giving a lease back by the node's own wish: stop, step-down, close.
//!
//! # The problem
//! The next owner may start the moment the lease is free. If the release goes out while the work still runs, the
//! same work runs twice. If it waits for the work for ever, work that ignores the interrupt blocks the handover.
//!
//! # The order
//! 1. The term ends for every reader, and its work is asked to stop ([`Output::Ended`]).
//! 2. The lease stays ours, and the session is renewed, until the work has exited or the deadline *as it was at
//!    the stop* has passed, whichever comes first. The renewals move the session's deadline on; the wait is not
//!    moved with it, or work that never exits would hold the lease for ever.
//! 3. The release goes out with the term's token, together with all others that are due.
//! 4. The listener is told ([`Output::Revoked`]).
//! 5. Whoever asked is told ([`Output::Finished`]) when the store has answered, or the call's time limit has
//!    passed: an awaited stop of a leader means that the lease is free, and it always completes. A stop that comes
//!    while an attempt is in flight completes at once; should the attempt win, it is released in passing.
//!
//! A term that is lost any other way goes none of this way: see `lose_term` in [`crate::lease`].
//!
//! # Limits
//! A release whose reply is lost may not have happened. The next keep-alive's list shows it, and it is released
//! again; at the latest it is free when the session ends.

use alloc::{boxed::Box, vec::Vec};
use simba_backend::{Failure, Grant, Released, SessionId};

use crate::{
    call::{CallId, Release, Reply, Request},
    election::{After, Draining, Handover, Phase, Stage},
    engine::{Engine, QueuedRelease},
    mark::Mark,
    notice::{Notice, SessionEnd},
    output::{Output, Ticket},
    pending::Kind,
    planted::planted,
    term::{Releasable, RevokeReason, TermId},
    time::Instant,
};

/// The wish.
impl Engine {
    pub(crate) fn stop_election(&mut self, slot: u32, ticket: Option<Ticket>) {
        match self.elections.get(slot).map(|e| e.phase()) {
            Some(Phase::Holding(_)) => self.give_up_term(slot, RevokeReason::Stopped, After::Remove, ticket),
            Some(Phase::HandingOver(_)) => {
                self.mark(Mark::StopDuringHandover);
                self.join_handover(slot, After::Remove, ticket);
            }
            Some(Phase::Attempting { .. }) => {
                // The attempt goes on without its election: a win that it brings is released.
                self.mark(Mark::StopDuringAttempt);
                self.remove_election(slot, ticket);
            }
            Some(Phase::Parked | Phase::Waiting { .. } | Phase::Draining(_) | Phase::CoolingDown { .. })
            | None => {
                self.remove_election(slot, ticket);
            }
        }
    }

    fn remove_election(&mut self, slot: u32, ticket: Option<Ticket>) {
        self.elections.remove(slot);
        self.finish(ticket);
    }

    pub(crate) fn step_down_election(&mut self, slot: u32, until: Instant, ticket: Option<Ticket>) {
        match self.elections.get(slot).map(|e| e.phase()) {
            Some(Phase::Holding(_)) => {
                self.give_up_term(slot, RevokeReason::SteppedDown, After::CoolDown(until), ticket);
            }
            Some(Phase::HandingOver(_)) => self.join_handover(slot, After::CoolDown(until), ticket),
            Some(Phase::Draining(draining)) => {
                let (serial, until) = (draining.serial, draining.until.max(until));
                self.elections.set_phase(slot, Phase::Draining(Box::new(Draining { serial, until })));
                self.finish(ticket);
            }
            Some(&Phase::CoolingDown { until: present }) => {
                self.elections.set_phase(slot, Phase::CoolingDown { until: present.max(until) });
                self.finish(ticket);
            }
            Some(Phase::Parked | Phase::Waiting { .. } | Phase::Attempting { .. }) => {
                self.mark(Mark::StepDownWithoutTerm);
                self.elections.set_phase(slot, Phase::CoolingDown { until });
                self.finish(ticket);
            }
            None => self.finish(ticket),
        }
    }

    /// Ends the term, and hands the lease over once its work is out.
    fn give_up_term(&mut self, slot: u32, reason: RevokeReason, then: After, ticket: Option<Ticket>) {
        let Some(until) = self.live().map(|live| live.deadline) else { return };
        if self.live().is_some_and(|live| live.suspended) {
            self.mark(Mark::EndedWhileSuspended);
        }
        let Phase::Holding(held) = self.elections.set_phase(slot, Phase::Parked) else { return };
        let working =
            self.elections.get(slot).is_some_and(|e| e.running) && !planted!(self, M36ReleaseWhileWorking);
        let until = if planted!(self, M37WaitBeyondDeadline) { Instant::MAX } else { until };
        #[cfg(feature = "planted")]
        if planted!(self, M25ReleaseBeforeEnd) && !working {
            self.release_before_end(slot, held.token());
        }
        let ended = held.end(reason);
        self.push(Output::Ended { term: ended.id, reason });
        let stage = if working { Stage::Working { until } } else { Stage::Queued };
        let tickets = ticket.into_iter().collect();
        let handover = Box::new(Handover { ended, stage, then, tickets });
        self.elections.set_phase(slot, Phase::HandingOver(handover));
        if stage == Stage::Queued {
            self.queue_handover(slot);
        }
    }

    #[cfg(feature = "planted")]
    fn release_before_end(&mut self, slot: u32, token: simba_backend::FencingToken) {
        let Some(name) = self.elections.get(slot).map(|e| e.name.clone()) else { return };
        let Some(session) = self.live().map(|live| live.id) else { return };
        let lease = Releasable::unadopted(Grant { name, token });
        self.send_release(session, alloc::vec![QueuedRelease { session, lease, slot: None }]);
    }

    /// One more wish for a lease that is being given back already.
    fn join_handover(&mut self, slot: u32, then: After, ticket: Option<Ticket>) {
        let Phase::HandingOver(mut handover) = self.elections.set_phase(slot, Phase::Parked) else { return };
        handover.then = match (handover.then, then) {
            (After::Remove, _) | (_, After::Remove) => After::Remove,
            (After::CoolDown(one), After::CoolDown(other)) => After::CoolDown(one.max(other)),
        };
        handover.tickets.extend(ticket);
        self.elections.set_phase(slot, Phase::HandingOver(handover));
    }

    pub(crate) fn finish(&mut self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.push(Output::Finished { ticket });
        }
    }
}

/// The work.
impl Engine {
    pub(crate) fn on_work_exited(&mut self, term: TermId) {
        let Some(election) = self.elections.get_mut(term.slot) else { return };
        let serial = match election.phase() {
            Phase::Holding(held) => held.id().serial,
            Phase::HandingOver(handover) => handover.ended.id.serial,
            Phase::Draining(draining) => draining.serial,
            Phase::Parked | Phase::Waiting { .. } | Phase::Attempting { .. } | Phase::CoolingDown { .. } => {
                return;
            }
        };
        if serial != term.serial {
            return;
        }
        election.running = false;
        match election.phase() {
            Phase::HandingOver(handover) if matches!(handover.stage, Stage::Working { .. }) => {
                self.queue_handover(term.slot);
            }
            Phase::Draining(draining) => {
                let until = draining.until;
                self.contend_from(term.slot, until);
            }
            Phase::HandingOver(_) | Phase::Holding(_) => {}
            Phase::Parked | Phase::Waiting { .. } | Phase::Attempting { .. } | Phase::CoolingDown { .. } => {}
        }
    }

    pub(crate) fn on_delivery_refused(&mut self, term: TermId) {
        let until = self.now.saturating_add(self.timing.lease());
        let Some(election) = self.elections.get_mut(term.slot) else { return };
        let owned = election.phase().owned();
        if owned.is_none_or(|(serial, _)| serial != term.serial) {
            // The term was lost meanwhile. Its work never started, so nothing is left to wait for.
            self.on_work_exited(term);
            return;
        }
        election.silent = !planted!(self, M33RevokedAlthoughRefused);
        self.mark(Mark::DeliveryRefused);
        self.step_down_election(term.slot, until, None);
        self.on_work_exited(term);
    }

    /// The deadline as of the stop has passed, and the work is still not out.
    pub(crate) fn handover_timed_out(&mut self, slot: u32) {
        self.mark(Mark::HandoverTimedOut);
        self.queue_handover(slot);
    }

    fn contend_from(&mut self, slot: u32, until: Instant) {
        if until > self.now {
            self.elections.set_phase(slot, Phase::CoolingDown { until });
        } else {
            self.contend(slot);
        }
    }
}

/// The release.
impl Engine {
    /// Decides the release: it goes out with the next batch, and the token is spent from now on.
    fn queue_handover(&mut self, slot: u32) {
        let Phase::HandingOver(mut handover) = self.elections.set_phase(slot, Phase::Parked) else { return };
        handover.stage = Stage::Queued;
        let name = self.elections.get(slot).map(|e| e.name.clone());
        if let (Some(session), Some(name)) = (self.live().map(|live| live.id), name) {
            self.floors.raise(&name, handover.ended.token);
            let lease = Releasable::ended(name, &handover.ended);
            self.queued.push(QueuedRelease { session, lease, slot: Some(slot) });
        }
        self.elections.set_phase(slot, Phase::HandingOver(handover));
    }

    /// Sends every release that is decided, one call a session, and tells the listeners.
    pub(crate) fn flush_releases(&mut self) {
        while let Some(session) = self.queued.first().map(|queued| queued.session) {
            let all = core::mem::take(&mut self.queued);
            let (batch, rest): (Vec<_>, Vec<_>) =
                all.into_iter().partition(|queued| queued.session == session);
            self.queued = rest;
            self.send_release(session, batch);
        }
    }

    fn send_release(&mut self, session: SessionId, batch: Vec<QueuedRelease>) {
        let slots: Vec<u32> = batch.iter().filter_map(|queued| queued.slot).collect();
        let release = Release::new(session, batch.into_iter().map(|queued| queued.lease));
        let kind = Kind::Release { session, grants: release.grants().to_vec(), slots: slots.clone() };
        let call = self.call(kind, Request::Release(release), self.patience());
        for slot in slots {
            let Phase::HandingOver(mut handover) = self.elections.set_phase(slot, Phase::Parked) else {
                continue;
            };
            handover.stage = Stage::Releasing(call);
            if planted!(self, M35FinishedBeforeRevoked) {
                for ticket in core::mem::take(&mut handover.tickets) {
                    self.push(Output::Finished { ticket });
                }
            }
            self.elections.set_phase(slot, Phase::HandingOver(handover));
            self.push_revoked(slot);
        }
    }

    pub(crate) fn on_released(
        &mut self,
        id: CallId,
        session: SessionId,
        grants: &[Grant],
        slots: &[u32],
        result: Result<Reply, Failure>,
    ) {
        match result {
            Ok(Reply::Released(Released { step: Some(step) })) => {
                self.apply_step(session, step);
                if self.is_current(session) {
                    let next = self.calls.next_id();
                    for grant in grants {
                        self.floors.confirm(&grant.name, grant.token, next);
                    }
                }
            }
            Ok(Reply::Released(Released { step: None })) => {
                if self.is_current(session) {
                    self.end_session(SessionEnd::Expired);
                }
            }
            Ok(_) => self.release_failed(session),
            Err(failure) => {
                self.release_failed(session);
                self.push(Output::Notice(Notice::ReleaseFailed { failure }));
            }
        }
        self.finish_releasing(id, slots);
    }

    /// The lease may still be ours on the store: the next keep-alive asks for the list.
    fn release_failed(&mut self, session: SessionId) {
        self.mark(Mark::ReleaseFailed);
        if let Some(live) = self.live_mut().filter(|live| live.id == session) {
            live.known = None;
        }
    }

    pub(crate) fn release_gave_up(&mut self, id: CallId) {
        let Some(Kind::Release { session, slots, .. }) = self.calls.get(id).map(|p| &p.kind) else { return };
        let (session, slots) = (*session, slots.clone());
        self.release_failed(session);
        self.finish_releasing(id, &slots);
    }

    fn finish_releasing(&mut self, id: CallId, slots: &[u32]) {
        for &slot in slots {
            if let Some(Phase::HandingOver(handover)) = self.elections.get(slot).map(|e| e.phase())
                && handover.stage == Stage::Releasing(id)
            {
                self.finish_handover(slot);
            }
        }
    }

    /// The lease is given back: tell whoever waits, and go on with what was wished for then.
    pub(crate) fn finish_handover(&mut self, slot: u32) {
        let Phase::HandingOver(handover) = self.elections.set_phase(slot, Phase::Parked) else { return };
        let serial = handover.ended.id.serial;
        let running = self.elections.get(slot).is_some_and(|e| e.running);
        match handover.then {
            After::Remove => self.elections.remove(slot),
            After::CoolDown(until) => {
                let until = if planted!(self, M39CooldownFromHandoverEnd) {
                    self.now.saturating_add(self.timing.lease())
                } else {
                    until
                };
                if running {
                    self.elections.set_phase(slot, Phase::Draining(Box::new(Draining { serial, until })));
                } else {
                    self.contend_from(slot, until);
                }
            }
        }
        for ticket in handover.tickets {
            self.push(Output::Finished { ticket });
        }
    }

    /// Tells the listener of the end of the term that is being handed over.
    pub(crate) fn push_revoked(&mut self, slot: u32) {
        if let Some(Phase::HandingOver(handover)) = self.elections.get(slot).map(|e| e.phase()) {
            let (term, reason) = (handover.ended.id, handover.ended.reason);
            self.push_revoked_as(slot, term, reason);
        }
    }

    pub(crate) fn push_revoked_as(&mut self, slot: u32, term: TermId, reason: RevokeReason) {
        let lost_silently = planted!(self, M32NoRevokeOnDeadline) && reason == RevokeReason::DeadlinePassed;
        if self.elections.get(slot).is_some_and(|e| e.silent) || lost_silently {
            return;
        }
        let election = self.elections.id(slot);
        self.push(Output::Revoked { election, term, reason });
        if planted!(self, M31DoubleRevoke) {
            self.push(Output::Revoked { election, term, reason });
        }
    }
}
