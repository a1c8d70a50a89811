//! What leaves the engine: one ordered queue of obligations.

use core::time::Duration;

use crate::{
    call::{CallId, Request},
    election::ElectionId,
    notice::Notice,
    term::{RevokeReason, Term, TermId},
};

/// Something the driver must do. Carry each out, in order: the order *between* kinds is what the rules are about.
///
/// For one term the order is always `Elected`, `Ended`, the release call (where there is one), `Revoked`, then the
/// `Finished` of whoever asked for the end.
#[derive(Debug)]
#[must_use = "outputs are obligations: carry each out, in order"]
pub enum Output {
    /// Make this call and hand its answer to [`Engine::handle_reply`](crate::Engine::handle_reply), exactly once.
    Call {
        /// Answer with this id.
        id: CallId,
        /// The call.
        request: Request,
        /// The call's time limit: the driver may stop carrying it after that, and reports a failure of unknown
        /// effect. The engine itself has then already stopped waiting.
        patience: Duration,
    },
    /// A term has begun. Tell the listener, and start the work.
    Elected {
        /// The election.
        election: ElectionId,
        /// Its term.
        term: Term,
    },
    /// A term has ended for its readers: complete `revoked`, and ask its work to stop.
    Ended {
        /// The term.
        term: TermId,
        /// Why.
        reason: RevokeReason,
    },
    /// Tell the listener that the term is over. Comes once for each `Elected` that was delivered.
    Revoked {
        /// The election.
        election: ElectionId,
        /// The term.
        term: TermId,
        /// Why.
        reason: RevokeReason,
    },
    /// A stop, step-down or close is complete.
    Finished {
        /// What [`Engine::stop`](crate::Engine::stop) and its like returned.
        ticket: Ticket,
    },
    /// News for observers. Nothing depends on it.
    Notice(Notice),
}

/// What a caller waits for, until [`Output::Finished`] carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);
