//! What is printed where: data on standard output, everything else on standard error. A closed pipe is no error.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

use serde::Serialize;

static QUIET: AtomicBool = AtomicBool::new(false);
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Text for people, or JSON for programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON document, or one a line where there are several.
    Json,
}

/// `quiet` leaves out everything that is not an error; `verbose` tells what happens to the session and the lease.
pub(crate) fn set_volume(quiet: bool, verbose: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// Whether to tell what happens to the session and the lease.
pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// An error or a verdict, on standard error.
pub(crate) fn note(text: impl Display) {
    let text = text.to_string();
    let mut lines = text.lines();
    let mut err = io::stderr().lock();
    let first = lines.next().map_or(Ok(()), |line| writeln!(err, "simba: {line}"));
    // Standard error may be closed; there is nowhere left to say so.
    drop(lines.try_fold(first, |done, line| done.map(|()| writeln!(err, "  {line}"))));
}

/// Something worth knowing, unless `--quiet`.
pub(crate) fn hint(text: impl Display) {
    if !QUIET.load(Ordering::Relaxed) {
        note(text);
    }
}

/// A line of data on standard output. Answers whether anyone still reads.
pub(crate) fn line(text: impl Display) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

/// A JSON document in one line on standard output.
pub(crate) fn json(value: &impl Serialize) -> bool {
    line(serde_json::to_string(value).unwrap_or_else(|error| format!("{{\"v\":1,\"error\":\"{error}\"}}")))
}
