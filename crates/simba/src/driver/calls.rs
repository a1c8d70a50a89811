//! Calls to the store: each one a task that answers exactly once, whatever becomes of the backend's code.

use simba_backend::{DynBackend, Effect, Failure, FailureKind, Hint, HintSink, Owner};
use simba_core::{CallId, Reply, Request};
use std::{future::Future, pin::pin, sync::Arc, task::Poll, time::Duration};
use tokio::{sync::oneshot, task::AbortHandle};

use super::{Input, Question, Said, Shared};
use crate::{
    context::{caught, panic_text},
    events::Event,
};

/// Where the answer to one call goes. Dropped without one, it answers that nobody knows what became of the call.
struct Answer {
    id: CallId,
    shared: Arc<Shared>,
    given: bool,
}

impl Answer {
    fn give(mut self, result: Result<Reply, Failure>) {
        self.given = true;
        self.shared.send(Input::Reply { id: self.id, result });
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if !self.given {
            let text = "the call was dropped before it was answered";
            let failure = Failure::new(FailureKind::Unreachable, Effect::Unknown, text);
            self.shared.send(Input::Reply { id: self.id, result: Err(failure) });
        }
    }
}

pub(super) fn carry(
    shared: &Arc<Shared>,
    backend: &Arc<dyn DynBackend>,
    owner: &Arc<Owner>,
    (id, request, patience): (CallId, Request, Duration),
) {
    let answer = Answer { id, shared: Arc::clone(shared), given: false };
    let (backend, owner) = (Arc::clone(backend), Arc::clone(owner));
    tokio::spawn(async move {
        let result = bounded(patience, ask(&*backend, &owner, request, patience)).await;
        answer.give(result);
    });
}

async fn ask(
    backend: &dyn DynBackend,
    owner: &Owner,
    request: Request,
    limit: Duration,
) -> Result<Reply, Failure> {
    Ok(match request {
        Request::Open { lease } => Reply::Opened(backend.open(lease, owner, limit).await?),
        Request::KeepAlive { session, known } => {
            Reply::KeepAlive(backend.keep_alive(session, known, limit).await?)
        }
        Request::Acquire { session, names } => {
            Reply::Acquired(backend.acquire(session, &names, limit).await?)
        }
        Request::Release(release) => {
            Reply::Released(backend.release(release.session(), release.grants(), limit).await?)
        }
        Request::Close { session } => {
            backend.close(session, limit).await?;
            Reply::Closed
        }
    })
}

/// Waits for a call no longer than its limit, and turns a panic of the backend into a failure.
async fn bounded<T>(limit: Duration, call: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match tokio::time::timeout(limit, caught(call)).await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => {
            let text = format!("the backend panicked, which is a fault of it: {}", panic_text(&panic));
            Err(Failure::new(FailureKind::Unsuitable, Effect::Unknown, text))
        }
        Err(_) => {
            let text = format!("no answer within {limit:?}");
            Err(Failure::new(FailureKind::TimedOut, Effect::Unknown, text))
        }
    }
}

/// Asks on behalf of a person.
pub(super) fn ask_for(
    backend: &Arc<dyn DynBackend>,
    question: Question,
    limit: Duration,
    answer: oneshot::Sender<Result<Said, Failure>>,
) {
    let backend = Arc::clone(backend);
    tokio::spawn(async move {
        let result = bounded(limit, question.put(&*backend, limit)).await;
        // Whoever asked may have gone.
        drop(answer.send(result));
    });
}

/// Keeps a watch running for as long as the client lives. After each start news may have been missed.
pub(super) fn watch(shared: &Arc<Shared>, backend: &Arc<dyn DynBackend>) -> AbortHandle {
    const FIRST: Duration = Duration::from_millis(100);
    let (shared, backend) = (Arc::clone(shared), Arc::clone(backend));
    let longest = shared.timing.renew().max(FIRST);
    let sink = {
        let shared = Arc::clone(&shared);
        HintSink::new(move |hint| shared.send(Input::Hint(hint)))
    };
    tokio::spawn(async move {
        let mut wait = FIRST;
        loop {
            let started = shared.clock.now();
            let failure = one_watch(&shared, &*backend, &sink).await;
            if shared.clock.now().saturating_since(started) > longest {
                wait = FIRST;
            }
            shared.events.publish(Event::WatchEnded { failure, retry_in: wait });
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(longest);
        }
    })
    .abort_handle()
}

async fn one_watch(shared: &Shared, backend: &dyn DynBackend, sink: &HintSink) -> Failure {
    let mut watch = pin!(caught(backend.watch(sink.clone())));
    // The first poll registers the watch, or begins to: what was freed before it was not heard of.
    let first = std::future::poll_fn(|cx| Poll::Ready(watch.as_mut().poll(cx))).await;
    shared.send(Input::Hint(Hint::Missed));
    let ended = match first {
        Poll::Ready(ended) => ended,
        Poll::Pending => watch.await,
    };
    ended.unwrap_or_else(|panic| {
        let text = format!("the backend's watch panicked: {}", panic_text(&panic));
        Failure::new(FailureKind::Unsuitable, Effect::Unknown, text)
    })
}
