//! Releases, as they are told.
//!
//! A watch is a connection of its own that listens. It is asked for a sign of life now and then, since one that was cut
//! off without a word stays silent for ever, which looks like a quiet store.
//!
//! # A pooler
//! Behind a pooler in transaction mode `LISTEN` succeeds, and nothing is ever heard: the server connection that listens
//! is somebody else's by then. So a watch first has a word sent from another connection, and believes in its ears only
//! when it has heard it.

use std::time::Duration;

use simba_backend::{Effect, Failure, FailureKind, Hint, HintSink};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_postgres::types::Type;

use super::{
    backend::new_session_id,
    config::PostgresConfig,
    connection::{Deadline, Dialer, Link, Place},
    failure::{before, during, timed_out},
    store::Keys,
};

/// How long a step may take.
const STEP: Duration = Duration::from_secs(5);
/// How long nothing is heard before the server is asked whether it is there.
const QUIET: Duration = Duration::from_secs(3);
/// What the first word begins with; it is in no name.
const HELLO: &str = "?";

pub(crate) async fn watch(dialer: &Dialer, people: &Place, keys: &Keys, sink: HintSink) -> Failure {
    match listen(dialer, people, keys, &sink).await {
        Ok(()) => {
            let text = format!("{}: the listening connection ended; it is begun anew", dialer.config.shown());
            Failure::new(FailureKind::Unreachable, Effect::None, text)
        }
        Err(failure) => failure,
    }
}

/// Returns when the connection has ended.
async fn listen(dialer: &Dialer, people: &Place, keys: &Keys, sink: &HintSink) -> Result<(), Failure> {
    let config = &dialer.config;
    let (teller, mut told) = mpsc::unbounded_channel();
    let link = dialer.dial(Deadline::after(STEP)).await?.driven(move |word| {
        // Nobody listens any more only when this watch has been dropped.
        teller.send(word).ok();
    });
    let listening = tokio::time::timeout(STEP, link.client.batch_execute("listen simba_freed")).await;
    listening.map_err(|_| timed_out(config, Effect::None))?.map_err(|error| before(config, &error))?;
    greet(dialer, people, &mut told).await?;
    // What was released before this moment has gone unheard.
    sink.send(Hint::Missed);
    loop {
        match tokio::time::timeout(QUIET, told.recv()).await {
            Ok(Some(word)) => pass_on(&word, keys, sink),
            Ok(None) => return Ok(()),
            Err(_) => alive(config, &link).await?,
        }
    }
}

fn pass_on(word: &str, keys: &Keys, sink: &HintSink) {
    if word.is_empty() {
        sink.send(Hint::Missed);
    } else if let Some(name) = keys.name(word) {
        sink.send(Hint::Freed(name));
    }
}

async fn greet(dialer: &Dialer, people: &Place, told: &mut UnboundedReceiver<String>) -> Result<(), Failure> {
    let hello = format!("{HELLO}{}", new_session_id()?);
    let word = hello.clone();
    people
        .call(false, STEP, |client| async move {
            client.query_typed("select pg_notify('simba_freed', $1)", &[(&word, Type::TEXT)]).await.map(drop)
        })
        .await?;
    let heard = async {
        while let Some(word) = told.recv().await {
            if word == hello {
                return true;
            }
        }
        false
    };
    match tokio::time::timeout(STEP, heard).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(timed_out(&dialer.config, Effect::None)),
        Err(_) => {
            let text = format!(
                "{}: what one connection tells, another does not hear, as behind a pooler; write ?broadcast=off in the \
                 URL, and free leases are found by polling",
                dialer.config.shown()
            );
            Err(Failure::new(FailureKind::Unsuitable, Effect::None, text))
        }
    }
}

async fn alive(config: &PostgresConfig, link: &Link) -> Result<(), Failure> {
    let sign = tokio::time::timeout(STEP, link.client.batch_execute("")).await;
    sign.map_err(|_| timed_out(config, Effect::None))?.map_err(|error| during(config, &error))
}
