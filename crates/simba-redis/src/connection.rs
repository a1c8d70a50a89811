//! One connection, used by one call at a time.
//!
//! The connection is taken out of its place for the time of a call, and put back only when the call has finished. A call
//! that is dropped or runs into its limit takes the connection with it: a late answer can never be taken for that of the
//! next call, and a server that is cut off is looked for anew.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use redis::{ErrorKind, RedisError, ServerErrorKind, aio::MultiplexedConnection};
use simba_backend::{Effect, Failure, FailureKind};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    config::{RedisConfig, Topology},
    failure::{before, during, timed_out},
    locate,
};

/// A place for a connection.
#[derive(Debug)]
pub(crate) struct Place {
    config: Arc<RedisConfig>,
    era: Arc<Era>,
    connection: Mutex<Option<(u64, MultiplexedConnection)>>,
}

/// Connections of one era were made to the same server, as far as anybody knows.
///
/// After a failover an old master may wake up and believe in itself for a while. A connection that was made before is then
/// to another server than one that was made after, and a session that is opened through the one is over by the word of the
/// other. So an answer that a session is over ends the era: every connection asks anew where the master is.
#[derive(Debug, Default)]
pub(crate) struct Era(AtomicU64);

impl Era {
    pub(crate) fn end(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The end of a call.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

impl Place {
    pub(crate) fn new(config: Arc<RedisConfig>, era: Arc<Era>) -> Self {
        Self { config, era, connection: Mutex::new(None) }
    }

    /// Has `act` done on the connection, within `limit`.
    pub(crate) async fn call<T, F>(
        &self,
        limit: Duration,
        act: impl FnOnce(MultiplexedConnection) -> F + Send,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, RedisError>> + Send,
        T: Send,
    {
        let deadline = Deadline::after(limit);
        let Ok(mut place) = tokio::time::timeout_at(deadline.0, self.connection.lock()).await else {
            return Err(timed_out(&self.config, Effect::None));
        };
        let era = self.era.0.load(Ordering::Relaxed);
        let connection = match place.take() {
            Some((made, connection)) if made == era => connection,
            Some(_) | None => open(&self.config, deadline).await?,
        };
        match tokio::time::timeout_at(deadline.0, act(connection.clone())).await {
            Ok(Ok(answer)) => {
                *place = Some((era, connection));
                Ok(answer)
            }
            Ok(Err(error)) => {
                if stays(&error) {
                    *place = Some((era, connection));
                }
                Err(during(&self.config, &error))
            }
            Err(_) => Err(timed_out(&self.config, Effect::Unknown)),
        }
    }
}

/// Whether a connection is as good as before after this error: the server answered, and is the right one.
fn stays(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::ResponseError | ServerErrorKind::NoScript | ServerErrorKind::NoPerm
        ),
        ErrorKind::Extension => true,
        _ => false,
    }
}

/// A connection to the server that takes writes.
///
/// It is asked something before it is used. A server that is frozen, or wants a password, is so found out before a call
/// is sent, and the call certainly was not done.
async fn open(config: &RedisConfig, deadline: Deadline) -> Result<MultiplexedConnection, Failure> {
    let at = locate::master(config, deadline.left()).await?;
    let mut connection = locate::connect(config, &at, true, deadline.left()).await?;
    let alone = config.topology == Topology::Alone;
    let first = redis::cmd(if alone { "PING" } else { "ROLE" });
    let answer = first.query_async::<redis::Value>(&mut connection);
    let answer = tokio::time::timeout_at(deadline.0, answer).await;
    let answer =
        answer.map_err(|_| timed_out(config, Effect::None))?.map_err(|error| before(config, &error))?;
    // Whoever named the server may be behind.
    if !alone && !is_master(&answer) {
        let text = format!("{}: {at} is no master yet; it is tried again", config.shown());
        return Err(Failure::new(FailureKind::Busy, Effect::None, text));
    }
    // A server that was frozen answers when it wakes, and may have been replaced meanwhile.
    if !alone && locate::master(config, deadline.left()).await? != at {
        let text = format!("{}: {at} has just been replaced; it is tried again", config.shown());
        return Err(Failure::new(FailureKind::Busy, Effect::None, text));
    }
    Ok(connection)
}

fn is_master(role: &redis::Value) -> bool {
    let redis::Value::Array(parts) = role else { return false };
    matches!(parts.first(), Some(redis::Value::BulkString(word)) if word == b"master")
}
