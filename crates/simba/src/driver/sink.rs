//! Where the news of one election goes: its shared state, its streams, and its one serial dispatcher.

use simba_core::{RevokeReason, TermId};
use std::sync::Arc;
use tokio::sync::mpsc;

use crate::{
    contender::{Contender, EndGuard},
    mailbox::Message,
    term::Term,
    wait::Done,
};

pub(super) struct Sink {
    pub(super) contender: Arc<Contender>,
    /// The dispatcher that runs user code, if there is one.
    mailbox: Option<mpsc::UnboundedSender<Message>>,
    end: EndGuard,
    current: Option<Term>,
    /// The term that could not be delivered; its end is not told either.
    refused: Option<TermId>,
}

impl Sink {
    pub(super) const fn new(
        contender: Arc<Contender>,
        mailbox: Option<mpsc::UnboundedSender<Message>>,
        end: EndGuard,
    ) -> Self {
        Self { contender, mailbox, end, current: None, refused: None }
    }

    /// Answers whether somebody learns of the term.
    pub(super) fn elected(&mut self, term: Term) -> bool {
        if let Some(mailbox) = &self.mailbox
            && mailbox.send(Message::Elected(term.clone())).is_err()
        {
            self.refused = Some(term.id());
            return false;
        }
        self.contender.elected(&term);
        self.current = Some(term);
        true
    }

    /// The present term, if it is this one.
    pub(super) fn current(&self, id: TermId) -> Option<&Term> {
        self.current.as_ref().filter(|term| term.id() == id)
    }

    pub(super) fn revoked(&mut self, id: TermId, reason: RevokeReason) {
        if self.refused == Some(id) {
            self.refused = None;
            return;
        }
        let Some(term) = self.current.take_if(|term| term.id() == id) else { return };
        self.contender.revoked(&term, reason);
        if let Some(mailbox) = &self.mailbox {
            // A dispatcher that is gone has nobody left to tell.
            drop(mailbox.send(Message::Revoked(term, reason)));
        }
    }

    /// Finishes `done` once everything before has been told.
    pub(super) fn finish(&self, done: Arc<Done>) {
        if let Some(mailbox) = &self.mailbox {
            drop(mailbox.send(Message::Finished(done)));
        }
    }

    /// The election is over.
    pub(super) fn end(mut self) {
        if let Some(term) = self.current.take() {
            // Only if the engine failed; whoever heard of the term hears of its end.
            let reason = term.end_reason().unwrap_or(RevokeReason::Stopped);
            self.contender.ended();
            self.contender.revoked(&term, reason);
            if let Some(mailbox) = &self.mailbox {
                drop(mailbox.send(Message::Revoked(term, reason)));
            }
        }
        if let Some(mailbox) = self.mailbox {
            drop(mailbox.send(Message::End(self.end)));
        }
    }
}
