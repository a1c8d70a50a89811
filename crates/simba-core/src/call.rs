//! Calls: what the engine asks of the store, and what comes back.

use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;
use simba_backend::{Acquired, Grant, KeepAlive, LeaseName, Opened, Released, SessionId, Version};

/// Which call. Each call is answered exactly once, sooner or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) u64);

/// What the store is asked. Each variant is the call of the same name in `simba_backend::Backend`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Open a session.
    Open {
        /// The lease time to ask for.
        lease: Duration,
    },
    /// Renew the session.
    KeepAlive {
        /// The session.
        session: SessionId,
        /// The ownership version at which this engine's own view is complete, if there is one.
        known: Option<Version>,
    },
    /// Try to acquire every name.
    Acquire {
        /// The session.
        session: SessionId,
        /// The names.
        names: Arc<[LeaseName]>,
    },
    /// Free every lease of the batch.
    Release(Release),
    /// End the session.
    Close {
        /// The session.
        session: SessionId,
    },
}

/// A batch of leases to free. Only the engine makes one, and only of leases whose terms have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    session: SessionId,
    grants: Vec<Grant>,
}

impl Release {
    pub(crate) fn new(session: SessionId, leases: impl Iterator<Item = crate::term::Releasable>) -> Self {
        Self { session, grants: leases.map(crate::term::Releasable::into_grant).collect() }
    }

    /// The session that owns them.
    #[must_use]
    pub const fn session(&self) -> SessionId {
        self.session
    }

    /// The leases and their tokens.
    #[must_use]
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }
}

/// What the store answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Request::Open`].
    Opened(Opened),
    /// To [`Request::KeepAlive`].
    KeepAlive(KeepAlive),
    /// To [`Request::Acquire`].
    Acquired(Acquired),
    /// To [`Request::Release`].
    Released(Released),
    /// To [`Request::Close`].
    Closed,
}
