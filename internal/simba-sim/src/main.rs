//! `simba-sim`: see `docs/sim.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    simba_sim::command(&arguments)
}
