//! I1, I2, I37: at any true instant one valid term of a name, and nobody else adopts while work is waited for.
//!
//! A node's clock is piecewise linear, so a term's end in true time is known exactly. Two terms begin to overlap
//! only when one is adopted or when a deadline is moved, and that is when all are compared: nothing is sampled.

use simba_backend::SessionId;
use simba_core::{Instant, Term, TermId};

use super::Broken;
use crate::clock::Clock;

/// A term that was adopted and may be valid.
#[derive(Debug)]
struct Adopted {
    node: usize,
    id: TermId,
    session: Option<SessionId>,
    term: Term,
    deadline: u64,
    /// Ended by its node's own wish while its work runs: until then, on the node's clock, the lease stays held.
    guarded_until: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Exclusive {
    by_name: Vec<Vec<Adopted>>,
}

/// The deadline in the term's cell, without the latch that a reader with a clock would set.
pub(crate) fn deadline(term: &Term) -> Option<u64> {
    term.deadline(|| Instant::from_nanos(0)).map(Instant::as_nanos)
}

impl Adopted {
    fn is_valid(&self, at: u64, clocks: &[Clock]) -> bool {
        deadline(&self.term).is_some_and(|deadline| clocks[self.node].read(at) < deadline)
    }
}

impl Exclusive {
    pub(crate) fn new(names: usize) -> Self {
        Self { by_name: (0..names).map(|_| Vec::new()).collect() }
    }

    pub(crate) fn adopted(
        &mut self,
        at: u64,
        clocks: &[Clock],
        (node, name, session): (usize, usize, Option<SessionId>),
        term: &Term,
    ) -> Result<(), Broken> {
        let list = &mut self.by_name[name];
        list.retain(|other| deadline(&other.term).is_some() || other.guarded_until.is_some());
        let new = Adopted {
            node,
            id: term.id(),
            session,
            term: term.clone(),
            deadline: deadline(term).unwrap_or(0),
            guarded_until: None,
        };
        let valid = new.is_valid(at, clocks);
        let mut broken = Ok(());
        for other in list.iter() {
            if valid && other.is_valid(at, clocks) {
                broken = Err(("I1", overlap(other, &new)));
                break;
            }
            let guarded = other.guarded_until.is_some_and(|until| clocks[other.node].read(at) < until);
            if guarded && valid && other.node != node {
                broken = Err((
                    "I37",
                    format!("{} while the work of the other is waited for", overlap(other, &new)),
                ));
            }
        }
        list.push(new);
        broken
    }

    /// After a turn of this node: its deadlines may have moved.
    pub(crate) fn moved(&mut self, at: u64, clocks: &[Clock], node: usize) -> Result<(), Broken> {
        for list in &mut self.by_name {
            for index in 0..list.len() {
                if list[index].node != node {
                    continue;
                }
                let present = deadline(&list[index].term).unwrap_or(0);
                if std::mem::replace(&mut list[index].deadline, present) >= present {
                    continue;
                }
                let moved = &list[index];
                let overlapping = list.iter().enumerate().find(|(other, adopted)| {
                    *other != index && adopted.is_valid(at, clocks) && moved.is_valid(at, clocks)
                });
                if let Some((_, other)) = overlapping {
                    return Err(("I1", format!("extended: {}", overlap(other, moved))));
                }
            }
        }
        Ok(())
    }

    /// A grant by the store: every other session's term of the name must be over.
    pub(crate) fn granted(
        &self,
        at: u64,
        clocks: &[Clock],
        name: usize,
        session: SessionId,
    ) -> Result<(), Broken> {
        let other = self.by_name[name].iter().find(|t| t.session != Some(session) && t.is_valid(at, clocks));
        match other {
            None => Ok(()),
            Some(other) => Err((
                "I2",
                format!(
                    "the store granted {:?} to {session} while node {} has {:?}",
                    other.term.name(),
                    other.node,
                    other.term
                ),
            )),
        }
    }

    /// Work is waited for until this instant of the node's clock; `None` when it is out.
    pub(crate) fn guard(&mut self, node: usize, term: TermId, until: Option<u64>) {
        for adopted in self.by_name.iter_mut().flatten().filter(|t| t.node == node && t.id == term) {
            adopted.guarded_until = until;
        }
    }

    /// Nothing of this node is held any more.
    pub(crate) fn unguard(&mut self, node: usize) {
        for adopted in self.by_name.iter_mut().flatten().filter(|t| t.node == node) {
            adopted.guarded_until = None;
        }
    }

    /// A process died: nobody is left who could read its terms.
    pub(crate) fn died(&mut self, node: usize) {
        for list in &mut self.by_name {
            list.retain(|term| term.node != node);
        }
    }

    pub(crate) fn is_valid(&self, at: u64, clocks: &[Clock], node: usize, name: usize, term: TermId) -> bool {
        self.by_name[name].iter().any(|t| t.node == node && t.id == term && t.is_valid(at, clocks))
    }

    /// Whether some node's term of this name is valid now.
    pub(crate) fn is_led(&self, at: u64, clocks: &[Clock], name: usize) -> bool {
        self.by_name[name].iter().any(|term| term.is_valid(at, clocks))
    }
}

fn overlap(one: &Adopted, other: &Adopted) -> String {
    format!("node {} has {:?}, node {} has {:?}, both valid", one.node, one.term, other.node, other.term)
}
