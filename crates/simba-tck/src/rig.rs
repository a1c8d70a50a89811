//! For tests of faults on a real server: a session on a store, calls that block, calls that are repeated as the engine
//! repeats them, and a watch that is begun again.

use std::{
    fmt::Debug,
    future::Future,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use simba_backend::{
    Acquired, DynBackend, Failure, FailureKind, FencingToken, Grant, Hint, HintSink, KeepAlive, LeaseName,
    NodeLabel, Outcome, Owned, Owner, Released, SessionId,
};
use tokio::{runtime::Runtime, task::JoinHandle};

/// Far more than any call to a healthy server needs.
pub const PLENTY: Duration = Duration::from_secs(20);
/// A call to a server that may be silent waits this long.
pub const SHORT: Duration = Duration::from_millis(500);
/// What a busy machine may add to a call's limit.
pub const DELAY: Duration = Duration::from_secs(3);
/// A session that no test outlives.
pub const LEASE: Duration = Duration::from_secs(3_600);

/// The connections live on it, also between the calls.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// Waits for a call, on the one runtime that all connections belong to.
pub fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

/// A store and a session on it.
#[derive(Debug)]
pub struct Node {
    /// The store.
    pub store: Arc<dyn DynBackend>,
    /// The session.
    pub session: SessionId,
}

impl Node {
    /// Opens a session that no test outlives.
    ///
    /// # Errors
    /// That of the call.
    pub fn open(store: Arc<dyn DynBackend>) -> Result<Self, Failure> {
        let session = wait(store.open(LEASE, &owner(), PLENTY))?.session;
        Ok(Self { store, session })
    }

    /// A keep-alive that asks for the list.
    ///
    /// # Errors
    /// That of the call.
    pub fn keep_alive(&self, limit: Duration) -> Result<KeepAlive, Failure> {
        wait(self.store.keep_alive(self.session, None, limit))
    }

    /// What the session owns; `None` if it is over.
    ///
    /// # Errors
    /// That of the call.
    ///
    /// # Panics
    /// If the store leaves the list out.
    pub fn owned(&self, limit: Duration) -> Result<Option<Vec<Grant>>, Failure> {
        match self.keep_alive(limit)? {
            KeepAlive::Alive { owned: Owned::Listed { leases, .. }, .. } => Ok(Some(leases)),
            KeepAlive::Expired => Ok(None),
            other => panic!("a keep-alive without a known version lists everything: {other:?}"),
        }
    }

    /// Acquires one lease: the token, or 0 if it was not won.
    ///
    /// # Errors
    /// That of the call.
    pub fn take(&self, lease: &str, limit: Duration) -> Result<u64, Failure> {
        match wait(self.store.acquire(self.session, &[name(lease)], limit))? {
            Acquired::Judged { outcomes, .. } => match outcomes.as_slice() {
                [Outcome::Won { token }] => Ok(token.get()),
                _ => Ok(0),
            },
            Acquired::Expired => Ok(0),
        }
    }

    /// Releases one lease.
    ///
    /// # Errors
    /// That of the call.
    pub fn release(&self, lease: &str, token: u64, limit: Duration) -> Result<Released, Failure> {
        wait(self.store.release(self.session, &[grant(lease, token)], limit))
    }
}

/// A grant.
///
/// # Panics
/// If it can be none.
#[must_use]
pub fn grant(lease: &str, token: u64) -> Grant {
    Grant { name: name(lease), token: FencingToken::new(token).expect("a token") }
}

/// A name.
///
/// # Panics
/// If it can be none.
#[must_use]
pub fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap_or_else(|error| panic!("{error}"))
}

/// An owner with a version of every awkward character.
#[must_use]
pub fn owner() -> Owner {
    Owner {
        node: NodeLabel::sanitized("test"),
        host: NodeLabel::sanitized("h"),
        pid: std::process::id(),
        version: "0.0.0 '\"\n{x}".into(),
    }
}

/// Real time, for bounds on how long a call takes.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "a test measures; nothing of the product decides by it")]
pub fn now() -> Instant {
    Instant::now()
}

/// A call that must fail, and in time. Answers how.
///
/// # Panics
/// If it succeeds, or is late.
pub fn fails<T: Debug>(limit: Duration, call: impl FnOnce(Duration) -> Result<T, Failure>) -> Failure {
    let start = now();
    let failure = call(limit).expect_err("a call to a server that does not answer");
    let took = start.elapsed();
    assert!(took < limit + DELAY, "limit {limit:?}, but it took {took:?}: {failure:?}");
    failure
}

/// Repeats a call until it succeeds, for a minute at most. No attempt may outlive its limit.
///
/// # Panics
/// If it does not succeed, fails for good, or is late.
pub fn again<T>(what: &str, mut call: impl FnMut(Duration) -> Result<T, Failure>) -> T {
    // A server that is coming up may need more than a moment, and a call that is cut short teaches nothing.
    const LIMIT: Duration = Duration::from_secs(2);
    let begun = now();
    loop {
        let start = now();
        let result = call(LIMIT);
        let took = start.elapsed();
        assert!(took < LIMIT + DELAY, "{what}: limit {LIMIT:?}, but it took {took:?}");
        match result {
            Ok(answer) => return answer,
            Err(failure) if begun.elapsed() < Duration::from_secs(60) => {
                assert!(retried(&failure), "{what}: nobody would try that again: {failure:?}");
                thread::sleep(Duration::from_millis(20));
            }
            Err(failure) => panic!("{what}: not within a minute; at last {failure:?}"),
        }
    }
}

fn lock(hints: &Mutex<Vec<Hint>>) -> MutexGuard<'_, Vec<Hint>> {
    hints.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a failure passes by itself, as those of a server that is away do.
fn retried(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::Busy => true,
        FailureKind::Denied | FailureKind::Unsuitable => false,
    }
}

/// A watch that is started again whenever it ends, as the engine does.
#[derive(Debug)]
pub struct Watcher {
    hints: Arc<Mutex<Vec<Hint>>>,
    task: JoinHandle<()>,
}

impl Watcher {
    /// Begins to watch.
    #[must_use]
    pub fn start(store: Arc<dyn DynBackend>) -> Self {
        let hints = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&hints);
        let sink = HintSink::new(move |hint| lock(&seen).push(hint));
        let task = RUNTIME.spawn(async move {
            loop {
                let failure = store.watch(sink.clone()).await;
                assert!(retried(&failure), "nobody would begin that again: {failure:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { hints, task }
    }

    /// Forgets what was heard.
    ///
    /// # Panics
    /// If a test has panicked meanwhile.
    pub fn forget(&self) {
        lock(&self.hints).clear();
    }

    /// Waits until it hears this.
    ///
    /// # Panics
    /// If it does not within a minute.
    pub fn waits_for(&self, hint: &Hint, when: &str) {
        let begun = now();
        while !lock(&self.hints).contains(hint) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{hint:?} is not heard {when}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}
