//! The contract, call by call.

use std::{fmt, sync::Arc, time::Duration};

use redis::FromRedisValue;
use simba_backend::{
    Acquired, Backend, Capabilities, Effect, Examination, Failure, FailureKind, FencingToken, Forced, Grant,
    HintSink, InspectQuery, Inspection, KeepAlive, LeaseName, Opened, Owner, Released, Schema, SessionId,
    Version,
};

use crate::{
    config::{RedisConfig, Tokens, Topology},
    connection::{Era, Place},
    doctor,
    failure::strange,
    script::{Scripts, Text},
    store::{self, Read},
    watch,
};

/// Leases on Redis. Clones share the connections, which belong to the runtime that made the first call.
#[derive(Clone)]
pub struct RedisBackend(Arc<Inner>);

struct Inner {
    config: Arc<RedisConfig>,
    prefix: String,
    scripts: Scripts,
    era: Arc<Era>,
    /// Opens, renews and closes sessions; never behind a batch of acquires.
    sessions: Place,
    /// Acquires and releases.
    leases: Place,
    /// Everything for people.
    people: Place,
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisBackend({})", self.0.config.shown())
    }
}

/// The longest lease: its microseconds, added to those of the clock, stay exact in a script.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3_600);

impl RedisBackend {
    /// A store on the servers that `config` names. Nothing is connected yet.
    ///
    /// # Errors
    /// None so far; what is wrong with the servers is told by the first call.
    pub fn new(config: RedisConfig) -> Result<Self, Failure> {
        let config = Arc::new(config);
        let era = Arc::new(Era::default());
        let place = || Place::new(Arc::clone(&config), Arc::clone(&era));
        let (sessions, leases, people) = (place(), place(), place());
        let (prefix, scripts) = (config.prefix(), Scripts::new(&config));
        Ok(Self(Arc::new(Inner { config, prefix, scripts, era, sessions, leases, people })))
    }

    /// The configuration.
    pub fn config(&self) -> &RedisConfig {
        &self.0.config
    }

    /// Runs a script whose first argument is the prefix.
    async fn run<T: FromRedisValue + Send>(
        &self,
        place: &Place,
        script: &Text,
        args: Vec<String>,
        limit: Duration,
    ) -> Result<T, Failure> {
        let mut all = Vec::with_capacity(args.len() + 1);
        all.push(self.0.prefix.clone());
        all.extend(args);
        // Any key will do: they all lie in one slot.
        let key = format!("{}s:", self.0.prefix);
        place.call(limit, |connection| script.run(connection, key, all)).await
    }

    /// Whoever says that a session is over may be another server than the one that opened it.
    fn is_over<T>(&self, over: bool, answer: T) -> T {
        if over && self.0.config.topology != Topology::Alone {
            self.0.era.end();
        }
        answer
    }

    fn read<T>(&self, read: Read<T>) -> Result<T, Failure> {
        read.map_err(|what| strange(&self.0.config, what))
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

impl Backend for RedisBackend {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            broadcast: self.0.config.broadcast,
            consecutive_tokens: self.0.config.tokens == Tokens::Counter,
            // By a look at eight leases each time, and so at once only for an owner of few.
            sees_foreign_changes: true,
        }
    }

    async fn open(&self, lease: Duration, owner: &Owner, limit: Duration) -> Result<Opened, Failure> {
        let micros = lease.min(LONGEST).as_micros();
        if lease > LONGEST || micros == 0 {
            let text = format!("a lease time of {lease:?} cannot be kept; use 1 microsecond to 365 days");
            return Err(Failure::new(FailureKind::Unsuitable, Effect::None, text));
        }
        let session = new_session_id()?;
        let args = vec![
            session.to_string(),
            micros.to_string(),
            owner.node.to_string(),
            owner.host.to_string(),
            owner.pid.to_string(),
            owner.version.clone(),
        ];
        let _done: i64 = self.run(&self.0.sessions, &self.0.scripts.open, args, limit).await?;
        // What is below a microsecond is not kept.
        let granted = Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX));
        Ok(Opened { session, granted, remaining: granted })
    }

    async fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> Result<KeepAlive, Failure> {
        let known = known.map_or_else(String::new, |version| version.0.to_string());
        let args = vec![session.to_string(), known];
        let answer = self.run(&self.0.sessions, &self.0.scripts.keep_alive, args, limit).await?;
        let answer = self.read(store::keep_alive(answer))?;
        Ok(self.is_over(answer == KeepAlive::Expired, answer))
    }

    async fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> Result<Acquired, Failure> {
        let tokens = match self.0.config.tokens {
            Tokens::Counter => "counter",
            Tokens::Clock => "clock",
        };
        let mut args = vec![session.to_string(), tokens.to_owned()];
        args.extend(names.iter().map(ToString::to_string));
        let answer = self.run(&self.0.leases, &self.0.scripts.acquire, args, limit).await?;
        let answer = self.read(store::acquired(answer))?;
        Ok(self.is_over(answer == Acquired::Expired, answer))
    }

    async fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> Result<Released, Failure> {
        let mut args = vec![session.to_string()];
        args.extend(grants.iter().flat_map(|grant| [grant.name.to_string(), grant.token.to_string()]));
        let answer = self.run(&self.0.leases, &self.0.scripts.release, args, limit).await?;
        let answer = self.read(store::released(answer))?;
        Ok(self.is_over(answer.step.is_none(), answer))
    }

    async fn close(&self, session: SessionId, limit: Duration) -> Result<(), Failure> {
        let args = vec![session.to_string()];
        let _lived: bool = self.run(&self.0.sessions, &self.0.scripts.close, args, limit).await?;
        Ok(())
    }

    async fn inspect(&self, query: &InspectQuery, limit: Duration) -> Result<Inspection, Failure> {
        let after = query.after.as_ref().map_or_else(String::new, ToString::to_string);
        let wanted = query.limit.max(1);
        let args = vec![query.prefix.clone(), after, (u64::from(wanted) + 1).to_string()];
        let answer: Vec<Vec<String>> = self.run(&self.0.people, &self.0.scripts.inspect, args, limit).await?;
        self.read(store::inspection(&answer, wanted as usize))
    }

    async fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> Result<Forced, Failure> {
        let args = vec![name.to_string(), token.to_string()];
        let answer: Vec<String> =
            self.run(&self.0.people, &self.0.scripts.force_release, args, limit).await?;
        self.read(store::forced(&answer))
    }

    async fn evict(&self, session: SessionId, limit: Duration) -> Result<bool, Failure> {
        self.run(&self.0.people, &self.0.scripts.close, vec![session.to_string()], limit).await
    }

    async fn examine(&self, limit: Duration) -> Examination {
        doctor::examine(&self.0.config, &self.0.people, limit).await
    }

    /// Redis has no tables; there are only rights to give.
    fn schema(&self) -> Option<Schema> {
        let grants = format!(
            "# A user with the rights that leases need, and no more; choose the password yourself.\n\
             ACL SETUSER simba on >PASSWORD resetkeys ~{prefix}* resetchannels &{prefix}* -@all \
             +eval +evalsha +time +hset +hget +hmget +hdel +hincrby +hsetnx +sadd +srem +smembers +scard +srandmember \
             +zadd +zrangebylex +del +exists +pexpire +pttl +publish +subscribe +unsubscribe +ping +role +select \
             +cluster|slots +cluster|keyslot +info +config|get\n",
            prefix = self.0.config.prefix
        );
        Some(Schema { version: 1, sql: "# Redis needs no tables.\n".to_owned(), grants: Some(grants) })
    }

    async fn watch(&self, sink: HintSink) -> Failure {
        watch::watch(&self.0.config, sink).await
    }
}
