//! The session: opening, keep-alive, suspension, deadline, expiry, close.
//!
//! | state | meaning |
//! |---|---|
//! | opening | no session; an open is under way, or waits for its next try |
//! | live | the last keep-alive succeeded |
//! | suspended | the last keep-alive failed, and the deadline lies ahead: terms stay valid, tries go on |
//! | closed | nothing leaves this state |
//!
//! One keep-alive is in flight at most. It is given up after the period in effect, or at the deadline if that is
//! sooner; the next try comes after half the time left, at most a period and at least the least backoff. A reply
//! that comes after the deadline changes nothing: [`Engine::advance`] has ended the session before the reply is
//! looked at, whichever input brought the time there.

use core::time::Duration;
use simba_backend::{Effect, Failure, FailureKind, KeepAlive, Opened, SessionId, Version};

use crate::{
    call::{CallId, Reply, Request},
    deadline::{local_deadline, local_validity},
    election::{Phase, Stage},
    engine::Engine,
    mark::Mark,
    notice::{Notice, SessionEnd},
    output::Output,
    pending::{Kind, Pending},
    planted::planted,
    term::RevokeReason,
    time::Instant,
    validity::DeadlineWriter,
};

/// The shortest keep-alive period that a granted lease may lead to; below it a store is of no use.
const LEAST_PERIOD: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) enum Session {
    Opening(Opening),
    Live(Live),
    Closing { call: CallId, session: SessionId },
    Closed,
}

/// No session yet.
#[derive(Debug)]
pub(crate) struct Opening {
    /// The open under way.
    pub(crate) call: Option<CallId>,
    /// Otherwise, when the next one goes out.
    pub(crate) retry_at: Instant,
    /// How many have failed in a row. A session that was over before its first renewal counts as one that failed,
    /// and from the second of them on there is a backoff.
    pub(crate) failures: u32,
}

/// A session, live or suspended.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) id: SessionId,
    pub(crate) writer: DeadlineWriter,
    pub(crate) deadline: Instant,
    pub(crate) granted: Duration,
    pub(crate) period: Duration,
    pub(crate) suspended: bool,
    /// Until the first renewal: how many opens had failed in a row before this one.
    unproven: Option<u32>,
    keep_alive: Option<KeepAliveInFlight>,
    /// When the next keep-alive goes out; `None` if the time left is too short for another.
    next_at: Option<Instant>,
    /// The ownership version at which this engine's view is complete; without one the next keep-alive asks for
    /// the list.
    pub(crate) known: Option<Version>,
}

#[derive(Debug)]
struct KeepAliveInFlight {
    call: CallId,
    /// Terms with this serial or a later one were adopted after it was sent.
    mark: u64,
}

/// Time.
impl Engine {
    /// Takes the present instant in, and ends the session if its deadline has passed. Comes before everything else
    /// that an input does, so that a deadline that has passed wins over whatever the input says.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        if let Session::Live(live) = &self.session
            && self.now >= live.deadline
            && !planted!(self, M11DeadlineNeedsTraffic)
        {
            self.end_session(SessionEnd::DeadlinePassed);
        }
    }

    pub(crate) fn session_wakeup(&self) -> Option<Instant> {
        match &self.session {
            Session::Opening(opening) if self.closing.is_none() => {
                opening.call.is_none().then_some(opening.retry_at)
            }
            Session::Live(live) => {
                let renew = if live.keep_alive.is_none() && self.renews() { live.next_at } else { None };
                let deadline =
                    if planted!(self, M11DeadlineNeedsTraffic) { None } else { Some(live.deadline) };
                [renew, deadline].into_iter().flatten().min()
            }
            Session::Opening(_) | Session::Closing { .. } | Session::Closed => None,
        }
    }

    pub(crate) fn handle_session_timers(&mut self) {
        match &self.session {
            Session::Opening(opening)
                if opening.call.is_none() && opening.retry_at <= self.now && self.closing.is_none() =>
            {
                self.send_open();
            }
            Session::Live(live)
                if live.keep_alive.is_none()
                    && self.renews()
                    && live.next_at.is_some_and(|at| at <= self.now) =>
            {
                self.send_keep_alive();
            }
            Session::Opening(_) | Session::Live(_) | Session::Closing { .. } | Session::Closed => {}
        }
    }

    /// A session is renewed for as long as it lives, also while leases are handed over.
    #[cfg(not(feature = "planted"))]
    const fn renews(&self) -> bool {
        true
    }

    #[cfg(feature = "planted")]
    fn renews(&self) -> bool {
        let handing =
            |slot: &u32| matches!(self.elections.get(*slot).map(|e| e.phase()), Some(Phase::HandingOver(_)));
        !(planted!(self, M38NoRenewalInHandover) && self.elections.in_name_order().iter().any(handing))
    }

    /// The session that calls can be made in now.
    pub(crate) const fn live(&self) -> Option<&Live> {
        match &self.session {
            Session::Live(live) => Some(live),
            Session::Opening(_) | Session::Closing { .. } | Session::Closed => None,
        }
    }

    pub(crate) const fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.session {
            Session::Live(live) => Some(live),
            Session::Opening(_) | Session::Closing { .. } | Session::Closed => None,
        }
    }

    pub(crate) fn is_current(&self, session: SessionId) -> bool {
        self.live().is_some_and(|live| live.id == session)
    }

    /// A call's time limit: the period in effect, never past the deadline.
    pub(crate) fn patience(&self) -> Duration {
        match &self.session {
            Session::Live(_) if planted!(self, M44TimeoutIsLease) => self.timing.lease(),
            Session::Live(live) => live.period.min(live.deadline.saturating_since(self.now)),
            Session::Opening(_) | Session::Closing { .. } | Session::Closed => self.timing.renew(),
        }
    }
}

/// Opening.
impl Engine {
    fn send_open(&mut self) {
        let request = Request::Open { lease: self.timing.lease() };
        let call = self.call(Kind::Open, request, self.timing.renew());
        if let Session::Opening(opening) = &mut self.session {
            opening.call = Some(call);
        }
    }

    pub(crate) fn on_opened(&mut self, id: CallId, pending: &Pending, result: Result<Reply, Failure>) {
        let expected = matches!(&self.session, Session::Opening(opening) if opening.call == Some(id));
        match result {
            // Nobody waits for this session any more: it must not live on unused until it expires.
            Ok(Reply::Opened(opened)) if !expected || self.closing.is_some() => {
                self.mark(Mark::LateOpenClosed);
                self.send_close(opened.session);
                if expected {
                    self.open_failed(None);
                }
            }
            Ok(Reply::Opened(opened)) => self.go_live(&opened, pending.sent_at),
            Ok(_) => self.open_failed(Some(foreign_reply())),
            Err(failure) if expected => self.open_failed(Some(failure)),
            Err(_) => {}
        }
    }

    pub(crate) fn open_gave_up(&mut self, id: CallId) {
        if matches!(&self.session, Session::Opening(opening) if opening.call == Some(id)) {
            self.open_failed(Some(no_answer()));
        }
    }

    /// The next try comes after a backoff that doubles up to the renew interval, less up to half of it at random,
    /// so that many nodes do not come back in step.
    fn open_failed(&mut self, failure: Option<Failure>) {
        let Session::Opening(opening) = &mut self.session else { return };
        opening.call = None;
        opening.failures = opening.failures.saturating_add(1);
        let doubled = self.timing.min_backoff().saturating_mul(1 << (opening.failures - 1).min(16));
        let backoff = doubled.min(self.timing.renew());
        let retry_in = backoff / 2 + self.rng.below(backoff / 2);
        opening.retry_at = self.now.saturating_add(retry_in);
        if let Some(failure) = failure {
            self.push(Output::Notice(Notice::OpenFailed { failure, retry_in }));
        }
    }

    fn go_live(&mut self, opened: &Opened, sent_at: Instant) {
        let deadline = self.deadline_of(sent_at, opened.remaining);
        let requested = self.timing.lease();
        let validity = local_validity(opened.granted, &self.timing);
        let shortened = opened.granted < requested
            && self.timing.renew() * 2 > validity
            && !planted!(self, M47ShortenedIgnored);
        let period = if shortened { validity / 3 } else { self.timing.renew() };
        if period < LEAST_PERIOD {
            self.send_close(opened.session);
            self.open_failed(Some(grant_too_short(requested, opened.granted)));
            return;
        }
        if deadline <= self.now {
            self.mark(Mark::OpenedTooLate);
            self.send_close(opened.session);
            self.open_failed(None);
            return;
        }
        let session = opened.session;
        let failures = if let Session::Opening(opening) = &self.session { opening.failures } else { 0 };
        self.session = Session::Live(Live {
            id: session,
            writer: DeadlineWriter::new(deadline),
            deadline,
            granted: opened.granted,
            period,
            suspended: false,
            unproven: Some(failures),
            keep_alive: None,
            next_at: Some(sent_at.saturating_add(period)),
            known: Some(Version::default()),
        });
        self.push(Output::Notice(Notice::SessionOpened { session, granted: opened.granted, period }));
        if shortened {
            self.mark(Mark::LeaseShortened);
            let granted = opened.granted;
            self.push(Output::Notice(Notice::LeaseShortened { session, requested, granted, period }));
        }
        for slot in self.elections.in_name_order() {
            if matches!(self.elections.get(slot).map(|e| e.phase()), Some(Phase::Parked)) {
                self.contend(slot);
            }
        }
    }

    fn deadline_of(&self, sent_at: Instant, remaining: Duration) -> Instant {
        #[cfg(feature = "planted")]
        {
            use crate::planted::Planted;
            let full = self.timing.to_builder();
            let scaled =
                |timing: Option<crate::Timing>| timing.map_or(remaining, |t| local_validity(remaining, &t));
            match self.planted {
                Some(Planted::M01DeadlineFromReceive) => {
                    return local_deadline(self.now, remaining, &self.timing);
                }
                Some(Planted::M02NoDrift) => {
                    return sent_at.saturating_add(scaled(full.drift(crate::Drift::ZERO).build().ok()));
                }
                Some(Planted::M03DriftWrongSign) => {
                    let lost = remaining.saturating_sub(local_validity(remaining, &self.timing));
                    return sent_at.saturating_add(remaining + lost).saturating_add(Duration::ZERO);
                }
                Some(Planted::M04NoMargin) => {
                    return sent_at.saturating_add(scaled(full.margin(Duration::ZERO).build().ok()));
                }
                _ => {}
            }
        }
        local_deadline(sent_at, remaining, &self.timing)
    }
}

/// The keep-alive.
impl Engine {
    fn send_keep_alive(&mut self) {
        let patience = self.patience();
        let mark = self.next_serial;
        let Some((session, known)) = self.live().map(|live| (live.id, live.known)) else { return };
        let call = self.call(Kind::KeepAlive { session }, Request::KeepAlive { session, known }, patience);
        if let Some(live) = self.live_mut() {
            live.keep_alive = Some(KeepAliveInFlight { call, mark });
        }
    }

    pub(crate) fn on_kept_alive(
        &mut self,
        id: CallId,
        session: SessionId,
        sent_at: Instant,
        result: Result<Reply, Failure>,
    ) {
        if !self.is_current(session) {
            if matches!(result, Ok(Reply::KeepAlive(KeepAlive::Alive { .. }))) {
                self.mark(Mark::LateRenewalRefused);
            }
            return;
        }
        let in_flight = self.live_mut().and_then(|live| live.keep_alive.take_if(|k| k.call == id));
        match (result, in_flight) {
            (Ok(Reply::KeepAlive(KeepAlive::Alive { remaining, owned })), Some(in_flight)) => {
                if self.renew(sent_at, remaining) {
                    self.compare_owned(owned, in_flight.mark);
                }
            }
            (Ok(Reply::KeepAlive(KeepAlive::Expired)), in_flight) => {
                if in_flight.is_none() {
                    self.mark(Mark::LateExpiredCounted);
                }
                self.end_session(SessionEnd::Expired);
            }
            (Ok(_), Some(_)) => self.keep_alive_failed(foreign_reply()),
            (Err(failure), Some(_)) => self.keep_alive_failed(failure),
            // An answer to a keep-alive that was given up proves less than the one that followed it.
            (Ok(_) | Err(_), None) =>
            {
                #[cfg(feature = "planted")]
                if planted!(self, M09OlderReplyLowersDeadline) {
                    self.lower_deadline(sent_at);
                }
            }
        }
    }

    pub(crate) fn keep_alive_gave_up(&mut self, id: CallId, session: SessionId) {
        if self.is_current(session)
            && self.live_mut().and_then(|live| live.keep_alive.take_if(|k| k.call == id)).is_some()
        {
            self.keep_alive_failed(no_answer());
        }
    }

    /// A keep-alive counted. Answers whether the session lives on.
    fn renew(&mut self, sent_at: Instant, remaining: Duration) -> bool {
        let to = self.deadline_of(sent_at, remaining);
        let (now, least) = (self.now, self.timing.min_backoff());
        let Some(live) = self.live_mut() else { return false };
        let close_call = live.deadline.saturating_since(now) < live.granted / 100;
        let recovered = core::mem::replace(&mut live.suspended, false);
        live.unproven = None;
        // The newest word of the store counts, also where it promises less than the one before.
        live.deadline = to;
        live.next_at = next_renewal(sent_at.saturating_add(live.period), now, live, least);
        let set = live.writer.set(to);
        #[cfg(feature = "planted")]
        let set = match (self.planted, set) {
            (Some(crate::planted::Planted::M08LateRenewalExtends), Err(_)) => {
                if let Session::Live(live) = &mut self.session {
                    live.writer.force(to);
                }
                Ok(())
            }
            (_, set) => set,
        };
        if set.is_err() {
            self.mark(Mark::ExtensionLostToLatch);
        }
        if set.is_err() || to <= now {
            self.end_session(SessionEnd::DeadlinePassed);
            return false;
        }
        if close_call {
            self.mark(Mark::RenewedAtLastMoment);
        }
        let Some(live) = self.live() else { return false };
        let (session, remaining) = (live.id, live.deadline.saturating_since(now));
        if recovered {
            self.mark(Mark::SuspensionRecovered);
            self.push(Output::Notice(Notice::SessionResumed { session }));
        }
        self.push(Output::Notice(Notice::Renewed { session, remaining }));
        true
    }

    fn keep_alive_failed(&mut self, failure: Failure) {
        let (now, least) = (self.now, self.timing.min_backoff());
        let uncapped = planted!(self, M43BackoffUncapped);
        let Some(live) = self.live_mut() else { return };
        live.keep_alive = None;
        let time_left = live.deadline.saturating_since(now);
        let wait = if uncapped { time_left } else { (time_left / 2).min(live.period).max(least) };
        let at = now.saturating_add(wait);
        live.next_at = (uncapped || at < live.deadline).then_some(at);
        let last = live.next_at.is_none();
        let first = !core::mem::replace(&mut live.suspended, true);
        let session = live.id;
        if last {
            self.mark(Mark::NoTimeForAnotherTry);
        }
        if first {
            self.push(Output::Notice(Notice::SessionSuspended { session, failure }));
        }
        if planted!(self, M45SuspensionRevokes) {
            self.end_session(SessionEnd::DeadlinePassed);
        }
    }

    #[cfg(feature = "planted")]
    fn lower_deadline(&mut self, sent_at: Instant) {
        let to = local_deadline(sent_at, self.timing.lease(), &self.timing);
        if let Some(live) = self.live_mut() {
            live.deadline = to;
            live.writer.force(to);
        }
    }
}

/// The end.
impl Engine {
    /// Ends the session for every reader, then its terms in the order of their names, and opens a new one.
    pub(crate) fn end_session(&mut self, reason: SessionEnd) {
        let next = Session::Opening(Opening { call: None, retry_at: self.now, failures: 0 });
        let live = match core::mem::replace(&mut self.session, next) {
            Session::Live(live) => live,
            other => {
                self.session = other;
                return;
            }
        };
        live.writer.end();
        if live.suspended && reason == SessionEnd::DeadlinePassed {
            self.mark(Mark::SuspensionEnded);
        }
        let revoke = match reason {
            SessionEnd::DeadlinePassed => RevokeReason::DeadlinePassed,
            SessionEnd::Expired => RevokeReason::SessionExpired,
            SessionEnd::Closed => RevokeReason::Stopped,
        };
        self.calls.abandon_session(live.id);
        // The store frees what is left with the session: by the close below, or because it is over there already.
        self.queued.retain(|queued| queued.session != live.id || queued.slot.is_none());
        for slot in self.elections.in_name_order() {
            self.session_ended_for(slot, revoke);
        }
        self.floors.clear();
        self.push(Output::Notice(Notice::SessionEnded { session: live.id, reason }));
        if reason == SessionEnd::DeadlinePassed {
            self.send_close(live.id);
        }
        // Two servers that each believe in themselves would end what the other one opens, as fast as they can answer.
        if let Some(failures) = live.unproven
            && reason == SessionEnd::Expired
            && let Session::Opening(opening) = &mut self.session
        {
            // Once may be a person who ends it.
            opening.failures = failures + 1;
            if failures > 0 {
                self.mark(Mark::ExpiredBeforeRenewal);
                self.open_failed(Some(over_at_once()));
            }
        }
    }

    fn session_ended_for(&mut self, slot: u32, reason: RevokeReason) {
        match self.elections.get(slot).map(|e| e.phase()) {
            Some(Phase::Holding(_)) => self.lose_term(slot, reason),
            Some(Phase::HandingOver(handover)) => {
                let told = matches!(handover.stage, Stage::Releasing(_));
                self.mark(Mark::SessionEndedInHandover);
                if !told {
                    self.push_revoked(slot);
                }
                self.finish_handover(slot);
            }
            Some(Phase::Waiting { .. } | Phase::Attempting { .. }) => {
                if planted!(self, M57NeverContendsAgain) {
                    let never = Instant::MAX;
                    self.elections.set_phase(slot, Phase::CoolingDown { until: never });
                } else {
                    self.elections.set_phase(slot, Phase::Parked);
                }
            }
            Some(Phase::Parked | Phase::Draining(_) | Phase::CoolingDown { .. }) | None => {}
        }
    }

    /// Frees a session on the store in passing; nobody waits for the answer.
    fn send_close(&mut self, session: SessionId) {
        self.call(Kind::Close, Request::Close { session }, self.timing.renew());
    }

    /// A close goes on when every election is over and no open is under way.
    pub(crate) fn go_on_closing(&mut self) {
        if self.closing.is_none() || !self.elections.is_empty() || !self.queued.is_empty() {
            return;
        }
        match &self.session {
            Session::Opening(opening) if opening.call.is_some() => {}
            Session::Opening(_) => self.finish_closing(),
            Session::Live(live) => {
                let session = live.id;
                let patience = self.patience();
                let live = match core::mem::replace(&mut self.session, Session::Closed) {
                    Session::Live(live) => live,
                    other => {
                        self.session = other;
                        return;
                    }
                };
                live.writer.end();
                self.calls.abandon_session(session);
                let call = self.call(Kind::Close, Request::Close { session }, patience);
                self.session = Session::Closing { call, session };
            }
            Session::Closing { .. } | Session::Closed => {}
        }
    }

    pub(crate) fn on_closed(&mut self, id: CallId) {
        if let Session::Closing { call, session } = self.session
            && call == id
        {
            let reason = SessionEnd::Closed;
            self.push(Output::Notice(Notice::SessionEnded { session, reason }));
            self.finish_closing();
        }
    }

    fn finish_closing(&mut self) {
        self.session = Session::Closed;
        for ticket in self.closing.replace(alloc::vec::Vec::new()).unwrap_or_default() {
            self.push(Output::Finished { ticket });
        }
    }
}

/// When the next keep-alive goes out after one that counted: at its period, or, where the store left less time than
/// that, after half of it.
fn next_renewal(periodic: Instant, now: Instant, live: &Live, least: Duration) -> Option<Instant> {
    if periodic < live.deadline {
        return Some(periodic);
    }
    let half = now.saturating_add((live.deadline.saturating_since(now) / 2).max(least));
    (half < live.deadline).then_some(half)
}

fn no_answer() -> Failure {
    Failure::new(FailureKind::TimedOut, Effect::Unknown, "no answer within the call's time limit")
}

fn foreign_reply() -> Failure {
    let text = "the store answered with the reply of another call; its backend is faulty";
    Failure::new(FailureKind::Unsuitable, Effect::Unknown, text)
}

fn over_at_once() -> Failure {
    let text = "the store opens sessions and says at once that they are over; are there two servers that each believe in \
                themselves, or is somebody ending sessions?";
    Failure::new(FailureKind::Unsuitable, Effect::None, text)
}

fn grant_too_short(requested: Duration, granted: Duration) -> Failure {
    let text = alloc::format!(
        "the store grants a lease time of {granted:?} instead of {requested:?}, and drift and margin leave too \
         little of it; raise the store's limit, or lower the margin"
    );
    Failure::new(FailureKind::Unsuitable, Effect::None, text)
}
