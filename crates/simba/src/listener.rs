//! Callbacks.

use simba_backend::LeaseName;
use simba_core::RevokeReason;
use std::{future::Future, sync::Arc};

use crate::{
    context::{Panic, caught, panic_text, within},
    events::Event,
    mailbox::{Mailbox, Message},
    planted::planted,
    term::Term,
};

/// Told of the terms of one election.
///
/// The callbacks of an election run one after the other, in order, on a task of the runtime on which it was started.
/// Every `elected` is followed by exactly one `revoked` of the same term. A callback that takes long delays only
/// the later ones of this election; the engine never waits for it. A panic is caught and reported, and the pairing
/// is kept. When the stop of the election is complete nothing more is called.
///
/// ```
/// use simba::{Listener, RevokeReason, Term};
///
/// struct Printer;
///
/// impl Listener for Printer {
///     async fn elected(&self, term: Term) {
///         println!("elected with token {}", term.token());
///     }
///     async fn revoked(&self, term: Term, reason: RevokeReason) {
///         println!("token {} is over: {reason}", term.token());
///     }
/// }
/// ```
pub trait Listener: Send + Sync + 'static {
    /// A term has begun.
    fn elected(&self, term: Term) -> impl Future<Output = ()> + Send;

    /// The term of the last `elected` has ended.
    fn revoked(&self, term: Term, reason: RevokeReason) -> impl Future<Output = ()> + Send;
}

/// The serial dispatcher of a listener.
pub(crate) async fn dispatch(listener: impl Listener, mut mailbox: Mailbox) {
    let client = mailbox.contender().shared.id;
    let listener = Arc::new(listener);
    while let Some(message) = mailbox.recv().await {
        let outcome = match message {
            Message::Elected(term) if planted!(mailbox.contender().shared, M34CallbacksOverlap) => {
                let listener = Arc::clone(&listener);
                tokio::spawn(async move { listener.elected(term).await });
                continue;
            }
            Message::Elected(term) => {
                let name = term.name().clone();
                (name, caught(within(client, async { listener.elected(term).await })).await)
            }
            Message::Revoked(term, reason) => {
                let name = term.name().clone();
                (name, caught(within(client, async { listener.revoked(term, reason).await })).await)
            }
            Message::Finished(done) => {
                drop(done);
                continue;
            }
            Message::End(guard) => {
                // Nothing of the listener is left when the stop is complete.
                drop(listener);
                drop(guard);
                return;
            }
        };
        report(&mailbox, outcome);
    }
}

fn report(mailbox: &Mailbox, (name, outcome): (LeaseName, Result<(), Panic>)) {
    if let Err(panic) = outcome {
        let error: Arc<str> = panic_text(&panic).into();
        mailbox.contender().shared.events.publish(Event::ListenerPanicked { name, error });
    }
}
