//! Terms, as their users hold them.

use simba_backend::{FencingToken, LeaseName};
use simba_core::{Instant, RevokeReason, TermId};
use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    context,
    driver::{Input, Shared},
    error::{Error, TermExpired},
    planted::planted,
    wait::{Waiters, lock},
};

/// One period in which this node owns a lease.
///
/// Validity is *read*, not told: [`is_valid`](Self::is_valid) is right on the first look after any pause, with no
/// task of this library having run before. Once it was false it stays false. It is a hint for when to start a step,
/// never a proof that nobody else owns the lease: pass [`token`](Self::token) with every write, and let the resource
/// refuse a lower one.
///
/// Clones are handles to the same term, may be sent anywhere, and do not keep the client open.
#[derive(Clone)]
pub struct Term {
    core: simba_core::Term,
    shared: Arc<Shared>,
}

impl Term {
    pub(crate) const fn new(core: simba_core::Term, shared: Arc<Shared>) -> Self {
        Self { core, shared }
    }

    pub(crate) fn id(&self) -> TermId {
        self.core.id()
    }

    /// The lease.
    #[must_use]
    pub const fn name(&self) -> &LeaseName {
        self.core.name()
    }

    /// The fencing token: pass it with every write to the protected resource.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.core.token()
    }

    /// Whether the term has not ended and its deadline lies ahead. One clock read and a few atomic loads.
    #[must_use]
    #[inline]
    pub fn is_valid(&self) -> bool {
        if planted!(self.shared, M10WatchedFlag) {
            return self.end_reason().is_none();
        }
        self.core.is_valid(|| self.shared.clock.now())
    }

    /// The time left before the local deadline; zero once the term ended. Each keep-alive moves the deadline on.
    #[must_use]
    #[inline]
    pub fn remaining(&self) -> Duration {
        self.core.remaining(|| self.shared.clock.now())
    }

    /// The deadline as it stands now, as an instant of the client's clock (on Linux nanoseconds of
    /// `CLOCK_BOOTTIME`, which every process of the host can read), for a helper process that must act by itself;
    /// `None` once the term ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.core.deadline(|| self.shared.clock.now())
    }

    /// Refuses unless the term is valid for *more* than `min`. Call it before each step, with the time that the
    /// step is expected to take.
    ///
    /// # Errors
    /// [`TermExpired`].
    pub fn ensure_valid(&self, min: Duration) -> Result<(), TermExpired> {
        let remaining = self.remaining();
        if remaining > min {
            return Ok(());
        }
        Err(TermExpired {
            name: self.name().clone(),
            token: self.token(),
            reason: self.end_reason(),
            remaining,
            needed: min,
        })
    }

    /// Why the term ended, once the engine has recorded it. A term that has passed its deadline reads invalid
    /// before that.
    #[must_use]
    pub fn end_reason(&self) -> Option<RevokeReason> {
        self.core.end_reason()
    }

    /// Waits for the end of the term, and answers why it ended.
    ///
    /// Any number of tasks may wait, on any executor, also after the end. If the engine itself is gone (its runtime
    /// was shut down), the term has ended, as stopped.
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing is lost.
    pub fn revoked(&self) -> Revoked {
        Revoked { term: self.clone(), key: None }
    }

    /// A token that is cancelled when the term ends, to hand to code that takes one. Cancelling it oneself ends
    /// nothing but what listens to this very token.
    #[must_use]
    pub fn cancelled(&self) -> CancellationToken {
        self.shared.terms.token(self)
    }

    /// Starts a task that belongs to the term: it is dropped at its next await point when the term ends, and the
    /// lease is not given back before it is gone (nor later than the deadline). The handle answers `None` if the
    /// task was dropped so, or never started because the term had ended already.
    ///
    /// A task from plain `tokio::spawn` runs on after the term; that is the most common mistake in leader work.
    ///
    /// # Errors
    /// [`Error::NoRuntime`] outside of a tokio runtime.
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<Option<F::Output>>, Error>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let runtime = runtime("Term::spawn")?;
        let guard = self.shared.terms.enter(self);
        let ended = self.cancelled();
        let client = self.shared.id;
        Ok(runtime.spawn(async move {
            let guard = guard?;
            let output = ended.run_until_cancelled_owned(context::within(client, future)).await;
            drop(guard);
            output
        }))
    }

    /// Runs a blocking function on tokio's threads for blocking work, as part of the term: it should look at
    /// [`is_valid`](Self::is_valid) now and then, and the lease is not given back before it returns (nor later
    /// than the deadline). The handle answers `None` if the term had ended before the function was started.
    ///
    /// # Errors
    /// [`Error::NoRuntime`] outside of a tokio runtime.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<Option<T>>, Error> {
        let runtime = runtime("Term::spawn_blocking")?;
        let guard = self.shared.terms.enter(self);
        let term = self.clone();
        Ok(runtime.spawn_blocking(move || {
            let guard = guard.filter(|_| term.is_valid())?;
            let output = context::within_sync(term.shared.id, function);
            drop(guard);
            Some(output)
        }))
    }

    /// Registers work with the term; `None` if the term has ended.
    pub(crate) fn enter(&self) -> Option<WorkGuard> {
        self.shared.terms.enter(self)
    }
}

pub(crate) fn runtime(call: &'static str) -> Result<tokio::runtime::Handle, Error> {
    tokio::runtime::Handle::try_current().map_err(|_| Error::NoRuntime { call })
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

/// Waits for the end of a term: see [`Term::revoked`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Revoked {
    term: Term,
    key: Option<u64>,
}

impl Future for Revoked {
    type Output = RevokeReason;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RevokeReason> {
        let Self { term, key } = &mut *self;
        term.shared.terms.poll_revoked(&term.core, key, cx.waker())
    }
}

impl Drop for Revoked {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.term.shared.terms.forget(self.term.id(), key);
        }
    }
}

/// What hangs on terms: who waits for their end, and the work that runs under them. There is an entry only for a
/// term that is waited for or worked under; a lease that is merely held costs nothing here.
#[derive(Debug, Default)]
pub(crate) struct TermTable(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    sides: HashMap<TermId, Side>,
    /// The engine is gone: no end will ever be reported again.
    gone: bool,
}

#[derive(Debug, Default)]
struct Side {
    waiters: Waiters,
    token: Option<CancellationToken>,
    running: usize,
    ended: bool,
}

impl Side {
    fn is_idle(&self) -> bool {
        self.running == 0 && (self.ended || (self.token.is_none() && self.waiters.is_empty()))
    }

    /// Marks the end, and takes out whoever must be told.
    fn end(&mut self) -> (Vec<(u64, Waker)>, Option<CancellationToken>) {
        self.ended = true;
        (self.waiters.take(), self.token.take())
    }
}

fn tell((waiters, token): (Vec<(u64, Waker)>, Option<CancellationToken>)) {
    if let Some(token) = token {
        token.cancel();
    }
    for (_, waker) in waiters {
        waker.wake();
    }
}

impl TermTable {
    /// The term has ended: tells its waiters. Answers whether no work runs under it.
    pub(crate) fn ended(&self, term: TermId) -> bool {
        let mut table = lock(&self.0);
        let Some(side) = table.sides.get_mut(&term) else { return true };
        let told = side.end();
        let idle = side.is_idle();
        if idle {
            table.sides.remove(&term);
        }
        drop(table);
        tell(told);
        idle
    }

    /// The engine is gone, and every term with it.
    pub(crate) fn gone(&self) {
        let told: Vec<_> = {
            let mut table = lock(&self.0);
            table.gone = true;
            let told = table.sides.values_mut().map(Side::end).collect();
            table.sides.retain(|_, side| !side.is_idle());
            told
        };
        told.into_iter().for_each(tell);
    }

    fn enter(&self, term: &Term) -> Option<WorkGuard> {
        let mut table = lock(&self.0);
        // Under the lock: an end that is recorded after this look is reported after this entry, and finds it.
        if table.gone || term.end_reason().is_some() {
            return None;
        }
        if !planted!(term.shared, UncountedWork) {
            table.sides.entry(term.id()).or_default().running += 1;
        }
        Some(WorkGuard { id: term.id(), shared: Arc::clone(&term.shared) })
    }

    /// Work is out; answers whether the engine waits to hear of it.
    fn exit(&self, id: TermId) -> bool {
        let mut table = lock(&self.0);
        let Some(side) = table.sides.get_mut(&id) else { return false };
        side.running = side.running.saturating_sub(1);
        let waited_for = side.ended && side.running == 0;
        if side.is_idle() {
            table.sides.remove(&id);
        }
        waited_for
    }

    fn token(&self, term: &Term) -> CancellationToken {
        let mut table = lock(&self.0);
        if table.gone || term.end_reason().is_some() {
            let over = CancellationToken::new();
            over.cancel();
            return over;
        }
        let side = table.sides.entry(term.id()).or_default();
        side.token.get_or_insert_default().child_token()
    }

    fn poll_revoked(
        &self,
        term: &simba_core::Term,
        key: &mut Option<u64>,
        waker: &Waker,
    ) -> Poll<RevokeReason> {
        let mut table = lock(&self.0);
        if let Some(reason) = term.end_reason() {
            return Poll::Ready(reason);
        }
        if table.gone {
            return Poll::Ready(RevokeReason::Stopped);
        }
        table.sides.entry(term.id()).or_default().waiters.register(key, waker);
        Poll::Pending
    }

    fn forget(&self, id: TermId, key: u64) {
        let mut table = lock(&self.0);
        if let Some(side) = table.sides.get_mut(&id) {
            side.waiters.forget(key);
            if side.is_idle() {
                table.sides.remove(&id);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.0).sides.len()
    }
}

/// Work that runs under a term; dropping it reports the exit.
#[derive(Debug)]
pub(crate) struct WorkGuard {
    id: TermId,
    shared: Arc<Shared>,
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        if self.shared.terms.exit(self.id) {
            self.shared.send(Input::WorkExited(self.id));
        }
    }
}
