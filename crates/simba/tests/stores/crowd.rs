//! Three nodes on one store: each contends for a lease that they all want, and for one of its own.

use crate::machine::{now, within};
use crate::observed::{Calls, Observed};
use crate::support::{millis, secs};
use crate::witness::Witness;
use simba::Instant;
use simba::{Election, Event, Leadership, RevokeReason, SessionStatus, Simba, Term, Timing};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The lease time of all of them.
pub(crate) const LEASE: Duration = secs_const(2);
/// Longer than any term lasts that nobody renews.
pub(crate) const OUTAGE: Duration = Duration::from_millis(2_500);
/// Every node contends again after this time, once the store is there.
pub(crate) const AGAIN: Duration = secs_const(5);

const fn secs_const(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The lease that all want.
pub(crate) const JOB: &str = "job";

pub(crate) struct Node {
    pub(crate) simba: Simba,
    pub(crate) calls: Arc<Calls>,
    pub(crate) job: Election,
    pub(crate) own: Election,
    log: Arc<Mutex<Vec<(Instant, Event)>>>,
}

impl Node {
    fn start(url: &str, number: usize) -> Self {
        let (store, calls) = Observed::new(url);
        let log = Arc::new(Mutex::new(Vec::new()));
        let write = Arc::clone(&log);
        let simba = Simba::builder(store)
            .node(format!("node-{number}"))
            .timing(Timing::builder().lease(LEASE).build().unwrap())
            .on_event(move |event| write.lock().unwrap().push((now(), event.clone())))
            .build()
            .unwrap();
        let start = |name: &str| simba.election(name).unwrap().start().unwrap();
        let (job, own) = (start(JOB), start(&format!("own-{number}")));
        Self { simba, calls, job, own, log }
    }

    /// Whether it has a session, its own lease, and since `from` the contested one or a refusal.
    fn contends(&self, from: Instant) -> bool {
        self.simba.status() == SessionStatus::Live
            && leads(&self.own)
            && (leads(&self.job) || self.saw(from, |event| matches!(event, Event::Refused { .. })))
    }

    pub(crate) fn saw(&self, from: Instant, wanted: impl Fn(&Event) -> bool) -> bool {
        self.log.lock().unwrap().iter().any(|(at, event)| *at >= from && wanted(event))
    }

    /// How the terms ended that have, since `from`.
    pub(crate) fn ends(&self, from: Instant) -> Vec<RevokeReason> {
        let log = self.log.lock().unwrap();
        let ends = log.iter().filter(|(at, _)| *at >= from).filter_map(|(_, event)| match event {
            Event::Revoked { reason, .. } => Some(*reason),
            _ => None,
        });
        ends.collect()
    }
}

pub(crate) fn leads(election: &Election) -> bool {
    matches!(election.leadership(), Leadership::Leader(term) if term.is_valid())
}

pub(crate) struct Crowd {
    pub(crate) nodes: Vec<Node>,
    pub(crate) witness: Witness,
}

impl Crowd {
    /// Starts them, and waits until they have settled.
    pub(crate) fn start(url: &str) -> Result<Self, String> {
        let from = now();
        let nodes: Vec<Node> = (0..3).map(|number| Node::start(url, number)).collect();
        let watched = nodes.iter().enumerate().flat_map(|(number, node)| {
            [&node.job, &node.own].map(|election| (number, node.simba.clone(), election.clone()))
        });
        let witness = Witness::start(LEASE, watched.collect());
        let crowd = Self { nodes, witness };
        // The first one makes the tables.
        within(secs(20), "the first terms", || crowd.contend(from))?;
        Ok(crowd)
    }

    fn contend(&self, from: Instant) -> bool {
        self.nodes.iter().all(|node| node.contends(from)) && self.leader().is_some()
    }

    /// Every node contends by itself again, within the lease + 3 s from now; and all the while nothing was that must not
    /// be.
    pub(crate) fn recovers(&self) -> Result<(), String> {
        let from = now();
        let recovered = within(AGAIN, "every node contends again", || self.contend(from));
        self.witness.judge();
        recovered.map_err(|late| format!("{late}: {}", self.shown(from)))?;
        eprintln!("every node contends again after {:?}", now().saturating_since(from));
        // It stays so, with the store's late answers to what was asked before.
        thread::sleep(LEASE);
        self.witness.judge();
        within(AGAIN, "they go on contending", || self.contend(from))?;
        self.check_calls()
    }

    /// No term has ended since `from`, nor does one within a lease from now.
    pub(crate) fn stays(&self, from: Instant) -> Result<(), String> {
        thread::sleep(LEASE);
        self.witness.judge();
        let ends: Vec<_> = self.nodes.iter().map(|node| node.ends(from)).collect();
        if ends.iter().any(|ends| !ends.is_empty()) {
            return Err(format!("terms have ended: {ends:?}; {}", self.shown(from)));
        }
        self.check_calls()
    }

    /// No term is valid, nor believed to be; each has ended for this reason.
    pub(crate) fn is_without_terms(&self, from: Instant, why: RevokeReason) -> Result<(), String> {
        self.witness.judge();
        within(millis(500), "every term has been revoked", || {
            self.nodes.iter().all(|node| {
                let none = |election: &Election| matches!(election.leadership(), Leadership::Candidate);
                none(&node.job) && none(&node.own)
            })
        })?;
        let ends: Vec<RevokeReason> = self.nodes.iter().flat_map(|node| node.ends(from)).collect();
        assert!(ends.len() >= 4 && ends.iter().all(|end| *end == why), "{ends:?}");
        Ok(())
    }

    pub(crate) fn check_calls(&self) -> Result<(), String> {
        self.nodes.iter().try_for_each(|node| node.calls.check())
    }

    /// The node that holds the contested lease, and its term.
    pub(crate) fn leader(&self) -> Option<(usize, Term)> {
        let leader = |node: &Node| node.job.leadership().term().cloned();
        self.nodes.iter().enumerate().find_map(|(number, node)| Some((number, leader(node)?)))
    }

    /// Waits until every node's keep-alive has just been confirmed, and a replica has had time to hear of it.
    pub(crate) fn settle(&self) -> Result<(), String> {
        let from = now();
        within(AGAIN, "a keep-alive of each", || {
            self.nodes.iter().all(|node| node.saw(from, |event| matches!(event, Event::Renewed { .. })))
        })?;
        thread::sleep(millis(100));
        Ok(())
    }

    fn shown(&self, from: Instant) -> String {
        let shown = self.nodes.iter().map(|node| {
            let log = node.log.lock().unwrap();
            let lines: Vec<String> = log
                .iter()
                .filter(|(at, event)| *at >= from && !matches!(event, Event::Renewed { .. }))
                .map(|(at, event)| format!("  +{:?} {event:?}", at.saturating_since(from)))
                .collect();
            format!("{} {:?}\n{}", node.simba.node(), node.simba.status(), lines.join("\n"))
        });
        shown.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        // Their threads end by themselves.
        for node in &self.nodes {
            drop(node.simba.close());
        }
    }
}
