//! I4, I13: terms of a name have rising tokens over all nodes, in the order of adoption in true time; a session id is
//! of one incarnation.

use std::collections::BTreeSet;

use simba_backend::{FencingToken, SessionId};

use super::Broken;

#[derive(Debug)]
pub(crate) struct Tokens {
    greatest: Vec<Option<FencingToken>>,
    sessions: BTreeSet<SessionId>,
}

impl Tokens {
    pub(crate) fn new(names: usize) -> Self {
        Self { greatest: vec![None; names], sessions: BTreeSet::new() }
    }

    /// Answers whether tokens were left out since the last adoption.
    pub(crate) fn adopted(&mut self, name: usize, token: FencingToken, valid: bool) -> Result<bool, Broken> {
        let before = self.greatest[name];
        if !valid {
            return Ok(false);
        }
        if before.is_some_and(|before| token <= before) {
            return Err(("I4", format!("token {token:?} was adopted after {before:?}")));
        }
        self.greatest[name] = Some(token);
        Ok(before.is_some_and(|before| before.next() != Some(token)))
    }

    pub(crate) fn opened(&mut self, session: SessionId) -> Result<(), Broken> {
        if self.sessions.insert(session) {
            Ok(())
        } else {
            Err(("I13", format!("session id {session} is used a second time")))
        }
    }
}
