//! Every short history of two real engines, one store and one name.
//!
//! By default everything is prompt: messages are carried in order, wake-ups are on time. A history may deviate from
//! that a bounded number of times: a message is held back (and comes at any later point, or never), a wake-up is
//! late, an application stops or steps down. All such histories are tried; states that were met before, with as many
//! deviations left, are not entered again. An engine cannot be copied, so a branch is taken by playing its history
//! again from the start.

use std::{
    collections::{HashMap, hash_map::DefaultHasher},
    fmt::Write as _,
    hash::{Hash, Hasher},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use simba_backend::{LeaseName, NodeLabel, Owner, SessionId};
use simba_core::{
    CallId, Drift, ElectionId, Engine, Instant, Output, Reply, Request, StartOptions, Term, Timing,
};
use simba_memory::Store;

use crate::{invariant::exclusive::deadline, planted::Bug};

const TICK: u64 = 1_000_000_000;

/// How far histories go.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Time steps; keep-alives go out at each.
    pub ticks: u64,
    /// How many of them a lease lasts, at least two.
    pub lease: u32,
    /// Messages held back and wake-ups missed, together.
    pub deviations: u64,
    /// Stops and step-downs.
    pub commands: u64,
    /// The most states; beyond it the exploration ends without a verdict.
    pub states: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { ticks: 6, lease: 3, deviations: 2, commands: 1, states: 5_000_000 }
    }
}

/// What an exploration has found.
#[derive(Clone, Debug, Default)]
pub struct Explored {
    /// Different states.
    pub states: u64,
    /// Steps of engines, replayed ones included.
    pub steps: u64,
    /// The longest history.
    pub depth: usize,
    /// What went wrong, and the history that leads there.
    pub violation: Option<(String, Vec<String>)>,
    /// Whether every history within the bounds was tried.
    pub complete: bool,
}

/// One step of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// The first message that is not held back goes its way.
    Carry,
    /// It is held back instead.
    Hold,
    /// One that was held back comes.
    Bring(usize),
    Wake(usize),
    /// The node's wake-up is late by a tick.
    Oversleep(usize),
    Stop(usize),
    GiveUp(usize),
    Start(usize),
    Tick,
}

#[derive(Clone, Debug)]
enum Message {
    Request(usize, CallId, Rc<Request>),
    Reply(usize, CallId, Reply),
}

struct Side {
    engine: Engine,
    election: Option<ElectionId>,
    terms: Vec<Term>,
    overslept: bool,
    /// The last attempt that was sent: only its answer may be adopted.
    attempt: Option<CallId>,
}

struct State {
    now: u64,
    sides: [Side; 2],
    store: Store,
    messages: Vec<Message>,
    held: Vec<Message>,
    sessions: u128,
    owner: Arc<Owner>,
    name: LeaseName,
    greatest: u64,
    deviations: u64,
    commands: u64,
    ticks: u64,
    /// The answer that is being handled.
    answering: Option<CallId>,
    fault: Option<String>,
}

impl State {
    fn new(bounds: &Bounds, bug: Option<Bug>) -> Option<Self> {
        let second = Duration::from_secs(1);
        let timing = Timing::builder()
            .lease(bounds.lease * second)
            .renew(second)
            .drift(Drift::ZERO)
            .margin(Duration::ZERO)
            .retry_jitter(Duration::ZERO)
            .spread(Duration::ZERO)
            .min_backoff(second / 2)
            .build()
            .ok()?;
        let name = LeaseName::new("job").ok()?;
        let mut store = Store::default();
        if let Some(Bug::Store(bug)) = bug {
            store.plant(bug);
        }
        let side = || {
            let mut engine = Engine::new(timing, 1, Instant::from_nanos(TICK));
            if let Some(Bug::Engine(bug)) = bug {
                engine.plant(bug);
            }
            Side { engine, election: None, terms: Vec::new(), overslept: false, attempt: None }
        };
        let owner = Arc::new(Owner {
            node: NodeLabel::sanitized("sim"),
            host: NodeLabel::sanitized("sim"),
            pid: 1,
            version: String::new(),
        });
        let mut state = Self {
            now: TICK,
            sides: [side(), side()],
            store,
            messages: Vec::new(),
            held: Vec::new(),
            sessions: 0,
            owner,
            name,
            greatest: 0,
            deviations: bounds.deviations,
            commands: bounds.commands,
            ticks: bounds.ticks,
            answering: None,
            fault: None,
        };
        // Both have a session at the very beginning, and both contend.
        for node in 0..2 {
            state.turn(node, |engine, now| engine.handle_wakeup(now));
            while !state.messages.is_empty() {
                state.carry();
            }
        }
        for node in 0..2 {
            state.start(node);
        }
        Some(state)
    }

    fn start(&mut self, node: usize) {
        let name = self.name.clone();
        let mut started = None;
        self.turn(node, |engine, now| started = engine.start(now, name, StartOptions::default()).ok());
        self.sides[node].election = started.or(self.sides[node].election);
    }

    /// One input, the wake-up that is due, every output.
    fn turn(&mut self, node: usize, input: impl FnOnce(&mut Engine, Instant)) {
        let now = Instant::from_nanos(self.now);
        let side = &mut self.sides[node];
        input(&mut side.engine, now);
        if side.engine.next_wakeup().is_some_and(|at| at <= now) {
            side.engine.handle_wakeup(now);
        }
        side.overslept = false;
        while let Some(output) = self.sides[node].engine.poll_output() {
            match output {
                Output::Call { id, request, .. } => {
                    if matches!(request, Request::Acquire { .. }) {
                        self.sides[node].attempt = Some(id);
                    }
                    self.messages.push(Message::Request(node, id, Rc::new(request)));
                }
                Output::Elected { term, .. } => self.elected(node, term),
                Output::Ended { .. }
                | Output::Revoked { .. }
                | Output::Finished { .. }
                | Output::Notice(_) => {}
            }
        }
        self.sides[node].terms.retain(|term| deadline(term).is_some());
        self.check();
    }

    fn elected(&mut self, node: usize, term: Term) {
        let token = term.token().get();
        if token <= self.greatest {
            self.fault = Some(format!("token {token} was adopted after {}", self.greatest));
        }
        if self.answering.is_none() || self.answering != self.sides[node].attempt {
            self.fault = Some(format!("token {token} was adopted from an attempt that was given up"));
        }
        self.greatest = token;
        self.sides[node].terms.push(term);
    }

    fn check(&mut self) {
        let valid =
            |side: &Side| side.terms.iter().any(|term| deadline(term).is_some_and(|at| self.now < at));
        if self.sides.iter().all(valid) {
            self.fault = Some(format!("both have a valid term at {} s", self.now / TICK));
        }
        for side in &self.sides {
            if let Err(text) = side.engine.check() {
                self.fault = Some(text);
            }
        }
    }

    fn carry(&mut self) {
        let message = self.messages.remove(0);
        self.arrive(message);
    }

    fn arrive(&mut self, message: Message) {
        match message {
            Message::Reply(node, id, reply) => {
                self.answering = Some(id);
                self.turn(node, |engine, now| engine.handle_reply(now, id, Ok(reply)));
                self.answering = None;
            }
            Message::Request(node, id, request) => {
                let reply = self.carry_out(&request);
                self.messages.push(Message::Reply(node, id, reply));
            }
        }
    }

    fn carry_out(&mut self, request: &Request) -> Reply {
        let (store, now) = (&mut self.store, self.now);
        let reply = match request {
            Request::Open { lease } => {
                self.sessions += 1;
                Reply::Opened(store.open(now, SessionId::new(self.sessions), *lease, Arc::clone(&self.owner)))
            }
            Request::KeepAlive { session, known } => {
                Reply::KeepAlive(store.keep_alive(now, *session, *known))
            }
            Request::Acquire { session, names } => Reply::Acquired(store.acquire(now, *session, names)),
            Request::Release(release) => {
                Reply::Released(store.release(now, release.session(), release.grants()))
            }
            Request::Close { session } => {
                store.close(*session);
                Reply::Closed
            }
        };
        store.take_freed();
        reply
    }

    fn is_due(&self, node: usize) -> bool {
        let side = &self.sides[node];
        side.engine.next_wakeup().is_some_and(|at| at.as_nanos() <= self.now)
    }

    /// What can happen next; the prompt step comes last, so that deviations are tried first.
    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let due = (0..2).find(|&node| self.is_due(node) && !self.sides[node].overslept);
        steps.extend((0..self.held.len()).map(Step::Bring));
        // The nodes are alike, so one of them has an application that acts, whenever nothing else is to be done.
        if self.messages.is_empty() && due.is_none() {
            if self.commands > 0 && !self.sides[0].terms.is_empty() {
                steps.push(Step::Stop(0));
                steps.push(Step::GiveUp(0));
            }
            if self.sides[0].election.is_none() && self.sides[0].engine.election_count() == 0 {
                steps.push(Step::Start(0));
            }
        }
        if !self.messages.is_empty() {
            if self.deviations > 0 {
                steps.push(Step::Hold);
            }
            steps.push(Step::Carry);
        } else if let Some(node) = due {
            if self.deviations > 0 {
                steps.push(Step::Oversleep(node));
            }
            steps.push(Step::Wake(node));
        } else if self.ticks > 0 {
            steps.push(Step::Tick);
        }
        steps
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Carry => self.carry(),
            Step::Hold => {
                self.deviations -= 1;
                let message = self.messages.remove(0);
                self.held.push(message);
            }
            Step::Bring(at) => {
                let message = self.held.remove(at);
                self.arrive(message);
            }
            Step::Wake(node) => self.turn(node, |engine, now| engine.handle_wakeup(now)),
            Step::Oversleep(node) => {
                self.deviations -= 1;
                self.sides[node].overslept = true;
            }
            Step::Stop(node) => {
                self.commands -= 1;
                if let Some(election) = self.sides[node].election.take() {
                    self.turn(node, |engine, now| {
                        engine.stop(now, election);
                    });
                }
            }
            Step::GiveUp(node) => {
                self.commands -= 1;
                if let Some(election) = self.sides[node].election {
                    self.turn(node, |engine, now| {
                        engine.step_down(now, election, Duration::ZERO);
                    });
                }
            }
            Step::Start(node) => self.start(node),
            Step::Tick => {
                self.ticks -= 1;
                self.now += TICK;
                for side in &mut self.sides {
                    side.overslept = false;
                }
            }
        }
    }

    /// The state as a number. What has no influence on the future is left out: the marks, and the generator, since
    /// nothing is drawn at random here.
    fn digest(&self, text: &mut String) -> u64 {
        let mut hasher = DefaultHasher::new();
        for side in &self.sides {
            text.clear();
            write!(text, "{:?}", side.engine).ok();
            without(text, "rng: Rng(");
            without(text, "marks: Marks(");
            text.hash(&mut hasher);
            side.overslept.hash(&mut hasher);
            side.election.hash(&mut hasher);
        }
        text.clear();
        write!(text, "{:?} {:?} {:?}", self.store, self.messages, self.held).ok();
        text.hash(&mut hasher);
        (self.now, self.commands, self.greatest).hash(&mut hasher);
        hasher.finish()
    }
}

fn without(text: &mut String, from: &str) {
    if let Some(at) = text.find(from)
        && let Some(end) = text[at..].find(')')
    {
        text.replace_range(at..at + end, "");
    }
}

/// Tries every history within the bounds.
#[must_use]
pub fn explore(bounds: Bounds, bug: Option<Bug>) -> Explored {
    let mut search =
        Search { bounds, bug, met: HashMap::new(), path: Vec::new(), found: Explored::default() };
    if let Some(state) = State::new(&bounds, bug) {
        search.enter(state);
        search.found.complete = search.found.violation.is_none() && search.found.states < bounds.states;
    }
    search.found
}

struct Search {
    bounds: Bounds,
    bug: Option<Bug>,
    /// The states met, each with the most deviations that were left there.
    met: HashMap<u64, u64>,
    path: Vec<Step>,
    found: Explored,
}

impl Search {
    fn is_over(&self) -> bool {
        self.found.violation.is_some() || self.found.states >= self.bounds.states
    }

    fn enter(&mut self, mut state: State) {
        // A long run of prompt steps needs no recursion of its own: the last step of each state goes on in place.
        let entered = self.path.len();
        let mut text = String::new();
        loop {
            if let Some(fault) = state.fault.take() {
                let path = self.path.iter().map(|step| format!("{step:?}")).collect();
                self.found.violation = Some((fault, path));
                return;
            }
            let left = state.deviations;
            match self.met.entry(state.digest(&mut text)) {
                std::collections::hash_map::Entry::Occupied(known) if *known.get() >= left => break,
                std::collections::hash_map::Entry::Occupied(mut known) => {
                    known.insert(left);
                }
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(left);
                    self.found.states += 1;
                }
            }
            self.found.depth = self.found.depth.max(self.path.len());
            let mut steps = state.steps();
            let Some(last) = steps.pop() else { break };
            for step in steps {
                self.path.push(step);
                if let Some(branch) = self.play() {
                    self.enter(branch);
                }
                self.path.pop();
                if self.is_over() {
                    return;
                }
            }
            self.path.push(last);
            self.found.steps += 1;
            state.take(last);
        }
        self.path.truncate(entered);
    }

    /// Plays the present history from the start.
    fn play(&mut self) -> Option<State> {
        let mut state = State::new(&self.bounds, self.bug)?;
        for &step in &self.path {
            state.take(step);
            self.found.steps += 1;
        }
        Some(state)
    }
}
