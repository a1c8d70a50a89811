//! A call that failed says what that proves.

use alloc::string::String;
use core::fmt;

/// What a failed call left behind on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The store certainly did nothing.
    None,
    /// Nobody knows: it may have been done, or may still be done.
    Unknown,
}

/// Why a call failed, for the person who has to do something about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The store cannot be reached, or the connection broke.
    Unreachable,
    /// No answer came within the call's limit.
    TimedOut,
    /// The store is up but cannot do it now: locked, overloaded, failing over, full.
    Busy,
    /// The store refuses: rights, a read-only file or replica, a password.
    Denied,
    /// The store does not hold what this library needs: no schema, another version of it, a damaged file, a
    /// setting that makes leases unsafe.
    Unsuitable,
}

/// A failed call.
///
/// `message` is for people: what was given, what is allowed, what to do. It never holds a secret.
///
/// ```
/// use simba_backend::{Effect, Failure, FailureKind};
///
/// let failure = Failure::new(FailureKind::TimedOut, Effect::Unknown, "no answer within 5s");
/// assert_eq!(failure.to_string(), "no answer within 5s");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// What it left behind.
    pub effect: Effect,
    /// The text for people.
    pub message: String,
}

impl Failure {
    /// A failure of the given kind.
    #[must_use]
    pub fn new(kind: FailureKind, effect: Effect, message: impl Into<String>) -> Self {
        Self { kind, effect, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Failure {}
