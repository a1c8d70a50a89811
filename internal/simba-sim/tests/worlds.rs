//! The simulator on itself, small: a few hundred worlds, each planted bug, the corpus, and the same world twice.

use std::path::Path;

use simba_sim::{Bug, FOLDER, Level, Plan, Seeds, catch, load, run, shrink, simulate};

#[test]
fn worlds_of_the_first_seeds_break_nothing() {
    let total = run(Seeds::Range(1, 151), 1, 1);
    assert!(total.failures.is_empty(), "{:?}", total.failures);
    assert!(total.hours() > 50.0);
}

/// I60: a seed and a program decide everything.
#[test]
fn i60_the_same_seed_gives_the_same_transcript() {
    for seed in [3, 17, 51, 101] {
        let plan = Plan { trace: true, ..Plan::seed(seed) };
        let (one, other) = (simulate(&plan), simulate(&plan));
        assert!(one.transcript.len() > 100);
        assert!(one.transcript == other.transcript, "seed {seed}");
        // Watching changes nothing.
        let unwatched = simulate(&Plan { trace: false, ..plan });
        assert_eq!((one.events, one.simulated), (unwatched.events, unwatched.simulated));
    }
}

/// Every file of the corpus: green as it is, red with its planted bug.
#[test]
fn the_corpus_stays_green_and_its_bugs_stay_red() {
    let entries = load(Path::new(FOLDER)).expect("the corpus is readable");
    assert!(entries.iter().filter(|entry| entry.bug.is_none()).count() >= 4);
    for entry in &entries {
        assert_eq!(entry.check(), Ok(()), "{}", entry.file);
    }
    let bugs = entries.iter().filter_map(|entry| entry.bug).count();
    assert_eq!(bugs, Bug::all().len(), "each planted bug has a world that shows it");
}

/// The oracles that see only what a user sees find the bugs that make two owners, without the recomputation.
#[test]
fn two_owners_are_seen_without_the_recomputation() {
    for name in ["M01", "M02", "M19", "M20", "M23", "M26"] {
        for bug in Bug::named(name) {
            assert!(catch(bug, 1, 300, Level::Visible).is_some(), "{name}");
        }
    }
}

#[test]
fn a_failure_shrinks() {
    let bug = Bug::named("M20").into_iter().next();
    let caught = catch(bug.expect("it exists"), 1, 300, Level::Full).expect("it is caught");
    let (small, violation, _) = shrink(&caught.options, bug).expect("it fails");
    assert_eq!(violation.rule, caught.violation.rule);
    assert!(small.faults.count_ones() <= caught.options.faults.count_ones());
    assert!(small.horizon_s < caught.options.horizon_s);
}
