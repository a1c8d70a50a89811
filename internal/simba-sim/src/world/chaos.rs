//! What goes wrong in the first act, and how it ends.

use std::time::Duration;

use simba_backend::{FencingToken, Hint};

use super::{Event, World};
use crate::{
    node::Pause,
    reach::Point,
    rng::Rng,
    swarm::{Fault, Options, Regime},
};

const BILLION: u64 = 1_000_000_000;

/// How a fault ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Undo {
    Send(usize),
    Hear(usize),
    Refuses,
    FailsCleanly,
    FailsUnknown,
    Slow,
    Network,
    /// A link that goes up and down; so many times more.
    Flap(usize, u32),
    /// The clock of a machine that was suspended runs on.
    Rate(usize, u64),
    /// Forged hints; so many more.
    Storm(u32),
    /// Wake-ups that nobody asked for; so many more.
    Spurious(usize, u32),
}

/// The rate of a node's clock.
pub(crate) fn rate(options: &Options, rng: &mut Rng) -> u64 {
    let drift = options.drift_ppb;
    if options.regime() == Regime::TooMuchDrift {
        // Far beyond what is allowed for, on the dangerous side.
        return rng.between(BILLION * 65 / 100, BILLION - drift - BILLION / 20);
    }
    match options.clocks {
        0 => BILLION,
        1 => BILLION - drift,
        2 => BILLION + drift,
        _ => rng.between(BILLION - drift, BILLION + drift + 1),
    }
}

impl World {
    pub(super) fn chaos(&mut self) {
        if self.healed {
            return;
        }
        let after = self.rng.below(2 * self.options.fault_ms * 1_000_000);
        self.plan(after.max(1), Event::Chaos);
        if !self.is_sound() && self.rng.chance(250) {
            self.break_assumption();
        }
        if !self.enabled.is_empty() {
            let fault = self.enabled[self.rng.index(self.enabled.len())];
            self.strike(fault);
        }
    }

    fn strike(&mut self, fault: Fault) {
        let node = self.rng.index(self.nodes.len());
        let lease = self.options.lease();
        let long = self.rng.below(2 * lease);
        self.trace(|| format!("fault: {fault:?} (node {node}, {long} ns)"));
        match fault {
            Fault::Pause => {
                let short = self.rng.between(1_000_000, lease / 2);
                self.pause(node, short);
            }
            Fault::LongPause => {
                let long = self.rng.between(lease / 2, 3 * lease);
                self.pause(node, long);
            }
            Fault::Crash => {
                self.crash(node);
                let boot = self.nodes[node].boot;
                self.plan(long, Event::Restart { node, boot });
            }
            Fault::Cut => {
                self.cut(node, true, true);
                self.plan(long, Event::Undo(Undo::Send(node)));
                self.plan(long, Event::Undo(Undo::Hear(node)));
            }
            Fault::HearsNothing => {
                self.cut(node, false, true);
                self.plan(long, Event::Undo(Undo::Hear(node)));
            }
            Fault::CannotSend => {
                self.cut(node, true, false);
                self.plan(long, Event::Undo(Undo::Send(node)));
            }
            Fault::Flap => self.flap(node, 10),
            Fault::CutAll => {
                for node in 0..self.nodes.len() {
                    let long = self.rng.below(2 * lease);
                    self.cut(node, true, true);
                    self.plan(long, Event::Undo(Undo::Send(node)));
                    self.plan(long, Event::Undo(Undo::Hear(node)));
                }
            }
            Fault::Refuses => {
                self.store.mood.refuses += 1;
                self.plan(long, Event::Undo(Undo::Refuses));
            }
            Fault::Hangs => self.store.mood.hangs_until = self.at + self.rng.below(lease * 3 / 2),
            Fault::FailsCleanly => {
                self.store.mood.fails_cleanly += 1;
                self.plan(long, Event::Undo(Undo::FailsCleanly));
            }
            Fault::FailsUnknown => {
                self.store.mood.fails_unknown += 1;
                self.plan(long, Event::Undo(Undo::FailsUnknown));
            }
            Fault::SlowCommit => {
                self.store.mood.slow += 1;
                self.plan(long, Event::Undo(Undo::Slow));
            }
            Fault::HintStorm => self.storm(40),
            Fault::Slew => self.slew(node),
            Fault::SlowNetwork => {
                self.slow_network += 1;
                self.plan(long, Event::Undo(Undo::Network));
            }
            Fault::Reap => self.reap(),
            Fault::SpuriousWakes => self.spurious(node, 10),
        }
    }

    fn cut(&mut self, node: usize, send: bool, hear: bool) {
        self.nodes[node].cannot_send += u32::from(send);
        self.nodes[node].hears_nothing += u32::from(hear);
    }

    fn flap(&mut self, node: usize, left: u32) {
        if left == 0 {
            return;
        }
        // Just below and just above the period of the retries.
        let period = self.options.renew().min(self.options.lease() / 3);
        let down = self.rng.between(period * 9 / 10, period * 11 / 10);
        self.cut(node, true, true);
        self.plan(down, Event::Undo(Undo::Send(node)));
        self.plan(down, Event::Undo(Undo::Hear(node)));
        let up = self.rng.below(period / 2);
        self.plan(down + up, Event::Undo(Undo::Flap(node, left - 1)));
    }

    fn storm(&mut self, left: u32) {
        if left == 0 {
            return;
        }
        let node = self.rng.index(self.nodes.len());
        let name = self.names[self.rng.index(self.names.len())].clone();
        let hint = if self.rng.chance(100) { Hint::Missed } else { Hint::Freed(name) };
        self.plan(0, Event::Hint { node, hint });
        let after = self.rng.below(4_000_000);
        self.plan(after, Event::Undo(Undo::Storm(left - 1)));
    }

    fn spurious(&mut self, node: usize, left: u32) {
        if left == 0 {
            return;
        }
        if self.nodes[node].paused.is_none() {
            self.turn(node, crate::node::Input::Wakeup);
        }
        let after = self.rng.below(self.options.renew());
        self.plan(after, Event::Undo(Undo::Spurious(node, left - 1)));
    }

    fn slew(&mut self, node: usize) {
        let stopped = self.clocks[node].rate() == 0;
        if self.options.clocks == 3 && !stopped {
            let rate = rate(&self.options, &mut self.rng);
            self.clocks[node].set_rate(self.at, rate);
            self.replan_wake(node);
        }
    }

    fn reap(&mut self) {
        let (_, now) = self.store.now(self.at);
        self.store.store.reap(now);
        self.store.model.reap(now);
        self.broadcast();
    }

    pub(super) fn undo(&mut self, undo: &Undo) {
        if self.healed {
            return;
        }
        let mood = &mut self.store.mood;
        match *undo {
            Undo::Send(node) => self.nodes[node].cannot_send = self.nodes[node].cannot_send.saturating_sub(1),
            Undo::Hear(node) => {
                self.nodes[node].hears_nothing = self.nodes[node].hears_nothing.saturating_sub(1)
            }
            Undo::Refuses => mood.refuses -= 1,
            Undo::FailsCleanly => mood.fails_cleanly -= 1,
            Undo::FailsUnknown => mood.fails_unknown -= 1,
            Undo::Slow => mood.slow -= 1,
            Undo::Network => self.slow_network -= 1,
            Undo::Flap(node, left) => self.flap(node, left),
            Undo::Rate(node, rate) => {
                self.clocks[node].set_rate(self.at, rate);
                self.replan_wake(node);
            }
            Undo::Storm(left) => self.storm(left),
            Undo::Spurious(node, left) => self.spurious(node, left),
        }
    }
}

/// Pauses.
impl World {
    pub(super) fn pause(&mut self, node: usize, long: u64) {
        if self.nodes[node].paused.is_some() || self.nodes[node].engine.is_none() {
            return;
        }
        self.number += 1;
        let (since, number) = (self.clocks[node].read(self.at), self.number);
        self.nodes[node].paused = Some(Pause { since, number, inbox: Vec::new() });
        self.plan(long, Event::Resume { node, number });
        if self.options.regime() == Regime::ClockStops {
            let rate = self.clocks[node].rate();
            self.clocks[node].set_rate(self.at, 0);
            self.plan(long.saturating_sub(1), Event::Undo(Undo::Rate(node, rate)));
        }
    }

    /// The node goes on: everything that came meanwhile is there at once, in any order.
    pub(super) fn resume(&mut self, node: usize, number: u64) {
        if self.nodes[node].paused.as_ref().is_none_or(|pause| pause.number != number) {
            return;
        }
        let Some(mut pause) = self.nodes[node].paused.take() else { return };
        self.trace(|| format!("n{node} goes on with {} events waiting", pause.inbox.len()));
        self.rng.shuffle(&mut pause.inbox);
        if self.rng.chance(300) {
            // Threads of the application are first, and look at their terms.
            let terms: Vec<_> =
                self.nodes[node].terms.values().map(|delivered| delivered.term.clone()).collect();
            for term in terms {
                self.read(node, &term);
            }
        }
        if self.rng.chance(200) {
            // The engine's thread had read the clock just before.
            self.nodes[node].stale = Some(pause.since);
        }
        for event in pause.inbox {
            self.happen(event);
        }
        self.nodes[node].stale = None;
        self.replan_wake(node);
    }
}

/// What the safety argument does not allow for.
impl World {
    fn break_assumption(&mut self) {
        let lease = self.options.lease();
        let name = self.rng.index(self.names.len());
        match self.options.regime() {
            Regime::Sound | Regime::TooMuchDrift => {}
            Regime::StoreSteps => {
                let (forward, by) = (self.rng.chance(600), self.rng.between(1_000_000, 2 * lease));
                self.trace(|| {
                    format!("the store's clock steps {} {by} ns", if forward { "forward" } else { "back" })
                });
                self.set_back += if forward { 0 } else { by };
                self.store.step_clock(forward, by);
            }
            Regime::LostWrites => {
                let lost = self.store.lose_writes(&mut self.rng);
                self.trace(|| format!("an old copy of the store takes over: {lost}"));
            }
            Regime::Evicts => {
                self.trace(|| format!("the record of name {name} is evicted"));
                self.store.store.lose_lease(&self.names[name].clone());
                self.store.model.lose(name);
            }
            Regime::ByHand => self.by_hand(name),
            Regime::ClockStops => {
                let node = self.rng.index(self.nodes.len());
                let long = self.rng.between(lease / 2, 3 * lease);
                self.pause(node, long);
            }
        }
    }

    /// What a person does in an incident: at the store's own prompt, or by the two calls there are for it.
    fn by_hand(&mut self, name: usize) {
        let lease = self.names[name].clone();
        let held = self.store.model.owner(name).zip(FencingToken::new(self.store.model.token(name)));
        let (_, now) = self.store.now(self.at);
        let judged = match (self.rng.index(4), held) {
            (0, Some((session, _))) => {
                self.trace(|| format!("a person ends session {session}"));
                let answer = self.store.store.evict(now, session);
                self.store.model.evicted(now, session, answer, &self.store.store)
            }
            (draw @ (1 | 2), Some((_, present))) => {
                let token = if draw == 1 { Some(present) } else { present.next() };
                let token = token.unwrap_or(present);
                self.trace(|| format!("a person forces name {name} free, at token {token}"));
                let answer = self.store.store.force_release(&lease, token);
                self.store.model.forced(name, token, answer, &self.store.store)
            }
            _ => {
                self.trace(|| format!("a person frees name {name}"));
                self.store.store.tamper_free(&lease);
                self.store.model.free_by_hand(name);
                Ok(())
            }
        };
        if self.oracle.is_full() {
            self.oracle.judge(judged);
        }
        self.broadcast();
    }

    /// Everything that can be put right is put right.
    pub(crate) fn end_faults(&mut self) {
        self.enabled.clear();
        self.slow_network = 0;
        self.store.humble = 0;
        let hangs_until = self.store.mood.hangs_until;
        self.store.mood = crate::store::Mood { hangs_until, ..crate::store::Mood::default() };
        for node in 0..self.nodes.len() {
            self.nodes[node].cannot_send = 0;
            self.nodes[node].hears_nothing = 0;
            if self.clocks[node].rate() == 0 {
                let rate = rate(&self.options, &mut self.rng);
                self.clocks[node].set_rate(self.at, rate);
                self.replan_wake(node);
            }
            if let Some(number) = self.nodes[node].paused.as_ref().map(|pause| pause.number) {
                self.resume(node, number);
            }
        }
    }

    /// One node stays broken, if there are others; the rest must not mind.
    pub(crate) fn break_for_good(&mut self) {
        if self.nodes.len() < 2 || self.options.broken == 0 {
            return;
        }
        let node = self.rng.index(self.nodes.len());
        self.nodes[node].broken = true;
        self.oracle.reach.hit(Point::WentOnWithoutOne);
        self.trace(|| format!("n{node} stays broken"));
        match self.options.broken {
            1 => self.crash(node),
            2 => self.cut(node, true, true),
            3 => self.cut(node, false, true),
            4 => self.cut(node, true, false),
            _ => self.pause(node, Duration::from_secs(1_000_000).as_nanos().try_into().unwrap_or(u64::MAX)),
        }
    }
}
