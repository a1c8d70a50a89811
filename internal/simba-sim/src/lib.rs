//! The world simulator: many real engines, one store, clocks, a network and all that goes wrong between them, in one
//! thread, out of one seed.
//!
//! A world has two acts. In the first everything fails that the seed has chosen. In the second the faults stop, but
//! for one node that may stay broken, and the rest must recover within bounds. Every act is watched by the
//! invariants in `invariant/`, each with its own book-keeping, none of which trusts the engine's.
//!
//! `docs/sim.md` is the user's manual.

mod clock;
mod corpus;
mod explore;
mod invariant;
mod ledger;
mod liveness;
mod node;
mod oracle;
mod planted;
mod reach;
mod report;
mod rng;
mod shrink;
mod store;
mod swarm;
mod world;

pub use oracle::Level;
pub use planted::{Bug, Catch, catch};
pub use report::{Run, Seeds, run};
pub use swarm::{Options, Regime};
pub use world::{Outcome, Plan, Violation, simulate};

/// A duration as nanoseconds; what does not fit becomes the largest number.
pub(crate) fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A text cut to at most so many characters, for messages.
pub(crate) fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[expect(clippy::print_stdout, reason = "a command's output")]
pub fn command(arguments: &[String]) -> std::process::ExitCode {
    let from = arguments.get(1).and_then(|a| a.parse().ok()).unwrap_or(1);
    if arguments[0] == "replay" {
        let mut plan = Plan::seed(from);
        plan.trace = true;
        let o = simulate(&plan);
        let skip = o.transcript.len().saturating_sub(4000);
        for line in &o.transcript[skip..] {
            println!("{line}");
        }
        return std::process::ExitCode::SUCCESS;
    }
    let to = arguments.get(2).and_then(|a| a.parse().ok()).unwrap_or(101);
    let run = run(Seeds::Range(from, to), 2, 10);
    for (options, violation) in &run.failures {
        println!(
            "seed {} {} {} at {}: {}",
            options.seed,
            options.to_line(),
            violation.rule,
            violation.at,
            violation.text
        );
    }
    println!("{}", run.counters());
    println!("unreached {:?}", run.unreached());
    println!("{} worlds {} hours {} events", run.worlds, run.hours(), run.events);
    std::process::ExitCode::SUCCESS
}
