//! The conformance suite against the reference store.

mod stage;

use std::process::ExitCode;

fn main() -> ExitCode {
    let make = || -> Box<dyn simba_tck::backend::Store> { Box::new(stage::Memory::default()) };
    // What a store in memory cannot do: be started anew, and be held up.
    let left_out = simba_tck::backend::left_out(make);
    assert_eq!(
        left_out,
        [
            "C6_a_held_lease_keeps_its_token_over_a_restart",
            "C6_tokens_survive_a_restart",
            "C11_a_held_up_call_ends_at_its_limit",
        ],
        "the suite leaves out more or less than it should"
    );
    simba_tck::backend::run(make)
}
