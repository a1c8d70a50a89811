//! From the database's errors to failures that say what they prove and what to do.

use std::path::Path;

use rusqlite::{Error, ErrorCode};
use simba_backend::{Effect, Failure, FailureKind};

/// A failure before anything was written.
pub(crate) fn before(path: &Path, error: &Error) -> Failure {
    translate(path, error, Effect::None)
}

/// A failure of a commit: it may have been done.
pub(crate) fn at_commit(path: &Path, error: &Error) -> Failure {
    translate(path, error, Effect::Unknown)
}

fn translate(path: &Path, error: &Error, effect: Effect) -> Failure {
    let path = path.display();
    let Error::SqliteFailure(inner, _) = error else {
        let text = format!(
            "{path}: a record does not have the form that this version writes ({error}); run `simba doctor`"
        );
        return Failure::new(FailureKind::Unsuitable, effect, text);
    };
    // A commit that found no room was rolled back.
    let effect = if inner.code == ErrorCode::DiskFull { Effect::None } else { effect };
    let (kind, text) = match inner.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => (
            FailureKind::Busy,
            format!(
                "{path} is locked by another process, longer than this call may wait; look for a long transaction on it"
            ),
        ),
        ErrorCode::OperationInterrupted => {
            (FailureKind::TimedOut, format!("{path}: the call's time limit passed, and it was broken off"))
        }
        ErrorCode::ReadOnly => (
            FailureKind::Denied,
            format!(
                "{path} is read-only for this user; leases need the right to write the file and its folder"
            ),
        ),
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => (
            FailureKind::Denied,
            format!("{path}: access is denied; leases need the right to read and write the file"),
        ),
        ErrorCode::CannotOpen => (
            FailureKind::Denied,
            format!(
                "{path} cannot be opened; check that its folder exists and that this user may write there"
            ),
        ),
        ErrorCode::DiskFull => (
            FailureKind::Busy,
            format!(
                "{path}: the disk is full; nothing was changed. Make room, and the next call goes through"
            ),
        ),
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => (
            FailureKind::Unsuitable,
            format!(
                "{path} is not an SQLite database, or is damaged; it was left as it is. Name another file, or restore a copy"
            ),
        ),
        ErrorCode::SystemIoFailure => {
            (FailureKind::Unreachable, format!("{path}: reading or writing failed ({error}); check the disk"))
        }
        _ => (FailureKind::Unsuitable, format!("{path}: {error}; run `simba doctor`")),
    };
    Failure::new(kind, effect, text)
}

pub(crate) fn unsuitable(text: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Unsuitable, Effect::None, text)
}

pub(crate) fn denied(text: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Denied, Effect::None, text)
}

pub(crate) fn timed_out(path: &Path) -> Failure {
    let text = format!("{}: the call's time limit passed before its turn came", path.display());
    Failure::new(FailureKind::TimedOut, Effect::None, text)
}
