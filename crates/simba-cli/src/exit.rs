//! How the command ends: exit codes, and errors in three parts.

use std::{fmt, process::ExitCode};

use simba::backend::{Failure, FailureKind};

/// For queries: the lease is free, or the doctor has warnings.
pub(crate) const NO: u8 = 1;
/// Wrong usage.
pub(crate) const USAGE: u8 = 64;
/// The store cannot be reached, or is unfit.
pub(crate) const UNAVAILABLE: u8 = 69;
/// A bug of this program.
pub(crate) const INTERNAL: u8 = 70;
/// Busy, or the wait's limit was reached.
pub(crate) const BUSY: u8 = 75;
/// Rights are missing.
pub(crate) const DENIED: u8 = 77;
/// The configuration contradicts itself.
pub(crate) const CONFIG: u8 = 78;
/// The lease was lost while the command ran.
pub(crate) const LOST: u8 = 79;
/// The command ran longer than `--max-run`.
pub(crate) const TIMED_OUT: u8 = 124;

/// Why the command ends without success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    /// The exit code.
    pub(crate) code: u8,
    /// What to print on standard error, a line or more; empty for nothing.
    pub(crate) message: String,
}

impl Exit {
    /// An end with a message.
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Ends the process: the message on standard error, and the code.
    #[must_use]
    pub(crate) fn report(&self) -> ExitCode {
        if !self.message.is_empty() {
            crate::output::note(&self.message);
        }
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Self {
        let code = match failure.kind {
            FailureKind::Denied => DENIED,
            FailureKind::Unreachable
            | FailureKind::TimedOut
            | FailureKind::Busy
            | FailureKind::Unsuitable => UNAVAILABLE,
        };
        Self::new(code, failure.message.clone())
    }
}

impl From<simba::Error> for Exit {
    fn from(error: simba::Error) -> Self {
        match &error {
            simba::Error::Store(failure) => Self::from(&**failure),
            simba::Error::NotReady { last: Some(failure), .. } => {
                Self::new(Self::from(&**failure).code, error.to_string())
            }
            simba::Error::NotReady { .. } => Self::new(UNAVAILABLE, error.to_string()),
            simba::Error::Name(_) | simba::Error::Url(_) => Self::new(USAGE, error.to_string()),
            _ => Self::new(INTERNAL, format!("{error}; this is a bug of simba, please report it")),
        }
    }
}

impl From<std::io::Error> for Exit {
    fn from(error: std::io::Error) -> Self {
        Self::new(INTERNAL, format!("the operating system refused: {error}"))
    }
}
