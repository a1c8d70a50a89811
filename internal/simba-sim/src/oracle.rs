//! Which invariant sees what. The world reports; this file routes, and keeps the first thing that is wrong.

use std::rc::Rc;

use simba_backend::{Failure, LeaseName};
use simba_core::{CallId, ElectionId, Engine, Output, Reply, Term, TermId, Ticket, Timing};

use crate::{
    clock::Clock,
    invariant::{
        Broken, effects, exclusive::Exclusive, fencing::Resources, latch::Latch, pairing::Pairing, session,
        store::Granted, tokens::Tokens,
    },
    ledger::{Ledger, State},
    reach::{Point, Reach},
    swarm::Regime,
};

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Everything.
    Full,
    /// Only what a user sees go wrong: two valid terms, tokens, the latch, the resource. It shows what the safety
    /// oracles catch without the recomputation.
    Visible,
}

#[derive(Debug)]
struct Watch {
    ledger: Ledger,
    pairing: Pairing,
    boot: u32,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    regime: Regime,
    level: Level,
    names: Rc<[LeaseName]>,
    nodes: Vec<Option<Watch>>,
    pub(crate) exclusive: Exclusive,
    tokens: Tokens,
    latch: Latch,
    resources: Resources,
    pub(crate) reach: Reach,
    pub(crate) first: Option<Broken>,
    /// The second act's steady part: no term and no session of these nodes may end any more.
    pub(crate) steady: Vec<bool>,
}

impl Oracle {
    pub(crate) fn new(regime: Regime, level: Level, names: Rc<[LeaseName]>, nodes: usize) -> Self {
        let count = names.len();
        Self {
            regime,
            level,
            names,
            nodes: (0..nodes).map(|_| None).collect(),
            exclusive: Exclusive::new(count),
            tokens: Tokens::new(count),
            latch: Latch::default(),
            resources: Resources::new(count),
            reach: Reach::default(),
            first: None,
            steady: vec![false; nodes],
        }
    }

    /// Keeps the first violation; where an assumption is broken on purpose, what may follow from that is counted
    /// instead.
    pub(crate) fn judge(&mut self, result: Result<(), Broken>) {
        let Err((rule, text)) = result else { return };
        // What the recomputation alone can tell is not for users to see.
        let visible = ["I1", "I2", "I4", "I6", "I13", "I37", "I50", "L3", "L7", "L12", "L13"];
        if self.level == Level::Visible && !visible.contains(&rule) {
            return;
        }
        let overlap = matches!(rule, "I1" | "I2" | "I37" | "I50");
        let point = match (self.regime, rule) {
            (Regime::StoreSteps, _) if overlap => Point::OverlapAfterStep,
            (Regime::TooMuchDrift, _) if overlap => Point::OverlapAfterDrift,
            // Who believes too long may also adopt too late; the store's own tokens rise all the same (I5).
            (Regime::StoreSteps | Regime::TooMuchDrift | Regime::ClockStops | Regime::ByHand, "I4") => {
                Point::AdoptedOutOfOrder
            }
            (Regime::LostWrites | Regime::Evicts, "I4") => Point::TokenCameAgain,
            (Regime::LostWrites, _) if overlap => Point::OverlapAfterLostWrites,
            (Regime::Evicts, _) if overlap => Point::OverlapAfterEviction,
            // Nobody raises the former owner's version: it believes on, until its session ends.
            (Regime::Evicts, "L13") => Point::OverlapStaysAfterEviction,
            (Regime::ByHand, _) if overlap => Point::OverlapByHand,
            (Regime::ClockStops, _) if overlap => Point::OverlapAfterStop,
            _ => {
                if self.first.is_none() {
                    self.first = Some((rule, text));
                }
                return;
            }
        };
        // Only the overlap itself shows that the net is not blind.
        if matches!(rule, "I1" | "I4" | "L13") {
            self.reach.hit(point);
        }
    }

    pub(crate) fn boot(&mut self, node: usize, boot: u32, now: u64, timing: Timing) {
        let ledger = Ledger::new(Rc::clone(&self.names), timing, now);
        self.nodes[node] = Some(Watch { ledger, pairing: Pairing::default(), boot });
    }

    pub(crate) fn died(&mut self, node: usize) {
        self.nodes[node] = None;
        self.exclusive.died(node);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.level == Level::Full
    }

    pub(crate) fn ledger(&self, node: usize) -> Option<&Ledger> {
        self.nodes[node].as_ref().map(|watch| &watch.ledger)
    }
}

/// A turn of one node, part by part.
impl Oracle {
    pub(crate) fn begin(&mut self, node: usize, now: u64) {
        // Also without the recomputation the session must be known, for I2.
        if let Some(watch) = &mut self.nodes[node] {
            watch.ledger.begin(now);
        }
    }

    pub(crate) fn reply(&mut self, node: usize, id: CallId, result: &Result<Reply, Failure>) {
        self.reply_points(node, id, result);
        if let Some(watch) = &mut self.nodes[node] {
            watch.ledger.reply(id, result);
        }
    }

    fn reply_points(&mut self, node: usize, id: CallId, result: &Result<Reply, Failure>) {
        use crate::ledger::CallKind;
        let Some(watch) = &self.nodes[node] else { return };
        let (Ok(Reply::KeepAlive(simba_backend::KeepAlive::Alive { .. })), Some(call)) =
            (result, watch.ledger.calls.get(&id))
        else {
            return;
        };
        let CallKind::KeepAlive(session) = call.kind else { return };
        let over = watch.ledger.due.over.iter().any(|(id, _)| *id == session);
        let late = watch.ledger.now.saturating_sub(watch.ledger.last_deadline);
        if over && late < crate::nanos(watch.ledger.timing.lease()) / 100 {
            self.reach.hit(Point::ReplyJustAfterDeadline);
        }
        if over {
            self.reach.hit(Point::SleptOverDeadlineWithReply);
        }
    }

    /// The input has been handled.
    pub(crate) fn handled(&mut self, node: usize) {
        if let Some(watch) = &mut self.nodes[node] {
            watch.ledger.go_on_closing();
        }
    }

    pub(crate) fn wakeup(&mut self, node: usize, now: u64) {
        if let Some(watch) = &mut self.nodes[node] {
            watch.ledger.wakeup(now);
        }
    }

    pub(crate) fn start(&mut self, node: usize, name: usize, work: bool, started: Option<ElectionId>) {
        let Some(watch) = &mut self.nodes[node] else { return };
        let free = watch.ledger.elections[name].is_none() && !watch.ledger.closing;
        if let Some(id) = started {
            watch.ledger.start(name, id, work);
        } else {
            self.reach.hit(Point::StartRefused);
        }
        if free != started.is_some() {
            let text = format!("start of name {name}: accepted {}, must be {free}", started.is_some());
            self.judge(Err(("I35", text)));
        }
    }

    pub(crate) fn stop(&mut self, node: usize, election: ElectionId, ticket: Ticket) {
        if let Some(watch) = &mut self.nodes[node] {
            watch.pairing.stopping(ticket, election);
            watch.ledger.stop(election, Some(ticket));
        }
    }

    pub(crate) fn step_down(&mut self, node: usize, election: ElectionId, until: u64, ticket: Ticket) {
        if let Some(watch) = &mut self.nodes[node] {
            watch.ledger.step_down(election, until, Some(ticket));
        }
    }

    pub(crate) fn close(&mut self, node: usize, ticket: Ticket) {
        let Some(watch) = &mut self.nodes[node] else { return };
        if watch.ledger.elections.iter().flatten().any(|e| matches!(e.state, State::Handover(_))) {
            self.reach.hit(Point::CloseWithHandover);
        }
        watch.ledger.close(ticket);
    }

    pub(crate) fn work_exited(&mut self, node: usize, term: TermId) {
        self.exclusive.guard(node, term, None);
        if let Some(watch) = &mut self.nodes[node] {
            watch.ledger.work_exited(term);
        }
    }

    pub(crate) fn refused(&mut self, node: usize, term: TermId) {
        self.exclusive.guard(node, term, None);
        if let Some(watch) = &mut self.nodes[node] {
            watch.pairing.refused(term);
            watch.ledger.refused(term);
        }
    }

    pub(crate) fn output(&mut self, node: usize, at: u64, clocks: &[Clock], output: &Output) {
        let Some(watch) = &mut self.nodes[node] else { return };
        let session = watch.ledger.session.as_ref().map(|s| s.id);
        let mut results = Vec::new();
        results.push(watch.ledger.output(output));
        results.push(watch.pairing.output(session, output));
        if self.level == Level::Visible {
            results.clear();
        }
        match output {
            Output::Elected { term, .. } => {
                let name = watch.ledger.index(term.name());
                results.push(self.exclusive.adopted(at, clocks, (node, name, session), term));
                // A term whose deadline had passed before it was adopted was never valid for anybody.
                let valid = self.exclusive.is_valid(at, clocks, node, name, term.id());
                match self.tokens.adopted(name, term.token(), valid) {
                    Ok(true) => self.reach.hit(Point::TokenGap),
                    Ok(false) => {}
                    Err(broken) => results.push(Err(broken)),
                }
                if self.level == Level::Full {
                    results.push(same_deadline(&watch.ledger, term));
                }
            }
            Output::Notice(simba_core::Notice::TokenRegressed { .. })
                if !matches!(self.regime, Regime::LostWrites | Regime::Evicts) =>
            {
                results.push(Err((
                    "I51",
                    format!("a token went back, and the store has lost nothing: {output:?}"),
                )));
            }
            Output::Ended { term, reason } if self.steady[node] => {
                results
                    .push(Err(("L7", format!("node {node} lost {term:?} for {reason} without any fault"))));
            }
            Output::Notice(simba_core::Notice::SessionOpened { session, .. }) => {
                results.push(self.tokens.opened(*session));
            }
            Output::Notice(simba_core::Notice::SessionEnded { session, reason }) if self.steady[node] => {
                results.push(Err(("L7", format!("session {session} ended without any fault: {reason:?}"))));
            }
            _ => {}
        }
        for result in results {
            self.judge(result);
        }
    }

    /// The turn is over: everything that was due must have come.
    pub(crate) fn end(&mut self, node: usize, at: u64, clocks: &[Clock], engine: &Engine, carried: usize) {
        let moved = self.exclusive.moved(at, clocks, node);
        self.judge(moved);
        if self.level == Level::Visible || self.first.is_some() {
            return;
        }
        let Some(watch) = &mut self.nodes[node] else { return };
        watch.pairing.end();
        if std::mem::take(&mut watch.ledger.shorter_promise) {
            self.reach.hit(Point::ShorterPromise);
        }
        if std::mem::take(&mut watch.ledger.same_token_twice) {
            self.reach.hit(Point::SameTokenTwice);
        }
        let view = engine.snapshot();
        let mut result = session::check(&watch.ledger, engine, &view);
        if result.is_ok() {
            result = effects::check(&mut watch.ledger, engine, &view, carried);
        }
        if result.is_ok() && !cfg!(debug_assertions) {
            result = engine.check().map_err(|text| ("check", text));
        }
        if !watch.ledger.due.over.is_empty() {
            // The session is over, by the store's word or by its newest promise: nothing is held any more.
            self.exclusive.unguard(node);
        }
        for election in watch.ledger.elections.iter().flatten() {
            if let State::Handover(handover) = &election.state
                && election.running
            {
                self.exclusive.guard(node, handover.held.term, handover.working_until);
            }
        }
        self.judge(result);
    }

    /// A reader has looked at a term.
    pub(crate) fn read(&mut self, node: usize, now: u64, term: &Term, valid: bool) {
        let Some(watch) = &mut self.nodes[node] else { return };
        let boot = watch.boot;
        if !valid {
            if term.end_reason().is_none() {
                self.reach.hit(Point::ReaderLatched);
            }
            // Any term of the session latches its cell, also one that has ended before.
            let cell = watch.ledger.cells.get(&term.id());
            if let Some(session) = watch.ledger.session.as_mut().filter(|s| cell == Some(&s.id)) {
                session.latched |= now >= session.deadline;
            }
        }
        let result = self.latch.read(node, boot, term.id(), valid);
        self.judge(result);
    }

    /// A write arrives at a fenced resource.
    pub(crate) fn write(&mut self, node: Option<usize>, name: usize, term: &Term, at: u64, clocks: &[Clock]) {
        let valid = node.is_some_and(|node| self.exclusive.is_valid(at, clocks, node, name, term.id()));
        let result = self.resources.write(name, term.token(), valid, &mut self.reach);
        self.judge(result);
    }

    /// The store made new grants.
    pub(crate) fn granted(&mut self, at: u64, clocks: &[Clock], grants: &[Granted]) {
        for grant in grants {
            let result = self.exclusive.granted(at, clocks, grant.name, grant.session);
            self.judge(result);
        }
    }
}

/// I7: a term shares its session's deadline.
fn same_deadline(ledger: &Ledger, term: &Term) -> Result<(), Broken> {
    let Some(session) = &ledger.session else { return Ok(()) };
    let found = crate::invariant::exclusive::deadline(term);
    if found == Some(session.deadline) || session.latched {
        return Ok(());
    }
    Err(("I7", format!("{term:?} has the deadline {found:?}, its session {}", session.deadline)))
}
