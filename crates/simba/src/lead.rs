//! Work that runs as part of its caller.

use std::{fmt, future::Future, pin::Pin};
use tracing::Instrument;

use crate::{
    context::{caught, caught_sync, within, within_sync},
    term::{Term, WorkGuard},
    work::{Flow, Job, Outcome, span},
};

/// A job from a function that begins a run. Its type keeps whether the work is `Send`, and with it whether the
/// whole of `lead` is.
pub(crate) struct LeadJob<B> {
    begin: B,
}

impl<B> LeadJob<B> {
    pub(crate) const fn new(begin: B) -> Self {
        Self { begin }
    }
}

impl<T, E: fmt::Display, B, Fut> Job for LeadJob<B>
where
    B: FnMut(Term, WorkGuard) -> Fut,
    Fut: Future<Output = Outcome<T, E>>,
{
    type Value = T;
    type Failure = E;
    type Running = Pin<Box<Fut>>;
    const RETHROW: bool = true;

    fn begin(&mut self, term: Term, guard: WorkGuard) -> Self::Running {
        Box::pin((self.begin)(term, guard))
    }
}

/// One run: the work is called here and now, and the future that it answers is not tied to the function.
pub(crate) fn begin_lead<T, E, F, Fut>(
    client: u64,
    term: Term,
    guard: WorkGuard,
    work: &mut F,
) -> impl Future<Output = Outcome<T, E>> + use<T, E, F, Fut>
where
    F: FnMut(Term) -> Fut,
    Fut: Future<Output = Result<Flow<T>, E>>,
{
    let span = span(&term);
    let called = caught_sync(|| within_sync(client, || span.in_scope(|| work(term))));
    async move {
        let _guard = guard;
        let result = match called {
            Ok(future) => caught(within(client, future).instrument(span)).await,
            Err(panic) => Err(panic),
        };
        match result {
            Ok(Ok(flow)) => Outcome::Flow(flow),
            Ok(Err(error)) => Outcome::Failed(error),
            Err(panic) => Outcome::Panicked(panic),
        }
    }
}
