//! Many worlds, two threads, one report.

use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use simba_core::{Mark, Marks};

use crate::{
    reach::{Point, Reach},
    swarm::{Options, Regime},
    world::{Outcome, Plan, Violation, simulate},
};

/// Which seeds a run takes.
#[derive(Clone, Copy, Debug)]
pub enum Seeds {
    /// These.
    Range(u64, u64),
    /// From this one on, until so many nanoseconds were simulated in all.
    Until(u64, u128),
}

/// What a run has shown.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Worlds simulated.
    pub worlds: u64,
    /// True time in all of them, in nanoseconds.
    pub simulated: u128,
    /// Events handled.
    pub events: u64,
    /// The violations, in the order of their seeds.
    pub failures: Vec<(Options, Violation)>,
    /// Worlds by what they broke on purpose.
    pub regimes: [u64; Regime::ALL.len()],
    marks: Marks,
    reach: Reach,
}

/// Simulates; a panic in the engine or in the simulator is a violation like any other.
pub(crate) fn guarded(plan: &Plan) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| simulate(plan))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_default();
        Outcome {
            violation: Some(Violation { rule: "panic", at: 0, text }),
            simulated: 0,
            events: 0,
            marks: Marks::default(),
            transcript: Vec::new(),
            reach: Reach::default(),
        }
    })
}

/// Runs the worlds of these seeds on so many threads. The result does not depend on the number of threads, but for
/// where a run until some time ends.
#[must_use]
pub fn run(seeds: Seeds, threads: usize, most_failures: usize) -> Run {
    let (first, last) = match seeds {
        Seeds::Range(from, to) => (from, to),
        Seeds::Until(from, _) => (from, u64::MAX),
    };
    let next = AtomicU64::new(first);
    let enough = AtomicBool::new(false);
    let total = Mutex::new(Run::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while !enough.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        return;
                    }
                    let options = Options::draw(seed);
                    let outcome = guarded(&Plan::of(options.clone()));
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    total.add(options, outcome);
                    let done = matches!(seeds, Seeds::Until(_, most) if total.simulated >= most);
                    if done || total.failures.len() >= most_failures {
                        enough.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    total.failures.sort_by_key(|(options, _)| options.seed);
    total
}

impl Run {
    fn add(&mut self, options: Options, outcome: Outcome) {
        self.worlds += 1;
        self.simulated += u128::from(outcome.simulated);
        self.events += outcome.events;
        self.marks = self.marks.union(outcome.marks);
        self.reach.add(&outcome.reach);
        self.regimes[options.regime() as usize] += 1;
        if let Some(violation) = outcome.violation {
            self.failures.push((options, violation));
        }
    }

    /// Simulated time in hours.
    #[must_use]
    pub fn hours(&self) -> f64 {
        let seconds = u64::try_from(self.simulated / 1_000_000_000).unwrap_or(u64::MAX);
        std::time::Duration::from_secs(seconds).as_secs_f64() / 3_600.0
    }

    /// Branches and points that no world has reached.
    #[must_use]
    pub fn unreached(&self) -> Vec<String> {
        let marks = Mark::ALL.iter().filter(|mark| !self.marks.has(**mark)).map(|mark| format!("{mark:?}"));
        let points = Point::ALL.iter().filter(|point| self.reach.get(**point) == 0).map(|p| format!("{p:?}"));
        marks.chain(points).collect()
    }

    /// The counters, one line each.
    #[must_use]
    pub fn counters(&self) -> String {
        let mut text = String::new();
        for point in Point::ALL {
            writeln!(text, "reached {:>10} {point:?}", self.reach.get(*point)).ok();
        }
        text
    }
}
