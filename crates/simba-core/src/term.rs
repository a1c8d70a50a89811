//! Terms, and the proofs that a lease may be released.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU8, Ordering};
#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, Ordering};

use alloc::sync::Arc;
use core::{fmt, time::Duration};
use simba_backend::{FencingToken, Grant, LeaseName};

use crate::{time::Instant, validity::DeadlineCell};

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RevokeReason {
    /// The election was stopped, the lock released, or the client closed.
    Stopped,
    /// The election stepped down.
    SteppedDown,
    /// The session's local deadline passed without a keep-alive that counted.
    DeadlinePassed,
    /// The store said that the session is over.
    SessionExpired,
    /// A keep-alive showed that the session does not own the lease with this token any more.
    TakenOver,
}

impl RevokeReason {
    /// The reason in snake case, as it stands in JSON and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::SteppedDown => "stepped_down",
            Self::DeadlinePassed => "deadline_passed",
            Self::SessionExpired => "session_expired",
            Self::TakenOver => "taken_over",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Stopped => 1,
            Self::SteppedDown => 2,
            Self::DeadlinePassed => 3,
            Self::SessionExpired => 4,
            Self::TakenOver => 5,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Stopped),
            2 => Some(Self::SteppedDown),
            3 => Some(Self::DeadlinePassed),
            4 => Some(Self::SessionExpired),
            5 => Some(Self::TakenOver),
            _ => None,
        }
    }
}

impl fmt::Display for RevokeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which term, within one engine: no two terms of an engine have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TermId {
    /// Rises with every term of the engine.
    pub(crate) serial: u64,
    /// Where the election sits; checked against `serial` at each use.
    pub(crate) slot: u32,
}

/// One period in which this node owns a lease. Any number of threads may hold and read it.
///
/// It knows no clock; who reads it hands one in. Cloning copies two pointers.
#[derive(Clone)]
pub struct Term {
    name: LeaseName,
    core: Arc<TermCore>,
}

/// What all handles of a term share, and the engine with them. Kept small: there is one per held lease.
pub(crate) struct TermCore {
    token: FencingToken,
    serial: u64,
    session: Arc<DeadlineCell>,
    slot: u32,
    reason: AtomicU8,
}

impl Term {
    /// The lease.
    #[must_use]
    pub const fn name(&self) -> &LeaseName {
        &self.name
    }

    /// The fencing token: pass it with every write to the protected resource.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.core.token
    }

    /// Which term this is, within its engine.
    #[must_use]
    pub fn id(&self) -> TermId {
        self.core.id()
    }

    /// Whether the term has not been ended and its session's deadline lies ahead.
    ///
    /// Right on the first read after any pause, without any task having run. Once it was false it stays false.
    #[inline]
    pub fn is_valid(&self, clock: impl Fn() -> Instant) -> bool {
        self.core.valid_until(clock).is_some()
    }

    /// The time left before the deadline; zero once the term ended.
    #[inline]
    pub fn remaining(&self, clock: impl Fn() -> Instant) -> Duration {
        self.core.valid_until(clock).map_or(Duration::ZERO, |(now, deadline)| deadline.saturating_since(now))
    }

    /// The deadline as it stands now, for a helper process that must act by itself; `None` once the term ended.
    pub fn deadline(&self, clock: impl Fn() -> Instant) -> Option<Instant> {
        self.core.valid_until(clock).map(|(_, deadline)| deadline)
    }

    /// Why the term ended, once the engine has recorded it. A term whose deadline has passed reads invalid before
    /// the engine has noticed; the reason is then still `None`.
    #[must_use]
    pub fn end_reason(&self) -> Option<RevokeReason> {
        self.core.reason()
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Term({} {:?}", self.name, self.core.token)?;
        if let Some(reason) = self.end_reason() {
            write!(f, " ended: {reason}")?;
        }
        write!(f, ")")
    }
}

impl TermCore {
    fn id(&self) -> TermId {
        TermId { serial: self.serial, slot: self.slot }
    }

    fn reason(&self) -> Option<RevokeReason> {
        RevokeReason::from_code(self.reason.load(Ordering::Acquire))
    }

    /// The reading of the clock and the deadline, if the term is valid.
    ///
    /// The end mark and the cell are looked at after the clock was read, so that a reader that was paused in
    /// between does not answer from before the pause.
    #[inline]
    fn valid_until(&self, clock: impl Fn() -> Instant) -> Option<(Instant, Instant)> {
        let found = self.session.valid_until(clock)?;
        (self.reason.load(Ordering::Acquire) == 0 && !self.session.is_ended()).then_some(found)
    }
}

/// The engine's side of a valid term. There is one per term, and ending it consumes it: a term ends once.
pub(crate) struct Held(Arc<TermCore>);

impl Held {
    pub(crate) fn new(serial: u64, slot: u32, token: FencingToken, session: Arc<DeadlineCell>) -> Self {
        Self(Arc::new(TermCore { token, serial, session, slot, reason: AtomicU8::new(0) }))
    }

    pub(crate) fn term(&self, name: LeaseName) -> Term {
        Term { name, core: Arc::clone(&self.0) }
    }

    pub(crate) fn id(&self) -> TermId {
        self.0.id()
    }

    pub(crate) fn token(&self) -> FencingToken {
        self.0.token
    }

    /// Ends the term for every reader, before it returns.
    pub(crate) fn end(self, reason: RevokeReason) -> EndedTerm {
        self.0.reason.store(reason.code(), Ordering::Release);
        EndedTerm { id: self.0.id(), token: self.0.token, reason }
    }
}

/// Proof that a term has ended for every reader.
#[derive(Debug)]
#[must_use = "the store may still hold this lease for us"]
pub(crate) struct EndedTerm {
    pub(crate) id: TermId,
    pub(crate) token: FencingToken,
    pub(crate) reason: RevokeReason,
}

/// A lease that may be released, because no reader can believe in it: it comes from an ended term, from a win that
/// was never adopted, or from an entry that no term here explains. There is no other way to make one, so a release
/// of a lease that somebody still relies on cannot be written.
#[derive(Debug)]
#[must_use = "the store may still hold this lease for us"]
pub(crate) struct Releasable(Grant);

impl Releasable {
    /// From a term that has ended.
    pub(crate) fn ended(name: LeaseName, term: &EndedTerm) -> Self {
        Self(Grant { name, token: term.token })
    }

    /// From a win that is not adopted, or from an entry in the store's list that nothing here explains. The caller
    /// has checked that no term of this engine carries this name and token.
    pub(crate) fn unadopted(grant: Grant) -> Self {
        Self(grant)
    }

    pub(crate) fn grant(&self) -> &Grant {
        &self.0
    }

    pub(crate) fn into_grant(self) -> Grant {
        self.0
    }
}
