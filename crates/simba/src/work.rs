//! Leader work: what it may return, what happens when it fails or is interrupted, and the one loop that runs it.

use simba_backend::LeaseName;
use std::{
    fmt,
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::{
    LeadError,
    context::{Panic, caught, caught_sync, panic_text, within, within_sync},
    error::Error,
    events::Event,
    mailbox::{Mailbox, Message},
    planted::planted,
    term::{Term, WorkGuard},
    wait::Completion,
};

/// What leader work wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow<T> {
    /// It is done: the election stops, and this is its value.
    Stop(T),
    /// Another node shall lead: the election steps down, and contends again after this time.
    StepDown(Duration),
    /// It shall be called again, in the same term if that is still valid.
    Again,
}

/// What happens when leader work returns an error or panics while its term is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// The election steps down for one renew interval, and for twice as long with each further failure in a row, up
    /// to sixteen; then it contends again.
    #[default]
    StepDown,
    /// The work is called again in the same term, after a tenth of a renew interval, and after twice as long with
    /// each further failure in a row, up to a renew interval.
    Restart,
    /// The election stops.
    Stop,
}

/// What happens to async leader work when its term ends.
///
/// In every case the term first reads invalid and [`Term::cancelled`] fires. Work of a term that was *lost* is not
/// waited for by anyone, since another node may lead already; it runs again only when the old run is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interrupt {
    /// Its future is dropped as soon as the term ends.
    #[default]
    Drop,
    /// After a stop or step-down it may finish what it is at, until the local deadline as it was then, and is
    /// dropped after that. The lease is kept meanwhile. A lost term drops it at once.
    Graceful,
    /// It is never dropped: it must end by itself when its term has ended. The lease is kept for it no longer than
    /// the deadline.
    Cooperative,
}

/// What the work of [`run_while_leader`](crate::ElectionBuilder::run_while_leader) may return: `()`, a
/// [`Flow<()>`](Flow), or a `Result` of either with an error that can be printed.
pub trait WorkOutput: sealed::Sealed + Send + 'static {
    #[doc(hidden)]
    fn into_flow(self) -> Result<Flow<()>, String>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for super::Flow<()> {}
    impl<T: super::WorkOutput, E> Sealed for Result<T, E> {}
}

impl WorkOutput for () {
    fn into_flow(self) -> Result<Flow<()>, String> {
        Ok(Flow::Stop(()))
    }
}

impl WorkOutput for Flow<()> {
    fn into_flow(self) -> Result<Flow<()>, String> {
        Ok(self)
    }
}

impl<T: WorkOutput, E: fmt::Display + Send + 'static> WorkOutput for Result<T, E> {
    fn into_flow(self) -> Result<Flow<()>, String> {
        self.map_err(|error| format!("{error:#}")).and_then(T::into_flow)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) interrupt: Interrupt,
    pub(crate) on_error: OnError,
}

/// How one run of the work ended.
pub(crate) enum Outcome<T, E> {
    Flow(Flow<T>),
    Failed(E),
    Panicked(Panic),
}

/// A kind of work: how a run of it is begun under a term. The guard goes where the work goes.
pub(crate) trait Job {
    type Value;
    type Failure: fmt::Display;
    type Running: Future<Output = Outcome<Self::Value, Self::Failure>> + Unpin;

    /// Whether a panic unwinds to whoever runs the loop.
    const RETHROW: bool;

    fn begin(&mut self, term: Term, guard: WorkGuard) -> Self::Running;
}

/// A boxed run.
pub(crate) type Running<T, E> = Pin<Box<dyn Future<Output = Outcome<T, E>> + Send>>;

/// Around every run: user logs carry the lease and its token.
pub(crate) fn span(term: &Term) -> tracing::Span {
    tracing::info_span!("simba.term", lease = %term.name(), token = %term.token())
}

/// Async work on a runtime.
pub(crate) struct AsyncJob<S, F> {
    client: u64,
    state: S,
    work: F,
}

impl<S, F> AsyncJob<S, F> {
    pub(crate) const fn new(client: u64, state: S, work: F) -> Self {
        Self { client, state, work }
    }
}

impl<S, F, Fut> Job for AsyncJob<S, F>
where
    S: Clone + Send + 'static,
    F: Fn(Term, S) -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: WorkOutput,
{
    type Value = ();
    type Failure = String;
    type Running = Running<(), String>;
    const RETHROW: bool = false;

    fn begin(&mut self, term: Term, guard: WorkGuard) -> Self::Running {
        let (client, span) = (self.client, span(&term));
        // Cloning the state and calling the work are user code too, and may panic.
        let call = || within_sync(client, || span.in_scope(|| (self.work)(term, self.state.clone())));
        match caught_sync(call) {
            Ok(future) => Box::pin(async move {
                let _guard = guard;
                judged(caught(within(client, future).instrument(span)).await)
            }),
            Err(panic) => Box::pin(async move { Outcome::Panicked(panic) }),
        }
    }
}

fn judged(result: Result<impl WorkOutput, Panic>) -> Outcome<(), String> {
    match result.map(WorkOutput::into_flow) {
        Ok(Ok(flow)) => Outcome::Flow(flow),
        Ok(Err(error)) => Outcome::Failed(error),
        Err(panic) => Outcome::Panicked(panic),
    }
}

/// Blocking work, each run on a thread of its own.
pub(crate) struct BlockingJob<S, F> {
    client: u64,
    state: S,
    work: Arc<F>,
}

impl<S, F> BlockingJob<S, F> {
    pub(crate) fn new(client: u64, state: S, work: F) -> Self {
        Self { client, state, work: Arc::new(work) }
    }
}

impl<S, F, R> Job for BlockingJob<S, F>
where
    S: Clone + Send + 'static,
    F: Fn(Term, S) -> R + Send + Sync + 'static,
    R: WorkOutput,
{
    type Value = ();
    type Failure = String;
    type Running = Running<(), String>;
    const RETHROW: bool = false;

    fn begin(&mut self, term: Term, guard: WorkGuard) -> Self::Running {
        let (client, work) = (self.client, Arc::clone(&self.work));
        let state = match caught_sync(|| self.state.clone()) {
            Ok(state) => state,
            Err(panic) => return Box::pin(async move { Outcome::Panicked(panic) }),
        };
        let (answer, outcome) = oneshot::channel();
        let name = format!("simba:{}#{}", term.name(), term.token());
        let started = std::thread::Builder::new().name(name).spawn(move || {
            let span = span(&term);
            let run = || within_sync(client, || span.in_scope(|| work(term, state)));
            let outcome = judged(caught_sync(run));
            // Nobody waits for it if the election was dropped meanwhile.
            drop(answer.send(outcome));
            drop(guard);
        });
        Box::pin(async move {
            match started {
                Ok(_) => outcome.await.unwrap_or_else(|_| Outcome::Failed("the thread is gone".into())),
                Err(error) => Outcome::Failed(format!("no thread could be had for the work: {error}")),
            }
        })
    }
}

/// How the whole loop ended.
pub(crate) enum End<T, E> {
    Over,
    Value(T),
    Failed(E),
    Panicked(Panic),
}

impl<T, E> End<T, E> {
    pub(crate) fn into_result(self) -> Result<T, LeadError<E>> {
        match self {
            Self::Over => Err(LeadError::Simba(Error::Closed)),
            Self::Value(value) => Ok(value),
            Self::Failed(error) => Err(LeadError::Work(error)),
            Self::Panicked(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// One run under way.
struct Run<J: Job> {
    term: Term,
    work: J::Running,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Runs a job under the terms of one election: the dispatcher of an election with work.
pub(crate) struct Runner<J: Job> {
    mailbox: Mailbox,
    job: J,
    policy: Policy,
    failures: u32,
    /// The present term, while it has not been revoked.
    term: Option<Term>,
    end: End<J::Value, J::Failure>,
}

/// What a runner waits for before it calls the work again in the same term.
type Pause = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<J: Job> Runner<J> {
    pub(crate) const fn new(mailbox: Mailbox, job: J, policy: Policy) -> Self {
        Self { mailbox, job, policy, failures: 0, term: None, end: End::Over }
    }

    pub(crate) async fn run(mut self) -> End<J::Value, J::Failure> {
        let mut run: Option<Run<J>> = None;
        let mut pause: Option<Pause> = None;
        loop {
            let drop_at_end = self.policy.interrupt == Interrupt::Drop;
            tokio::select! {
                biased;
                message = self.mailbox.recv() => match message {
                    Some(Message::Elected(term)) => {
                        self.term = Some(term);
                        run = self.begin();
                    }
                    Some(Message::Revoked(..)) => {
                        self.term = None;
                        pause = None;
                        if self.policy.interrupt != Interrupt::Cooperative {
                            self.interrupt(&mut run);
                        }
                    }
                    Some(Message::Finished(done)) => drop(done),
                    Some(Message::End(guard)) => {
                        drop(guard);
                        break;
                    }
                    None => break,
                },
                progress = progress(&mut run, drop_at_end), if run.is_some() => match progress {
                    Progress::Ended => self.interrupt(&mut run),
                    Progress::Out(outcome) => {
                        if let Some(Run { term, .. }) = run.take() {
                            pause = self.judge(&term, outcome);
                        }
                    }
                },
                () = rest(&mut pause), if pause.is_some() => {
                    pause = None;
                    run = self.begin();
                }
            }
        }
        // Only work that may not be dropped is still running; it is over when it says so.
        if self.policy.interrupt == Interrupt::Cooperative && run.is_some() {
            let progress = progress(&mut run, false).await;
            if let (Progress::Out(outcome), Some(Run { term, .. })) = (progress, run.take()) {
                drop(self.judge(&term, outcome));
            }
        } else {
            self.interrupt(&mut run);
        }
        self.end
    }

    fn publish(&self, event: Event) {
        self.mailbox.contender().shared.events.publish(event);
    }

    /// Starts a run under the present term, if that has not ended.
    fn begin(&mut self) -> Option<Run<J>> {
        let term = self.term.clone().filter(Term::is_valid)?;
        let guard = term.enter()?;
        let (name, token) = (term.name().clone(), term.token());
        self.publish(Event::WorkStarted { name, token });
        let ended = Box::pin(term.cancelled().cancelled_owned());
        let work = self.job.begin(term.clone(), guard);
        Some(Run { term, work, ended })
    }

    /// Drops a run because its term has ended.
    fn interrupt(&mut self, run: &mut Option<Run<J>>) {
        let Some(Run { term, work, .. }) = run.take() else { return };
        let dropped = caught_sync(|| drop(work));
        let (name, token) = (term.name().clone(), term.token());
        self.publish(Event::WorkFinished { name: name.clone(), token, interrupted: true });
        if let Err(panic) = dropped {
            self.failures += 1;
            self.report(&term, &panic_text(&panic));
        }
    }

    fn report(&self, term: &Term, error: &str) {
        let (name, token): (LeaseName, _) = (term.name().clone(), term.token());
        self.publish(Event::WorkFailed { name, token, error: error.into(), failures: self.failures });
    }

    /// Decides what follows the end of a run; answers a pause if the work is to be called again in this term.
    fn judge(&mut self, term: &Term, outcome: Outcome<J::Value, J::Failure>) -> Option<Pause> {
        let interrupted = !term.is_valid() && !planted!(self.mailbox.contender().shared, InterruptedCounts);
        let (name, token) = (term.name().clone(), term.token());
        self.publish(Event::WorkFinished { name, token, interrupted });
        match outcome {
            Outcome::Panicked(panic) => {
                self.failures += 1;
                self.report(term, &panic_text(&panic));
                if J::RETHROW {
                    self.end = End::Panicked(panic);
                    self.mailbox.contender().stop();
                    return None;
                }
                self.after_failure(interrupted, None)
            }
            Outcome::Failed(_) | Outcome::Flow(_) if interrupted => None,
            Outcome::Failed(error) => {
                self.failures += 1;
                self.report(term, &error.to_string());
                self.after_failure(false, Some(error))
            }
            Outcome::Flow(flow) => {
                self.failures = 0;
                match flow {
                    Flow::Stop(value) => {
                        self.end = End::Value(value);
                        self.mailbox.contender().stop();
                        None
                    }
                    Flow::StepDown(cooldown) => {
                        self.step_down(cooldown);
                        None
                    }
                    // Others get their turn in between, however quickly the work answers.
                    Flow::Again => Some(Box::pin(tokio::task::yield_now())),
                }
            }
        }
    }

    fn after_failure(&mut self, interrupted: bool, error: Option<J::Failure>) -> Option<Pause> {
        if interrupted {
            return None;
        }
        let renew = self.mailbox.contender().shared.timing.renew();
        let doublings = (self.failures - 1).min(4);
        match self.policy.on_error {
            OnError::StepDown => {
                self.step_down(renew * (1 << doublings));
                None
            }
            OnError::Restart => {
                let wait: Completion =
                    self.mailbox.contender().shared.sleep((renew / 10 * (1 << doublings)).min(renew));
                Some(Box::pin(wait))
            }
            OnError::Stop => {
                self.end = error.map_or(End::Over, End::Failed);
                self.mailbox.contender().stop();
                None
            }
        }
    }

    /// Starts a step-down; its end comes as messages like any other.
    fn step_down(&self, cooldown: Duration) {
        drop(self.mailbox.contender().step_down(cooldown));
    }
}

enum Progress<T, E> {
    /// The term has ended, and the work is to be dropped for it.
    Ended,
    Out(Outcome<T, E>),
}

async fn progress<J: Job>(run: &mut Option<Run<J>>, drop_at_end: bool) -> Progress<J::Value, J::Failure> {
    let Some(run) = run else { return std::future::pending().await };
    poll_fn(|cx| {
        if drop_at_end && run.ended.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Progress::Ended);
        }
        Pin::new(&mut run.work).poll(cx).map(Progress::Out)
    })
    .await
}

async fn rest(pause: &mut Option<Pause>) {
    match pause {
        Some(pause) => pause.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Runs a future on this thread. Enough for what needs neither timers nor sockets.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
