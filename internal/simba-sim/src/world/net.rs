//! Between the nodes and the store: delay, loss, doubling, reordering, cuts, and a store that is slow or ill.

use std::rc::Rc;

use simba_backend::{Effect, Failure, FailureKind, Hint, KeepAlive};
use simba_core::{CallId, Reply, Request};

use super::{Event, World};
use crate::{node::Input, reach::Point};

fn failure(kind: FailureKind, effect: Effect) -> Failure {
    Failure::new(kind, effect, String::new())
}

impl World {
    /// One-way delay of a message; independent delays reorder.
    pub(super) fn delay(&mut self) -> u64 {
        let (least, most) = (self.options.delay_min_us * 1_000, self.options.delay_max_us * 1_000);
        if self.healed {
            return self.rng.between(least, most).min(self.options.period() / 8);
        }
        if self.rng.chance(self.options.tail) {
            return self.rng.below(2 * self.options.lease());
        }
        let slow = if self.slow_network > 0 { self.options.renew() } else { 0 };
        self.rng.between(least, most + slow)
    }

    fn is_lost(&mut self, per_mille: u64) -> bool {
        !self.healed && self.rng.chance(per_mille)
    }

    pub(super) fn send(&mut self, node: usize, id: CallId, request: Request, patience: u64) {
        let boot = self.nodes[node].boot;
        // The driver may carry a call longer than it must; the engine has stopped waiting by then.
        let carry = if self.rng.chance(500) { self.options.carry.max(10) } else { 10 };
        self.plan(patience.saturating_mul(carry) / 10, Event::Limit { node, boot, id });
        if self.nodes[node].cannot_send > 0 || self.is_lost(self.options.lost_out) {
            return;
        }
        let request = Rc::new(request);
        if self.is_lost(self.options.twice) {
            let after = self.delay() + self.rng.below(self.options.renew());
            let again =
                Event::Arrive { node, boot, id, request: Rc::clone(&request), again: true, waited: false };
            self.plan(after, again);
        }
        let after = self.delay();
        self.plan(after, Event::Arrive { node, boot, id, request, again: false, waited: false });
    }

    pub(super) fn arrive(
        &mut self,
        (node, boot, id): (usize, u32, CallId),
        request: Rc<Request>,
        again: bool,
        waited: bool,
    ) {
        let mood = &self.store.mood;
        if mood.hangs_until > self.at {
            let after = mood.hangs_until - self.at + self.rng.below(20_000_000);
            self.plan(after, Event::Arrive { node, boot, id, request, again, waited: true });
            return;
        }
        let (refuses, cleanly, unknown, slow) =
            (mood.refuses, mood.fails_cleanly, mood.fails_unknown, mood.slow);
        if refuses > 0 {
            let refused = failure(FailureKind::Unreachable, Effect::None);
            return self.send_back((node, boot, id), Err(refused), again);
        }
        if cleanly > 0 && self.rng.chance(500) {
            return self.send_back((node, boot, id), Err(failure(FailureKind::Busy, Effect::None)), again);
        }
        let fails = unknown > 0 && self.rng.chance(500);
        if fails && self.rng.chance(500) {
            return self.send_back((node, boot, id), Err(failure(FailureKind::Busy, Effect::Unknown)), again);
        }
        if slow > 0 && !waited {
            let after = self.rng.below(self.options.renew() * 2);
            self.plan(after, Event::Arrive { node, boot, id, request, again, waited: true });
            return;
        }
        let reply = self.carry_out_at_store((node, boot, id), &request, again, waited);
        let result = if fails { Err(failure(FailureKind::Busy, Effect::Unknown)) } else { Ok(reply) };
        self.send_back((node, boot, id), result, again);
    }

    fn carry_out_at_store(
        &mut self,
        (node, boot, id): (usize, u32, CallId),
        request: &Request,
        again: bool,
        waited: bool,
    ) -> Reply {
        self.points_before(request, waited);
        let (exact, now) = self.store.now(self.at);
        let reply = self.store.carry_out(self.at, request);
        self.trace(|| {
            format!("store: n{node} {id:?}{} {request:?} -> {reply:?}", if again { " again" } else { "" })
        });
        let mut granted = Vec::new();
        let judged = self.store.model.judge(exact, now, request, &reply, &self.store.store, &mut granted);
        if self.oracle.is_full() {
            self.oracle.judge(judged);
        }
        self.oracle.granted(self.at, &self.clocks, &granted);
        if again {
            self.oracle.reach.hit(Point::CarriedOutTwice);
        }
        if self.nodes[node].boot == boot
            && let Some(call) = self.nodes[node].calls.get_mut(&id)
        {
            call.committed = true;
        }
        self.broadcast();
        reply
    }

    fn points_before(&mut self, request: &Request, waited: bool) {
        match request {
            Request::Release(release) => {
                let newer = release.grants().iter().any(|grant| {
                    let name = self.names.iter().position(|n| *n == grant.name);
                    name.is_some_and(|name| self.store.model.token(name) > grant.token.get())
                });
                if newer {
                    self.oracle.reach.hit(Point::ReleaseAfterReelection);
                }
            }
            Request::KeepAlive { session, .. } if waited && self.store.model.is_over(*session) => {
                let taken = (0..self.names.len()).any(|name| self.store.model.owner(name).is_some());
                if taken {
                    self.oracle.reach.hit(Point::TakeoverWhileKeepAliveWaits);
                }
            }
            _ => {}
        }
    }

    /// Tells every node of what became free.
    pub(super) fn broadcast(&mut self) {
        for name in self.store.store.take_freed() {
            for node in 0..self.nodes.len() {
                if self.rng.chance(self.options.hints_lost) || self.nodes[node].hears_nothing > 0 {
                    continue;
                }
                let copies = if self.is_lost(self.options.twice) { 2 } else { 1 };
                for _ in 0..copies {
                    let after = self.delay();
                    self.plan(after, Event::Hint { node, hint: Hint::Freed(name.clone()) });
                }
            }
        }
    }

    fn send_back(
        &mut self,
        (node, boot, id): (usize, u32, CallId),
        result: Result<Reply, Failure>,
        again: bool,
    ) {
        if self.nodes[node].hears_nothing > 0 || self.is_lost(self.options.lost_back) {
            return;
        }
        let after = self.delay();
        self.plan(after, Event::Answer { node, boot, id, result: Box::new(result), again });
    }

    /// One answer for each call; what comes after it is dropped, or, if the network has doubled it, handed in as the
    /// foreign answer that it is.
    pub(super) fn answer(
        &mut self,
        (node, boot, id): (usize, u32, CallId),
        result: Result<Reply, Failure>,
        again: bool,
    ) {
        let state = &mut self.nodes[node];
        if state.boot != boot || state.engine.is_none() || state.hears_nothing > 0 {
            return;
        }
        if state.calls.remove(&id).is_some() || again {
            self.turn(node, Input::Reply(id, result));
        } else if state.reported.remove(&id) {
            let alive = matches!(result, Ok(Reply::KeepAlive(KeepAlive::Alive { .. }) | Reply::Acquired(_)));
            if alive {
                self.oracle.reach.hit(Point::AnswerAfterReport);
            }
        }
    }

    /// The driver's own limit: it reports a failure of unknown effect.
    pub(super) fn limit(&mut self, node: usize, boot: u32, id: CallId) {
        let state = &mut self.nodes[node];
        if state.boot == boot && state.calls.remove(&id).is_some() {
            state.reported.insert(id);
            if state.reported.len() > 256 {
                state.reported.pop_first();
            }
            self.turn(node, Input::Reply(id, Err(failure(FailureKind::TimedOut, Effect::Unknown))));
        }
    }
}
