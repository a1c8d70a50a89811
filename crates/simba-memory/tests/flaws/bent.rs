//! The reference store behind a layer that keeps one promise less.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use simba_backend::{
    Acquired, Backend, Capabilities, DynBackend, Effect, Examination, Failure, FailureKind, FencingToken,
    Forced, Grant, Held, Hint, HintSink, InspectQuery, Inspection, KeepAlive, LeaseName, Opened, Outcome,
    Owned, Owner, Released, SessionId, Version,
};
use simba_memory::{MemoryBackend, Planted};

/// What the layer does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Sessions.
    ShortLease,
    ShortByAMoment,
    RenewsNothing,
    RenewsInTwoSteps,
    RevivedByTheClock,
    GrantsToTheDead,
    WritesForTheDead,
    CloseFreesAll,
    SecondCloseFails,
    /// Leases.
    StealsLeases,
    AcquiresInTwoSteps,
    AcquireRenews,
    AllOrNothing,
    EmptyBatchLives,
    EmptyBatchSteps,
    SkipsTokens,
    NewTokenOnRenewal,
    ReleasesNothing,
    ReleasesByName,
    MissedReleaseFails,
    /// Versions.
    BeginsAtOne,
    StepsUntold,
    AlwaysLists,
    NeverLists,
    CutsTheList,
    ListsLater,
    /// Calls.
    SpoiledByADrop,
    HangsWithoutTime,
    IgnoresTheLimit,
    /// People.
    HidesFreeLeases,
    NeverMore,
    PrefixIsAPattern,
    LookingRenews,
    CutsTheOwner,
    WatchIsSilent,
    WatchMissesClose,
    WatchNeverEnds,
    ExaminationTakesALease,
    /// The store itself.
    ForgetsOverARestart,
}

#[derive(Clone, Debug)]
pub(crate) struct Bent {
    inner: MemoryBackend,
    fault: Fault,
    shared: Arc<Shared>,
    /// Of this connection: a call did not finish.
    spoiled: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Shared {
    held: AtomicBool,
    closing: AtomicBool,
    /// The sessions opened, with their lease time and the end that was last promised, in nanoseconds.
    sessions: Mutex<BTreeMap<SessionId, (Duration, u64)>>,
    closed: Mutex<BTreeSet<SessionId>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn failure(text: &str) -> Failure {
    Failure::new(FailureKind::Unreachable, Effect::None, text)
}

impl Bent {
    fn is(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn now(&self) -> u64 {
        self.inner.with_store(|_, now| now)
    }

    /// What every call goes through first.
    async fn enter(&self, limit: Duration) -> Result<(), Failure> {
        if self.is(Fault::HangsWithoutTime) && limit < Duration::from_micros(1) {
            std::future::pending::<()>().await;
        }
        if self.is(Fault::SpoiledByADrop) {
            if self.spoiled.swap(true, Ordering::SeqCst) {
                return Err(failure("the answer of an earlier call comes in"));
            }
            tokio::task::yield_now().await;
            self.spoiled.store(false, Ordering::SeqCst);
        }
        while self.shared.held.load(Ordering::SeqCst) {
            tokio::time::sleep(limit.min(Duration::from_millis(200))).await;
            if !self.is(Fault::IgnoresTheLimit) {
                return Err(failure("the store is held up"));
            }
        }
        Ok(())
    }

    fn promised(&self, session: SessionId) -> Option<(Duration, u64)> {
        lock(&self.shared.sessions).get(&session).copied()
    }

    fn alive(&self, session: SessionId) -> KeepAlive {
        let remaining = self.promised(session).map_or(Duration::from_secs(10), |(lease, _)| lease);
        KeepAlive::Alive { remaining, owned: Owned::Listed { version: Version(0), leases: Vec::new() } }
    }

    /// Somebody who lives gets what the dead asked for.
    async fn acquire_in_secret(&self, names: &[LeaseName], limit: Duration) -> Result<Acquired, Failure> {
        let owner = Owner {
            host: simba_backend::NodeLabel::sanitized("h"),
            node: simba_backend::NodeLabel::sanitized("secret"),
            pid: 1,
            version: String::new(),
        };
        let secret = Backend::open(&self.inner, Duration::from_secs(10), &owner, limit).await?.session;
        Backend::acquire(&self.inner, secret, names, limit).await
    }

    async fn take_by_force(
        &self,
        session: SessionId,
        name: &LeaseName,
        limit: Duration,
    ) -> Result<Outcome, Failure> {
        self.inner.with_store(|store, _| store.tamper_free(name));
        match Backend::acquire(&self.inner, session, std::slice::from_ref(name), limit).await? {
            Acquired::Judged { mut outcomes, .. } => outcomes.pop().ok_or_else(|| failure("no outcome")),
            Acquired::Expired => Ok(Outcome::Held(Held::default())),
        }
    }

    async fn is_held(&self, name: &LeaseName, limit: Duration) -> Result<bool, Failure> {
        let query = InspectQuery { prefix: name.to_string(), after: None, limit: 1 };
        let page = Backend::inspect(&self.inner, &query, limit).await?;
        Ok(page.leases.first().is_some_and(|lease| lease.name == *name && lease.held.is_some()))
    }
}

impl Backend for Bent {
    fn capabilities(&self) -> Capabilities {
        Backend::capabilities(&self.inner)
    }

    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> Result<Forced, Failure> {
        self.enter(limit).await?;
        Backend::force_release(&self.inner, name, token, limit).await
    }

    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        self.enter(limit).await?;
        Backend::evict(&self.inner, session, limit).await
    }

    async fn examine(&self, limit: Duration) -> Examination {
        if self.is(Fault::ExaminationTakesALease) {
            let owner = Owner {
                node: simba_backend::NodeLabel::sanitized("doctor"),
                host: simba_backend::NodeLabel::sanitized("h"),
                pid: 1,
                version: String::new(),
            };
            let opened = Backend::open(&self.inner, limit, &owner, limit).await;
            if let (Ok(opened), Ok(name)) = (opened, LeaseName::new("doctor")) {
                drop(Backend::acquire(&self.inner, opened.session, &[name], limit).await);
            }
        }
        Backend::examine(&self.inner, limit).await
    }

    async fn open(&self, lease: Duration, owner: &Owner, limit: Duration) -> Result<Opened, Failure> {
        self.enter(limit).await?;
        let kept = match self.fault {
            Fault::ShortLease => lease / 2,
            Fault::ShortByAMoment => lease.saturating_sub(Duration::from_millis(2)),
            _ => lease,
        };
        let mut owner = owner.clone();
        if self.is(Fault::CutsTheOwner) {
            owner.version = owner.version.chars().take(5).collect();
        }
        let opened = Backend::open(&self.inner, kept, &owner, limit).await?;
        let end = self.now() + nanos(lease);
        lock(&self.shared.sessions).insert(opened.session, (lease, end));
        // A lease that was cut in secret is still promised in full.
        let remaining = if kept < lease { lease } else { opened.remaining };
        Ok(Opened { granted: lease, remaining, ..opened })
    }

    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        self.enter(limit).await?;
        let promised = self.promised(session);
        match self.fault {
            Fault::RenewsNothing => return Ok(self.alive(session)),
            Fault::RenewsInTwoSteps => {
                let (end, now) = self.inner.with_store(|store, now| (store.expires_at(session), now));
                if end.is_none_or(|end| end <= now) {
                    return Ok(KeepAlive::Expired);
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
                let kept = Backend::keep_alive(&self.inner, session, known, limit).await?;
                return Ok(if kept == KeepAlive::Expired { self.alive(session) } else { kept });
            }
            Fault::ListsLater => {
                let first = Backend::keep_alive(&self.inner, session, known, limit).await?;
                tokio::time::sleep(Duration::from_millis(1)).await;
                let second = Backend::keep_alive(&self.inner, session, known, limit).await?;
                return Ok(match (first, second) {
                    (
                        KeepAlive::Alive { owned: Owned::Listed { version, .. }, .. },
                        KeepAlive::Alive { remaining, owned: Owned::Listed { leases, .. } },
                    ) => KeepAlive::Alive { remaining, owned: Owned::Listed { version, leases } },
                    (_, second) => second,
                });
            }
            _ => {}
        }
        let known = match self.fault {
            Fault::AlwaysLists => None,
            Fault::BeginsAtOne => known.map(|known| Version(known.0.wrapping_sub(1))),
            _ => known,
        };
        let kept = Backend::keep_alive(&self.inner, session, known, limit).await?;
        let KeepAlive::Alive { remaining, mut owned } = kept else {
            let before_the_end = promised.is_some_and(|(_, end)| self.now() < end);
            let revived = self.is(Fault::RevivedByTheClock) && before_the_end;
            return Ok(if revived { self.alive(session) } else { KeepAlive::Expired });
        };
        if let Some((lease, _)) = promised {
            lock(&self.shared.sessions).insert(session, (lease, self.now() + nanos(lease)));
        }
        if self.is(Fault::NeverLists) && known.is_some() {
            owned = Owned::Unchanged;
        }
        if let Owned::Listed { version, leases } = &mut owned {
            match self.fault {
                Fault::BeginsAtOne => version.0 += 1,
                Fault::CutsTheList => leases.truncate(100),
                Fault::NewTokenOnRenewal => {
                    for lease in leases {
                        lease.token = lease.token.next().unwrap_or(lease.token);
                    }
                }
                _ => {}
            }
        }
        let short = self.is(Fault::ShortLease) || self.is(Fault::ShortByAMoment);
        let remaining = promised.filter(|_| short).map_or(remaining, |(lease, _)| lease);
        Ok(KeepAlive::Alive { remaining, owned })
    }

    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        self.enter(limit).await?;
        if self.is(Fault::AcquireRenews) {
            Backend::keep_alive(&self.inner, session, None, limit).await?;
        }
        if self.is(Fault::AcquiresInTwoSteps) {
            let mut free = Vec::new();
            for name in names {
                free.push(!self.is_held(name, limit).await?);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            for (name, free) in names.iter().zip(free) {
                if free {
                    self.take_by_force(session, name, limit).await?;
                }
            }
        }
        let got = Backend::acquire(&self.inner, session, names, limit).await?;
        let Acquired::Judged { mut step, mut outcomes } = got else {
            if names.is_empty() && self.is(Fault::EmptyBatchLives) {
                return Ok(Acquired::Judged { step: Default::default(), outcomes: Vec::new() });
            }
            if self.is(Fault::GrantsToTheDead) || self.is(Fault::WritesForTheDead) {
                let secret = self.acquire_in_secret(names, limit).await?;
                return Ok(if self.is(Fault::GrantsToTheDead) { secret } else { Acquired::Expired });
            }
            return Ok(Acquired::Expired);
        };
        let won = step.before != step.after;
        match self.fault {
            Fault::AllOrNothing if outcomes.iter().any(|outcome| matches!(outcome, Outcome::Held(_))) => {
                outcomes.fill(Outcome::Held(Held::default()));
            }
            Fault::EmptyBatchSteps if names.is_empty() => step.after.0 += 1,
            Fault::StepsUntold => step.after = step.before,
            Fault::SkipsTokens if won => {
                for (name, outcome) in names.iter().zip(&mut outcomes) {
                    *outcome = self.take_by_force(session, name, limit).await?;
                }
            }
            Fault::StealsLeases => {
                for (name, outcome) in names.iter().zip(&mut outcomes) {
                    if matches!(outcome, Outcome::Held(_)) {
                        *outcome = self.take_by_force(session, name, limit).await?;
                    }
                }
            }
            _ => {}
        }
        Ok(Acquired::Judged { step, outcomes })
    }

    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        self.enter(limit).await?;
        match self.fault {
            Fault::ReleasesNothing => return Backend::release(&self.inner, session, &[], limit).await,
            Fault::ReleasesByName => {
                self.inner
                    .with_store(|store, _| grants.iter().for_each(|grant| store.tamper_free(&grant.name)));
            }
            _ => {}
        }
        let released = Backend::release(&self.inner, session, grants, limit).await?;
        let missed = released.step.is_none_or(|step| step.before == step.after);
        if missed && !grants.is_empty() && self.is(Fault::MissedReleaseFails) {
            return Err(failure("there is nothing to release"));
        }
        Ok(released)
    }

    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        self.enter(limit).await?;
        if !lock(&self.shared.closed).insert(session) && self.is(Fault::SecondCloseFails) {
            return Err(failure("there is no such session"));
        }
        self.shared.closing.store(true, Ordering::SeqCst);
        let mut over = vec![session];
        if self.is(Fault::CloseFreesAll) {
            over.extend(lock(&self.shared.sessions).keys());
        }
        for session in over {
            Backend::close(&self.inner, session, limit).await?;
        }
        self.shared.closing.store(false, Ordering::SeqCst);
        Ok(())
    }

    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        self.enter(limit).await?;
        if self.is(Fault::LookingRenews) {
            let sessions: Vec<_> = lock(&self.shared.sessions).keys().copied().collect();
            for session in sessions {
                Backend::keep_alive(&self.inner, session, None, limit).await?;
            }
        }
        let mut query = query.clone();
        let pattern = query.prefix.clone();
        if self.is(Fault::PrefixIsAPattern) {
            query.prefix.clear();
        }
        let mut page = Backend::inspect(&self.inner, &query, limit).await?;
        match self.fault {
            Fault::PrefixIsAPattern => page.leases.retain(|lease| {
                let name = lease.name.as_str();
                name.len() >= pattern.len()
                    && name.chars().zip(pattern.chars()).all(|(n, p)| p == '_' || n == p)
            }),
            Fault::HidesFreeLeases => page.leases.retain(|lease| lease.held.is_some()),
            Fault::NeverMore => page.more = false,
            _ => {}
        }
        Ok(page)
    }

    fn watch(&self, sink: HintSink) -> impl Future<Output = Failure> + Send {
        let (fault, shared) = (self.fault, Arc::clone(&self.shared));
        if fault == Fault::WatchNeverEnds {
            std::mem::forget(sink.clone());
        }
        let sink = HintSink::new(move |hint: Hint| {
            let closing = fault == Fault::WatchMissesClose && shared.closing.load(Ordering::SeqCst);
            if fault != Fault::WatchIsSilent && !closing {
                sink.send(hint);
            }
        });
        Backend::watch(&self.inner, sink)
    }
}

/// The bent store as the suite takes it. It can be started anew, and held up.
pub(crate) struct Stage {
    clock: Arc<AtomicU64>,
    store: Mutex<Bent>,
}

impl Stage {
    pub(crate) fn new(fault: Fault, planted: Option<Planted>) -> Self {
        let clock = Arc::new(AtomicU64::new(1_000_000_000_000));
        let inner = memory(&clock);
        if let Some(bug) = planted {
            inner.with_store(|store, _| store.plant(bug));
        }
        let bent = Bent { inner, fault, shared: Arc::default(), spoiled: Arc::default() };
        Self { clock, store: Mutex::new(bent) }
    }
}

fn memory(clock: &Arc<AtomicU64>) -> MemoryBackend {
    let read = Arc::clone(clock);
    MemoryBackend::new(move || read.load(Ordering::SeqCst))
}

struct Hold(Arc<Shared>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::SeqCst);
    }
}

impl simba_tck::backend::Store for Stage {
    fn handle(&self) -> Arc<dyn DynBackend> {
        let bent = lock(&self.store).clone();
        Arc::new(Bent { spoiled: Arc::default(), ..bent })
    }

    fn advance(&self, by: Duration) {
        self.clock.fetch_add(nanos(by), Ordering::SeqCst);
    }

    fn step_back(&self, by: Duration) -> bool {
        self.clock.fetch_sub(nanos(by), Ordering::SeqCst);
        true
    }

    fn reopen(&self) -> bool {
        let mut store = lock(&self.store);
        if store.is(Fault::ForgetsOverARestart) {
            store.inner = memory(&self.clock);
        }
        true
    }

    fn tamper_free(&self, name: &LeaseName) -> bool {
        lock(&self.store).inner.with_store(|store, _| store.tamper_free(name));
        true
    }

    fn exact(&self) -> bool {
        true
    }

    fn hold(&self) -> Option<Box<dyn Send>> {
        let shared = Arc::clone(&lock(&self.store).shared);
        shared.held.store(true, Ordering::SeqCst);
        Some(Box::new(Hold(shared)))
    }
}
