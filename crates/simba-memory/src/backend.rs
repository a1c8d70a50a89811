//! The store behind a mutex and a clock.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use simba_backend::{
    Acquired, Backend, Capabilities, Effect, Examination, Failure, FailureKind, FencingToken, Finding,
    Forced, Grant, Hint, HintSink, InspectQuery, Inspection, KeepAlive, LeaseName, Level, Opened, Owner,
    Released, SessionId, Survives, TokenPromise, Version,
};

use crate::Store;

/// A [`Store`] in this process. Clones share it: each is another node's connection to the same store.
///
/// ```
/// use simba_memory::MemoryBackend;
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
///
/// // A clock that a test moves by hand, in nanoseconds.
/// let time = Arc::new(AtomicU64::new(0));
/// let clock = Arc::clone(&time);
/// let store = MemoryBackend::new(move || clock.load(Ordering::SeqCst));
/// # drop(store);
/// ```
#[derive(Clone)]
pub struct MemoryBackend(Arc<Shared>);

struct Shared {
    store: Mutex<Store>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    watchers: Mutex<Vec<(u64, HintSink)>>,
    next_watcher: AtomicU64,
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryBackend")
    }
}

impl MemoryBackend {
    /// An empty store whose clock is `clock`, in nanoseconds.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            store: Mutex::default(),
            clock: Box::new(clock),
            watchers: Mutex::default(),
            next_watcher: AtomicU64::new(0),
        }))
    }

    /// Does something with the store itself, at its present instant; for tests.
    pub fn with_store<T>(&self, act: impl FnOnce(&mut Store, u64) -> T) -> T {
        let now = (self.0.clock)();
        let (result, freed) = {
            let mut store = lock(&self.0.store);
            let result = act(&mut store, now);
            (result, store.take_freed())
        };
        // The watchers are told outside the lock: a sink may call back.
        if !freed.is_empty() {
            let sinks: Vec<_> = lock(&self.0.watchers).iter().map(|(_, sink)| sink.clone()).collect();
            for sink in sinks {
                for name in &freed {
                    sink.send(Hint::Freed(name.clone()));
                }
            }
        }
        result
    }
}

/// A panic of some test while it held the lock says nothing about the store: every operation leaves it whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn new_session_id() -> Result<SessionId, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let text = format!("the operating system gives no random bytes for a session id: {error}");
        Failure::new(FailureKind::Unsuitable, Effect::None, text)
    })?;
    Ok(SessionId::new(u128::from_le_bytes(bytes)))
}

impl Backend for MemoryBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities { broadcast: true, consecutive_tokens: true, sees_foreign_changes: true }
    }

    async fn open(&self, lease: Duration, owner: &Owner, _limit: Duration) -> Result<Opened, Failure> {
        let (session, owner) = (new_session_id()?, Arc::new(owner.clone()));
        Ok(self.with_store(|store, now| store.open(now, session, lease, owner)))
    }

    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        _limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        Ok(self.with_store(|store, now| store.keep_alive(now, session, known)))
    }

    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        _limit: Duration,
    ) -> Result<Acquired, Failure> {
        Ok(self.with_store(|store, now| store.acquire(now, session, names)))
    }

    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        _limit: Duration,
    ) -> Result<Released, Failure> {
        Ok(self.with_store(|store, now| store.release(now, session, grants)))
    }

    async fn close(&self, session: SessionId, _limit: Duration) -> Result<(), Failure> {
        self.with_store(|store, _| store.close(session));
        Ok(())
    }

    async fn inspect(&self, query: &InspectQuery, _limit: Duration) -> Result<Inspection, Failure> {
        Ok(self.with_store(|store, now| store.inspect(now, query)))
    }

    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        _limit: Duration,
    ) -> Result<Forced, Failure> {
        Ok(self.with_store(|store, _| store.force_release(name, token)))
    }

    async fn evict(&self, session: SessionId, _limit: Duration) -> Result<bool, Failure> {
        Ok(self.with_store(|store, now| store.evict(now, session)))
    }

    async fn examine(&self, _limit: Duration) -> Examination {
        let findings = vec![Finding::new(Level::Note, "this process only: leases in memory", "")];
        let (reason, advice) = ("the store is gone with its process".into(), "use a store on a disk".into());
        let tokens = TokenPromise { survives: Survives::WhileItRuns, reason, advice };
        Examination { findings, tokens: Some(tokens) }
    }

    fn watch(&self, sink: HintSink) -> impl Future<Output = Failure> + Send {
        let id = self.0.next_watcher.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.watchers).push((id, sink));
        Watch { shared: Arc::clone(&self.0), id }
    }
}

/// Stays pending; its drop ends the watch.
struct Watch {
    shared: Arc<Shared>,
    id: u64,
}

impl Future for Watch {
    type Output = Failure;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Failure> {
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        lock(&self.shared.watchers).retain(|(id, _)| *id != self.id);
    }
}
