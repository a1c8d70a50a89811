//! Every short history of two real engines, one store and one name: none is wrong, and the bounds are wide enough
//! for the bugs that need a certain order of events.

use simba_sim::{Bounds, Bug, explore};

/// Enough for a lease to run out after a message was held back.
const WIDE: Bounds = Bounds { ticks: 6, deviations: 1, commands: 1, states: 1_000_000 };
/// Shorter, and with two things out of order.
const DEEP: Bounds = Bounds { ticks: 3, deviations: 2, commands: 1, states: 2_000_000 };

#[test]
fn no_short_history_is_wrong() {
    for bounds in [WIDE, DEEP] {
        let explored = explore(bounds, None);
        assert_eq!(explored.violation, None);
        assert!(explored.complete && explored.states > 50_000, "{} states", explored.states);
    }
}

/// A bound that lets a bug through that depends on order alone would prove nothing.
#[test]
fn bugs_of_order_die_within_the_bounds() {
    for name in ["M01", "M17", "M18", "M19", "M20", "M21", "M23", "M26", "M27", "M28"] {
        let bugs = Bug::named(name);
        assert_eq!(bugs.len(), 1, "{name}");
        let wide = explore(WIDE, Some(bugs[0]));
        let found = wide.violation.or_else(|| explore(DEEP, Some(bugs[0])).violation);
        assert!(found.is_some(), "{name} is not found");
    }
}
