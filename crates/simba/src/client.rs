//! The client.

use simba_backend::{Backend, DynBackend, LeaseName, NodeLabel};
use simba_core::{ElectionView, Instant, SessionStatus, SessionView, Timing};
use std::{fmt, sync::Arc, time::Duration};

use crate::{
    Builder, ElectionBuilder, Events, Inspector,
    driver::Shared,
    error::Error,
    store,
    wait::{Completion, lock},
};

/// A client: one session on the store, and everything that lives on it.
///
/// It is a handle to an engine on a thread of its own. Clones are handles to the same one, as elections hold them
/// too. When the last is dropped, the client closes in the background: dropping never blocks and needs no runtime.
/// [`close`](Self::close) does the same and tells when it is done.
///
/// After a `fork`, the child must not use the parent's client: calls answer [`Error::Forked`] there, and nothing is
/// done to the parent's session.
#[derive(Clone)]
pub struct Simba(Arc<Handle>);

struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.0.is_forked() {
            self.0.close();
        }
    }
}

/// One view of everything in a client, taken at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The node's label.
    pub node: NodeLabel,
    /// When it was taken, on the client's clock; the instants below are of the same clock.
    pub at: Instant,
    /// The session.
    pub session: SessionView,
    /// The elections, in the order of their names.
    pub elections: Vec<ElectionView>,
}

impl Snapshot {
    /// The election of a name, if it is started on this client.
    #[must_use]
    pub fn election(&self, name: &str) -> Option<&ElectionView> {
        self.elections
            .binary_search_by(|view| view.name.as_str().cmp(name))
            .ok()
            .and_then(|at| self.elections.get(at))
    }
}

impl Simba {
    /// A builder of a client on a store.
    pub fn builder(store: impl Backend) -> Builder {
        Builder::new(Arc::new(store))
    }

    /// As [`builder`](Self::builder), on a store that was chosen at run time.
    pub fn builder_on(store: Arc<dyn DynBackend>) -> Builder {
        Builder::new(store)
    }

    /// As [`builder`](Self::builder), on the store that a URL names; see [`connect`](Self::connect).
    ///
    /// # Errors
    /// [`Error::Url`].
    pub fn builder_from_url(url: &str) -> Result<Builder, Error> {
        store::open(url).map(Builder::new)
    }

    /// A client with every setting at its default, on the store that a URL names. The kinds of stores are features
    /// of this crate:
    ///
    /// | URL | feature | store |
    /// |---|---|---|
    /// | `sqlite:PATH` | `sqlite` | a SQLite file, for the processes of one host |
    /// | `postgres://USER@HOST/DATABASE` | `postgres` | PostgreSQL, also behind PgBouncer |
    /// | `mysql://USER@HOST/DATABASE`, `mariadb://..` | `mysql` | MariaDB or MySQL |
    /// | `redis://HOST`, `redis+sentinel://HOST,../MASTER`, `redis+cluster://HOST,..` | `redis` | Redis or Valkey |
    /// | `memory:` | `memory` | a new store in this process, for tests and examples |
    ///
    /// The client starts to connect in the background; wait for it with [`ready`](Self::ready), or just go on.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let simba = simba::Simba::connect("memory:").await?;
    /// simba.close().await;
    ///
    /// let error = simba::Simba::connect("carrier-pigeon:loft-3").await.unwrap_err();
    /// assert!(error.to_string().contains("\"carrier-pigeon\""));
    /// # Ok::<(), simba::Error>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Url`], and those of [`Builder::build`].
    ///
    /// # Cancel safety
    /// It does not wait; dropped before it is polled, nothing has happened.
    #[expect(clippy::unused_async, reason = "a store may need to look before it can answer")]
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder_from_url(url)?.build()
    }

    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(Arc::new(Handle(shared)))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.0
    }

    /// Waits until there is a session with the store, at most for `limit`.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the last failure, [`Error::Closed`], [`Error::Forked`]. The client lives on.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the client lives on.
    pub async fn ready(&self, limit: Duration) -> Result<(), Error> {
        let shared = self.shared();
        shared.check()?;
        let mut session = shared.session.subscribe();
        let settled = session.wait_for(|now| !matches!(now.status, SessionStatus::Opening));
        tokio::select! {
            biased;
            settled = settled => match settled.map(|now| now.status) {
                Ok(SessionStatus::Closed) | Err(_) => return Err(Error::Closed),
                Ok(SessionStatus::Opening | SessionStatus::Live | SessionStatus::Suspended) => return Ok(()),
            },
            () = shared.sleep(limit) => {}
        }
        let last = shared.session.borrow().last_failure.clone().map(Box::new);
        Err(Error::NotReady { waited: limit, last })
    }

    /// An election for a lease: how it is run is chosen on the builder.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Closed`], [`Error::Forked`].
    pub fn election(&self, name: &str) -> Result<ElectionBuilder, Error> {
        self.shared().check()?;
        Ok(ElectionBuilder::new(self.clone(), LeaseName::new(name)?))
    }

    /// Stops every election in the handover order and closes the session, which frees everything at once.
    ///
    /// The close starts with the call. The answer resolves when the last callback has run and the store has
    /// answered, or its time limit has passed. Calling it again answers likewise.
    pub fn close(&self) -> Completion {
        if !self.shared().is_forked() {
            self.shared().close();
        }
        self.closed()
    }

    /// Resolves when the client is closed, whoever closed it.
    pub fn closed(&self) -> Completion {
        Completion::new(Arc::clone(&self.shared().closed), self.shared().id)
    }

    /// The session's state.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        self.shared().session.borrow().status
    }

    /// One consistent view of this node, without asking the store. Costs time in the number of elections.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        let (at, view) = {
            let engine = lock(&shared.engine);
            (shared.clock.now(), engine.snapshot())
        };
        Snapshot { node: shared.node.clone(), at, session: view.session, elections: view.elections }
    }

    /// What happens in this client from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        self.shared().events.subscribe()
    }

    /// Looks at the store's leases, whoever holds them.
    #[must_use]
    pub fn inspect(&self) -> Inspector {
        Inspector::of_client(self.clone())
    }

    /// The node's label.
    #[must_use]
    pub fn node(&self) -> &NodeLabel {
        &self.shared().node
    }

    /// The timing that this client runs with.
    #[must_use]
    pub fn timing(&self) -> &Timing {
        &self.shared().timing
    }

    /// The present instant of this client's clock, to compare with [`Term::deadline`](crate::Term::deadline) and
    /// the instants of a [`Snapshot`].
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared().clock.now()
    }
}

impl fmt::Debug for Simba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simba({} {:?})", self.node(), self.status())
    }
}
