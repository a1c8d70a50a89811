//! What an operator reads: the client's events as `tracing` events, and the hooks of
//! [`Builder::on_event`](crate::Builder::on_event).
//!
//! A subscriber or a hook may block, on a full pipe say. So neither is called on the engine's thread.

use simba_core::SessionEnd;
use std::sync::Arc;
use tracing::{Dispatch, debug, error, info, warn};

use crate::{
    context::{caught_sync, panic_text},
    driver::Shared,
    events::{Event, Events},
};

pub(crate) type Hook = Box<dyn FnMut(&Event) + Send>;

pub(crate) struct Observer {
    events: Events,
    hooks: Vec<Hook>,
    node: Arc<str>,
    /// The subscriber of whoever built the client, if that was not the global one.
    subscriber: Dispatch,
    /// An outage has been warned of.
    warned: bool,
}

impl Observer {
    pub(crate) fn new(shared: &Shared, hooks: Vec<Hook>) -> Self {
        let events = shared.events.subscribe();
        let subscriber = tracing::dispatcher::get_default(Clone::clone);
        Self { events, hooks, node: shared.node.as_str().into(), subscriber, warned: false }
    }

    /// Runs until the client has closed.
    pub(crate) async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            if self.subscriber.is::<tracing::subscriber::NoSubscriber>() {
                // One may have been installed for the whole process since.
                self.write(&event);
            } else {
                tracing::dispatcher::with_default(&self.subscriber.clone(), || self.write(&event));
            }
            for hook in &mut self.hooks {
                if let Err(panic) = caught_sync(|| hook(&event)) {
                    error!(node = %self.node, "a function given to on_event panicked: {}", panic_text(&panic));
                }
            }
        }
    }

    fn write(&mut self, event: &Event) {
        let node = &*self.node;
        match event {
            Event::SessionOpened { session, granted, period } => {
                self.warned = false;
                info!(node, %session, ?granted, ?period, "session opened");
            }
            Event::OpenFailed { failure, .. } if self.warned => {
                debug!(node, %failure, "still no session");
            }
            Event::OpenFailed { failure, retry_in } => {
                self.warned = true;
                warn!(node, %failure, ?retry_in, "no session could be opened; it is tried again by itself");
            }
            Event::SessionLeaseShortened { session, requested, granted, period } => {
                warn!(
                    node, %session, ?requested, ?granted, ?period,
                    "the store grants a shorter lease than was asked for; it is renewed more often"
                );
            }
            Event::SessionSuspended { session, failure } => {
                if !std::mem::replace(&mut self.warned, true) {
                    warn!(node, %session, %failure, "a keep-alive failed; terms stay valid until the deadline");
                }
            }
            Event::SessionResumed { session } => {
                self.warned = false;
                info!(node, %session, "keep-alives succeed again");
            }
            Event::Renewed { session, remaining } => debug!(node, %session, ?remaining, "renewed"),
            Event::SessionEnded { session, reason: SessionEnd::Closed } => {
                info!(node, %session, "session closed");
            }
            Event::SessionEnded { session, reason } => {
                self.warned = true;
                warn!(node, %session, ?reason, "session ended; a new one is opened");
            }
            Event::Elected { name, token } => info!(node, lease = %name, %token, "elected"),
            Event::Revoked { name, token, reason } => info!(node, lease = %name, %token, %reason, "revoked"),
            Event::Refused { name, held } => {
                let holder = held.holder.as_ref().map(tracing::field::display);
                debug!(node, lease = %name, holder, remaining = ?held.remaining, "held by another session");
            }
            Event::AttemptFailed { names, failure } => {
                debug!(node, names = names.len(), %failure, "an attempt failed");
            }
            Event::ReleaseFailed { failure } => {
                warn!(node, %failure, "a release failed; the lease is released again, or ends with the session");
            }
            Event::TokenRegressed { name, seen, given } => {
                error!(
                    node, lease = %name, %seen, %given,
                    "the store handed out a token below one seen before: it has lost writes; the win was refused"
                );
            }
            Event::OrphanReleased { name, token } => {
                info!(node, lease = %name, %token, "released a lease whose winning reply was lost");
            }
            Event::WorkStarted { name, token } => debug!(node, lease = %name, %token, "work started"),
            Event::WorkFinished { name, token, interrupted } => {
                debug!(node, lease = %name, %token, interrupted, "work finished");
            }
            Event::WorkFailed { name, token, error, failures } => {
                warn!(node, lease = %name, %token, %error, failures, "work failed");
            }
            Event::ListenerPanicked { name, error } => {
                error!(node, lease = %name, %error, "a listener panicked");
            }
            Event::DeliveryRefused { name, token } => {
                warn!(node, lease = %name, %token, "nobody could be told of a term; it was given up");
            }
            Event::WatchEnded { failure, retry_in } => {
                debug!(node, %failure, ?retry_in, "the watch for releases ended; polling goes on");
            }
            Event::EngineFailed { error } => error!(node, %error, "the engine failed"),
            Event::Lagged(lost) => warn!(node, lost, "events were lost: their reader is too slow"),
        }
    }
}
