//! The loop of the engine.

use simba_backend::{DynBackend, Owner};
use simba_core::{
    ElectionId, Engine, Instant, Notice, Output, RevokeReason, SessionEnd, SessionStatus, StartOptions,
    TermId, Ticket,
};
use std::{collections::HashMap, sync::Arc};
use tokio::{sync::mpsc, task::AbortHandle};

use super::{Input, Shared, calls, sink::Sink, wake};
use crate::{
    contender::Contender,
    context::caught_sync,
    events::Event,
    planted::planted,
    term::Term,
    wait::{Done, lock},
};

/// The most inputs that are taken before the outputs are looked at.
const MOST_INPUTS: usize = 1_024;

/// Runs one engine: takes every input that waits, then the wake-up if it is due, then carries out every output in
/// order, then waits.
pub(crate) struct Driver {
    shared: Arc<Shared>,
    queue: mpsc::UnboundedReceiver<Input>,
    /// Inputs that follow from outputs; they come before those of the queue.
    backlog: Vec<Input>,
    backend: Arc<dyn DynBackend>,
    owner: Arc<Owner>,
    sinks: HashMap<ElectionId, Sink>,
    held: HashMap<TermId, ElectionId>,
    tickets: HashMap<Ticket, Waiting>,
    watch: Option<AbortHandle>,
}

/// Who waits for a ticket.
enum Waiting {
    Stop(ElectionId),
    StepDown(ElectionId, Arc<Contender>, Done),
    Close,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::UnboundedReceiver<Input>,
        backend: Arc<dyn DynBackend>,
        owner: Owner,
    ) -> Self {
        Self {
            shared,
            queue,
            backlog: Vec::new(),
            backend,
            owner: Arc::new(owner),
            sinks: HashMap::new(),
            held: HashMap::new(),
            tickets: HashMap::new(),
            watch: None,
        }
    }

    /// Runs until the client has closed. Must be called on a runtime whose timers are enabled.
    pub(crate) async fn run(mut self) {
        if self.backend.capabilities().broadcast {
            self.watch = Some(calls::watch(&self.shared, &self.backend));
        }
        while !self.is_over() {
            self.turn();
            if self.backlog.is_empty() && !self.is_over() {
                self.wait().await;
            }
        }
        self.settle_late_calls().await;
    }

    #[cfg(test)]
    pub(super) fn has_input(&mut self) -> bool {
        self.queue.try_recv().is_ok()
    }

    fn engine<T>(&self, act: impl FnOnce(&mut Engine, Instant) -> T) -> T {
        let mut engine = lock(&self.shared.engine);
        // Read under the lock, so that the instants handed in never go back.
        let now = self.shared.clock.now();
        act(&mut engine, now)
    }

    fn is_over(&self) -> bool {
        self.tickets.is_empty() && self.backlog.is_empty() && lock(&self.shared.engine).is_closed()
    }

    /// One turn of the loop.
    fn turn(&mut self) {
        for input in std::mem::take(&mut self.backlog) {
            self.take(input);
        }
        for _ in 0..MOST_INPUTS {
            let Ok(input) = self.queue.try_recv() else { break };
            self.take(input);
        }
        self.engine(|engine, now| {
            if engine.next_wakeup().is_some_and(|at| at <= now) {
                engine.handle_wakeup(now);
            }
        });
        while let Some(output) = self.engine(|engine, _| engine.poll_output()) {
            self.carry_out(output);
        }
    }

    async fn wait(&mut self) {
        let at = lock(&self.shared.engine).next_wakeup();
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            input = self.queue.recv() => self.backlog.extend(input),
            () = wake::until(&shared.clock, at) => {}
        }
    }

    /// After the close, answers may still come for calls that were given up: a session that was opened late is
    /// closed again. Nobody waits for this.
    async fn settle_late_calls(&mut self) {
        self.mark_closed();
        let until = self.shared.clock.now().saturating_add(self.shared.timing.renew());
        while lock(&self.shared.engine).calls_in_flight() > 0 && self.shared.clock.now() < until {
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                biased;
                input = self.queue.recv() => self.backlog.extend(input),
                () = wake::until(&shared.clock, Some(until)) => {}
            }
            self.turn();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Start { contender, mailbox, end } => self.start(Sink::new(contender, mailbox, end)),
            Input::Stop { contender } => {
                if let Some(&id) = contender.id.get() {
                    let ticket = self.engine(|engine, now| engine.stop(now, id));
                    self.tickets.insert(ticket, Waiting::Stop(id));
                }
            }
            Input::StepDown { contender, cooldown, done } => {
                if let Some(&id) = contender.id.get() {
                    let ticket = self.engine(|engine, now| engine.step_down(now, id, cooldown));
                    self.tickets.insert(ticket, Waiting::StepDown(id, contender, done));
                }
            }
            Input::Close => {
                let ticket = self.engine(|engine, now| engine.close(now));
                self.tickets.insert(ticket, Waiting::Close);
            }
            Input::Reply { id, result } => self.engine(|engine, now| engine.handle_reply(now, id, result)),
            Input::Hint(hint) => self.engine(|engine, now| engine.handle_hint(now, &hint)),
            Input::WorkExited(term) => self.engine(|engine, now| engine.handle_work_exited(now, term)),
            Input::Refused(term) => self.engine(|engine, now| engine.handle_delivery_refused(now, term)),
            Input::Nudge => {}
            Input::Sleep { time, done } => {
                tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    drop(done);
                });
            }
            Input::Ask { question, limit, answer } => calls::ask_for(&self.backend, question, limit, answer),
        }
    }

    fn start(&mut self, sink: Sink) {
        let name = sink.contender.name.clone();
        // Every election counts as one with work: only what really runs under a term is waited for, and a term
        // without any is reported as free of work in the same turn in which it ends.
        let started = self.engine(|engine, now| engine.start(now, name, StartOptions { work: true }));
        match started {
            Ok(id) => {
                sink.contender.started(id);
                self.sinks.insert(id, sink);
            }
            // Closed meanwhile; the handle learns that its election is over.
            Err(_) => sink.end(),
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Call { id, request, patience } => {
                calls::carry(&self.shared, &self.backend, &self.owner, (id, request, patience));
            }
            Output::Elected { election, term } => {
                self.elected(election, Term::new(term, Arc::clone(&self.shared)));
            }
            Output::Ended { term, reason } => self.ended(term, reason),
            Output::Revoked { election, term, reason } => {
                if let Some(sink) = self.sinks.get_mut(&election) {
                    sink.revoked(term, reason);
                }
            }
            Output::Finished { ticket } => self.finished(ticket),
            Output::Notice(notice) => self.notice(notice),
        }
    }

    fn elected(&mut self, election: ElectionId, term: Term) {
        let (id, name, token) = (term.id(), term.name().clone(), term.token());
        self.held.insert(id, election);
        let delivered = self.sinks.get_mut(&election).is_some_and(|sink| sink.elected(term));
        if delivered {
            self.shared.events.publish(Event::Elected { name, token });
        } else {
            self.shared.events.publish(Event::DeliveryRefused { name, token });
            self.backlog.push(Input::Refused(id));
        }
    }

    fn ended(&mut self, id: TermId, reason: RevokeReason) {
        let sink = self.held.remove(&id).and_then(|election| self.sinks.get(&election));
        if let Some(sink) = sink
            && let Some(term) = sink.current(id)
        {
            let (name, token) = (term.name().clone(), term.token());
            sink.contender.ended();
            self.shared.events.publish(Event::Revoked { name, token, reason });
        }
        if self.shared.terms.ended(id) {
            self.backlog.push(Input::WorkExited(id));
        }
    }

    fn finished(&mut self, ticket: Ticket) {
        match self.tickets.remove(&ticket) {
            Some(Waiting::Stop(id)) => {
                if let Some(sink) = self.sinks.remove(&id) {
                    sink.end();
                }
            }
            Some(Waiting::StepDown(_, _, done)) if planted!(self.shared, M35FinishedBeforeRevoked) => {
                drop(done)
            }
            Some(Waiting::StepDown(id, contender, done)) => match self.sinks.get(&id) {
                Some(sink) => sink.finish(Arc::new(done)),
                // Stopped meanwhile: complete when the stop is.
                None => contender.finish_with_end(done),
            },
            Some(Waiting::Close) => self.end_all(),
            None => {}
        }
    }

    /// Ends every election that is left, and with the last of them the client.
    fn end_all(&mut self) {
        for (_, sink) in self.sinks.drain() {
            sink.end();
        }
        drop(lock(&self.shared.open).take());
    }

    fn notice(&self, notice: Notice) {
        let session = &self.shared.session;
        let status = |status| session.send_modify(|now| now.status = status);
        match &notice {
            Notice::SessionOpened { .. } => session.send_modify(|now| {
                now.status = SessionStatus::Live;
                now.last_failure = None;
            }),
            Notice::SessionResumed { .. } => status(SessionStatus::Live),
            Notice::SessionSuspended { .. } => status(SessionStatus::Suspended),
            Notice::SessionEnded { reason, .. } => status(match reason {
                SessionEnd::Closed => SessionStatus::Closed,
                SessionEnd::DeadlinePassed | SessionEnd::Expired => SessionStatus::Opening,
            }),
            Notice::OpenFailed { failure, .. } => {
                session.send_modify(|now| now.last_failure = Some(failure.clone()));
            }
            Notice::LeaseShortened { .. }
            | Notice::Renewed { .. }
            | Notice::Refused { .. }
            | Notice::AttemptFailed { .. }
            | Notice::ReleaseFailed { .. }
            | Notice::TokenRegressed { .. }
            | Notice::OrphanReleased { .. } => {}
        }
        self.shared.events.publish(notice);
    }

    fn mark_closed(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
        self.shared.mark_closing();
        self.shared.session.send_modify(|now| now.status = SessionStatus::Closed);
        self.shared.events.end();
    }
}

/// However the driver ends (after a close, by a panic, or with the runtime it ran on), nobody waits for it in vain
/// and no term reads valid.
impl Drop for Driver {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let error = "the engine panicked; this is a fault of the library, please report it";
            self.shared.events.publish(Event::EngineFailed { error: error.into() });
        }
        // An engine that failed half-way may fail again.
        drop(caught_sync(|| {
            if planted!(self.shared, GoneStaysValid) {
                return;
            }
            self.engine(|engine, now| {
                engine.close(now);
                while let Some(output) = engine.poll_output() {
                    if let Output::Ended { term, .. } = output {
                        self.shared.terms.ended(term);
                    }
                }
            });
        }));
        self.shared.terms.gone();
        self.mark_closed();
        self.queue.close();
        while self.queue.try_recv().is_ok() {}
        self.tickets.clear();
        self.end_all();
    }
}
