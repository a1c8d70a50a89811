//! The contract, call by call.

use std::{fmt, sync::Arc, time::Duration};

use simba_backend::{
    Acquired, Backend, Capabilities, Effect, Examination, Failure, FailureKind, FencingToken, Forced, Grant,
    HintSink, InspectQuery, Inspection, KeepAlive, LeaseName, Opened, Owner, Released, Schema, SchemaState,
    SessionId, Version,
};

use super::{
    clock::StoreClock,
    config::SqliteConfig,
    connection::{Create, Durability, Link, check_file},
    doctor,
    failure::unsuitable,
    planted::planted,
    schema,
    store::{Done, Ground},
    wake,
    worker::{Limit, Worker},
};

/// Leases in an `SQLite` file. Clones share the connections.
#[derive(Clone)]
pub struct SqliteBackend(Arc<Inner>);

struct Inner {
    config: Arc<SqliteConfig>,
    clock: StoreClock,
    /// Opens, renews and closes sessions; never behind a batch of acquires.
    sessions: Worker,
    /// Acquires, releases, and everything for people.
    leases: Worker,
}

impl fmt::Debug for SqliteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SqliteBackend({})", self.0.config.path().display())
    }
}

impl SqliteBackend {
    /// A store in the file that `config` names. Looks at the path and opens nothing yet; can be called anywhere.
    ///
    /// # Errors
    /// What makes the file unfit and can be seen without opening it: a directory, a missing folder, a file that is
    /// no database, a network file system, missing rights.
    pub fn new(config: SqliteConfig) -> Result<Self, Failure> {
        check_file(config.path(), config.create)?;
        let clock = match &config.clock {
            Some(clock) => clock.clone(),
            None => StoreClock::boot_time()?,
        };
        let config = Arc::new(config.settled());
        let sessions = Worker::new("simba-sqlite-session", Arc::clone(&config));
        let leases = Worker::new("simba-sqlite-lease", Arc::clone(&config));
        Ok(Self(Arc::new(Inner { config, clock, sessions, leases })))
    }

    /// The configuration.
    pub fn config(&self) -> &SqliteConfig {
        &self.0.config
    }

    /// One write, and the word to those who wait.
    async fn write<T: Send + 'static>(
        &self,
        worker: &Worker,
        how: (Create, Durability),
        limit: Duration,
        act: impl FnOnce(&Ground<'_>, &rusqlite::Transaction<'_>) -> rusqlite::Result<Done<T>> + Send + 'static,
    ) -> Result<T, Failure> {
        let (config, clock) = (Arc::clone(&self.0.config), self.0.clock.clone());
        worker
            .call(limit, move |link: &mut Link, limit: Limit| {
                let ground = Ground { config: &config, clock: &clock };
                let done = link.write(how.0, how.1, limit, |tx| act(&ground, tx))?;
                if done.freed && !planted!(config, NoWake) {
                    wake::touch(config.path());
                }
                Ok(done.value)
            })
            .await
    }
}

fn new_session_id() -> Result<SessionId, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        unsuitable(format!("the operating system gives no random bytes for a session id: {error}"))
    })?;
    Ok(SessionId::new(u128::from_le_bytes(bytes)))
}

impl Backend for SqliteBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities { broadcast: true, consecutive_tokens: true, sees_foreign_changes: true }
    }

    async fn open(&self, lease: Duration, owner: &Owner, limit: Duration) -> Result<Opened, Failure> {
        if i64::try_from(lease.as_nanos()).is_err() {
            let text =
                format!("a lease time of {lease:?} is beyond what the store can count; use at most 365 days");
            return Err(Failure::new(FailureKind::Unsuitable, Effect::None, text));
        }
        let (session, owner) = (new_session_id()?, owner.clone());
        let how = (Create::Yes, Durability::Relaxed);
        self.write(&self.0.sessions, how, limit, move |ground, tx| ground.open(tx, session, lease, &owner))
            .await?;
        Ok(Opened { session, granted: lease, remaining: lease })
    }

    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        let how = (Create::No, Durability::Relaxed);
        self.write(&self.0.sessions, how, limit, move |ground, tx| ground.keep_alive(tx, session, known))
            .await
    }

    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        let names = names.to_vec();
        let how = (Create::No, Durability::Synced);
        self.write(&self.0.leases, how, limit, move |ground, tx| ground.acquire(tx, session, &names)).await
    }

    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        let grants = grants.to_vec();
        let how = (Create::No, Durability::Relaxed);
        self.write(&self.0.leases, how, limit, move |ground, tx| ground.release(tx, session, &grants)).await
    }

    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        let how = (Create::No, Durability::Relaxed);
        self.write(&self.0.sessions, how, limit, move |ground, tx| ground.close(tx, session)).await
    }

    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        let (config, clock, query) = (Arc::clone(&self.0.config), self.0.clock.clone(), query.clone());
        self.0
            .leases
            .call(limit, move |link, limit| {
                let ground = Ground { config: &config, clock: &clock };
                link.read(limit, |conn| ground.inspect(conn, &query))
            })
            .await
    }

    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> Result<Forced, Failure> {
        let name = name.clone();
        let how = (Create::No, Durability::Synced);
        self.write(&self.0.leases, how, limit, move |ground, tx| ground.force_release(tx, &name, token)).await
    }

    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        let how = (Create::No, Durability::Relaxed);
        self.write(&self.0.leases, how, limit, move |ground, tx| ground.evict(tx, session)).await
    }

    async fn examine(&self, limit: Duration) -> Examination {
        let inner = Arc::clone(&self.0);
        let examined = self
            .0
            .leases
            .call(limit, move |link, limit| Ok(doctor::examine(&inner.config, &inner.clock, link, limit)))
            .await;
        examined.unwrap_or_else(|failure| Examination::failed(failure.message, "see the message"))
    }

    fn schema(&self) -> Option<Schema> {
        Some(schema::schema())
    }

    async fn check_schema(&self, limit: Duration) -> Result<SchemaState, Failure> {
        let config = Arc::clone(&self.0.config);
        self.0.leases.call(limit, move |_, _| doctor::find_schema(&config)).await
    }

    async fn apply_schema(&self, limit: Duration) -> Result<(), Failure> {
        self.0
            .leases
            .call(limit, |link, limit| link.write(Create::Yes, Durability::Synced, limit, |_| Ok(())))
            .await
    }

    async fn watch(&self, sink: HintSink) -> Failure {
        wake::watch(Arc::clone(&self.0.config), self.0.clock.clone(), sink).await
    }
}
