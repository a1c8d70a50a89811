//! Looking at the store's leases.

use simba_backend::{
    DynBackend, FencingToken, Forced, InspectQuery, Inspection, LeaseName, LeaseRecord, SessionId,
};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::oneshot;

use crate::{
    Simba,
    driver::{Input, Question, Said},
    error::Error,
    store,
};

/// How many records are asked for at a time.
const PAGE: u32 = 1_000;

/// Lists leases for people: who holds them, with which token, for how much longer.
#[derive(Clone)]
pub struct Inspector {
    by: By,
    limit: Duration,
}

#[derive(Clone)]
enum By {
    /// By the client's own thread and connections.
    Client(Simba),
    /// Directly; there is no session.
    Store(Arc<dyn DynBackend>),
}

impl Inspector {
    pub(crate) fn of_client(client: Simba) -> Self {
        let limit = client.timing().renew();
        Self { by: By::Client(client), limit }
    }

    /// One that has no client: nothing is written to the store, not even a session. Its calls run on the caller's
    /// runtime, whose timers are not used; the store bounds them.
    #[must_use]
    pub fn new(store: Arc<dyn DynBackend>) -> Self {
        Self { by: By::Store(store), limit: Duration::from_secs(5) }
    }

    /// As [`new`](Self::new), on the store that a URL names; see [`Simba::connect`].
    ///
    /// # Errors
    /// [`Error::Url`].
    pub fn from_url(url: &str) -> Result<Self, Error> {
        store::open(url).map(Self::new)
    }

    /// The time limit of each call to the store.
    #[must_use]
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// One page of leases, in the order of their names.
    ///
    /// # Errors
    /// [`Error::Store`], [`Error::Closed`], [`Error::Forked`].
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing is changed.
    pub async fn page(&self, query: InspectQuery) -> Result<Inspection, Error> {
        match self.ask(Question::Page(query)).await? {
            Said::Page(page) => Ok(page),
            Said::Forced(_) | Said::Evicted(_) => Err(Error::Closed),
        }
    }

    /// Every lease whose name begins with `prefix` (all, if that is empty), page after page. What changes meanwhile
    /// may be missed.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    ///
    /// # Cancel safety
    /// As [`page`](Self::page).
    pub async fn leases(&self, prefix: &str) -> Result<Vec<LeaseRecord>, Error> {
        let mut all: Vec<LeaseRecord> = Vec::new();
        loop {
            let after = all.last().map(|record| record.name.clone());
            let query = InspectQuery { prefix: prefix.to_owned(), after, limit: PAGE };
            let mut page = self.page(query).await?;
            let go_on = page.more && !page.leases.is_empty();
            all.append(&mut page.leases);
            if !go_on {
                return Ok(all);
            }
        }
    }

    /// One lease; `None` if it has never been held.
    ///
    /// # Errors
    /// [`Error::Name`], and as [`page`](Self::page).
    ///
    /// # Cancel safety
    /// As [`page`](Self::page).
    pub async fn who(&self, name: &str) -> Result<Option<LeaseRecord>, Error> {
        let name = LeaseName::new(name)?;
        // The shortest name that begins with this one is this one, and comes first.
        let query = InspectQuery { prefix: name.as_str().to_owned(), after: None, limit: 1 };
        let page = self.page(query).await?;
        Ok(page.leases.into_iter().next().filter(|record| record.name == name))
    }
}

/// Doing something about a lease or a session that belongs to somebody else, in an incident.
impl Inspector {
    /// Frees the term of `name` that carries `token`, whoever owns it; see
    /// [`Backend::force_release`](simba_backend::Backend::force_release). Its owner ends its term at its next
    /// keep-alive; until then two may act, and only the token keeps them apart.
    ///
    /// # Errors
    /// [`Error::Name`], and as [`page`](Self::page).
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not. Repeating it is harmless.
    pub async fn force_release(&self, name: &str, token: FencingToken) -> Result<Forced, Error> {
        match self.ask(Question::ForceRelease(LeaseName::new(name)?, token)).await? {
            Said::Forced(forced) => Ok(forced),
            Said::Page(_) | Said::Evicted(_) => Err(Error::Closed),
        }
    }

    /// Ends somebody's session: all its leases are free at once. Answers whether it lived.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    ///
    /// # Cancel safety
    /// As [`force_release`](Self::force_release).
    pub async fn evict(&self, session: SessionId) -> Result<bool, Error> {
        match self.ask(Question::Evict(session)).await? {
            Said::Evicted(lived) => Ok(lived),
            Said::Page(_) | Said::Forced(_) => Err(Error::Closed),
        }
    }

    /// A client's store is called on the client's own thread: a connection belongs to the runtime that opened it.
    async fn ask(&self, question: Question) -> Result<Said, Error> {
        match &self.by {
            By::Client(client) => {
                client.shared().check()?;
                let (answer, result) = oneshot::channel();
                client.shared().send(Input::Ask { question, limit: self.limit, answer });
                Ok(result.await.map_err(|_| Error::Closed)??)
            }
            By::Store(store) => Ok(question.put(&**store, self.limit).await?),
        }
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Client(client) => write!(f, "Inspector({client:?})"),
            By::Store(_) => write!(f, "Inspector"),
        }
    }
}
