//! One consistent view of a whole engine.

use alloc::vec::Vec;
use core::time::Duration;
use simba_backend::{FencingToken, LeaseName, SessionId};

use crate::time::Instant;

/// The state of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SessionStatus {
    /// No session yet, or a new one after the last ended.
    Opening,
    /// The last keep-alive succeeded.
    Live,
    /// The last keep-alive failed; the deadline lies ahead.
    Suspended,
    /// The client is closed.
    Closed,
}

/// What an election is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Wants the lease and does not hold it.
    Candidate,
    /// Holds a term.
    Leader,
    /// Its term has ended, and the lease is being given back.
    HandingOver,
    /// Has stepped down and waits out its cooldown, or waits for the work of a lost term to exit.
    CoolingDown,
}

/// One election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionView {
    /// The lease.
    pub name: LeaseName,
    /// What it is doing.
    pub role: Role,
    /// The token of its term, while it holds one.
    pub token: Option<FencingToken>,
    /// When it acts by itself next, if it waits for a time.
    pub next_at: Option<Instant>,
}

/// The session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its state.
    pub status: SessionStatus,
    /// Its id, while there is one.
    pub id: Option<SessionId>,
    /// The lease time granted, while there is one.
    pub granted: Option<Duration>,
    /// The period of the keep-alives, while there is one.
    pub period: Option<Duration>,
    /// The local deadline, while there is one.
    pub deadline: Option<Instant>,
}

/// One view of everything, taken at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The session.
    pub session: SessionView,
    /// The elections, in the order of their names.
    pub elections: Vec<ElectionView>,
}
