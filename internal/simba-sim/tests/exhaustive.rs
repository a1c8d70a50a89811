//! Every short history of two real engines, one store and one name: none is wrong, and the bounds are wide enough
//! for the bugs that need a certain order of events.

use simba_sim::{Bounds, Bug, explore};

const MOST: u64 = 2_000_000;

/// Enough for a lease to run out after one thing was out of order, with an application that stops or steps down.
const WIDE: Bounds = Bounds { ticks: 6, lease: 3, deviations: 1, commands: 1, states: MOST };
/// Two things out of order.
const DEEP: Bounds = Bounds { ticks: 5, lease: 3, deviations: 2, commands: 0, states: MOST };
/// A lease that one lost keep-alive brings to its end.
const SHORT: Bounds = Bounds { ticks: 4, lease: 2, deviations: 2, commands: 0, states: MOST };

#[test]
fn no_short_history_is_wrong() {
    for bounds in [WIDE, DEEP, SHORT] {
        let explored = explore(bounds, None);
        assert_eq!(explored.violation, None);
        assert!(explored.complete && explored.states > 50_000, "{} states", explored.states);
    }
}

fn dies(name: &str, bounds: Bounds) {
    let bugs = Bug::named(name);
    assert_eq!(bugs.len(), 1, "{name}");
    assert!(explore(bounds, Some(bugs[0])).violation.is_some(), "{name} is not found within {bounds:?}");
}

/// A bound that lets a bug through that depends on order alone would prove nothing.
#[test]
fn bugs_of_order_die_within_the_bounds() {
    for name in ["M18", "M19", "M20", "M21", "M23", "M26", "M27", "M28"] {
        dies(name, WIDE);
    }
}

/// These need three things out of order; all such histories of the sound engine take minutes (`explore`).
#[test]
fn bugs_of_time_die_a_little_further() {
    dies("M01", Bounds { deviations: 3, commands: 0, ..WIDE });
    dies("M17", Bounds { ticks: 5, deviations: 3, ..SHORT });
}
