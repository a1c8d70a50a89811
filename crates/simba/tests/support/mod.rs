//! What the tests share: a store on a clock that is moved by hand, faults, and waiting for a condition.
#![expect(dead_code, reason = "each test file uses its part")]

pub(crate) mod scenarios;

use simba::backend::{
    Acquired, Backend, Capabilities, Effect, Failure, FailureKind, Grant, HintSink, InspectQuery, Inspection,
    KeepAlive, Opened, Owner, Released, SessionId, Version,
};
use simba::clock::{BootClock, Clock, ManualClock};
use simba::memory::MemoryBackend;
use simba::{Builder, Election, Leadership, LeaseName, Simba, Term, Timing};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The bound of every wait: far beyond what anything takes here, also on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A store that measures real time.
pub(crate) fn real_store() -> MemoryBackend {
    MemoryBackend::new(|| BootClock.now().as_nanos())
}

/// A store and nodes on one clock that only the test moves.
#[derive(Clone)]
pub(crate) struct Lab {
    pub(crate) clock: ManualClock,
    pub(crate) store: FaultStore,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        let stores = clock.clone();
        Self { clock, store: FaultStore::new(MemoryBackend::new(move || stores.now().as_nanos())) }
    }

    pub(crate) fn builder(&self, label: &str) -> Builder {
        Simba::builder(self.store.clone()).node(label).clock(Arc::new(self.clock.clone())).seed(7)
    }

    pub(crate) fn node(&self, label: &str) -> Simba {
        self.builder(label).build().unwrap()
    }

    /// Whether the store says that a living session holds the lease.
    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.holder(name).is_some()
    }

    /// The label of the node that holds the lease, as the store says.
    pub(crate) fn holder(&self, name: &str) -> Option<String> {
        let query = InspectQuery { prefix: name.to_owned(), after: None, limit: 1 };
        let page = self.store.inner.with_store(|store, now| store.inspect(now, &query));
        let record = page.leases.into_iter().find(|record| record.name.as_str() == name)?;
        record.held.map(|held| held.owner.node.as_str().to_owned())
    }

    /// One small step of time, and real time enough for the nodes to do what is due. When the machine is so busy
    /// that this thread itself comes late, the nodes get longer.
    async fn tick(&self) {
        self.clock.advance(millis(50));
        let before = BootClock.now();
        tokio::time::sleep(millis(1)).await;
        if BootClock.now().saturating_since(before) > millis(4) {
            tokio::time::sleep(millis(20)).await;
        }
    }

    /// Lets time pass in small steps until the condition holds.
    pub(crate) async fn run_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let start = BootClock.now();
        while !holds() {
            assert!(BootClock.now().saturating_since(start) < LONG, "never: {what}");
            self.tick().await;
        }
    }

    /// Lets this much time pass, in small steps, so that keep-alives have their turn.
    pub(crate) async fn run_for(&self, time: Duration) {
        let until = self.clock.now().saturating_add(time);
        while self.clock.now() < until {
            self.tick().await;
        }
    }
}

/// Waits until a condition holds, without moving any clock.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = BootClock.now();
    while !holds() {
        assert!(BootClock.now().saturating_since(start) < LONG, "never: {what}");
        tokio::time::sleep(millis(1)).await;
    }
}

/// Waits for a future, but not for ever.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Waits until an election leads.
pub(crate) async fn led(election: &Election) -> Term {
    let mut watch = election.watch();
    soon("elected", async {
        loop {
            if let Leadership::Leader(term) = watch.current() {
                return term;
            }
            assert!(watch.changed().await.is_some(), "the election is over");
        }
    })
    .await
}

pub(crate) fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap()
}

pub(crate) fn short_timing() -> Timing {
    Timing::builder().lease(secs(1)).build().unwrap()
}

/// What a [`FaultStore`] does with the calls to it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    Pass,
    /// Nothing is done, and the store says so.
    Fail,
    /// No answer ever comes.
    Hang,
    /// The backend's own code panics.
    Panic,
    /// It is done, and the reply is lost.
    LoseReply,
}

/// The real memory store behind a switch.
#[derive(Clone, Debug)]
pub(crate) struct FaultStore {
    pub(crate) inner: MemoryBackend,
    mode: Arc<AtomicU8>,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) watches: Arc<AtomicU64>,
    pub(crate) watching: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
}

impl FaultStore {
    pub(crate) fn new(inner: MemoryBackend) -> Self {
        let (mode, cut) = Default::default();
        let (calls, watches, watching) = Default::default();
        Self { inner, mode, calls, watches, watching, cut }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    /// Ends every watch, and those that are started, while calls go through.
    pub(crate) fn cut_watches(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    async fn through<T>(&self, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mode = self.mode.load(Ordering::SeqCst);
        let failure = |effect| Failure::new(FailureKind::Unreachable, effect, "the wire is cut");
        if mode == Mode::Pass as u8 {
            call.await
        } else if mode == Mode::Fail as u8 {
            Err(failure(Effect::None))
        } else if mode == Mode::Hang as u8 {
            std::future::pending().await
        } else if mode == Mode::Panic as u8 {
            panic!("a backend with a fault")
        } else {
            call.await.and(Err(failure(Effect::Unknown)))
        }
    }
}

impl Backend for FaultStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn open(&self, lease: Duration, owner: &Owner, limit: Duration) -> Result<Opened, Failure> {
        self.through(self.inner.open(lease, owner, limit)).await
    }
    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        self.through(self.inner.keep_alive(session, known, limit)).await
    }
    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        self.through(self.inner.acquire(session, names, limit)).await
    }
    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        self.through(self.inner.release(session, grants, limit)).await
    }
    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        self.through(self.inner.close(session, limit)).await
    }
    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        self.through(self.inner.inspect(query, limit)).await
    }
    async fn force_release(
        &self,
        name: &LeaseName,
        token: simba_backend::FencingToken,
        limit: Duration,
    ) -> Result<simba_backend::Forced, Failure> {
        self.through(self.inner.force_release(name, token, limit)).await
    }
    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        self.through(self.inner.evict(session, limit)).await
    }
    async fn examine(&self, limit: Duration) -> simba_backend::Examination {
        self.inner.examine(limit).await
    }
    async fn watch(&self, sink: HintSink) -> Failure {
        self.watches.fetch_add(1, Ordering::SeqCst);
        self.watching.fetch_add(1, Ordering::SeqCst);
        let cut = async {
            while self.mode.load(Ordering::SeqCst) == Mode::Pass as u8 && !self.cut.load(Ordering::SeqCst) {
                tokio::time::sleep(millis(1)).await;
            }
            Failure::new(FailureKind::Unreachable, Effect::None, "the wire is cut")
        };
        let ended = tokio::select! {
            biased;
            cut = cut => cut,
            ended = self.inner.watch(sink) => ended,
        };
        self.watching.fetch_sub(1, Ordering::SeqCst);
        ended
    }
}
