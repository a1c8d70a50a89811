//! Events: what happens in a client, for logs, metrics and people. Losing one changes nothing.

use futures_core::Stream;
use simba_backend::{Failure, FencingToken, Held, LeaseName, SessionId};
use simba_core::{Notice, RevokeReason, SessionEnd};
use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use crate::wait::lock;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A session is live.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// The lease time that the store granted.
        granted: Duration,
        /// The period of its keep-alives.
        period: Duration,
    },
    /// No session could be opened; it is tried again by itself.
    OpenFailed {
        /// Why.
        failure: Failure,
        /// When the next try comes, from now.
        retry_in: Duration,
    },
    /// The store grants less than was asked for, and the session is renewed more often. At most once a session.
    SessionLeaseShortened {
        /// The session.
        session: SessionId,
        /// What was asked for.
        requested: Duration,
        /// What was granted.
        granted: Duration,
        /// The period in effect.
        period: Duration,
    },
    /// A keep-alive failed; terms stay valid until the deadline.
    SessionSuspended {
        /// The session.
        session: SessionId,
        /// Why.
        failure: Failure,
    },
    /// A keep-alive counted again after a suspension.
    SessionResumed {
        /// The session.
        session: SessionId,
    },
    /// A keep-alive counted.
    Renewed {
        /// The session.
        session: SessionId,
        /// The new time left.
        remaining: Duration,
    },
    /// A session is over; each of its terms has a [`Revoked`](Self::Revoked) of its own.
    SessionEnded {
        /// The session.
        session: SessionId,
        /// Why.
        reason: SessionEnd,
    },
    /// A term has begun.
    Elected {
        /// The lease.
        name: LeaseName,
        /// The token of the term.
        token: FencingToken,
    },
    /// A term has ended; comes once after each [`Elected`](Self::Elected).
    Revoked {
        /// The lease.
        name: LeaseName,
        /// The token of the term.
        token: FencingToken,
        /// Why.
        reason: RevokeReason,
    },
    /// An attempt was refused: somebody else holds the lease.
    Refused {
        /// The lease.
        name: LeaseName,
        /// What the store told of the owner.
        held: Held,
    },
    /// An acquire call failed as a whole.
    AttemptFailed {
        /// The names that it was for.
        names: Arc<[LeaseName]>,
        /// Why.
        failure: Failure,
    },
    /// A release call failed; the lease is found by a later keep-alive and released then.
    ReleaseFailed {
        /// Why.
        failure: Failure,
    },
    /// The store handed out a token below one that this client has seen: it has lost writes. The win was refused.
    TokenRegressed {
        /// The lease.
        name: LeaseName,
        /// The highest token seen.
        seen: FencingToken,
        /// The token handed out.
        given: FencingToken,
    },
    /// A lease that the store lists as ours was released, because nothing here explains it.
    OrphanReleased {
        /// The lease.
        name: LeaseName,
        /// Its token.
        token: FencingToken,
    },
    /// Leader work has started.
    WorkStarted {
        /// The lease.
        name: LeaseName,
        /// The token of the term.
        token: FencingToken,
    },
    /// Leader work is out, for whatever reason.
    WorkFinished {
        /// The lease.
        name: LeaseName,
        /// The token of the term.
        token: FencingToken,
        /// Whether the end of the term came before the work's own.
        interrupted: bool,
    },
    /// Leader work returned an error or panicked while its term was valid.
    WorkFailed {
        /// The lease.
        name: LeaseName,
        /// The token of the term.
        token: FencingToken,
        /// What it said.
        error: Arc<str>,
        /// How often it has failed in a row.
        failures: u32,
    },
    /// A listener panicked. Its pairing is kept.
    ListenerPanicked {
        /// The lease.
        name: LeaseName,
        /// What it said.
        error: Arc<str>,
    },
    /// Nobody could be told of a term, because the runtime of the listener or work is gone: the term was given up.
    DeliveryRefused {
        /// The lease.
        name: LeaseName,
        /// The token of the term.
        token: FencingToken,
    },
    /// The store's watch for releases ended, and is started again after a while. Polling goes on meanwhile.
    WatchEnded {
        /// Why.
        failure: Failure,
        /// When it is started again, from now.
        retry_in: Duration,
    },
    /// The engine itself has failed; every term has ended, and the client is closed. A fault of this library.
    EngineFailed {
        /// What it said.
        error: Arc<str>,
    },
    /// This reader was too slow, and so many events before this point were dropped for it.
    Lagged(u64),
}

impl From<Notice> for Event {
    fn from(notice: Notice) -> Self {
        match notice {
            Notice::SessionOpened { session, granted, period } => {
                Self::SessionOpened { session, granted, period }
            }
            Notice::OpenFailed { failure, retry_in } => Self::OpenFailed { failure, retry_in },
            Notice::LeaseShortened { session, requested, granted, period } => {
                Self::SessionLeaseShortened { session, requested, granted, period }
            }
            Notice::SessionSuspended { session, failure } => Self::SessionSuspended { session, failure },
            Notice::SessionResumed { session } => Self::SessionResumed { session },
            Notice::Renewed { session, remaining } => Self::Renewed { session, remaining },
            Notice::SessionEnded { session, reason } => Self::SessionEnded { session, reason },
            Notice::Refused { name, held } => Self::Refused { name, held },
            Notice::AttemptFailed { names, failure } => Self::AttemptFailed { names, failure },
            Notice::ReleaseFailed { failure } => Self::ReleaseFailed { failure },
            Notice::TokenRegressed { name, seen, given } => Self::TokenRegressed { name, seen, given },
            Notice::OrphanReleased { name, token } => Self::OrphanReleased { name, token },
        }
    }
}

/// The most events that wait for one reader.
const CAPACITY: usize = 4_096;

/// The events of a client from the moment of [`Simba::events`](crate::Simba::events) on. Ends when the client has
/// closed.
///
/// A reader that falls 4,096 events behind loses the oldest, and learns how many by [`Event::Lagged`].
pub struct Events(Arc<Reader>);

#[derive(Debug, Default)]
struct Reader(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Event>,
    lost: u64,
    over: bool,
    waker: Option<Waker>,
}

impl Reader {
    fn put(&self, event: &Event) {
        let waker = {
            let mut queue = lock(&self.0);
            if queue.events.len() >= CAPACITY {
                queue.events.pop_front();
                queue.lost += 1;
            }
            queue.events.push_back(event.clone());
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn end(&self) {
        let waker = {
            let mut queue = lock(&self.0);
            queue.over = true;
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Event>> {
        let mut queue = lock(&self.0);
        if queue.lost > 0 {
            return Poll::Ready(Some(Event::Lagged(std::mem::take(&mut queue.lost))));
        }
        if let Some(event) = queue.events.pop_front() {
            return Poll::Ready(Some(event));
        }
        if queue.over {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Events {
    /// The next event; `None` when the client has closed and everything before was read.
    ///
    /// # Cancel safety
    /// May be dropped at any time; no event is lost by it.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|cx| self.0.poll(cx)).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll(cx)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// Where events go: to each reader's own queue, without waiting for anyone.
#[derive(Debug, Default)]
pub(crate) struct Hub(Mutex<Readers>);

#[derive(Debug, Default)]
struct Readers {
    readers: Vec<Weak<Reader>>,
    over: bool,
}

impl Hub {
    pub(crate) fn subscribe(&self) -> Events {
        let reader = Arc::new(Reader::default());
        let mut readers = lock(&self.0);
        if readers.over {
            reader.end();
        } else {
            readers.readers.push(Arc::downgrade(&reader));
        }
        Events(reader)
    }

    pub(crate) fn publish(&self, event: impl Into<Event>) {
        let event = event.into();
        // Collected first: waking a reader is done without the lock.
        let present: Vec<_> = {
            let mut readers = lock(&self.0);
            readers.readers.retain(|reader| reader.strong_count() > 0);
            readers.readers.iter().filter_map(Weak::upgrade).collect()
        };
        for reader in present {
            reader.put(&event);
        }
    }

    pub(crate) fn end(&self) {
        let readers = {
            let mut readers = lock(&self.0);
            readers.over = true;
            std::mem::take(&mut readers.readers)
        };
        for reader in readers.iter().filter_map(Weak::upgrade) {
            reader.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_loses_the_oldest_and_is_told_how_many() {
        let hub = Hub::default();
        let reader = hub.subscribe();
        for n in 0..CAPACITY as u64 + 7 {
            hub.publish(Event::Lagged(n));
        }
        hub.end();
        let cx = &Context::from_waker(Waker::noop());
        assert_eq!(reader.0.poll(cx), Poll::Ready(Some(Event::Lagged(7))), "the count of those lost");
        assert_eq!(reader.0.poll(cx), Poll::Ready(Some(Event::Lagged(7))), "the first that was kept");
        let rest = std::iter::from_fn(|| match reader.0.poll(cx) {
            Poll::Ready(event) => event,
            Poll::Pending => None,
        });
        assert_eq!(rest.count(), CAPACITY - 1);
        assert_eq!(reader.0.poll(cx), Poll::Ready(None));
    }
}
