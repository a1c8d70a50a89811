//! The store as a plain value.
//!
//! # One judge
//! A session is judged dead in one place, [`Store::live`]: it is removed there, for ever, before anything else
//! happens in the operation. A lease whose session is not in the table is free. So no order of operations revives a
//! session, also when the instants handed in go back.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
    time::Duration,
};

use simba_backend::{
    Acquired, FencingToken, Forced, Grant, Held, HeldRecord, InspectQuery, Inspection, KeepAlive, LeaseName,
    LeaseRecord, Opened, Outcome, Owned, Owner, Released, SessionId, Version, VersionStep,
};

use crate::planted::planted;

/// Sessions and leases, at no place and no time of their own.
///
/// ```
/// use simba_backend::{Acquired, LeaseName, NodeLabel, Owner, SessionId};
/// use simba_memory::Store;
/// use std::{sync::Arc, time::Duration};
///
/// let mut store = Store::default();
/// let owner = Arc::new(Owner { node: NodeLabel::sanitized("a"), host: NodeLabel::sanitized("h"), pid: 1, version: "0".into() });
/// let session = SessionId::new(1);
/// store.open(0, session, Duration::from_secs(15), owner);
/// let won = store.acquire(0, session, &[LeaseName::new("report")?]);
/// assert!(matches!(won, Acquired::Judged { .. }));
/// // Sixteen seconds later the session is over.
/// assert_eq!(store.acquire(16_000_000_000, session, &[]), Acquired::Expired);
/// # Ok::<(), simba_backend::NameError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Store {
    sessions: BTreeMap<SessionId, Session>,
    leases: BTreeMap<LeaseName, Lease>,
    freed: Vec<LeaseName>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<crate::planted::Planted>,
}

#[derive(Clone, Debug)]
struct Session {
    owner: Arc<Owner>,
    lease: Duration,
    renewed_at: u64,
    expires_at: u64,
    version: Version,
    owned: BTreeSet<LeaseName>,
}

#[derive(Clone, Debug)]
struct Lease {
    token: FencingToken,
    session: Option<SessionId>,
    acquired_at: u64,
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn between(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}

impl Session {
    fn remaining(&self, now: u64) -> Duration {
        // Never longer than the lease, also when the clock has stepped back since.
        between(now, self.expires_at).min(self.lease)
    }
}

/// The calls of the contract, each at the store's instant `now` in nanoseconds.
impl Store {
    /// Opens a session with an id that was never used.
    pub fn open(&mut self, now: u64, session: SessionId, lease: Duration, owner: Arc<Owner>) -> Opened {
        #[cfg(feature = "planted")]
        let session = if planted!(self, M15SessionIdReused) { SessionId::new(1) } else { session };
        let expires_at = now.saturating_add(nanos(lease));
        let owned = BTreeSet::new();
        let record = Session { owner, lease, renewed_at: now, expires_at, version: Version(0), owned };
        self.sessions.insert(session, record);
        Opened { session, granted: lease, remaining: self.rounded(lease) }
    }

    /// Renews a session.
    pub fn keep_alive(&mut self, now: u64, session: SessionId, known: Option<Version>) -> KeepAlive {
        if !self.live(now, session) {
            return KeepAlive::Expired;
        }
        let Some(record) = self.sessions.get_mut(&session) else { return KeepAlive::Expired };
        record.renewed_at = now;
        record.expires_at = now.saturating_add(nanos(record.lease));
        let (version, lease) = (record.version, record.lease);
        let owned = if known == Some(version) {
            Owned::Unchanged
        } else {
            let grant = |name: &LeaseName| {
                self.leases.get(name).map(|l| Grant { name: name.clone(), token: l.token })
            };
            Owned::Listed { version, leases: record.owned.iter().filter_map(grant).collect() }
        };
        KeepAlive::Alive { remaining: self.rounded(lease), owned }
    }

    /// Judges every name by itself.
    pub fn acquire(&mut self, now: u64, session: SessionId, names: &[LeaseName]) -> Acquired {
        if !self.live(now, session) && !planted!(self, M16ExpiredAcquires) {
            return Acquired::Expired;
        }
        let before = self.version(session);
        let outcomes = names.iter().map(|name| self.acquire_one(now, session, name)).collect();
        Acquired::Judged { step: VersionStep { before, after: self.version(session) }, outcomes }
    }

    fn acquire_one(&mut self, now: u64, session: SessionId, name: &LeaseName) -> Outcome {
        #[cfg(feature = "planted")]
        let folded = LeaseName::new(&name.as_str().to_ascii_lowercase()).unwrap_or_else(|_| name.clone());
        #[cfg(feature = "planted")]
        let name = if planted!(self, M55NamesFolded) { &folded } else { name };
        let found = self.leases.get(name).map(|lease| (lease.session, lease.token));
        let token = match found {
            Some((Some(owner), token)) if owner == session && self.sessions.contains_key(&owner) => {
                if !planted!(self, M28TokenBumpedOnRepeat) {
                    return Outcome::Won { token };
                }
                token.next()
            }
            Some((Some(owner), token)) if self.live(now, owner) => {
                return Outcome::Held(self.held(now, owner, token));
            }
            Some((owner, token)) => {
                let taken = owner.is_some() && planted!(self, M26TokenNotBumped);
                if taken { Some(token) } else { token.next() }
            }
            None => Some(FencingToken::FIRST),
        };
        // The tokens of a name are used up after 2^63 terms; the lease then stays as it is.
        let Some(token) = token else { return Outcome::Held(Held::default()) };
        self.leases.insert(name.clone(), Lease { token, session: Some(session), acquired_at: now });
        if let Some(record) = self.sessions.get_mut(&session) {
            record.owned.insert(name.clone());
            record.version.0 += 1;
        }
        Outcome::Won { token }
    }

    fn held(&self, now: u64, owner: SessionId, token: FencingToken) -> Held {
        if planted!(self, HolderNotTold) {
            return Held::default();
        }
        let record = self.sessions.get(&owner);
        Held {
            holder: record.map(|r| Arc::clone(&r.owner)),
            token: Some(token),
            remaining: record.map(|r| r.remaining(now)),
        }
    }

    /// Frees what the session still owns with these very tokens.
    pub fn release(&mut self, now: u64, session: SessionId, grants: &[Grant]) -> Released {
        if !self.live(now, session) && !planted!(self, M24ReleaseWithoutSession) {
            return Released { step: None };
        }
        let before = self.version(session);
        for grant in grants {
            let Some(lease) = self.leases.get(&grant.name) else { continue };
            let same_session = lease.session == Some(session) || planted!(self, M24ReleaseWithoutSession);
            let same_token = lease.token == grant.token || planted!(self, M23ReleaseWithoutToken);
            if lease.session.is_some() && same_session && same_token {
                self.free(&grant.name.clone());
            }
        }
        Released { step: Some(VersionStep { before, after: self.version(session) }) }
    }

    /// Ends a session.
    pub fn close(&mut self, session: SessionId) {
        if planted!(self, CloseFreesNothing) {
            return;
        }
        self.end(session);
    }

    /// Frees the term that carries `token`, whoever owns it, and raises the record's token.
    pub fn force_release(&mut self, name: &LeaseName, token: FencingToken) -> Forced {
        let Some(lease) = self.leases.get_mut(name).filter(|lease| lease.session.is_some()) else {
            return Forced::Free;
        };
        if lease.token != token && !planted!(self, ForcedWithoutToken) {
            return Forced::Other { token: lease.token };
        }
        // The last token there is cannot be raised; the lease is freed as it is, and nobody gets it any more.
        let raised = lease.token.next().unwrap_or(lease.token);
        if !planted!(self, ForcedTokenNotRaised) {
            lease.token = raised;
        }
        self.tamper_free(name);
        Forced::Freed { token: raised }
    }

    /// Ends somebody's session; answers whether it was alive.
    pub fn evict(&mut self, now: u64, session: SessionId) -> bool {
        let alive = self.live(now, session);
        if !planted!(self, EvictsNobody) {
            self.end(session);
        }
        alive
    }

    /// A page of leases for people.
    #[must_use]
    pub fn inspect(&self, now: u64, query: &InspectQuery) -> Inspection {
        let from = match &query.after {
            Some(name) => Bound::Excluded(name.as_str()),
            None => Bound::Unbounded,
        };
        let mut matching = self
            .leases
            .range::<str, _>((from, Bound::Unbounded))
            .filter(|(name, _)| name.as_str().starts_with(&query.prefix));
        let limit = query.limit.max(1) as usize;
        let leases =
            matching.by_ref().take(limit).map(|(name, lease)| self.record(now, name, lease)).collect();
        Inspection { leases, more: matching.next().is_some() }
    }

    fn record(&self, now: u64, name: &LeaseName, lease: &Lease) -> LeaseRecord {
        let live = |id: SessionId| self.sessions.get(&id).filter(|s| s.expires_at > now).map(|s| (id, s));
        let held = lease.session.and_then(live).map(|(session, record)| HeldRecord {
            session,
            owner: Arc::clone(&record.owner),
            held_for: between(lease.acquired_at, now),
            renewed_ago: between(record.renewed_at, now),
            remaining: record.remaining(now),
        });
        LeaseRecord { name: name.clone(), token: lease.token, held }
    }

    /// Names that became free since the last look, for whoever broadcasts them.
    pub fn take_freed(&mut self) -> Vec<LeaseName> {
        std::mem::take(&mut self.freed)
    }
}

/// The judge, and what it is made of.
impl Store {
    /// Whether the session lives at `now`. One that does not is removed, for ever.
    fn live(&mut self, now: u64, session: SessionId) -> bool {
        match self.sessions.get(&session) {
            Some(record) if record.expires_at > now => true,
            Some(_) if planted!(self, M12RenewsExpired) => true,
            Some(_) => {
                self.end(session);
                false
            }
            None => false,
        }
    }

    fn end(&mut self, session: SessionId) {
        let Some(record) = self.sessions.remove(&session) else { return };
        for name in record.owned {
            if planted!(self, M27TokenReset) {
                self.leases.remove(&name);
            } else if let Some(lease) = self.leases.get_mut(&name).filter(|l| l.session == Some(session)) {
                lease.session = None;
                self.freed.push(name);
            }
        }
    }

    fn free(&mut self, name: &LeaseName) {
        let Some(lease) = self.leases.get_mut(name) else { return };
        if let Some(record) = lease.session.take().and_then(|owner| self.sessions.get_mut(&owner)) {
            record.owned.remove(name);
            record.version.0 += 1;
        }
        self.freed.push(name.clone());
        if planted!(self, M27TokenReset) {
            self.leases.remove(name);
        }
    }

    fn version(&self, session: SessionId) -> Version {
        self.sessions.get(&session).map_or(Version(0), |record| record.version)
    }

    fn rounded(&self, remaining: Duration) -> Duration {
        if planted!(self, M05RemainingRoundedUp) { remaining + Duration::from_secs(1) } else { remaining }
    }
}

/// What a store must never do by itself, and what happens to it from outside: for simulators and tests.
impl Store {
    /// Ends every session that is over at `now`, as a store's own clean-up does.
    pub fn reap(&mut self, now: u64) {
        let over: Vec<_> =
            self.sessions.iter().filter(|(_, s)| s.expires_at <= now).map(|(id, _)| *id).collect();
        for session in over {
            self.end(session);
        }
    }

    /// A person gives the lease to nobody, at the store's own prompt. The owner's version rises.
    pub fn tamper_free(&mut self, name: &LeaseName) {
        if planted!(self, ForeignChangeUnseen) {
            if let Some(lease) = self.leases.get_mut(name)
                && let Some(record) = lease.session.take().and_then(|owner| self.sessions.get_mut(&owner))
            {
                record.owned.remove(name);
            }
            return;
        }
        self.free(name);
    }

    /// The record of a lease is lost, as by an eviction: its next token is the first one again.
    pub fn lose_lease(&mut self, name: &LeaseName) {
        if let Some(lease) = self.leases.remove(name)
            && let Some(record) = lease.session.and_then(|owner| self.sessions.get_mut(&owner))
        {
            record.owned.remove(name);
        }
    }

    /// Whether any session is recorded under this id, without judging it.
    #[must_use]
    pub fn knows(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// The recorded owner and token of a lease, without judging the session.
    #[must_use]
    pub fn recorded(&self, name: &LeaseName) -> Option<(Option<SessionId>, FencingToken)> {
        self.leases.get(name).map(|lease| (lease.session, lease.token))
    }

    /// When a session runs out, in the store's nanoseconds.
    #[must_use]
    pub fn expires_at(&self, session: SessionId) -> Option<u64> {
        self.sessions.get(&session).map(|record| record.expires_at)
    }

    /// Plants a bug.
    #[cfg(feature = "planted")]
    pub const fn plant(&mut self, bug: crate::planted::Planted) {
        self.planted = Some(bug);
    }
}
