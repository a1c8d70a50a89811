//! Releases, as they are told.
//!
//! A subscription is a connection of its own. It is asked for a sign of life now and then, since one that was cut off
//! without a word stays silent for ever, which looks like a quiet store.

use std::{future::poll_fn, pin::pin, time::Duration};

use futures_core::Stream;
use simba_backend::{Effect, Failure, FailureKind, Hint, HintSink, LeaseName};

use crate::{
    config::RedisConfig,
    failure::{before, during, timed_out},
    locate,
};

/// How long a step of the subscription may take.
const STEP: Duration = Duration::from_secs(5);
/// How long nothing is heard before the server is asked whether it is there.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) async fn watch(config: &RedisConfig, sink: HintSink) -> Failure {
    match listen(config, &sink).await {
        Ok(()) => {
            let text = format!("{}: the subscription ended; it is begun anew", config.shown());
            Failure::new(FailureKind::Unreachable, Effect::None, text)
        }
        Err(failure) => failure,
    }
}

async fn listen(config: &RedisConfig, sink: &HintSink) -> Result<(), Failure> {
    let late = |_| timed_out(config, Effect::None);
    let at = locate::master(config, STEP).await?;
    let client = locate::client(config, &at, true)?;
    let subscription = tokio::time::timeout(STEP, client.get_async_pubsub()).await.map_err(late)?;
    let (mut commands, messages) = subscription.map_err(|error| before(config, &error))?.split();
    let channel = format!("{}freed", config.prefix());
    let subscribed = tokio::time::timeout(STEP, commands.subscribe(channel)).await.map_err(late)?;
    subscribed.map_err(|error| before(config, &error))?;
    // What was released before this moment has gone unheard.
    sink.send(Hint::Missed);
    let mut messages = pin!(messages);
    loop {
        let next = poll_fn(|context| messages.as_mut().poll_next(context));
        match tokio::time::timeout(QUIET, next).await {
            Ok(Some(message)) => {
                let name = message.get_payload::<String>().ok().and_then(|text| LeaseName::new(&text).ok());
                sink.send(name.map_or(Hint::Missed, Hint::Freed));
            }
            Ok(None) => return Ok(()),
            Err(_) => {
                let sign = tokio::time::timeout(STEP, commands.ping::<redis::Value>()).await.map_err(late)?;
                sign.map_err(|error| during(config, &error))?;
            }
        }
    }
}
