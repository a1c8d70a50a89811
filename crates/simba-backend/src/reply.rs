//! What a store answers: one small type per call.

use crate::{FencingToken, LeaseName, Owner, SessionId};
use alloc::{sync::Arc, vec::Vec};
use core::time::Duration;

/// The ownership version of a session: how often its set of leases has changed.
///
/// It starts at zero when the session opens. Each lease that becomes the session's, or ceases to be, raises it by
/// one, in the same atomic step as the change. Two equal versions of one session mean the same set of leases, so
/// a keep-alive needs no list to show that nothing was taken away.
///
/// ```
/// use simba_backend::Version;
///
/// assert_eq!(Version::default(), Version(0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// The versions before and after a call that changed leases; the same twice when it changed none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VersionStep {
    /// Before the call's first change.
    pub before: Version,
    /// After the call's last change.
    pub after: Version,
}

/// A lease that a session owns, as the store records it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// The lease.
    pub name: LeaseName,
    /// The token of the term.
    pub token: FencingToken,
}

/// A session was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The new session's id.
    pub session: SessionId,
    /// How long the store lets the session live after each keep-alive. It may be less than was asked for.
    pub granted: Duration,
    /// How long the session lives from some instant within this call, measured by the store, rounded down.
    pub remaining: Duration,
}

/// The answer to a keep-alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// The session lives on.
    Alive {
        /// How long it lives from some instant within this call, measured by the store, rounded down.
        remaining: Duration,
        /// What it owns, read at the same point as the renewal.
        owned: Owned,
    },
    /// The session is over, for ever.
    Expired,
}

/// What a session owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    /// The same set as at the version that the caller named.
    Unchanged,
    /// Every lease of the session, and the version of that set.
    Listed {
        /// The version at which the list was read.
        version: Version,
        /// The leases, in any order.
        leases: Vec<Grant>,
    },
}

/// The answer to an acquire of several names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The session was alive when the names were judged.
    Judged {
        /// What this call did to the session's version.
        step: VersionStep,
        /// One outcome for each name, in the order in which they were given.
        outcomes: Vec<Outcome>,
    },
    /// The session is over, for ever; nothing was acquired.
    Expired,
}

/// What became of one name of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The session owns the lease, by this call or since an earlier one.
    Won {
        /// The token: a new one for a new grant, the existing one if the session owned it already.
        token: FencingToken,
    },
    /// A living session owns it.
    Held(Held),
}

/// What the store knows of the owner of a lease that was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Who.
    pub holder: Option<Arc<Owner>>,
    /// The token of the present owner's term.
    pub token: Option<FencingToken>,
    /// How long the owner's session lives if it is not renewed, measured by the store, rounded up.
    pub remaining: Option<Duration>,
}

/// The answer to a release: what it did to the session's version. A grant that was not the session's any more
/// changes nothing and is no fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The versions before and after; `None` when the session itself is over.
    pub step: Option<VersionStep>,
}

/// The answer to a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// The lease is free now, and its record carries this raised token, which no term has.
    Freed {
        /// One above the token that was given.
        token: FencingToken,
    },
    /// Another term holds the lease; nothing was changed.
    Other {
        /// The token of that term.
        token: FencingToken,
    },
    /// Nobody holds the lease; nothing was changed.
    Free,
}

/// Which leases a person wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InspectQuery {
    /// Only names that begin with this text; everything, if it is empty.
    pub prefix: alloc::string::String,
    /// Only names after this one: the last name of the page before.
    pub after: Option<LeaseName>,
    /// The most records to answer, at least 1.
    pub limit: u32,
}

/// A page of leases in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The records.
    pub leases: Vec<LeaseRecord>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// A lease as the store records it, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The lease.
    pub name: LeaseName,
    /// The token of the present term, or of the last one if the lease is free.
    pub token: FencingToken,
    /// The present owner; `None` if the lease is free (an owner whose session ran out counts as none).
    pub held: Option<HeldRecord>,
}

/// The present owner of a lease, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRecord {
    /// The owning session.
    pub session: SessionId,
    /// Who opened it.
    pub owner: Arc<Owner>,
    /// How long this term has lasted on the store.
    pub held_for: Duration,
    /// How long ago the session was renewed.
    pub renewed_ago: Duration,
    /// How long the session lives if it is not renewed any more.
    pub remaining: Duration,
}
