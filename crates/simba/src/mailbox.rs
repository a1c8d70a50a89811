//! From the driver to the one dispatcher of an election: a queue, read by one task, so that callbacks are ordered
//! and never overlap.

use simba_core::RevokeReason;
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::{
    contender::{Contender, EndGuard},
    driver::Input,
    term::Term,
    wait::Done,
};

/// What a dispatcher is told.
#[derive(Debug)]
pub(crate) enum Message {
    Elected(Term),
    Revoked(Term, RevokeReason),
    /// Somebody waits until everything before this has run; dropping it tells.
    Finished(Arc<Done>),
    /// The election is over; dropping the guard tells.
    End(EndGuard),
}

/// The reading end. If it is dropped before the end of the election, there is nobody left who could be told
/// anything: terms that were not heard of are refused, and the election stops.
#[derive(Debug)]
pub(crate) struct Mailbox {
    queue: mpsc::UnboundedReceiver<Message>,
    contender: Arc<Contender>,
    over: bool,
}

impl Mailbox {
    pub(crate) const fn new(queue: mpsc::UnboundedReceiver<Message>, contender: Arc<Contender>) -> Self {
        Self { queue, contender, over: false }
    }

    pub(crate) const fn contender(&self) -> &Arc<Contender> {
        &self.contender
    }

    /// The next message; `None` only if the driver is gone.
    pub(crate) async fn recv(&mut self) -> Option<Message> {
        let message = self.queue.recv().await;
        self.over |= matches!(message, None | Some(Message::End(_)));
        message
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        self.queue.close();
        while let Ok(message) = self.queue.try_recv() {
            if let Message::Elected(term) = message {
                self.contender.shared.send(Input::Refused(term.id()));
            }
        }
        self.contender.stop();
    }
}
