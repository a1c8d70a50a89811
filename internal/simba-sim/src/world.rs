//! One world: a queue of events in true time, and the turns of the nodes.

use std::{cmp::Reverse, collections::BinaryHeap, rc::Rc};

use simba_backend::{Failure, Hint, LeaseName};
use simba_core::{CallId, Marks, Reply, Request, Term, TermId};

use crate::{
    clock::Clock,
    node::{Input, Node},
    oracle::{Level, Oracle},
    planted::Bug,
    reach::Reach,
    rng::Rng,
    store::SimStore,
    swarm::{Fault, Options},
};

mod chaos;
mod driver;
mod net;
mod work;

/// The names that worlds contend for. Two of them differ by case only.
const NAMES: [&str; 5] = ["job", "Job", "job.1", "a:b", "x-1"];

/// More turns than this at one instant are a loop.
const MOST_AT_ONCE: u32 = 20_000;

/// What to simulate.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The world.
    pub options: Options,
    /// A bug that is planted into every engine, or into the store.
    pub bug: Option<Bug>,
    /// Whether to write a transcript.
    pub trace: bool,
    /// How much is checked.
    pub level: Level,
}

impl Plan {
    /// The world of a seed, fully checked.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self::of(Options::draw(seed))
    }

    /// A world, fully checked.
    #[must_use]
    pub const fn of(options: Options) -> Self {
        Self { options, bug: None, trace: false, level: Level::Full }
    }
}

/// Something that must never happen, and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the invariant.
    pub rule: &'static str,
    /// When, in nanoseconds of true time.
    pub at: u64,
    /// What happened.
    pub text: String,
}

/// What became of a world.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first violation, if there was one.
    pub violation: Option<Violation>,
    /// True time that passed, in nanoseconds.
    pub simulated: u64,
    /// Events that were handled.
    pub events: u64,
    /// Branches that the engines took.
    pub marks: Marks,
    /// The transcript, if it was asked for.
    pub transcript: Vec<String>,
    pub(crate) reach: Reach,
}

/// Something that happens at an instant.
#[derive(Debug)]
pub(crate) enum Event {
    Wake {
        node: usize,
        number: u64,
    },
    /// A request reaches the store. `again`: the network has doubled it.
    Arrive {
        node: usize,
        boot: u32,
        id: CallId,
        request: Rc<Request>,
        again: bool,
        waited: bool,
    },
    /// An answer reaches the node.
    Answer {
        node: usize,
        boot: u32,
        id: CallId,
        result: Box<Result<Reply, Failure>>,
        again: bool,
    },
    /// The driver carries the call no longer.
    Limit {
        node: usize,
        boot: u32,
        id: CallId,
    },
    Hint {
        node: usize,
        hint: Hint,
    },
    WorkExit {
        node: usize,
        boot: u32,
        term: TermId,
    },
    Refuse {
        node: usize,
        boot: u32,
        term: TermId,
    },
    Write {
        node: usize,
        boot: u32,
        name: usize,
        term: Term,
        zombie: u32,
    },
    Commit {
        node: usize,
        boot: u32,
        name: usize,
        term: Term,
    },
    Application {
        node: usize,
    },
    Chaos,
    Undo(chaos::Undo),
    Resume {
        node: usize,
        number: u64,
    },
    Restart {
        node: usize,
        boot: u32,
    },
    Heal,
    Recovered,
    End,
}

struct Entry {
    at: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

pub(crate) struct World {
    pub(crate) options: Options,
    bug: Option<Bug>,
    rng: Rng,
    pub(crate) at: u64,
    number: u64,
    queue: BinaryHeap<Reverse<Entry>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) clocks: Vec<Clock>,
    pub(crate) store: SimStore,
    pub(crate) oracle: Oracle,
    pub(crate) names: Rc<[LeaseName]>,
    enabled: Vec<Fault>,
    slow_network: u32,
    /// The first act is over.
    pub(crate) healed: bool,
    /// How far the store's clock was set back in all.
    pub(crate) set_back: u64,
    done: bool,
    marks: Marks,
    events: u64,
    transcript: Option<Vec<String>>,
}

/// Simulates one world to its end, or to the first violation.
#[must_use]
pub fn simulate(plan: &Plan) -> Outcome {
    let mut world = World::new(plan);
    world.begin();
    world.go_on();
    world.finish()
}

impl World {
    fn new(plan: &Plan) -> Self {
        let options = plan.options.clone();
        let mut rng = Rng::new(options.seed);
        let count = usize::try_from(options.names).unwrap_or(1).clamp(1, NAMES.len());
        let names: Rc<[LeaseName]> =
            NAMES.iter().filter_map(|name| LeaseName::new(name).ok()).take(count).collect();
        let nodes = usize::try_from(options.nodes).unwrap_or(1).clamp(1, 16);
        let mut store = SimStore::new(&options, &names, Rng::new(rng.next()));
        if let Some(Bug::Store(bug)) = plan.bug {
            store.store.plant(bug);
        }
        let clocks = (0..nodes)
            .map(|_| Clock::new(rng.between(1, 1 << 45), chaos::rate(&options, &mut rng)))
            .collect();
        let oracle = Oracle::new(options.regime(), plan.level, Rc::clone(&names), nodes);
        Self {
            enabled: options.enabled(),
            bug: plan.bug,
            rng,
            at: 0,
            number: 0,
            queue: BinaryHeap::new(),
            nodes: (0..nodes).map(|_| Node::default()).collect(),
            clocks,
            store,
            oracle,
            names,
            slow_network: 0,
            healed: false,
            set_back: 0,
            done: false,
            marks: Marks::default(),
            events: 0,
            transcript: plan.trace.then(Vec::new),
            options,
        }
    }

    fn begin(&mut self) {
        for node in 0..self.nodes.len() {
            self.boot(node);
        }
        let mean = self.options.fault_ms * 1_000_000;
        let first = self.rng.below(2 * mean);
        self.plan(first, Event::Chaos);
        self.plan(self.options.horizon_s * 1_000_000_000, Event::Heal);
    }

    fn go_on(&mut self) {
        let mut at_once = 0;
        while !self.done && self.oracle.first.is_none() {
            let Some(Reverse(Entry { at, event, .. })) = self.queue.pop() else { break };
            at_once = if at == self.at { at_once + 1 } else { 0 };
            if at_once > MOST_AT_ONCE {
                self.oracle.judge(Err(("L12", "a loop: time does not go on".into())));
            }
            self.at = at;
            self.events += 1;
            self.happen(event);
        }
    }

    fn finish(mut self) -> Outcome {
        for node in 0..self.nodes.len() {
            self.keep_marks(node);
        }
        let violation = self.oracle.first.take().map(|(rule, text)| Violation { rule, at: self.at, text });
        if let Some(violation) = &violation {
            self.trace(|| format!("VIOLATION {}: {}", violation.rule, violation.text));
        }
        Outcome {
            violation,
            simulated: self.at,
            events: self.events,
            marks: self.marks,
            transcript: self.transcript.take().unwrap_or_default(),
            reach: self.oracle.reach,
        }
    }

    /// Plans an event this long from now.
    pub(crate) fn plan(&mut self, after: u64, event: Event) {
        self.plan_at(self.at.saturating_add(after), event);
    }

    pub(crate) fn plan_at(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.queue.push(Reverse(Entry { at, number: self.number, event }));
    }

    /// Adds a line to the transcript; nothing is formatted unless there is one.
    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.transcript {
            let (seconds, nanos) = (self.at / 1_000_000_000, self.at % 1_000_000_000);
            lines.push(format!("{seconds:>5}.{nanos:09} {}", line()));
        }
    }

    /// The last instant at which something planned still happens, of what the filter lets through.
    pub(crate) fn latest(&self, wanted: impl Fn(&Event) -> bool) -> u64 {
        self.queue
            .iter()
            .filter(|Reverse(e)| wanted(&e.event))
            .map(|Reverse(e)| e.at)
            .max()
            .unwrap_or(self.at)
    }

    fn happen(&mut self, event: Event) {
        let Some(event) = self.held_up(event) else { return };
        match event {
            Event::Wake { node, number } => {
                if self.nodes[node].wake_number == number {
                    self.nodes[node].wake = None;
                    self.turn(node, Input::Wakeup);
                }
            }
            Event::Arrive { node, boot, id, request, again, waited } => {
                self.arrive((node, boot, id), request, again, waited);
            }
            Event::Answer { node, boot, id, result, again } => self.answer((node, boot, id), *result, again),
            Event::Limit { node, boot, id } => self.limit(node, boot, id),
            Event::Hint { node, hint } => self.turn(node, Input::Hint(hint)),
            Event::WorkExit { node, boot, term } => self.work_exit(node, boot, term),
            Event::Refuse { node, boot, term } => self.refuse(node, boot, term),
            Event::Write { node, boot, name, term, zombie } => self.write(node, boot, name, term, zombie),
            Event::Commit { node, boot, name, term } => {
                let alive = (self.nodes[node].boot == boot).then_some(node);
                self.oracle.write(alive, name, &term, self.at, &self.clocks);
            }
            Event::Application { node } => self.application(node),
            Event::Chaos => self.chaos(),
            Event::Undo(undo) => self.undo(&undo),
            Event::Resume { node, number } => self.resume(node, number),
            Event::Restart { node, boot } => {
                if self.nodes[node].boot == boot && self.nodes[node].engine.is_none() {
                    self.boot(node);
                }
            }
            Event::Heal => self.heal(),
            Event::Recovered => self.recovered(),
            Event::End => {
                self.ended();
                self.done = true;
            }
        }
    }

    /// What meets a paused node waits in its inbox.
    fn held_up(&mut self, event: Event) -> Option<Event> {
        let node = match &event {
            Event::Wake { node, .. }
            | Event::Answer { node, .. }
            | Event::Limit { node, .. }
            | Event::Hint { node, .. }
            | Event::WorkExit { node, .. }
            | Event::Refuse { node, .. }
            | Event::Write { node, .. }
            | Event::Application { node } => *node,
            _ => return Some(event),
        };
        match &mut self.nodes[node].paused {
            Some(pause) => {
                pause.inbox.push(event);
                None
            }
            None => Some(event),
        }
    }
}
