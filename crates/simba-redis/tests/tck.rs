//! The conformance suite against a Redis server of its own for each case, with a clock that is moved by hand.

#[cfg(feature = "planted")]
mod stage;

fn main() -> std::process::ExitCode {
    #[cfg(feature = "planted")]
    return stage::run();
    #[cfg(not(feature = "planted"))]
    std::process::ExitCode::SUCCESS
}
