//! Elections: the builder with which one is started, and the handles to it.

use futures_core::Stream;
use simba_backend::LeaseName;
use simba_core::RevokeReason;
use std::{
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::mpsc;

use crate::{
    LeadError, Simba,
    contender::Contender,
    driver::Input,
    error::Error,
    lead::{LeadJob, begin_lead},
    listener::{Listener, dispatch},
    mailbox::{Mailbox, Message},
    term::{Term, runtime},
    wait::{Completion, Latch, lock},
    work::{AsyncJob, BlockingJob, Flow, Interrupt, OnError, Policy, Runner, WorkOutput, block_on},
};

/// Whether this node leads, as a cached hint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Leadership {
    /// It wants the lease and has no term.
    Candidate,
    /// It has a term; [`Term::is_valid`] tells whether it still has it.
    Leader(Term),
    /// The election is over.
    Over,
}

impl Leadership {
    /// The term, if there is one and it is valid now.
    #[must_use]
    pub fn term(&self) -> Option<&Term> {
        match self {
            Self::Leader(term) if term.is_valid() => Some(term),
            Self::Leader(_) | Self::Candidate | Self::Over => None,
        }
    }

    /// Whether there is a term that is valid now.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.term().is_some()
    }
}

/// The beginning or the end of a term.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TermEvent {
    /// A term has begun.
    Elected(Term),
    /// The term of the [`Elected`](Self::Elected) before has ended. Comes once after each, before the next.
    Revoked {
        /// The term.
        term: Term,
        /// Why it ended.
        reason: RevokeReason,
    },
}

/// An election that is about to be started: how it is to be run, then one of the ways to run it.
#[derive(Debug)]
#[must_use = "an election does nothing until it is started"]
pub struct ElectionBuilder {
    client: Simba,
    name: LeaseName,
    policy: Policy,
}

impl ElectionBuilder {
    pub(crate) fn new(client: Simba, name: LeaseName) -> Self {
        Self { client, name, policy: Policy::default() }
    }

    /// What happens to async work when its term ends. The default is [`Interrupt::Drop`].
    pub const fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.policy.interrupt = interrupt;
        self
    }

    /// Short for [`interrupt`](Self::interrupt) with [`Interrupt::Graceful`].
    pub const fn graceful(self) -> Self {
        self.interrupt(Interrupt::Graceful)
    }

    /// What happens when work fails or panics. The default is [`OnError::StepDown`].
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.policy.on_error = on_error;
        self
    }

    /// Contends, and runs nothing. The election stops when the last handle, stream and watch of it is dropped.
    ///
    /// # Errors
    /// [`Error::AlreadyStarted`], [`Error::Closed`], [`Error::Forked`].
    pub fn start(self) -> Result<Election, Error> {
        let contender = self.contend(None)?;
        Ok(self.handle(contender, true))
    }

    /// [`start`](Self::start), then [`Election::terms`]: no term is missed.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn terms(self) -> Result<Terms, Error> {
        Ok(self.start()?.terms())
    }

    /// [`start`](Self::start), then [`Election::watch`].
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn watch(self) -> Result<LeadershipWatch, Error> {
        Ok(self.start()?.watch())
    }

    /// Contends, and tells a listener, one callback after the other, on a task of the runtime of the caller. The
    /// election runs on when the handle is dropped; it ends with [`Election::stop`] or with the client.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`Error::NoRuntime`].
    pub fn listen(self, listener: impl Listener) -> Result<Election, Error> {
        let runtime = runtime("listen")?;
        let (contender, mailbox) = self.contend_with_mailbox()?;
        runtime.spawn(dispatch(listener, mailbox));
        Ok(self.handle(contender, false))
    }

    /// Leads as part of the caller: contends, and while this node leads runs `work` within this very future. So it
    /// may borrow, and need not be `Send`.
    ///
    /// The work is called anew for each term, until it answers [`Flow::Stop`]; its value is returned after the
    /// lease has been given back. What it returns after its term has ended counts for nothing: it was interrupted,
    /// and is called again with the next term. For an error the [policy](Self::on_error) says what follows. A panic
    /// of the work unwinds to the caller, after the term was revoked and the lease given back.
    ///
    /// ```
    /// use simba::{Flow, LeadError, Simba, memory::MemoryBackend};
    /// use simba::clock::{BootClock, Clock};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let simba = Simba::builder(MemoryBackend::new(|| BootClock.now().as_nanos())).build()?;
    /// let greeting = String::from("led with token");
    /// let greeting = &greeting;
    /// let said: Result<_, LeadError<std::io::Error>> = simba
    ///     .election("report")?
    ///     .lead(|term| async move { Ok(Flow::Stop(format!("{greeting} {}", term.token()))) })
    ///     .await;
    /// assert_eq!(said?, "led with token 1");
    /// # simba.close().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`LeadError::Simba`] if it could not be started or the client closed; [`LeadError::Work`] if the work failed
    /// and the policy is [`OnError::Stop`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work with it and stops the election: the term is revoked, and the engine
    /// releases the lease in the background.
    pub async fn lead<T, E, F, Fut>(self, mut work: F) -> Result<T, LeadError<E>>
    where
        F: FnMut(Term) -> Fut,
        Fut: Future<Output = Result<Flow<T>, E>>,
        E: fmt::Display,
    {
        let (_, mailbox) = self.contend_with_mailbox()?;
        let client = self.client.shared().id;
        let job = LeadJob::new(|term, guard| begin_lead(client, term, guard, &mut work));
        Runner::new(mailbox, job, self.policy).run().await.into_result()
    }

    /// Contends, and while this node leads runs `work` on a task of the runtime of the caller, with a clone of
    /// `state` for each term.
    ///
    /// When the work returns by itself it is done, and the election stops; see [`WorkOutput`] for what else it may
    /// return. What it returns after its term has ended counts for nothing: it was interrupted, and runs again in
    /// the next term. For an error or a panic the [policy](Self::on_error) says what follows.
    ///
    /// The election runs on when the handle is dropped; see [`Election::abort_on_drop`].
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`Error::NoRuntime`].
    pub fn run_while_leader<S, F, Fut>(self, state: S, work: F) -> Result<Election, Error>
    where
        S: Clone + Send + 'static,
        F: Fn(Term, S) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: WorkOutput,
    {
        let runtime = runtime("run_while_leader")?;
        let (contender, mailbox) = self.contend_with_mailbox()?;
        let job = AsyncJob::new(contender.shared.id, state, work);
        let runner = Runner::new(mailbox, job, self.policy);
        runtime.spawn(async move {
            runner.run().await;
        });
        Ok(self.handle(contender, false))
    }

    /// As [`run_while_leader`](Self::run_while_leader), for work that blocks: it runs on a thread of its own, and
    /// needs no runtime. It cannot be interrupted from outside; it should look at [`Term::is_valid`] or
    /// [`Term::ensure_valid`] before each step. The lease is not given back before it returns, nor later than the
    /// deadline; and it does not run twice at a time.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`Error::System`] if no thread can be had.
    pub fn run_while_leader_blocking<S, F, R>(self, state: S, work: F) -> Result<Election, Error>
    where
        S: Clone + Send + 'static,
        F: Fn(Term, S) -> R + Send + Sync + 'static,
        R: WorkOutput,
    {
        let (contender, mailbox) = self.contend_with_mailbox()?;
        let job = BlockingJob::new(contender.shared.id, state, work);
        let policy = Policy { interrupt: Interrupt::Cooperative, ..self.policy };
        let runner = Runner::new(mailbox, job, policy);
        std::thread::Builder::new()
            .name(format!("simba:{}", self.name))
            .spawn(move || block_on(runner.run()))
            .map_err(|error| Error::System { what: "a thread", why: error.to_string().into() })?;
        Ok(self.handle(contender, false))
    }

    fn handle(self, contender: Arc<Contender>, stop_on_drop: bool) -> Election {
        let stop_on_drop = AtomicBool::new(stop_on_drop);
        Election(Arc::new(Handle { contender, client: self.client, stop_on_drop }))
    }

    fn contend_with_mailbox(&self) -> Result<(Arc<Contender>, Mailbox), Error> {
        let (sender, queue) = mpsc::unbounded_channel();
        let contender = self.contend(Some(sender))?;
        Ok((Arc::clone(&contender), Mailbox::new(queue, contender)))
    }

    fn contend(&self, mailbox: Option<mpsc::UnboundedSender<Message>>) -> Result<Arc<Contender>, Error> {
        let shared = self.client.shared();
        shared.check()?;
        let (contender, end) = Contender::new(shared, self.name.clone())?;
        shared.send(Input::Start { contender: Arc::clone(&contender), mailbox, end });
        Ok(contender)
    }
}

/// A started election. Clones are handles to the same one. A handle keeps the client open.
#[derive(Clone)]
#[must_use = "an election that runs no work stops when its last handle is dropped"]
pub struct Election(Arc<Handle>);

struct Handle {
    contender: Arc<Contender>,
    client: Simba,
    stop_on_drop: AtomicBool,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.stop_on_drop.load(Ordering::Relaxed) && !self.contender.shared.is_forked() {
            self.contender.stop();
        }
    }
}

impl Election {
    /// The lease.
    #[must_use]
    pub fn name(&self) -> &LeaseName {
        &self.0.contender.name
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &Simba {
        &self.0.client
    }

    /// Whether this node leads, as it is known now.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        lock(&self.0.contender.state).leadership.clone()
    }

    /// A watch of whether this node leads.
    pub fn watch(&self) -> LeadershipWatch {
        LeadershipWatch { election: self.clone(), seen: 0, key: None }
    }

    /// The terms from now on, as strictly paired events; the present term, if there is one, comes first.
    pub fn terms(&self) -> Terms {
        Terms { events: self.0.contender.subscribe(), election: self.clone() }
    }

    /// Ends the election: revokes its term, waits for its work (until the deadline as it is now), releases, tells
    /// the listener.
    ///
    /// The stop starts with the call. The answer resolves after the last callback has run; after that nothing more
    /// is told, and the name may be used again. Calling it again, or after the end, answers likewise.
    pub fn stop(&self) -> Completion {
        if !self.0.contender.shared.is_forked() {
            self.0.contender.stop();
        }
        self.ended()
    }

    /// Gives the term up in the same order as [`stop`](Self::stop), then does not contend before `cooldown`
    /// has passed, counted from now. Without a term only the latter.
    pub fn step_down(&self, cooldown: Duration) -> Completion {
        if self.0.contender.shared.is_forked() {
            return Completion::anywhere({
                let latch = Latch::default();
                latch.set();
                Arc::new(latch)
            });
        }
        self.0.contender.step_down(cooldown)
    }

    /// Resolves when the election is over, by a stop, by the return of its work, or with the client; its last
    /// callback has run then.
    pub fn ended(&self) -> Completion {
        Completion::new(Arc::clone(&self.0.contender.over), self.0.contender.shared.id)
    }

    /// Stops the election when its last handle is dropped, instead of letting it run on.
    pub fn abort_on_drop(self) -> Self {
        self.0.stop_on_drop.store(true, Ordering::Relaxed);
        self
    }
}

impl fmt::Debug for Election {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.contender.fmt(f)
    }
}

/// Tells when an election's [`Leadership`] changes. It is a handle: the election does not stop while it lives.
#[derive(Debug)]
pub struct LeadershipWatch {
    election: Election,
    seen: u64,
    key: Option<u64>,
}

impl LeadershipWatch {
    /// The leadership now.
    #[must_use]
    pub fn current(&self) -> Leadership {
        self.election.leadership()
    }

    /// The election.
    pub const fn election(&self) -> &Election {
        &self.election
    }

    /// Waits until the leadership is another than when this was last called, and answers it; `None` once the
    /// election is over and that has been answered. Changes that follow each other quickly may be seen as one.
    ///
    /// # Cancel safety
    /// May be dropped at any time; no change is lost by it.
    pub async fn changed(&mut self) -> Option<Leadership> {
        poll_fn(|cx| {
            let mut state = lock(&self.election.0.contender.state);
            if state.version > self.seen {
                self.seen = state.version;
                return Poll::Ready(Some(state.leadership.clone()));
            }
            if matches!(state.leadership, Leadership::Over) {
                return Poll::Ready(None);
            }
            state.waiters.register(&mut self.key, cx.waker());
            Poll::Pending
        })
        .await
    }
}

impl Drop for LeadershipWatch {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            lock(&self.election.0.contender.state).waiters.forget(key);
        }
    }
}

/// The terms of an election: [`TermEvent::Elected`] and [`TermEvent::Revoked`] in strict turn. Ends when the
/// election is over. It is a handle: dropping the last one stops an election that runs no work.
#[derive(Debug)]
pub struct Terms {
    // Closed before the handle goes, which may stop the election.
    events: mpsc::UnboundedReceiver<TermEvent>,
    election: Election,
}

impl Terms {
    /// The next event; `None` when the election is over.
    ///
    /// # Cancel safety
    /// May be dropped at any time; no event is lost by it.
    pub async fn next(&mut self) -> Option<TermEvent> {
        self.events.recv().await
    }

    /// The election.
    pub const fn election(&self) -> &Election {
        &self.election
    }
}

impl Stream for Terms {
    type Item = TermEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<TermEvent>> {
        self.events.poll_recv(cx)
    }
}
