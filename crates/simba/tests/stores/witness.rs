//! Somebody who looks at the terms of every node all the time.
//!
//! # What is judged
//! A look at several terms takes time, so two that read valid one after the other prove nothing. Whoever reads valid
//! before and after another one does was valid meanwhile, as validity never comes back; and that it never does is judged
//! too. What a node believes of the store is no evidence: a term whose node has heard nothing from the store since an
//! instant must be over a lease later, whatever that node thinks. None of this depends on how fast the machine is.

use crate::machine::now;
use simba::Instant;
use simba::{Election, Leadership, Simba, Term};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What the store may do at present without a fault of the nodes.
#[derive(Clone, Copy, Debug, Default)]
struct Allowed {
    /// No keep-alive that was sent after this can have been confirmed.
    silent_since: Option<Instant>,
    /// The store has lost what it knew: its tokens begin anew,
    lost: bool,
    /// and who held a lease before may not have noticed yet.
    overlap: bool,
}

#[derive(Default)]
struct State {
    watched: Vec<(usize, Simba, Election)>,
    allowed: Allowed,
    faults: Vec<String>,
    over: bool,
    looks: u64,
}

/// A term that was seen, and what was last seen of it.
struct Seen {
    term: Term,
    ended: bool,
}

pub(crate) struct Witness {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Witness {
    /// Begins to look at the elections, each with the number of its node.
    pub(crate) fn start(lease: Duration, watched: Vec<(usize, Simba, Election)>) -> Self {
        let state = Arc::new(Mutex::new(State { watched, ..State::default() }));
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            let mut seen = BTreeMap::new();
            let mut highest = BTreeMap::new();
            loop {
                {
                    let mut state = shared.lock().unwrap();
                    if state.over {
                        return;
                    }
                    look(&mut state, &mut seen, &mut highest, lease);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { state, thread: Some(thread) }
    }

    fn allow(&self, change: impl FnOnce(&mut Allowed)) {
        change(&mut self.state.lock().unwrap().allowed);
    }

    /// From now on no keep-alive is confirmed.
    pub(crate) fn silence(&self) {
        let from = now();
        self.allow(|allowed| allowed.silent_since = Some(from));
    }

    /// From now on it may be.
    pub(crate) fn sound(&self) {
        self.allow(|allowed| allowed.silent_since = None);
    }

    /// The store is about to lose what it knew.
    pub(crate) fn loss(&self) {
        self.allow(|allowed| allowed.lost = true);
    }

    /// Whether two may hold one lease, as the store has forgotten the one and the other has not noticed.
    pub(crate) fn overlap(&self, may: bool) {
        self.allow(|allowed| allowed.overlap = may);
    }

    /// Fails if it has seen anything that must never be.
    pub(crate) fn judge(&self) {
        let state = self.state.lock().unwrap();
        assert!(state.faults.is_empty(), "{:#?}", state.faults);
        assert!(state.looks > 0);
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Ok(mut state) = self.state.lock() {
            state.over = true;
        }
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed, and fails the next look of whoever judges.
            drop(thread.join());
        }
    }
}

type Terms = BTreeMap<(String, usize, u64), Seen>;

fn look(state: &mut State, seen: &mut Terms, highest: &mut BTreeMap<String, u64>, lease: Duration) {
    state.looks += 1;
    let allowed = state.allowed;
    for (node, _, election) in &state.watched {
        let Leadership::Leader(term) = election.leadership() else { continue };
        let name = term.name().as_str().to_owned();
        let token = term.token().get();
        seen.entry((name.clone(), *node, token)).or_insert_with(|| {
            let before = highest.entry(name.clone()).or_default();
            if token <= *before && !allowed.lost {
                state.faults.push(format!("{name}: token {token} on node {node} after {before}"));
            }
            *before = token.max(*before);
            Seen { term, ended: false }
        });
    }
    let mut valid: Vec<(&str, usize, &Term)> = Vec::new();
    for ((name, node, token), seen) in seen.iter_mut() {
        let (deadline, at) = (seen.term.deadline(), now());
        let is_valid = seen.term.is_valid();
        let what = format!("{name}: token {token} on node {node}");
        if is_valid && seen.ended {
            state.faults.push(format!("{what} is valid again"));
        }
        seen.ended |= !is_valid;
        if !is_valid {
            continue;
        }
        // Read again: it may have been renewed between the two.
        if deadline.is_some_and(|deadline| deadline <= at) && seen.term.deadline() == deadline {
            state.faults.push(format!("{what} is valid past its own deadline"));
        }
        if let Some(silent) = allowed.silent_since {
            let late = at.saturating_since(silent).saturating_sub(lease);
            if !late.is_zero() {
                state.faults.push(format!("{what} is valid {late:?} after the store can have ended it"));
            }
        }
        valid.push((name, *node, &seen.term));
    }
    // In reverse, so that each was read before all of those that follow it, and is read after them.
    for (at, (name, node, term)) in valid.iter().enumerate() {
        let rival = valid[at + 1..].iter().find(|(other, other_node, _)| other == name && other_node != node);
        if let Some((_, rival, _)) = rival
            && !allowed.overlap
            && term.is_valid()
        {
            state.faults.push(format!("{name}: nodes {node} and {rival} both hold it"));
        }
    }
}

/// The witness sees what it is there for: planted terms of two clients that know nothing of each other.
#[test]
fn a_witness_sees_each_fault() {
    use crate::support::{led, real_store, secs};
    let client = |node: &str| Simba::builder(real_store()).node(node).build().unwrap();
    let (a, b) = (client("a"), client("b"));
    let elections = [&a, &b].map(|simba| simba.election("job").unwrap().start().unwrap());
    elections.iter().for_each(|election| drop(crate::machine::wait(led(election))));
    let [one, other] = elections;
    let witness = Witness::start(secs(1), vec![(0, a.clone(), one), (1, b, other)]);
    let sees = |what: &str| {
        crate::machine::within(secs(20), what, || {
            witness.state.lock().unwrap().faults.iter().any(|fault| fault.contains(what))
        })
        .unwrap();
        witness.state.lock().unwrap().faults.clear();
    };
    sees("both hold it");
    // Both have token 1: the second one does not rise above the first.
    witness.overlap(true);
    let mut state = State { watched: Vec::new(), ..State::default() };
    state.watched.clone_from(&witness.state.lock().unwrap().watched);
    look(&mut state, &mut BTreeMap::new(), &mut BTreeMap::new(), secs(1));
    assert!(
        state.faults.iter().any(|fault| fault.contains("token 1 on node 1 after 1")),
        "{:?}",
        state.faults
    );
    witness.silence();
    sees("after the store can have ended it");
    witness.sound();
    // A term that was seen to end and is valid.
    let Leadership::Leader(term) = state.watched[0].2.leadership() else { panic!("it leads") };
    let mut seen = BTreeMap::from([(("job".to_owned(), 0, 1), Seen { term, ended: true })]);
    look(&mut state, &mut seen, &mut BTreeMap::new(), secs(1));
    assert!(state.faults.iter().any(|fault| fault.contains("valid again")), "{:?}", state.faults);
}
