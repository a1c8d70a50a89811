//! Waiting without a runtime: a latch that is set once, with any number of waiters.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use crate::context;

/// Locks a mutex whose data is right at every point at which a panic could leave it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waiters, each with a key, so that one who goes away leaves nothing behind.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    next: u64,
    wakers: Vec<(u64, Waker)>,
}

impl Waiters {
    /// Registers `waker`, in the place that `key` names if there is one.
    pub(crate) fn register(&mut self, key: &mut Option<u64>, waker: &Waker) {
        if let Some((_, known)) = self.wakers.iter_mut().find(|(k, _)| Some(*k) == *key) {
            known.clone_from(waker);
            return;
        }
        self.next += 1;
        *key = Some(self.next);
        self.wakers.push((self.next, waker.clone()));
    }

    pub(crate) fn forget(&mut self, key: u64) {
        self.wakers.retain(|(k, _)| *k != key);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wakers.is_empty()
    }

    /// Takes everyone out; wake them without holding a lock.
    pub(crate) fn take(&mut self) -> Vec<(u64, Waker)> {
        std::mem::take(&mut self.wakers)
    }
}

/// Set once, seen by everyone.
#[derive(Debug, Default)]
pub(crate) struct Latch(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    set: bool,
    waiters: Waiters,
}

impl Latch {
    pub(crate) fn set(&self) {
        let waiters = {
            let mut state = lock(&self.0);
            state.set = true;
            state.waiters.take()
        };
        for (_, waker) in waiters {
            waker.wake();
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        lock(&self.0).set
    }

    fn poll(&self, key: &mut Option<u64>, cx: &Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0);
        if state.set {
            return Poll::Ready(());
        }
        state.waiters.register(key, cx.waker());
        Poll::Pending
    }

    fn forget(&self, key: u64) {
        lock(&self.0).waiters.forget(key);
    }
}

/// Sets a latch when it is dropped: whatever becomes of the message that carries it, whoever waits is told.
#[derive(Debug)]
pub(crate) struct Done(pub(crate) Arc<Latch>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// Resolves when an operation that was started is complete.
///
/// The operation goes on whether or not this is awaited, and may be awaited again by calling the same method again.
///
/// Awaited from inside leader work, a sub-task of a term, or a callback of the same client, it resolves at once:
/// there it would wait for itself. Tasks started with plain `tokio::spawn` are not recognised as inside; start them
/// with [`Term::spawn`](crate::Term::spawn).
///
/// # Cancel safety
/// May be dropped at any time; nothing is undone by it.
#[must_use = "the operation has been started; await this to learn when it is complete"]
pub struct Completion {
    latch: Arc<Latch>,
    client: u64,
    key: Option<u64>,
}

impl Completion {
    pub(crate) const fn new(latch: Arc<Latch>, client: u64) -> Self {
        Self { latch, client, key: None }
    }

    /// One that waits also inside a callback; for the library's own use.
    pub(crate) const fn anywhere(latch: Arc<Latch>) -> Self {
        Self::new(latch, 0)
    }

    /// Whether the operation is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.latch.is_set()
    }
}

impl Future for Completion {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if context::is_inside(self.client) {
            return Poll::Ready(());
        }
        let Self { latch, key, .. } = &mut *self;
        latch.poll(key, cx)
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.latch.forget(key);
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({})", if self.is_complete() { "complete" } else { "under way" })
    }
}
