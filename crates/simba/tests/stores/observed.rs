//! A store whose calls are timed, and before whose next acquire something can be done.

use crate::machine::now;
use simba::Instant;
use simba::backend::{
    Acquired, Backend, Capabilities, DynBackend, Effect, Examination, Failure, Forced, Grant, HintSink,
    InspectQuery, Inspection, KeepAlive, Opened, Owner, Released, Schema, SchemaState, SessionId, Version,
};
use simba::{FencingToken, LeaseName};
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a busy machine may add to a call's limit.
const DELAY: Duration = Duration::from_millis(500);

/// What was seen of the calls of one node.
#[derive(Default)]
pub(crate) struct Calls {
    late: Mutex<Vec<String>>,
    before_acquire: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What failed acquires prove.
    failed_acquires: Mutex<Vec<Effect>>,
}

impl Calls {
    /// That no call has outlived its limit.
    pub(crate) fn check(&self) -> Result<(), String> {
        let late = self.late.lock().unwrap();
        if late.is_empty() { Ok(()) } else { Err(late.join("; ")) }
    }

    pub(crate) fn before_acquire(&self, act: impl FnOnce() + Send + 'static) {
        *self.before_acquire.lock().unwrap() = Some(Box::new(act));
    }

    pub(crate) fn failed_acquires(&self) -> Vec<Effect> {
        self.failed_acquires.lock().unwrap().clone()
    }
}

/// The time of one call, written down however it ends.
struct Timed<'a> {
    calls: &'a Calls,
    what: &'static str,
    from: Instant,
    limit: Duration,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        let took = now().saturating_since(self.from);
        if took > self.limit + DELAY {
            let Self { what, limit, .. } = self;
            self.calls.late.lock().unwrap().push(format!("{what} took {took:?}, and its limit is {limit:?}"));
        }
    }
}

pub(crate) struct Observed {
    store: Arc<dyn DynBackend>,
    calls: Arc<Calls>,
}

impl Observed {
    pub(crate) fn new(url: &str) -> (Self, Arc<Calls>) {
        let store = simba::open_store(url, &simba::StoreOptions::default()).unwrap();
        let calls = Arc::new(Calls::default());
        (Self { store, calls: Arc::clone(&calls) }, calls)
    }

    async fn timed<T>(&self, what: &'static str, limit: Duration, call: impl Future<Output = T>) -> T {
        let _timed = Timed { calls: &self.calls, what, from: now(), limit };
        call.await
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Backend for Observed {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    async fn open(&self, lease: Duration, owner: &Owner, limit: Duration) -> Result<Opened, Failure> {
        self.timed("open", limit, self.store.open(lease, owner, limit)).await
    }
    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        self.timed("keep_alive", limit, self.store.keep_alive(session, known, limit)).await
    }
    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        let act = self.calls.before_acquire.lock().unwrap().take();
        if let Some(act) = act {
            act();
        }
        let result = self.timed("acquire", limit, self.store.acquire(session, names, limit)).await;
        if let Err(failure) = &result {
            self.calls.failed_acquires.lock().unwrap().push(failure.effect);
        }
        result
    }
    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        self.timed("release", limit, self.store.release(session, grants, limit)).await
    }
    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        self.timed("close", limit, self.store.close(session, limit)).await
    }
    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        self.timed("inspect", limit, self.store.inspect(query, limit)).await
    }
    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> Result<Forced, Failure> {
        self.timed("force_release", limit, self.store.force_release(name, token, limit)).await
    }
    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        self.timed("evict", limit, self.store.evict(session, limit)).await
    }
    async fn examine(&self, limit: Duration) -> Examination {
        self.timed("examine", limit, self.store.examine(limit)).await
    }
    fn schema(&self) -> Option<Schema> {
        self.store.schema()
    }
    async fn check_schema(&self, limit: Duration) -> Result<SchemaState, Failure> {
        self.timed("check_schema", limit, self.store.check_schema(limit)).await
    }
    async fn apply_schema(&self, limit: Duration) -> Result<(), Failure> {
        self.timed("apply_schema", limit, self.store.apply_schema(limit)).await
    }
    async fn watch(&self, sink: HintSink) -> Failure {
        self.store.watch(sink).await
    }
}
