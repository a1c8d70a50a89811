//! Test kits: one for people who write a backend, one for people who own a resource that leases protect.
//!
//! # A backend
//! [`backend`] holds the conformance suite: one named case a promise, for each clause C1 to C13 of `simba-backend`.
//! A test file of your own with `harness = false` runs it:
//!
//! ```no_run
//! # use std::{sync::Arc, time::Duration};
//! # use simba_backend::{DynBackend, LeaseName};
//! struct Mine; // an empty store of yours
//!
//! impl simba_tck::backend::Store for Mine {
//!     fn handle(&self) -> Arc<dyn DynBackend> {
//! #       unimplemented_backend()
//!         // another connection to this same store
//!     }
//!     fn advance(&self, by: Duration) {
//!         // let the store's clock run on by this much: move it, or wait
//!         std::thread::sleep(by);
//!     }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     simba_tck::backend::run(|| Box::new(Mine))
//! }
//! # fn unimplemented_backend() -> Arc<dyn DynBackend> { panic!() }
//! ```
//!
//! # A resource
//! [`fencing`] checks that your resource refuses a stale owner, atomically, for every token there is.
//!
//! [`rig`] is what tests of a backend on a real server that fails are built of.
//!
//! Cases whose capability a backend does not claim are left out by name. Nothing is skipped in silence.

pub mod backend;
pub mod fencing;
pub mod rig;

/// What a case found: nothing, or what is wrong.
pub type Verdict = Result<(), String>;

/// Answers from a case with what is wrong, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use ensure;

/// A case that was run: its name and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The case.
    pub name: &'static str,
    /// What it found.
    pub verdict: Verdict,
}

/// The names of the cases that failed.
#[must_use]
pub fn failed(judged: &[Judged]) -> Vec<&'static str> {
    judged.iter().filter(|case| case.verdict.is_err()).map(|case| case.name).collect()
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    built.map_err(|error| format!("no runtime can be started: {error}"))
}

/// Runs trials as a test program does, and prints cargo's own closing line.
fn conclude(trials: Vec<libtest_mimic::Trial>) -> std::process::ExitCode {
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit_code()
}
