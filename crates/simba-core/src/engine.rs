//! The engine of one client: composition only. It routes inputs, collects outputs and folds wake-ups; the rules
//! stand in the modules beside it.

use alloc::{collections::VecDeque, vec::Vec};
use core::time::Duration;
use simba_backend::{Failure, Hint, LeaseName, SessionId};

use crate::{
    Timing,
    call::{CallId, Reply, Request},
    election::{Election, ElectionId, Elections, Phase, StartError, StartOptions},
    floor::Floors,
    mark::{Mark, Marks},
    output::{Output, Ticket},
    pending::{Calls, Kind},
    planted::planted,
    rng::Rng,
    session::{Opening, Session},
    snapshot::{ElectionView, Role, SessionStatus, SessionView, Snapshot},
    term::{Releasable, TermId},
    time::Instant,
};

/// One client's sessions, elections and terms.
///
/// # The one rule of the loop
/// 1. Hand in **one** input: a command, or what the world said. Several commands may be handed in before step 2 if
///    they are due together; their attempts and releases then share one call.
/// 2. If [`next_wakeup`](Self::next_wakeup) is not after the present instant, call
///    [`handle_wakeup`](Self::handle_wakeup).
/// 3. Take every output with [`poll_output`](Self::poll_output) and carry it out, in order.
/// 4. Wait for the next input, at most until `next_wakeup`.
///
/// A wake-up that comes early is harmless. The instants handed in come from one clock that never goes back; should
/// one be smaller than an earlier one, the earlier one counts.
///
/// ```
/// use simba_core::{Engine, Instant, Output, Request, StartOptions, Timing};
///
/// let now = Instant::from_nanos(1);
/// let mut engine = Engine::new(Timing::default(), 42, now);
/// engine.start(now, "report".parse()?, StartOptions::default())?;
///
/// assert_eq!(engine.next_wakeup(), Some(now));
/// engine.handle_wakeup(now);
/// // A candidate needs a session first.
/// assert!(matches!(engine.poll_output(), Some(Output::Call { request: Request::Open { .. }, .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    pub(crate) timing: Timing,
    pub(crate) rng: Rng,
    pub(crate) now: Instant,
    pub(crate) session: Session,
    pub(crate) elections: Elections,
    pub(crate) calls: Calls,
    pub(crate) floors: Floors,
    pub(crate) queued: Vec<QueuedRelease>,
    /// When the last acquire call went out, and when candidates that were told of a release will try.
    pub(crate) last_attempt: Option<Instant>,
    pub(crate) hinted_at: Option<Instant>,
    pub(crate) closing: Option<Vec<Ticket>>,
    pub(crate) next_serial: u64,
    next_ticket: u64,
    outputs: VecDeque<Output>,
    marks: Marks,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::planted::Planted>,
}

/// How many outputs the queue keeps room for when it is empty.
const ROOM_KEPT: usize = 256;

/// A release that goes out with the next batch.
#[derive(Debug)]
pub(crate) struct QueuedRelease {
    pub(crate) session: SessionId,
    pub(crate) lease: Releasable,
    /// The election whose handover waits for it.
    pub(crate) slot: Option<u32>,
}

/// What the application asks.
impl Engine {
    /// An engine that opens its first session at once. `seed` feeds the jitter only.
    #[must_use]
    pub fn new(timing: Timing, seed: u64, now: Instant) -> Self {
        Self {
            timing,
            rng: Rng::new(seed),
            now,
            session: Session::Opening(Opening { call: None, retry_at: now, failures: 0 }),
            elections: Elections::default(),
            calls: Calls::default(),
            floors: Floors::default(),
            queued: Vec::new(),
            last_attempt: None,
            hinted_at: None,
            closing: None,
            next_serial: 0,
            next_ticket: 0,
            outputs: VecDeque::new(),
            marks: Marks::default(),
            #[cfg(feature = "planted")]
            planted: None,
        }
    }

    /// Starts to contend for a lease.
    ///
    /// # Errors
    /// [`StartError`] if the name is in use on this client, or the client is closed.
    pub fn start(
        &mut self,
        now: Instant,
        name: LeaseName,
        options: StartOptions,
    ) -> Result<ElectionId, StartError> {
        self.advance(now);
        if self.closing.is_some() {
            // Time may have passed a deadline here too, and a close waits for no other input.
            self.settle();
            return Err(StartError::Closed);
        }
        let id = self.elections.start(name, options)?;
        self.contend(id.slot);
        self.settle();
        Ok(id)
    }

    /// Ends an election: revokes its term, waits for its work (until the deadline as it is now), releases, tells
    /// the listener. The ticket finishes after all of that, and after the store has answered the release or the
    /// call's time limit has passed. Stopping again, or an election that is over, finishes likewise.
    pub fn stop(&mut self, now: Instant, election: ElectionId) -> Ticket {
        self.advance(now);
        let ticket = self.new_ticket();
        match self.elections.find(election) {
            Some(slot) => self.stop_election(slot, Some(ticket)),
            None => self.push(Output::Finished { ticket }),
        }
        self.settle();
        ticket
    }

    /// Gives the term up in the same order as [`stop`](Self::stop), then does not contend before `now + cooldown`.
    pub fn step_down(&mut self, now: Instant, election: ElectionId, cooldown: Duration) -> Ticket {
        self.advance(now);
        let ticket = self.new_ticket();
        match self.elections.find(election) {
            Some(slot) => self.step_down_election(slot, self.now.saturating_add(cooldown), Some(ticket)),
            None => self.push(Output::Finished { ticket }),
        }
        self.settle();
        ticket
    }

    /// Stops every election and closes the session. The ticket finishes when all of that is done, or the calls'
    /// time limits have passed. Nothing can be started any more.
    pub fn close(&mut self, now: Instant) -> Ticket {
        self.advance(now);
        let ticket = self.new_ticket();
        match &mut self.closing {
            _ if matches!(self.session, Session::Closed) => self.push(Output::Finished { ticket }),
            Some(tickets) => tickets.push(ticket),
            None => {
                self.closing = Some(alloc::vec![ticket]);
                for slot in self.elections.in_name_order() {
                    self.stop_election(slot, None);
                }
            }
        }
        self.settle();
        ticket
    }
}

/// What the world says.
impl Engine {
    /// The answer to a call, or how it failed. An answer to a call that is not under way is ignored.
    pub fn handle_reply(&mut self, now: Instant, id: CallId, result: Result<Reply, Failure>) {
        if self.overlooks_deadline(&result) {
            self.now = self.now.max(now);
        } else {
            self.advance(now);
        }
        let Some(pending) = self.calls.finish(id) else {
            self.mark(Mark::ForeignReply);
            self.settle();
            return;
        };
        match pending.kind {
            Kind::Open => self.on_opened(id, &pending, result),
            Kind::KeepAlive { session } => self.on_kept_alive(id, session, pending.sent_at, result),
            Kind::Acquire { session, names, slots } => self.on_acquired(id, session, &names, &slots, result),
            Kind::Release { session, grants, slots } => {
                self.on_released(id, session, &grants, &slots, result)
            }
            Kind::Close => self.on_closed(id),
        }
        self.floors.prune(self.calls.oldest_acquire());
        self.settle();
    }

    /// News from the store. Losing or forging it changes timing only.
    pub fn handle_hint(&mut self, now: Instant, hint: &Hint) {
        self.advance(now);
        self.on_hint(hint);
        self.settle();
    }

    /// The work of a term has exited.
    pub fn handle_work_exited(&mut self, now: Instant, term: TermId) {
        self.advance(now);
        self.on_work_exited(term);
        self.settle();
    }

    /// The listener could not be told of this term: no work starts, [`Output::Revoked`] is not sent for it, and the
    /// election steps down for one lease time. A `Revoked` of the term that is in the queue already is the
    /// driver's to drop.
    pub fn handle_delivery_refused(&mut self, now: Instant, term: TermId) {
        self.advance(now);
        self.on_delivery_refused(term);
        self.settle();
    }

    /// Time has passed: does whatever is due.
    pub fn handle_wakeup(&mut self, now: Instant) {
        if planted!(self, M46AttemptPastDeadline) {
            self.now = self.now.max(now);
        } else {
            self.advance(now);
        }
        while let Some(id) = self.calls.next_due(self.now) {
            self.give_up(id);
        }
        let attempts = self.handle_due_elections();
        self.handle_session_timers();
        self.flush_releases();
        self.send_attempts(attempts);
        self.settle();
    }
}

/// What the driver reads.
impl Engine {
    /// The next obligation.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        // A burst, such as ten thousand wins in one reply, leaves no memory behind.
        if output.is_none() && self.outputs.capacity() > ROOM_KEPT {
            self.outputs.shrink_to(ROOM_KEPT);
        }
        output
    }

    /// When [`handle_wakeup`](Self::handle_wakeup) must be called next; `None` if only an input can change anything.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        let queued = (!self.queued.is_empty()).then_some(self.now);
        [queued, self.elections.next_wakeup(), self.calls.next_give_up(), self.session_wakeup()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether the client is closed: every ticket has finished, and nothing will happen any more.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.session, Session::Closed)
    }

    /// The timing that this engine runs with.
    #[must_use]
    pub const fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Which subtle branches have been taken.
    #[must_use]
    pub const fn marks(&self) -> Marks {
        self.marks
    }

    /// How many calls have not been answered.
    #[must_use]
    pub fn calls_in_flight(&self) -> usize {
        self.calls.len()
    }

    /// How many elections there are.
    #[must_use]
    pub fn election_count(&self) -> usize {
        self.elections.len()
    }

    /// The election of a name, if it is started on this client.
    #[must_use]
    pub fn election(&self, name: &LeaseName) -> Option<ElectionId> {
        self.elections.by_name(name).map(|slot| self.elections.id(slot))
    }

    /// One consistent view of everything. Costs time in the number of elections.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let view = |slot: u32| self.elections.get(slot).map(view_election);
        Snapshot {
            session: self.view_session(),
            elections: self.elections.in_name_order().into_iter().filter_map(view).collect(),
        }
    }

    fn view_session(&self) -> SessionView {
        let blank = SessionView {
            status: SessionStatus::Opening,
            id: None,
            granted: None,
            period: None,
            deadline: None,
        };
        match &self.session {
            Session::Opening(_) => blank,
            Session::Live(live) => SessionView {
                status: if live.suspended { SessionStatus::Suspended } else { SessionStatus::Live },
                id: Some(live.id),
                granted: Some(live.granted),
                period: Some(live.period),
                deadline: Some(live.deadline),
            },
            Session::Closing { .. } | Session::Closed => {
                SessionView { status: SessionStatus::Closed, ..blank }
            }
        }
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    pub fn plant(&mut self, bug: crate::planted::Planted) {
        self.planted = Some(bug);
    }
}

fn view_election(election: &Election) -> ElectionView {
    let role = match election.phase() {
        Phase::Parked | Phase::Waiting { .. } | Phase::Attempting { .. } => Role::Candidate,
        Phase::Holding(_) => Role::Leader,
        Phase::HandingOver(_) => Role::HandingOver,
        Phase::Draining(_) | Phase::CoolingDown { .. } => Role::CoolingDown,
    };
    ElectionView {
        name: election.name.clone(),
        role,
        token: election.phase().owned().map(|(_, token)| token),
        next_at: election.phase().wakes_at(),
    }
}

/// What the other modules share.
impl Engine {
    pub(crate) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(crate) const fn mark(&mut self, mark: Mark) {
        self.marks.set(mark);
    }

    /// Whether a reply may be looked at before the deadline is: only by mistake.
    #[cfg(feature = "planted")]
    fn overlooks_deadline(&self, result: &Result<Reply, Failure>) -> bool {
        use crate::planted::Planted;
        match self.planted {
            Some(Planted::M08LateRenewalExtends) => matches!(result, Ok(Reply::KeepAlive(_))),
            Some(Planted::M17AdoptAfterDeadline) => matches!(result, Ok(Reply::Acquired(_))),
            _ => false,
        }
    }

    #[cfg(not(feature = "planted"))]
    const fn overlooks_deadline(&self, _result: &Result<Reply, Failure>) -> bool {
        false
    }

    fn new_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// Sends a call that is given up after `patience`.
    pub(crate) fn call(&mut self, kind: Kind, request: Request, patience: Duration) -> CallId {
        let id = self.calls.begin(kind, self.now, self.now.saturating_add(patience));
        self.push(Output::Call { id, request, patience });
        id
    }

    /// Stops waiting for a call; the answer, should it come, is still handled.
    fn give_up(&mut self, id: CallId) {
        self.calls.abandon(id);
        enum What {
            Open,
            KeepAlive(SessionId),
            Acquire,
            Release,
            Close,
        }
        let what = match self.calls.get(id).map(|p| &p.kind) {
            Some(Kind::Open) => What::Open,
            Some(Kind::KeepAlive { session }) => What::KeepAlive(*session),
            Some(Kind::Acquire { .. }) => What::Acquire,
            Some(Kind::Release { .. }) => What::Release,
            Some(Kind::Close) => What::Close,
            None => return,
        };
        match what {
            What::Open => self.open_gave_up(id),
            What::KeepAlive(session) => self.keep_alive_gave_up(id, session),
            What::Acquire => self.attempt_gave_up(id),
            What::Release => self.release_gave_up(id),
            What::Close => self.on_closed(id),
        }
    }

    /// After every input: a close that has nothing left to wait for goes on.
    fn settle(&mut self) {
        self.go_on_closing();
        #[cfg(debug_assertions)]
        if self.elections.len() <= 16 {
            let fault = self.check().err();
            debug_assert!(fault.is_none(), "{fault:?}");
        }
    }
}
