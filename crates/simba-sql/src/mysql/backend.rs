//! The contract, call by call.

use std::{fmt, sync::Arc, time::Duration};

use simba_backend::{
    Acquired, Backend, Capabilities, Effect, Examination, Failure, FailureKind, FencingToken, Forced, Grant,
    HintSink, InspectQuery, Inspection, KeepAlive, LeaseName, Opened, Owner, Released, Schema, SchemaState,
    SessionId, Version,
};

use super::{
    config::MysqlConfig,
    connection::{Answers, Place, Tables},
    doctor,
    failure::strange,
    schema,
    store::{self, Keys, Read},
};

/// Leases on MySQL or MariaDB. Clones share the connections, which belong to the runtime that made the first call.
#[derive(Clone)]
pub struct MysqlBackend(Arc<Inner>);

struct Inner {
    config: Arc<MysqlConfig>,
    keys: Keys,
    /// Opens, renews and closes sessions; never behind a batch of acquires.
    sessions: Place,
    /// Acquires and releases.
    leases: Place,
    /// Everything for people.
    people: Place,
}

impl fmt::Debug for MysqlBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MysqlBackend({})", self.0.config.shown())
    }
}

/// The longest lease.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl MysqlBackend {
    /// A store on the server that `config` names. Nothing is connected yet.
    ///
    /// # Errors
    /// A file of authorities that is not there.
    pub fn new(config: MysqlConfig) -> Result<Self, Failure> {
        if let Some(path) = config.ca.as_ref().filter(|path| !path.is_file()) {
            let text = format!("the file of ssl-ca, {}, is not there", path.display());
            return Err(Failure::new(FailureKind::Unsuitable, Effect::None, text));
        }
        let (keys, config) = (Keys(config.namespace.clone()), Arc::new(config));
        let [sessions, leases, people] = [(); 3].map(|()| Place::new(&config));
        Ok(Self(Arc::new(Inner { config, keys, sessions, leases, people })))
    }

    /// The configuration.
    pub fn config(&self) -> &MysqlConfig {
        &self.0.config
    }

    /// One call. Its wait for a lock is no longer than the limit, in whole seconds.
    async fn call(&self, place: &Place, limit: Duration, text: String) -> Result<Answers, Failure> {
        self.call_on(place, Tables::Need, limit, text).await
    }

    async fn call_on(
        &self,
        place: &Place,
        tables: Tables,
        limit: Duration,
        text: String,
    ) -> Result<Answers, Failure> {
        let seconds = limit.as_secs().clamp(1, 3_600);
        place.run(format!("set innodb_lock_wait_timeout = {seconds}; {text}"), tables, limit).await
    }

    fn read<T>(&self, read: Read<T>) -> Result<T, Failure> {
        read.map_err(|what| strange(&self.0.config, &what))
    }
}

fn new_session_id() -> Result<SessionId, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let text = format!("the operating system gives no random bytes for a session id: {error}");
        Failure::new(FailureKind::Unsuitable, Effect::None, text)
    })?;
    Ok(SessionId::new(u128::from_le_bytes(bytes)))
}

impl Backend for MysqlBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities { broadcast: false, consecutive_tokens: true, sees_foreign_changes: false }
    }

    async fn open(&self, lease: Duration, owner: &Owner, limit: Duration) -> Result<Opened, Failure> {
        // What is below a microsecond is not kept.
        let micros = i64::try_from(lease.as_micros()).unwrap_or(i64::MAX);
        if lease > LONGEST || micros == 0 {
            let text = format!("a lease time of {lease:?} cannot be kept; use 1 microsecond to 365 days");
            return Err(Failure::new(FailureKind::Unsuitable, Effect::None, text));
        }
        let granted = Duration::from_micros(micros.unsigned_abs());
        let session = new_session_id()?;
        let tables = if self.0.config.create { Tables::Make } else { Tables::Need };
        let text = store::open_text(session, micros, owner);
        let _none: Answers = self.call_on(&self.0.sessions, tables, limit, text).await?;
        Ok(Opened { session, granted, remaining: granted })
    }

    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        let text = store::keep_alive_text(session, known);
        let answers = self.call(&self.0.sessions, limit, text).await?;
        self.read(store::keep_alive(&answers, &self.0.keys))
    }

    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        let text = store::acquire_text(session, names, &self.0.keys);
        let answers = self.call(&self.0.leases, limit, text).await?;
        self.read(store::acquired(&answers, names.len()))
    }

    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        let text = store::release_text(session, grants, &self.0.keys);
        let answers = self.call(&self.0.leases, limit, text).await?;
        self.read(store::released(&answers))
    }

    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        let text = format!("call simba_close(x'{session}')");
        self.call(&self.0.sessions, limit, text).await.map(|_lived| ())
    }

    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        let text = store::inspect_text(query, &self.0.keys);
        let answers = self.call(&self.0.people, limit, text).await?;
        self.read(store::inspection(&answers, query, &self.0.keys))
    }

    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> Result<Forced, Failure> {
        let text = store::force_text(name, token, &self.0.keys);
        let answers = self.call(&self.0.people, limit, text).await?;
        self.read(store::forced(&answers))
    }

    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        let answers = self.call(&self.0.people, limit, format!("call simba_close(x'{session}')")).await?;
        self.read(store::closed(&answers))
    }

    async fn examine(&self, limit: Duration) -> Examination {
        doctor::examine(&self.0.people, limit).await
    }

    fn schema(&self) -> Option<Schema> {
        Some(schema::schema())
    }

    async fn check_schema(&self, limit: Duration) -> Result<SchemaState, Failure> {
        doctor::find_schema(&Place::new(&self.0.config), limit).await
    }

    async fn apply_schema(&self, limit: Duration) -> Result<(), Failure> {
        self.0.people.apply(limit).await
    }

    async fn watch(&self, _sink: HintSink) -> Failure {
        let text = format!("{}: releases are told to nobody on this store", self.0.config.shown());
        Failure::new(FailureKind::Unsuitable, Effect::None, text)
    }
}
