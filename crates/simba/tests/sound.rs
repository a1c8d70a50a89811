//! The rules that planted bugs break, for the sound client. `planted.rs` runs the same ones with each bug.

mod support;

use support::scenarios::*;

const SOUND: Plant = |builder| builder;

#[test]
fn m06_m07_the_boot_clock_is_read() {
    if std::env::var_os(NAMESPACE).is_some() {
        return the_boot_clock_is_read(SOUND);
    }
    match in_a_time_namespace("m06_m07_the_boot_clock_is_read", "") {
        Some(output) => assert!(output.status.success(), "{output:?}"),
        None => eprintln!("not run: this machine allows no time namespace (unshare --time)"),
    }
}

#[test]
fn m10_the_first_read_after_a_pause_is_false_with_the_engine_frozen() {
    the_first_read_after_a_pause_is_false(SOUND);
}

#[test]
fn m34_m35_callbacks_are_serial_paired_and_before_the_answer() {
    callbacks_are_serial_paired_and_before_the_answer(SOUND);
}

#[test]
fn m36_graceful_work_keeps_the_lease_until_it_is_out() {
    graceful_work_keeps_the_lease_until_it_is_out(SOUND);
}

#[test]
fn an_engine_whose_runtime_is_gone_leaves_no_valid_term_and_no_waiter() {
    an_engine_that_is_gone_leaves_no_valid_term_and_no_waiter(SOUND);
}

#[test]
fn what_interrupted_work_returns_does_not_end_the_election() {
    what_interrupted_work_returns_counts_for_nothing(SOUND);
}
