//! News for observers: logs, metrics, events. Losing one changes nothing.

use alloc::sync::Arc;
use core::time::Duration;
use simba_backend::{Failure, FencingToken, Held, LeaseName, SessionId};

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionEnd {
    /// Its local deadline passed without a keep-alive that counted.
    DeadlinePassed,
    /// The store said so.
    Expired,
    /// This client closed it.
    Closed,
}

/// One piece of news, in the order in which it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A session is live. Comes after the `SessionEnded` of the one before.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// The lease time that the store granted.
        granted: Duration,
        /// The period of its keep-alives.
        period: Duration,
    },
    /// No session could be opened; it is tried again by itself.
    OpenFailed {
        /// Why.
        failure: Failure,
        /// When the next try comes, from now.
        retry_in: Duration,
    },
    /// The store grants less than was asked for, and two keep-alives at the renew interval do not fit: this session
    /// renews more often. At most once a session.
    LeaseShortened {
        /// The session.
        session: SessionId,
        /// What was asked for.
        requested: Duration,
        /// What was granted.
        granted: Duration,
        /// The period in effect: a third of the local validity of the grant.
        period: Duration,
    },
    /// A keep-alive failed; terms stay valid until the deadline.
    SessionSuspended {
        /// The session.
        session: SessionId,
        /// Why.
        failure: Failure,
    },
    /// A keep-alive counted again after a suspension.
    SessionResumed {
        /// The session.
        session: SessionId,
    },
    /// A keep-alive counted.
    Renewed {
        /// The session.
        session: SessionId,
        /// The new time left.
        remaining: Duration,
    },
    /// A session is over.
    SessionEnded {
        /// The session.
        session: SessionId,
        /// Why.
        reason: SessionEnd,
    },
    /// An attempt was refused: somebody else holds the lease.
    Refused {
        /// The lease.
        name: LeaseName,
        /// What the store told of the owner.
        held: Held,
    },
    /// An acquire call failed as a whole.
    AttemptFailed {
        /// The names that it was for.
        names: Arc<[LeaseName]>,
        /// Why.
        failure: Failure,
    },
    /// A release call failed; the lease is found by a later keep-alive and released then.
    ReleaseFailed {
        /// Why.
        failure: Failure,
    },
    /// The store handed out a token below one that this client has seen: the store has lost writes. The win was
    /// refused.
    TokenRegressed {
        /// The lease.
        name: LeaseName,
        /// The highest token seen.
        seen: FencingToken,
        /// The token handed out.
        given: FencingToken,
    },
    /// A lease that the store lists as ours was released, because nothing here explains it: the reply that brought
    /// it was lost.
    OrphanReleased {
        /// The lease.
        name: LeaseName,
        /// Its token.
        token: FencingToken,
    },
}
