//! The contract, call by call.

use std::{fmt, sync::Arc, time::Duration};

use simba_backend::{
    Acquired, Backend, Capabilities, Effect, Examination, Failure, FailureKind, FencingToken, Forced, Grant,
    HintSink, InspectQuery, Inspection, KeepAlive, LeaseName, Opened, Owner, Released, Schema, SchemaState,
    SessionId, Version,
};
use tokio_postgres::{Row, types::Type};

use super::{
    config::PostgresConfig,
    connection::{Dialer, Place, apply},
    doctor,
    failure::strange,
    schema,
    store::{self, Keys, Param, Read},
    watch,
};

/// Leases on PostgreSQL. Clones share the connections, which belong to the runtime that made the first call.
#[derive(Clone)]
pub struct PostgresBackend(Arc<Inner>);

struct Inner {
    dialer: Arc<Dialer>,
    keys: Keys,
    /// Opens, renews and closes sessions; never behind a batch of acquires.
    sessions: Place,
    /// Acquires and releases.
    leases: Place,
    /// Everything for people.
    people: Place,
}

impl fmt::Debug for PostgresBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresBackend({})", self.config().shown())
    }
}

/// The longest lease.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl PostgresBackend {
    /// A store on the servers that `config` names. Nothing is connected yet.
    ///
    /// # Errors
    /// A file of authorities that cannot be used.
    pub fn new(config: PostgresConfig) -> Result<Self, Failure> {
        let keys = Keys(config.namespace.clone());
        let dialer = Arc::new(Dialer::new(config)?);
        let [sessions, leases, people] = [(); 3].map(|()| Place::new(&dialer));
        Ok(Self(Arc::new(Inner { dialer, keys, sessions, leases, people })))
    }

    /// The configuration.
    pub fn config(&self) -> &PostgresConfig {
        &self.0.dialer.config
    }

    /// One statement on a connection.
    async fn query(
        &self,
        place: &Place,
        create: bool,
        limit: Duration,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, Failure> {
        let call = |client: Arc<tokio_postgres::Client>| async move { client.query_typed(sql, params).await };
        place.call(create, limit, call).await
    }

    fn read<T>(&self, read: Read<T>) -> Result<T, Failure> {
        read.map_err(|what| strange(self.config(), &what))
    }

    fn keys<'a>(&self, names: impl Iterator<Item = &'a LeaseName>) -> Vec<String> {
        names.map(|name| self.0.keys.key(name)).collect()
    }
}

pub(crate) fn new_session_id() -> Result<SessionId, Failure> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        let text = format!("the operating system gives no random bytes for a session id: {error}");
        Failure::new(FailureKind::Unsuitable, Effect::None, text)
    })?;
    Ok(SessionId::new(u128::from_le_bytes(bytes)))
}

/// The longest wait for a lock that a call's limit allows, in milliseconds; 0 would mean for ever.
fn lock_wait(limit: Duration) -> i32 {
    i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1)
}

impl Backend for PostgresBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            broadcast: self.config().broadcast,
            consecutive_tokens: true,
            sees_foreign_changes: true,
        }
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
        self.query(
            &self.0.sessions,
            self.config().create,
            limit,
            "select simba_open($1::text::uuid, $2, $3, $4, $5, $6, $7)",
            &[
                (&session.to_string(), Type::TEXT),
                (&micros, Type::INT8),
                (&owner.node.as_str(), Type::TEXT),
                (&owner.host.as_str(), Type::TEXT),
                (&i64::from(owner.pid), Type::INT8),
                // The one text that PostgreSQL cannot keep.
                (&owner.version.replace('\0', ""), Type::TEXT),
                (&lock_wait(limit), Type::INT4),
            ],
        )
        .await?;
        Ok(Opened { session, granted, remaining: granted })
    }

    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        let known = known.and_then(|version| i64::try_from(version.0).ok());
        let params: &[Param<'_>] = &[
            (&session.to_string(), Type::TEXT),
            (&known, Type::INT8),
            (&self.config().broadcast, Type::BOOL),
            (&lock_wait(limit), Type::INT4),
        ];
        let sql = "select * from simba_keep_alive($1::text::uuid, $2, $3, $4)";
        let rows = self.query(&self.0.sessions, false, limit, sql, params).await?;
        self.read(store::keep_alive(&rows, &self.0.keys))
    }

    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        let params: &[Param<'_>] = &[
            (&session.to_string(), Type::TEXT),
            (&self.keys(names.iter()), Type::TEXT_ARRAY),
            (&self.config().broadcast, Type::BOOL),
            (&lock_wait(limit), Type::INT4),
        ];
        let sql = "select * from simba_acquire($1::text::uuid, $2, $3, $4)";
        let rows = self.query(&self.0.leases, false, limit, sql, params).await?;
        self.read(store::acquired(&rows, names.len()))
    }

    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        let tokens: Vec<i64> = grants.iter().map(|grant| grant.token.as_i64()).collect();
        let params: &[Param<'_>] = &[
            (&session.to_string(), Type::TEXT),
            (&self.keys(grants.iter().map(|grant| &grant.name)), Type::TEXT_ARRAY),
            (&tokens, Type::INT8_ARRAY),
            (&self.config().broadcast, Type::BOOL),
            (&lock_wait(limit), Type::INT4),
        ];
        let sql = "select * from simba_release($1::text::uuid, $2, $3, $4, $5)";
        let rows = self.query(&self.0.leases, false, limit, sql, params).await?;
        self.read(store::released(&rows))
    }

    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        self.end(&self.0.sessions, session, limit).await.map(|_lived| ())
    }

    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        let after = query.after.as_ref().map_or_else(String::new, |name| self.0.keys.key(name));
        let params: &[Param<'_>] = &[
            (&self.0.keys.prefix(), Type::TEXT),
            (&query.prefix, Type::TEXT),
            (&after, Type::TEXT),
            (&(i64::from(query.limit.max(1)) + 1), Type::INT8),
        ];
        let rows = self.query(&self.0.people, false, limit, store::INSPECT, params).await?;
        self.read(store::inspection(&rows, query, &self.0.keys))
    }

    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> Result<Forced, Failure> {
        let params: &[Param<'_>] = &[
            (&self.0.keys.key(name), Type::TEXT),
            (&token.as_i64(), Type::INT8),
            (&self.config().broadcast, Type::BOOL),
            (&lock_wait(limit), Type::INT4),
        ];
        let sql = "select * from simba_force_release($1, $2, $3, $4)";
        let rows = self.query(&self.0.people, false, limit, sql, params).await?;
        self.read(store::forced(&rows))
    }

    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        self.end(&self.0.people, session, limit).await
    }

    async fn examine(&self, limit: Duration) -> Examination {
        doctor::examine(&self.0.people, limit).await
    }

    fn schema(&self) -> Option<Schema> {
        Some(schema::schema())
    }

    async fn check_schema(&self, limit: Duration) -> Result<SchemaState, Failure> {
        doctor::find_schema(&self.0.dialer, limit).await
    }

    async fn apply_schema(&self, limit: Duration) -> Result<(), Failure> {
        self.0.people.call(true, limit, |client| async move { apply(&client).await.map(|_version| ()) }).await
    }

    async fn watch(&self, sink: HintSink) -> Failure {
        watch::watch(&self.0.dialer, &self.0.people, &self.0.keys, sink).await
    }
}

impl PostgresBackend {
    async fn end(&self, place: &Place, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        let params: &[Param<'_>] = &[
            (&session.to_string(), Type::TEXT),
            (&self.config().broadcast, Type::BOOL),
            (&lock_wait(limit), Type::INT4),
        ];
        let rows =
            self.query(place, false, limit, "select simba_close($1::text::uuid, $2, $3)", params).await?;
        self.read(
            rows.first()
                .ok_or("no answer".to_owned())
                .and_then(|row| row.try_get(0).map_err(|error| error.to_string())),
        )
    }
}
