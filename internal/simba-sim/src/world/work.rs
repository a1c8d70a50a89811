//! What runs around the engine: listeners, leader work, readers of terms, the application's own commands.

use std::time::Duration;

use simba_core::{Instant, Term, TermId};

use super::{Event, World};
use crate::node::{Command, Delivered, Input};

/// How often an ended holder writes on.
const ZOMBIE_WRITES: u32 = 3;

impl World {
    /// Tells the listener of a term, or fails to.
    pub(super) fn deliver(&mut self, node: usize, term: Term) {
        let Some(name) = self.names.iter().position(|name| name == term.name()) else { return };
        let (id, boot) = (term.id(), self.nodes[node].boot);
        let refused = !self.healed && self.rng.chance(self.options.refused);
        let work = self.oracle.ledger(node).and_then(|l| l.elections[name].as_ref()).is_some_and(|e| e.work);
        let running = work && !refused;
        self.nodes[node].terms.insert(id, Delivered { term: term.clone(), refused, running });
        if refused {
            let after = self.rng.below(5_000_000);
            self.plan(after, Event::Refuse { node, boot, term: id });
            return;
        }
        if running && !self.healed && self.rng.chance(200) {
            let after = self.rng.below(4 * self.options.lease());
            self.plan(after, Event::WorkExit { node, boot, term: id });
        }
        if self.options.writes > 0 {
            let after = self.rng.below(self.options.lease());
            self.plan(after, Event::Write { node, boot, name, term, zombie: 0 });
        }
    }

    /// A term has ended: its work is asked to stop.
    pub(super) fn interrupt(&mut self, node: usize, term: TermId) {
        let boot = self.nodes[node].boot;
        if self.delivered(node, term).is_none_or(|delivered| !delivered.running) {
            return;
        }
        let stubborn = match self.options.stubborn {
            3 => self.rng.below(3),
            fixed => fixed,
        };
        let after = match stubborn {
            0 => self.rng.below(10_000_000),
            1 => self.rng.below(2 * self.options.lease()),
            // Never, as long as the first act lasts.
            _ if !self.healed => return,
            _ => self.rng.below(1_000_000_000),
        };
        self.plan(after, Event::WorkExit { node, boot, term });
    }

    pub(super) fn work_exit(&mut self, node: usize, boot: u32, term: TermId) {
        if self.nodes[node].boot != boot {
            return;
        }
        let Some(delivered) = self.delivered(node, term) else { return };
        if std::mem::replace(&mut delivered.running, false) {
            if delivered.term.end_reason().is_some() {
                self.nodes[node].terms.remove(&term);
            }
            self.turn(node, Input::WorkExited(term));
        }
    }

    pub(super) fn refuse(&mut self, node: usize, boot: u32, term: TermId) {
        if self.nodes[node].boot == boot && self.nodes[node].terms.remove(&term).is_some() {
            self.turn(node, Input::Refused(term));
        }
    }

    /// A holder reads its term and writes, also when the term is over.
    pub(super) fn write(&mut self, node: usize, boot: u32, name: usize, term: Term, zombie: u32) {
        if self.nodes[node].boot != boot || self.nodes[node].engine.is_none() {
            return;
        }
        let valid = self.read(node, &term);
        let after = self.delay();
        self.plan(after, Event::Commit { node, boot, name, term: term.clone() });
        let zombie = if valid { zombie } else { zombie + 1 };
        if zombie <= ZOMBIE_WRITES && !self.healed {
            let after = self.rng.below(self.options.lease());
            self.plan(after, Event::Write { node, boot, name, term, zombie });
        }
    }

    /// Some thread looks whether the term is valid; this may be before the engine has noticed that it is not.
    pub(super) fn read(&mut self, node: usize, term: &Term) -> bool {
        let shown = self.clocks[node].read(self.at);
        let valid = term.is_valid(|| Instant::from_nanos(shown));
        self.oracle.read(node, shown, term, valid);
        valid
    }

    /// The application does something.
    pub(super) fn application(&mut self, node: usize) {
        if self.healed || self.nodes[node].engine.is_none() {
            return;
        }
        if self.nodes[node].closed {
            // The process ends, and a new one is started.
            self.crash(node);
            let boot = self.nodes[node].boot;
            let after = self.rng.below(self.options.lease());
            self.plan(after, Event::Restart { node, boot });
            return;
        }
        let mut commands = Vec::new();
        let many = if self.rng.chance(200) { 3 } else { 1 };
        for _ in 0..many {
            commands.push(self.draw_command(node));
        }
        self.turn(node, Input::Commands(commands));
        let mean = self.options.command_ms * 1_000_000;
        let after = self.rng.below(2 * mean);
        self.plan(after, Event::Application { node });
    }

    fn draw_command(&mut self, node: usize) -> Command {
        let name = self.rng.index(self.names.len());
        let started =
            self.nodes[node].engine.as_ref().is_some_and(|e| e.election(&self.names[name]).is_some());
        let lease = self.options.lease();
        match self.rng.below(100) {
            0..2 => Command::Close,
            2..10 => Command::Start { name, work: self.rng.chance(self.options.work) },
            _ if !started => Command::Start { name, work: self.rng.chance(self.options.work) },
            10..55 => {
                let cooldown = match self.rng.below(20) {
                    0 => Duration::MAX,
                    1..4 => Duration::ZERO,
                    4..10 => Duration::from_nanos(self.rng.below(lease / 4)),
                    _ => Duration::from_nanos(self.rng.below(2 * lease)),
                };
                Command::StepDown { name, cooldown }
            }
            _ => Command::Stop { name },
        }
    }
}
