//! The token floor: which tokens of a name can belong to no future term.
//!
//! # The problem
//! An attempt times out, and the next one gets the same token, because the store answers "already yours". The
//! first reply arrives late and is released. If the second reply is then adopted, the release that is under way
//! takes the lease from under a term that reads valid: two owners.
//!
//! # The idea
//! A token that this session has released, for whatever reason, is spent: the floor of the name is the greatest
//! of them, and only a win above the floor may be adopted. Wins that were never adopted count like any other.
//! The floor rises when the release is decided, which is before it is sent.
//!
//! # Limits
//! A client may take millions of different names in one session's life. Once the store has confirmed a release,
//! and every acquire that was sent before the confirmation has been answered, no answer can bring that token any
//! more, so the entry is needed no longer. The last [`KEPT`] such entries are kept all the same, since they cost
//! little and catch a store that loses writes.

use alloc::collections::{BTreeMap, VecDeque};
use simba_backend::{FencingToken, LeaseName};

use crate::call::CallId;

/// How many confirmed entries are kept.
const KEPT: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Floors {
    floor: BTreeMap<LeaseName, FencingToken>,
    /// Confirmed releases, oldest first: no acquire with this or a later id was sent before the confirmation.
    confirmed: VecDeque<(CallId, LeaseName, FencingToken)>,
}

impl Floors {
    pub(crate) fn get(&self, name: &LeaseName) -> Option<FencingToken> {
        self.floor.get(name).copied()
    }

    pub(crate) fn raise(&mut self, name: &LeaseName, token: FencingToken) {
        let floor = self.floor.entry(name.clone()).or_insert(token);
        *floor = token.max(*floor);
    }

    /// The store has confirmed the release of `token`; `next` is the id that the next call will have.
    pub(crate) fn confirm(&mut self, name: &LeaseName, token: FencingToken, next: CallId) {
        self.confirmed.push_back((next, name.clone(), token));
    }

    /// Drops what no answer can bring any more; `oldest` is the oldest acquire that is still unanswered.
    pub(crate) fn prune(&mut self, oldest: Option<CallId>) {
        while self.confirmed.len() > KEPT {
            let done = self.confirmed.front().is_some_and(|(next, ..)| oldest.is_none_or(|o| o >= *next));
            let Some((_, name, token)) = (if done { self.confirmed.pop_front() } else { None }) else {
                return;
            };
            if self.floor.get(&name) == Some(&token) {
                self.floor.remove(&name);
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.floor.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn i57_floors_do_not_grow_without_bound_and_wait_for_late_answers() {
        let mut floors = Floors::default();
        for n in 0..100_000u64 {
            let name = LeaseName::new(&format!("job-{n}")).unwrap();
            floors.raise(&name, FencingToken::FIRST);
            floors.confirm(&name, FencingToken::FIRST, CallId(n + 1));
            // An acquire sent at the very beginning is unanswered for the first half: nothing may be dropped.
            floors.prune(if n < 50_000 { Some(CallId(0)) } else { None });
            if n == 49_999 {
                assert_eq!(floors.len(), 50_000);
            }
        }
        assert_eq!(floors.len(), KEPT);
    }
}
