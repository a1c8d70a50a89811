//! Calls that are under way: who waits for what, and until when.
//!
//! The engine stops waiting for a call at its `give_up_at`; the call is then *abandoned*, and its entry stays until
//! the answer comes, since a lease that was won late must be released.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};
use simba_backend::{Grant, LeaseName, SessionId};

use crate::{call::CallId, time::Instant};

/// One call under way.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) sent_at: Instant,
    pub(crate) give_up_at: Instant,
    pub(crate) abandoned: bool,
}

/// What the call is for.
#[derive(Debug)]
pub(crate) enum Kind {
    Open,
    KeepAlive { session: SessionId },
    Acquire { session: SessionId, names: Arc<[LeaseName]>, slots: Box<[u32]> },
    Release { session: SessionId, grants: Vec<Grant>, slots: Vec<u32> },
    Close,
}

/// The calls under way.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pending: BTreeMap<CallId, Pending>,
    waiting: BTreeSet<(Instant, CallId)>,
    next: u64,
}

impl Calls {
    pub(crate) fn begin(&mut self, kind: Kind, sent_at: Instant, give_up_at: Instant) -> CallId {
        let id = self.next_id();
        self.next += 1;
        self.waiting.insert((give_up_at, id));
        self.pending.insert(id, Pending { kind, sent_at, give_up_at, abandoned: false });
        id
    }

    /// The id that the next call will have.
    pub(crate) const fn next_id(&self) -> CallId {
        CallId(self.next)
    }

    /// Takes the entry of a call that was answered.
    pub(crate) fn finish(&mut self, id: CallId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        self.waiting.remove(&(pending.give_up_at, id));
        Some(pending)
    }

    /// Stops waiting for a call; its entry stays.
    pub(crate) fn abandon(&mut self, id: CallId) {
        if let Some(pending) = self.pending.get_mut(&id) {
            pending.abandoned = true;
            self.waiting.remove(&(pending.give_up_at, id));
        }
    }

    /// Stops waiting for every call of a session.
    pub(crate) fn abandon_session(&mut self, session: SessionId) {
        let ids: Vec<_> =
            self.pending.iter().filter(|(_, p)| p.session() == Some(session)).map(|(id, _)| *id).collect();
        for id in ids {
            self.abandon(id);
        }
    }

    pub(crate) fn next_give_up(&self) -> Option<Instant> {
        self.waiting.first().map(|&(at, _)| at)
    }

    /// Some call whose time is over.
    pub(crate) fn next_due(&self, now: Instant) -> Option<CallId> {
        self.waiting.first().filter(|&&(at, _)| at <= now).map(|&(_, id)| id)
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// The oldest acquire that has not been answered.
    pub(crate) fn oldest_acquire(&self) -> Option<CallId> {
        self.pending.iter().find(|(_, p)| matches!(p.kind, Kind::Acquire { .. })).map(|(id, _)| *id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pending> {
        self.pending.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len()
    }
}

impl Pending {
    pub(crate) const fn session(&self) -> Option<SessionId> {
        match self.kind {
            Kind::KeepAlive { session } | Kind::Acquire { session, .. } | Kind::Release { session, .. } => {
                Some(session)
            }
            Kind::Open | Kind::Close => None,
        }
    }
}
