//! The second act: the faults have stopped, and within bounds everything must be well again.
//!
//! * L3, L10, L11, L12: every healthy node has a live session, every name that a healthy node contends for is led.
//! * L4: no lease is recorded for a session whose node knows nothing of it.
//! * L7: from then on nothing is lost, for ten lease times.
//! * No two nodes believe in one name, whatever was broken before.

use simba_core::{ElectionView, Role, SessionStatus};

use crate::{
    ledger::State,
    node::{Command, Input},
    reach::Point,
    swarm::Regime,
    world::{Event, World},
};

impl World {
    pub(crate) fn heal(&mut self) {
        self.trace(|| "the faults stop".into());
        self.healed = true;
        self.end_faults();
        self.break_for_good();
        for node in 0..self.nodes.len() {
            if !self.nodes[node].broken {
                self.make_well(node);
            }
        }
        // What is under way still has its say; the bound counts from the last of it.
        let quiet = self.latest(|event| {
            matches!(
                event,
                Event::Arrive { .. }
                    | Event::Answer { .. }
                    | Event::Limit { .. }
                    | Event::Hint { .. }
                    | Event::WorkExit { .. }
                    | Event::Refuse { .. }
            )
        });
        let cooled = (0..self.nodes.len()).filter_map(|node| self.cooled(node)).max().unwrap_or(self.at);
        self.plan_at(quiet.max(cooled) + self.recovery_bound(), Event::Recovered);
    }

    /// Lease, three renewals, jitter and spread, on the slowest clock; twice the lease more if a node stays broken
    /// that renews without hearing of it.
    fn recovery_bound(&self) -> u64 {
        let options = &self.options;
        let spread = (options.spread_us * 1_000).min(options.renew());
        let once = options.lease() + 3 * options.renew() + options.jitter_ms * 1_000_000 + spread;
        let deaf = if options.broken >= 2 { 2 * options.lease() } else { 0 };
        // Drift allowed for at most a tenth; the broken regimes have slower clocks.
        let slow = once + deaf + (once + deaf) * 6 / 10;
        slow + self.set_back + 2_000_000_000
    }

    fn make_well(&mut self, node: usize) {
        let boot = self.nodes[node].boot;
        if self.nodes[node].engine.is_none() || self.nodes[node].closed || self.is_closing(node) {
            self.crash(node);
            self.boot(node);
        }
        let running: Vec<_> = self.nodes[node]
            .terms
            .iter()
            .filter(|(_, t)| t.running && t.term.end_reason().is_some())
            .map(|(id, _)| *id)
            .collect();
        for term in running {
            self.plan(1_000_000, Event::WorkExit { node, boot, term });
        }
        // An endless cooldown is somebody's wish; here it is taken back.
        let mut commands = Vec::new();
        let horizon = self.clocks[node].read(self.at) + 4 * self.options.lease();
        for name in 0..self.names.len() {
            let election = self.oracle.ledger(node).and_then(|l| l.elections[name].as_ref());
            if election.is_some_and(|e| e.cool_until > horizon) {
                commands.push(Command::Stop { name });
            }
        }
        if !commands.is_empty() {
            self.turn(node, Input::Commands(commands));
        }
        let starts = (0..self.names.len())
            .filter(|&name| self.oracle.ledger(node).is_some_and(|l| l.elections[name].is_none()))
            .map(|name| Command::Start { name, work: name == 0 })
            .collect();
        self.turn(node, Input::Commands(starts));
    }

    fn is_closing(&self, node: usize) -> bool {
        self.oracle.ledger(node).is_some_and(|ledger| ledger.closing)
    }

    /// The true instant at which the last cooldown of a node is over.
    fn cooled(&self, node: usize) -> Option<u64> {
        let ledger = self.oracle.ledger(node)?;
        let limit = self.clocks[node].read(self.at) + 8 * self.options.lease();
        let until =
            ledger.elections.iter().flatten().map(|e| e.cool_until).filter(|&until| until < limit).max()?;
        self.clocks[node].when(until)
    }

    fn healthy(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|&node| !self.nodes[node].broken).collect()
    }

    /// Everything must be well by now.
    pub(crate) fn recovered(&mut self) {
        self.check_sessions();
        self.check_led();
        for node in self.healthy() {
            self.oracle.steady[node] = true;
        }
        self.plan(10 * self.options.lease(), Event::End);
    }

    pub(crate) fn ended(&mut self) {
        self.check_sessions();
        self.check_led();
        self.check_orphans();
    }

    fn fail(&mut self, rule: &'static str, text: String) {
        self.oracle.judge(Err((rule, text)));
    }

    fn check_sessions(&mut self) {
        for node in self.healthy() {
            let view = self.nodes[node].engine.as_ref().map(|engine| engine.snapshot().session);
            let status = view.as_ref().map(|view| view.status);
            // A keep-alive may be on its way, but none has failed.
            if status != Some(SessionStatus::Live) {
                self.fail("L3", format!("node {node} is well and its session is {view:?}"));
            }
        }
    }

    fn check_led(&mut self) {
        for name in 0..self.names.len() {
            let views: Vec<(usize, ElectionView)> = self
                .healthy()
                .into_iter()
                .filter_map(|node| {
                    let snapshot = self.nodes[node].engine.as_ref()?.snapshot();
                    let view = snapshot.elections.into_iter().find(|view| view.name == self.names[name])?;
                    Some((node, view))
                })
                .collect();
            let candidates = views.iter().filter(|(_, view)| view.role == Role::Candidate).count();
            let leaders = views.iter().filter(|(_, view)| view.role == Role::Leader).count();
            if leaders > 1 {
                self.fail("L13", format!("{:?} has {leaders} leaders: {views:?}", self.names[name]));
            } else if leaders == 0
                && candidates > 0
                && !self.oracle.exclusive.is_led(self.at, &self.clocks, name)
            {
                if self.must_climb(name) {
                    self.oracle.reach.hit(Point::TokensMustClimb);
                    continue;
                }
                let recorded = (self.store.model.owner(name), self.store.model.token(name));
                self.fail(
                    "L3",
                    format!("{:?} is led by nobody; recorded {recorded:?}; {views:?}", self.names[name]),
                );
            }
        }
    }

    /// A store that has lost writes hands out tokens below those that were seen; they are refused, one by one.
    fn must_climb(&self, name: usize) -> bool {
        let lost = matches!(self.options.regime(), Regime::LostWrites | Regime::Evicts);
        let recorded = self.store.model.token(name);
        let seen = |node: usize| {
            let election = self.oracle.ledger(node)?.elections[name].as_ref()?;
            self.oracle.ledger(node)?.floors[name]
                .max(election.last_token)
                .map(simba_backend::FencingToken::get)
        };
        lost && self.healthy().into_iter().filter_map(seen).any(|seen| seen >= recorded)
    }

    /// L4: what the store records for a healthy node's session, that node must know of.
    fn check_orphans(&mut self) {
        for name in 0..self.names.len() {
            let Some(owner) = self.store.model.owner(name) else { continue };
            for node in self.healthy() {
                let Some(ledger) = self.oracle.ledger(node) else { continue };
                if !ledger.is_current(owner) {
                    continue;
                }
                let state = ledger.elections[name].as_ref().map(|election| &election.state);
                let known = match state {
                    Some(State::Held(held)) => held.token.get() == self.store.model.token(name),
                    Some(State::Handover(_) | State::Attempt(_)) => true,
                    _ => false,
                };
                if !known {
                    let text =
                        format!("{:?} is recorded for node {node}, which is {state:?}", self.names[name]);
                    self.fail("L4", text);
                }
            }
        }
    }
}
