//! Each planted bug of the client breaks its rule: a check that cannot fail would be a defect.

mod support;

use simba::Planted;
use support::scenarios::*;

/// Runs a rule with its bug, and demands that it fails.
fn caught(bug: Planted, rule: impl FnOnce(Plant) + std::panic::UnwindSafe, plant: Plant) {
    let failed = std::panic::catch_unwind(|| rule(plant)).is_err();
    assert!(failed, "{bug:?} was not caught");
}

#[test]
fn every_bug_is_caught_by_its_rule() {
    for &bug in Planted::ALL {
        match bug {
            // In a process of its own, below.
            Planted::M06WallClock | Planted::M07MonotonicClock => {}
            Planted::M10WatchedFlag => caught(bug, the_first_read_after_a_pause_is_false, |builder| {
                builder.plant(Planted::M10WatchedFlag)
            }),
            Planted::M34CallbacksOverlap => {
                caught(bug, callbacks_are_serial_paired_and_before_the_answer, |builder| {
                    builder.plant(Planted::M34CallbacksOverlap)
                });
            }
            Planted::M35FinishedBeforeRevoked => {
                caught(bug, callbacks_are_serial_paired_and_before_the_answer, |builder| {
                    builder.plant(Planted::M35FinishedBeforeRevoked)
                });
            }
            Planted::UncountedWork => caught(bug, graceful_work_keeps_the_lease_until_it_is_out, |builder| {
                builder.plant(Planted::UncountedWork)
            }),
            Planted::GoneStaysValid => {
                caught(bug, an_engine_that_is_gone_leaves_no_valid_term_and_no_waiter, |builder| {
                    builder.plant(Planted::GoneStaysValid)
                });
            }
            Planted::InterruptedCounts => {
                caught(bug, what_interrupted_work_returns_counts_for_nothing, |builder| {
                    builder.plant(Planted::InterruptedCounts)
                });
            }
        }
    }
}

#[test]
fn wrong_clocks_are_caught_in_a_time_namespace() {
    match std::env::var(NAMESPACE).as_deref() {
        Ok("M06") => return the_boot_clock_is_read(|builder| builder.plant(Planted::M06WallClock)),
        Ok("M07") => return the_boot_clock_is_read(|builder| builder.plant(Planted::M07MonotonicClock)),
        _ => {}
    }
    for bug in ["M06", "M07"] {
        match in_a_time_namespace("wrong_clocks_are_caught_in_a_time_namespace", bug) {
            Some(output) => {
                let text = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(!output.status.success() && text.contains("not the boot clock"), "{bug}: {output:?}");
            }
            None => eprintln!("not run: this machine allows no time namespace (unshare --time)"),
        }
    }
}
