//! What can go wrong, for people: what was given, what is allowed, what to do.

use simba_backend::{Failure, FencingToken, LeaseName, NameError};
use simba_core::RevokeReason;
use std::{fmt, time::Duration};

/// Why a call of this library was refused or failed. It never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not a name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name is in use on this client.
    #[error(
        "\"{0}\" is already started on this client; stop it and await the stop first, or use another name"
    )]
    AlreadyStarted(LeaseName),
    /// The client is closed or closing.
    #[error("this client is closed; build a new one")]
    Closed,
    /// The process was forked, and this is the child.
    #[error(
        "this client belongs to the process that built it (pid {parent}), and this is a child that was forked \
         from it; build a client of its own in the child"
    )]
    Forked {
        /// The process that built the client.
        parent: u32,
    },
    /// The call needs a tokio runtime to run user code on, and there is none.
    #[error(
        "{call} must be called from within a tokio runtime, on which it runs your code; call it inside \
         `Runtime::block_on` or `Handle::enter`, or use `run_while_leader_blocking`, which needs none"
    )]
    NoRuntime {
        /// Which call.
        call: &'static str,
    },
    /// The URL names no store that this build can use.
    #[error("{0}")]
    Url(Box<str>),
    /// No session came up within the limit.
    #[error(
        "no session with the store within {waited:?}; {}; the client goes on trying by itself",
        .last.as_ref().map_or_else(|| "the store has not answered".into(), |f| format!("the last try said: {f}"))
    )]
    NotReady {
        /// How long it was waited for.
        waited: Duration,
        /// The last failure of an open, if one failed.
        last: Option<Box<Failure>>,
    },
    /// The store failed.
    #[error("the store could not answer: {0}")]
    Store(Box<Failure>),
    /// The operating system refused something that every client needs.
    #[error("the operating system refused {what}: {why}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        why: Box<str>,
    },
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::Store(Box::new(failure))
    }
}

/// A step must not start: its term has ended, or ends too soon.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use]
pub struct TermExpired {
    /// The lease.
    pub name: LeaseName,
    /// The token of the term.
    pub token: FencingToken,
    /// Why the term ended; `None` if it has too little time left, or has just passed its deadline and the engine
    /// has not recorded it yet.
    pub reason: Option<RevokeReason>,
    /// The time that was left; zero once the term ended.
    pub remaining: Duration,
    /// The time that more than was asked for.
    pub needed: Duration,
}

impl fmt::Display for TermExpired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, token, reason, remaining, needed } = self;
        write!(f, "the term of \"{name}\" with token {token} ")?;
        match reason {
            Some(reason) => write!(f, "has ended ({reason})")?,
            None if remaining.is_zero() => write!(f, "has passed its deadline")?,
            None => write!(f, "ends in {remaining:?}, and the step needs more than {needed:?}")?,
        }
        write!(f, "; do not start the step")
    }
}

impl std::error::Error for TermExpired {}

/// Why [`lead`](crate::ElectionBuilder::lead) came back without a value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeadError<E> {
    /// It could not be started, or the client was closed meanwhile.
    Simba(Error),
    /// The work failed, and the policy was [`OnError::Stop`](crate::OnError::Stop).
    Work(E),
}

impl<E> From<Error> for LeadError<E> {
    fn from(error: Error) -> Self {
        Self::Simba(error)
    }
}

impl<E: fmt::Display> fmt::Display for LeadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simba(error) => error.fmt(f),
            Self::Work(error) => write!(f, "the leader's work failed: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for LeadError<E> {}
