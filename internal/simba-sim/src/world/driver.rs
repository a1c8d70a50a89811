//! The obedient driver: it hands in one input at a time, carries every output out in order, and decides nothing.

use std::time::Duration;

use simba_core::{Engine, Instant, Output, StartOptions, TermId};

use super::{Event, World};
use crate::{
    node::{Carried, Command, Delivered, Input},
    planted::Bug,
    reach::Point,
    swarm::Regime,
};

/// The obedient driver: one input, a wake-up if one is due, then every output in order.
impl World {
    pub(crate) fn now(&mut self, node: usize) -> u64 {
        let real = self.clocks[node].read(self.at);
        match self.nodes[node].stale.take() {
            Some(stale) => {
                self.oracle.reach.hit(Point::StaleInstant);
                stale
            }
            None => real,
        }
    }

    pub(crate) fn turn(&mut self, node: usize, input: Input) {
        let Some(mut engine) = self.nodes[node].engine.take() else { return };
        let shown = self.now(node);
        let now = Instant::from_nanos(shown);
        self.trace(|| format!("n{node} @{now:?} {input:?}"));
        self.oracle.begin(node, shown);
        let mut wake = false;
        match input {
            Input::Wakeup => wake = true,
            Input::Reply(id, result) => {
                self.oracle.reply(node, id, &result);
                engine.handle_reply(now, id, result);
            }
            Input::Hint(hint) => engine.handle_hint(now, &hint),
            Input::WorkExited(term) => {
                self.oracle.work_exited(node, term);
                engine.handle_work_exited(now, term);
            }
            Input::Refused(term) => {
                self.oracle.refused(node, term);
                engine.handle_delivery_refused(now, term);
            }
            Input::Commands(commands) => {
                for command in commands {
                    self.command(node, &mut engine, now, command);
                }
            }
        }
        self.oracle.handled(node);
        if wake || engine.next_wakeup().is_some_and(|at| at <= now) {
            self.oracle.wakeup(node, shown);
            engine.handle_wakeup(now);
        }
        while let Some(output) = engine.poll_output() {
            self.trace(|| format!("n{node}   {output:?}"));
            self.oracle.output(node, self.at, &self.clocks, &output);
            self.carry_out(node, output);
        }
        let carried = self.nodes[node].calls.len();
        self.oracle.end(node, self.at, &self.clocks, &engine, carried);
        self.nodes[node].closed = engine.is_closed();
        self.nodes[node].engine = Some(engine);
        self.plan_wake(node);
    }

    fn plan_wake(&mut self, node: usize) {
        let wanted = self.nodes[node].engine.as_ref().and_then(|engine| engine.next_wakeup());
        let Some(at) = wanted.and_then(|at| self.clocks[node].when(at.as_nanos())) else {
            self.nodes[node].wake = None;
            self.nodes[node].wake_number += 1;
            return;
        };
        // Timers are late, never early; a planned one that is right already stays.
        let at = at.max(self.at);
        if self.nodes[node].wake == Some(at) {
            return;
        }
        self.nodes[node].wake = Some(at);
        self.nodes[node].wake_number += 1;
        let number = self.nodes[node].wake_number;
        let lag = self.rng.below(self.options.lag_us * 1_000);
        self.plan_at(at.saturating_add(lag), Event::Wake { node, number });
    }

    /// The node's clock has changed its rate: its timers are set again.
    pub(crate) fn replan_wake(&mut self, node: usize) {
        self.nodes[node].wake = None;
        if self.nodes[node].engine.is_some() {
            self.plan_wake(node);
        }
    }

    fn command(&mut self, node: usize, engine: &mut Engine, now: Instant, command: Command) {
        match command {
            Command::Start { name, work } => {
                let started = engine.start(now, self.names[name].clone(), StartOptions { work }).ok();
                self.oracle.start(node, name, work, started);
                if let Some(slot) = self.nodes[node].elections.get_mut(name).filter(|_| started.is_some()) {
                    *slot = started;
                }
            }
            Command::Stop { name } => {
                let Some(election) = self.nodes[node].elections.get(name).copied().flatten() else { return };
                let ticket = engine.stop(now, election);
                self.oracle.stop(node, election, ticket);
            }
            Command::StepDown { name, cooldown } => {
                let Some(election) = self.nodes[node].elections.get(name).copied().flatten() else { return };
                if cooldown == Duration::MAX {
                    self.oracle.reach.hit(Point::EndlessCooldown);
                }
                let ticket = engine.step_down(now, election, cooldown);
                self.oracle.step_down(node, election, now.saturating_add(cooldown).as_nanos(), ticket);
            }
            Command::Close => {
                let ticket = engine.close(now);
                self.oracle.close(node, ticket);
            }
        }
    }

    fn carry_out(&mut self, node: usize, output: Output) {
        match output {
            Output::Call { id, request, patience } => {
                self.nodes[node].calls.insert(id, Carried { committed: false });
                self.send(node, id, request, crate::nanos(patience));
            }
            Output::Elected { term, .. } => self.deliver(node, term),
            Output::Ended { term, .. } => self.interrupt(node, term),
            Output::Revoked { term, .. } => {
                if let Some(delivered) = self.nodes[node].terms.get(&term)
                    && !delivered.running
                    && !delivered.refused
                {
                    self.nodes[node].terms.remove(&term);
                }
            }
            Output::Finished { .. } | Output::Notice(_) => {}
        }
    }

    /// A new process: a new engine with a new seed.
    pub(crate) fn boot(&mut self, node: usize) {
        let Some(timing) = self.options.timing() else { return };
        let shown = self.clocks[node].read(self.at);
        let mut engine = Engine::new(timing, self.rng.next(), Instant::from_nanos(shown));
        if let Some(Bug::Engine(bug)) = self.bug {
            engine.plant(bug);
        }
        let state = &mut self.nodes[node];
        state.die();
        state.elections = vec![None; self.names.len()];
        state.engine = Some(Box::new(engine));
        let boot = state.boot;
        self.oracle.boot(node, boot, shown, timing);
        self.trace(|| format!("n{node} boots as process {boot}"));
        let mut starts = Vec::new();
        for name in 0..self.names.len() {
            if self.rng.chance(900) {
                starts.push(Command::Start { name, work: self.rng.chance(self.options.work) });
            }
        }
        self.turn(node, Input::Commands(starts));
        if self.options.command_ms > 0 && !self.healed {
            let after = self.rng.below(2 * self.options.command_ms * 1_000_000);
            self.plan(after, Event::Application { node });
        }
    }

    /// The process ends without a word.
    pub(crate) fn crash(&mut self, node: usize) {
        if self.nodes[node].engine.is_none() {
            return;
        }
        self.trace(|| format!("n{node} crashes"));
        if self.nodes[node].calls.values().any(|call| call.committed) {
            self.oracle.reach.hit(Point::CrashAfterCommit);
        }
        self.keep_marks(node);
        self.nodes[node].die();
        self.oracle.died(node);
    }

    pub(super) fn keep_marks(&mut self, node: usize) {
        if let Some(engine) = &self.nodes[node].engine {
            self.marks = self.marks.union(engine.marks());
        }
    }

    pub(crate) fn delivered(&mut self, node: usize, term: TermId) -> Option<&mut Delivered> {
        self.nodes[node].terms.get_mut(&term)
    }

    pub(crate) fn is_sound(&self) -> bool {
        matches!(self.options.regime(), Regime::Sound)
    }
}
