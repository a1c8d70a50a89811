//! The calls.

use crate::{
    Acquired, Capabilities, Examination, Failure, FencingToken, Forced, Grant, HintSink, InspectQuery,
    Inspection, KeepAlive, LeaseName, Opened, Owner, Released, Schema, SchemaState, SessionId, Version,
};
use alloc::boxed::Box;
use core::{fmt, future::Future, pin::Pin, time::Duration};

/// A store that leases live on. The clauses C1 to C13 that every implementation must keep are on the
/// [crate's page](crate).
///
/// Each call takes `limit`: the caller stops waiting after it and drops the future. An implementation uses it to
/// bound the work on the store's side too (a statement or lock timeout), and discards a connection on which a
/// call did not finish.
///
/// # Cancel safety
/// Every future may be dropped at any await point. The call then counts as failed with
/// [`Effect::Unknown`](crate::Effect::Unknown), and the next call must find a clean connection.
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// What this store can do. The same value for as long as the backend lives.
    fn capabilities(&self) -> Capabilities;

    /// Opens a new session that expires `lease` after its last keep-alive.
    ///
    /// # Errors
    /// A [`Failure`]. After one of unknown effect a session may exist that nobody renews; it expires by itself.
    fn open(
        &self,
        lease: Duration,
        owner: &Owner,
        limit: Duration,
    ) -> impl Future<Output = Result<Opened, Failure>> + Send;

    /// Renews a session. With `known` equal to the session's version the answer carries no list.
    ///
    /// # Errors
    /// A [`Failure`]. An expired session is an answer, not a failure.
    fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> impl Future<Output = Result<KeepAlive, Failure>> + Send;

    /// Tries to acquire every one of `names`, in one round trip.
    ///
    /// # Errors
    /// A [`Failure`] for the call as a whole. A lease that another session holds is an answer, not a failure.
    fn acquire(
        &self,
        session: SessionId,
        names: &[LeaseName],
        limit: Duration,
    ) -> impl Future<Output = Result<Acquired, Failure>> + Send;

    /// Frees every one of `grants` that `session` still owns with that very token, in one round trip.
    ///
    /// # Errors
    /// A [`Failure`] for the call as a whole.
    fn release(
        &self,
        session: SessionId,
        grants: &[Grant],
        limit: Duration,
    ) -> impl Future<Output = Result<Released, Failure>> + Send;

    /// Ends a session; every lease of it is free at once. Closing a session that is over changes nothing.
    ///
    /// # Errors
    /// A [`Failure`].
    fn close(&self, session: SessionId, limit: Duration) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Lists leases for people. It needs no session and changes nothing.
    ///
    /// # Errors
    /// A [`Failure`].
    fn inspect(
        &self,
        query: &InspectQuery,
        limit: Duration,
    ) -> impl Future<Output = Result<Inspection, Failure>> + Send;

    /// Frees a lease whose present term carries `token`, whoever owns it, for a person in an incident. The token is
    /// part of the call so that it cannot hit a newer term. In the same atomic step the record's token rises by one:
    /// the next term gets a higher one still, and the former owner's next keep-alive tells it that the lease is gone.
    /// It needs no session.
    ///
    /// # Errors
    /// A [`Failure`]. A lease that is free or in another term is an answer, not a failure.
    fn force_release(
        &self,
        name: &LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> impl Future<Output = Result<Forced, Failure>> + Send;

    /// Ends somebody else's session, for a person in an incident: every lease of it is free at once, and its owner's
    /// next keep-alive is answered `Expired`. It needs no session. Answers whether there was such a session.
    ///
    /// # Errors
    /// A [`Failure`].
    fn evict(
        &self,
        session: SessionId,
        limit: Duration,
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Measures the store, and looks at what weakens its promises. What it cannot find out is a finding too. It
    /// leaves no trace on the store.
    fn examine(&self, limit: Duration) -> impl Future<Output = Examination> + Send;

    /// The store's tables; `None` if it has none.
    fn schema(&self) -> Option<Schema> {
        None
    }

    /// What the store holds of its tables.
    ///
    /// # Errors
    /// A [`Failure`].
    fn check_schema(&self, limit: Duration) -> impl Future<Output = Result<SchemaState, Failure>> + Send {
        let _unused = limit;
        core::future::ready(Ok(SchemaState::NotNeeded))
    }

    /// Makes the tables, if they are missing; safe when many processes do so at once.
    ///
    /// # Errors
    /// A [`Failure`].
    fn apply_schema(&self, limit: Duration) -> impl Future<Output = Result<(), Failure>> + Send {
        let _unused = limit;
        core::future::ready(Ok(()))
    }

    /// Tells of releases for as long as the future is polled; dropping it ends the watch. It returns only when
    /// it can go on no longer, and is then started again by the caller, who has missed news meanwhile. Called
    /// only if [`Capabilities::broadcast`] is claimed.
    fn watch(&self, sink: HintSink) -> impl Future<Output = Failure> + Send;
}

/// A future in a box, as [`DynBackend`] returns it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The object-safe twin of [`Backend`], for a store that is chosen at run time. Implemented for every backend.
///
/// ```no_run
/// use simba_backend::{Backend, DynBackend};
/// use std::sync::Arc;
///
/// fn erase(store: impl Backend) -> Arc<dyn DynBackend> {
///     Arc::new(store)
/// }
/// ```
#[expect(missing_docs, reason = "each method is its namesake of Backend, boxed")]
pub trait DynBackend: fmt::Debug + Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;
    fn open<'a>(
        &'a self,
        lease: Duration,
        owner: &'a Owner,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Opened, Failure>>;
    fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> BoxFuture<'_, Result<KeepAlive, Failure>>;
    fn acquire<'a>(
        &'a self,
        session: SessionId,
        names: &'a [LeaseName],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Acquired, Failure>>;
    fn release<'a>(
        &'a self,
        session: SessionId,
        grants: &'a [Grant],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Released, Failure>>;
    fn close(&self, session: SessionId, limit: Duration) -> BoxFuture<'_, Result<(), Failure>>;
    fn inspect<'a>(
        &'a self,
        query: &'a InspectQuery,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Inspection, Failure>>;
    fn force_release<'a>(
        &'a self,
        name: &'a LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Forced, Failure>>;
    fn evict(&self, session: SessionId, limit: Duration) -> BoxFuture<'_, Result<bool, Failure>>;
    fn examine(&self, limit: Duration) -> BoxFuture<'_, Examination>;
    fn schema(&self) -> Option<Schema>;
    fn check_schema(&self, limit: Duration) -> BoxFuture<'_, Result<SchemaState, Failure>>;
    fn apply_schema(&self, limit: Duration) -> BoxFuture<'_, Result<(), Failure>>;
    fn watch(&self, sink: HintSink) -> BoxFuture<'_, Failure>;
}

impl<B: Backend> DynBackend for B {
    fn capabilities(&self) -> Capabilities {
        Backend::capabilities(self)
    }
    fn open<'a>(
        &'a self,
        lease: Duration,
        owner: &'a Owner,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Opened, Failure>> {
        Box::pin(Backend::open(self, lease, owner, limit))
    }
    fn keep_alive(
        &self,
        session: SessionId,
        known: Option<Version>,
        limit: Duration,
    ) -> BoxFuture<'_, Result<KeepAlive, Failure>> {
        Box::pin(Backend::keep_alive(self, session, known, limit))
    }
    fn acquire<'a>(
        &'a self,
        session: SessionId,
        names: &'a [LeaseName],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Acquired, Failure>> {
        Box::pin(Backend::acquire(self, session, names, limit))
    }
    fn release<'a>(
        &'a self,
        session: SessionId,
        grants: &'a [Grant],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Released, Failure>> {
        Box::pin(Backend::release(self, session, grants, limit))
    }
    fn close(&self, session: SessionId, limit: Duration) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(Backend::close(self, session, limit))
    }
    fn inspect<'a>(
        &'a self,
        query: &'a InspectQuery,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Inspection, Failure>> {
        Box::pin(Backend::inspect(self, query, limit))
    }
    fn force_release<'a>(
        &'a self,
        name: &'a LeaseName,
        token: FencingToken,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Forced, Failure>> {
        Box::pin(Backend::force_release(self, name, token, limit))
    }
    fn evict(&self, session: SessionId, limit: Duration) -> BoxFuture<'_, Result<bool, Failure>> {
        Box::pin(Backend::evict(self, session, limit))
    }
    fn examine(&self, limit: Duration) -> BoxFuture<'_, Examination> {
        Box::pin(Backend::examine(self, limit))
    }
    fn schema(&self) -> Option<Schema> {
        Backend::schema(self)
    }
    fn check_schema(&self, limit: Duration) -> BoxFuture<'_, Result<SchemaState, Failure>> {
        Box::pin(Backend::check_schema(self, limit))
    }
    fn apply_schema(&self, limit: Duration) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(Backend::apply_schema(self, limit))
    }
    fn watch(&self, sink: HintSink) -> BoxFuture<'_, Failure> {
        Box::pin(Backend::watch(self, sink))
    }
}
