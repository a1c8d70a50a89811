//! Looking at the store's leases.

use simba_backend::{DynBackend, InspectQuery, Inspection, LeaseName, LeaseRecord};
use std::{fmt, sync::Arc, time::Duration};
use tokio::sync::oneshot;

use crate::{Simba, driver::Input, error::Error, store};

/// How many records are asked for at a time.
const PAGE: u32 = 1_000;

/// Lists leases for people: who holds them, with which token, for how much longer. It changes nothing.
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
        match &self.by {
            By::Client(client) => {
                client.shared().check()?;
                let (answer, result) = oneshot::channel();
                client.shared().send(Input::Inspect { query, limit: self.limit, answer });
                Ok(result.await.map_err(|_| Error::Closed)??)
            }
            By::Store(store) => Ok(store.inspect(&query, self.limit).await?),
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

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            By::Client(client) => write!(f, "Inspector({client:?})"),
            By::Store(_) => write!(f, "Inspector"),
        }
    }
}
