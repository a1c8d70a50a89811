//! The conformance suite against the reference store.

mod stage;

fn main() -> std::process::ExitCode {
    simba_tck::backend::run(|| Box::new(stage::Memory::default()))
}
