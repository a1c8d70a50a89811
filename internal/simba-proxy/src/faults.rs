//! What is wrong now, and what has passed.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// How a reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Thrown away; the connection stays, and what comes after the client's next bytes passes.
    Drop,
    /// Kept, with all that follows on its connection, until [`release_replies`](crate::Proxy::release_replies).
    Hold,
    /// The connection is reset instead.
    Reset,
}

/// What a proxy has let pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were taken.
    pub connections: u64,
    /// Times that the server said something after the client had: whether or not the client heard it.
    pub calls: u64,
    /// Bytes that were passed on to the server.
    pub to_server: u64,
    /// Bytes that were passed on to the client.
    pub to_client: u64,
}

impl Counts {
    /// What has passed since an earlier reading.
    ///
    /// ```
    /// # use simba_proxy::Counts;
    /// let earlier = Counts { calls: 2, ..Counts::default() };
    /// assert_eq!(Counts { calls: 5, ..Counts::default() }.since(&earlier).calls, 3);
    /// ```
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            connections: self.connections - earlier.connections,
            calls: self.calls - earlier.calls,
            to_server: self.to_server - earlier.to_server,
            to_client: self.to_client - earlier.to_client,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flow {
    #[default]
    Pass,
    Hold,
    Drop,
}

/// One direction, of all connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Way {
    pub(crate) flow: Flow,
    pub(crate) delay: Duration,
    /// So many bytes more, then a connection is cut.
    pub(crate) cut: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    to_server: Way,
    to_client: Way,
    /// Connections are numbered as they come, so that one number says which were there when something was asked for.
    pub(crate) next_connection: u64,
    pub(crate) frozen_below: u64,
    pub(crate) reset_below: u64,
    pub(crate) next_reply: Option<Reply>,
    /// How often held replies were let go.
    pub(crate) released: u64,
    pub(crate) counts: Counts,
}

impl Faults {
    pub(crate) const fn way(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    pub(crate) const fn count(&mut self, direction: Direction) -> &mut u64 {
        match direction {
            Direction::ToServer => &mut self.counts.to_server,
            Direction::ToClient => &mut self.counts.to_client,
        }
    }

    pub(crate) fn heal(&mut self) {
        self.to_server = Way::default();
        self.to_client = Way::default();
        self.frozen_below = 0;
        self.next_reply = None;
        self.released += 1;
    }
}

/// The faults, and a bell that rings when they change.
#[derive(Debug)]
pub(crate) struct Shared {
    faults: Mutex<Faults>,
    bell: watch::Sender<()>,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self { faults: Mutex::default(), bell: watch::Sender::new(()) }
    }

    /// Reads, or writes what nobody waits for.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Faults) -> T) -> T {
        look(&mut self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.look(change);
        self.bell.send_replace(());
    }

    /// Waits until `look` finds something. What changes between a look and the wait rings as well.
    pub(crate) async fn until<T>(&self, mut look: impl FnMut(&mut Faults) -> Option<T>) -> T {
        let mut bell = self.bell.subscribe();
        loop {
            if let Some(found) = self.look(&mut look) {
                return found;
            }
            if bell.changed().await.is_err() {
                // The proxy is gone, and so is soon whoever waits here.
                std::future::pending::<()>().await;
            }
        }
    }
}
