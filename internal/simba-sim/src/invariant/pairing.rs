//! I29, I30, I33, I36 (order), I40, I42, I43: an automaton over each node's queue of outputs, which knows nothing of
//! why they come.

use std::collections::BTreeMap;

use simba_backend::{FencingToken, LeaseName, SessionId};
use simba_core::{ElectionId, Output, Request, RevokeReason, Term, TermId, Ticket};

use super::Broken;

#[derive(Debug)]
struct Life {
    election: ElectionId,
    name: LeaseName,
    token: FencingToken,
    session: Option<SessionId>,
    handle: Term,
    ended: Option<RevokeReason>,
    released: bool,
    revoked: bool,
    refused: bool,
    /// It was refused in this very turn: an end that the turn began with is the driver's to drop.
    just_refused: bool,
}

/// One node's process.
#[derive(Debug, Default)]
pub(crate) struct Pairing {
    lives: BTreeMap<TermId, Life>,
    /// The term that the listener of an election was told of last, until it is told of its end.
    open: BTreeMap<ElectionId, TermId>,
    /// Stops that have not finished, and what they are for.
    stops: BTreeMap<Ticket, ElectionId>,
    silent: BTreeMap<ElectionId, ()>,
    finished: BTreeMap<Ticket, ()>,
    just_refused: Option<TermId>,
}

impl Pairing {
    pub(crate) fn stopping(&mut self, ticket: Ticket, election: ElectionId) {
        self.stops.insert(ticket, election);
    }

    /// The turn is over.
    pub(crate) fn end(&mut self) {
        if let Some(life) = self.just_refused.take().and_then(|term| self.lives.get_mut(&term)) {
            life.just_refused = false;
        }
    }

    pub(crate) fn refused(&mut self, term: TermId) {
        if let Some(life) = self.lives.get_mut(&term).filter(|life| !life.revoked) {
            life.refused = true;
            life.just_refused = true;
            self.just_refused = Some(term);
            self.open.remove(&life.election);
        }
    }

    pub(crate) fn output(&mut self, session: Option<SessionId>, output: &Output) -> Result<(), Broken> {
        match output {
            Output::Elected { election, term } => self.elected(*election, term, session),
            Output::Ended { term, reason } => self.ended(*term, *reason),
            Output::Revoked { election, term, reason } => self.revoked(*election, *term, *reason),
            Output::Finished { ticket } => self.finish(*ticket),
            Output::Call { request: Request::Release(release), .. } => {
                for grant in release.grants() {
                    let lives = self.lives.values_mut();
                    let mut same = lives.filter(|life| {
                        life.token == grant.token
                            && life.name == grant.name
                            && life.session == Some(release.session())
                    });
                    if let Some(life) = same.next() {
                        if life.ended.is_none() {
                            return Err(("I29", format!("{:?} is released and has not ended", life.handle)));
                        }
                        life.released = true;
                    }
                }
                Ok(())
            }
            Output::Call { .. } | Output::Notice(_) => Ok(()),
        }
    }

    fn elected(
        &mut self,
        election: ElectionId,
        term: &Term,
        session: Option<SessionId>,
    ) -> Result<(), Broken> {
        if let Some(before) = self.open.insert(election, term.id()) {
            return Err(("I40", format!("{term:?} is elected before the end of {before:?} was told")));
        }
        if self.silent.contains_key(&election) {
            return Err(("I43", format!("{term:?} is elected after the stop was finished")));
        }
        if self.lives.values().any(|life| life.election == election && life.ended.is_none()) {
            return Err((
                "I40",
                format!("{term:?} is elected while another term of its election has not ended"),
            ));
        }
        // What is over is needed no longer, but for late releases of the last few.
        if self.lives.len() > 64 {
            self.lives.retain(|_, life| !(life.ended.is_some() && (life.revoked || life.refused)));
        }
        let life = Life {
            election,
            name: term.name().clone(),
            token: term.token(),
            session,
            handle: term.clone(),
            ended: None,
            released: false,
            revoked: false,
            refused: false,
            just_refused: false,
        };
        self.lives.insert(term.id(), life);
        Ok(())
    }

    fn ended(&mut self, term: TermId, reason: RevokeReason) -> Result<(), Broken> {
        let Some(life) = self.lives.get_mut(&term) else {
            return Err(("I30", format!("{term:?} ends and was never elected")));
        };
        if let Some(before) = life.ended.replace(reason) {
            return Err(("I30", format!("{term:?} ends for {reason} after it has ended for {before}")));
        }
        if life.handle.end_reason() != Some(reason) {
            return Err(("I30", format!("{:?} is said to have ended for {reason}", life.handle)));
        }
        Ok(())
    }

    fn revoked(&mut self, election: ElectionId, term: TermId, reason: RevokeReason) -> Result<(), Broken> {
        let Some(life) = self.lives.get_mut(&term) else {
            return Err(("I40", format!("{term:?} is revoked and was never elected")));
        };
        if life.ended != Some(reason) {
            return Err(("I40", format!("{term:?} is revoked for {reason}; it ended for {:?}", life.ended)));
        }
        if std::mem::replace(&mut life.revoked, true) {
            return Err(("I33", format!("{term:?} is revoked a second time")));
        }
        if life.just_refused {
            return Ok(());
        }
        if life.refused {
            return Err(("I42", format!("{term:?} is revoked, of which the listener was never told")));
        }
        if self.open.remove(&election) != Some(term) {
            return Err(("I40", format!("{term:?} is revoked for another election")));
        }
        if self.silent.contains_key(&election) {
            return Err(("I43", format!("{term:?} is revoked after the stop was finished")));
        }
        Ok(())
    }

    fn finish(&mut self, ticket: Ticket) -> Result<(), Broken> {
        if self.finished.insert(ticket, ()).is_some() {
            return Err(("I43", format!("{ticket:?} finishes twice")));
        }
        if let Some(election) = self.stops.remove(&ticket) {
            if let Some(term) = self.open.get(&election) {
                return Err(("I43", format!("a stop finishes before the end of {term:?} was told")));
            }
            self.silent.insert(election, ());
        }
        Ok(())
    }
}
