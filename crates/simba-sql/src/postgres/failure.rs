//! What an error of the server or of the connection proves.

use simba_backend::{Effect, Failure, FailureKind};
use tokio_postgres::{
    Error,
    error::{DbError, SqlState},
};

use super::config::PostgresConfig;

/// An error before a call was sent: nothing was done.
pub(crate) fn before(config: &PostgresConfig, error: &Error) -> Failure {
    Failure { effect: Effect::None, ..during(config, error) }
}

/// An error of a call.
pub(crate) fn during(config: &PostgresConfig, error: &Error) -> Failure {
    let at = config.shown();
    let Some(server) = error.as_db_error() else {
        let advice = "is it running, can this host reach it, and does it take the URL's sslmode?";
        return Failure::new(
            FailureKind::Unreachable,
            Effect::Unknown,
            format!("{at}: {}; {advice}", causes(error)),
        );
    };
    let (kind, effect, advice) = of_server(server);
    Failure::new(kind, effect, format!("{at}: {}; {advice}", server.message()))
}

/// The error and what caused it, without saying the same twice.
fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

/// A statement is a transaction: if the server answers it with an error, nothing of it was done. Not so when the server
/// ends the connection: it may have committed just before.
fn of_server(error: &DbError) -> (FailureKind, Effect, &'static str) {
    let code = error.code();
    if *code == SqlState::UNDEFINED_FUNCTION || *code == SqlState::UNDEFINED_TABLE {
        let advice = "the tables are missing: run `simba schema apply`, or look at the user's search_path";
        return (FailureKind::Unsuitable, Effect::None, advice);
    }
    match code.code().split_at(2.min(code.code().len())) {
        ("SB", "001") => (
            FailureKind::Unsuitable,
            Effect::None,
            "run: alter role .. set default_transaction_isolation = 'read committed'",
        ),
        ("SB", _) => (FailureKind::Busy, Effect::None, "it is tried again"),
        ("25", "006") => {
            (FailureKind::Busy, Effect::None, "it is a standby, or read-only; name the primary, or all hosts")
        }
        ("28", _) | ("3D", _) => {
            (FailureKind::Denied, Effect::None, "look at the user, the password and the database of the URL")
        }
        ("42", "501") => {
            (FailureKind::Denied, Effect::None, "give the user the rights that `simba schema grants` lists")
        }
        ("55", "P03") => (FailureKind::Busy, Effect::None, "another transaction holds a lock for too long"),
        ("57", "014") => (
            FailureKind::Busy,
            Effect::None,
            "a statement_timeout below the call's limit, or somebody, ended it",
        ),
        ("57", "P03") | ("40" | "53" | "55", _) => (FailureKind::Busy, Effect::None, "it is tried again"),
        ("57" | "08" | "58" | "XX", _) => (FailureKind::Unreachable, Effect::Unknown, "it is tried again"),
        _ => (FailureKind::Unsuitable, Effect::None, "see the server's own message"),
    }
}

/// No answer came in time.
pub(crate) fn timed_out(config: &PostgresConfig, effect: Effect) -> Failure {
    let text = format!("{}: no answer in time; it may be overloaded or cut off", config.shown());
    Failure::new(FailureKind::TimedOut, effect, text)
}

/// An answer that no function of ours gives.
pub(crate) fn strange(config: &PostgresConfig, what: &str) -> Failure {
    let text = format!(
        "{}: its answer cannot be understood ({what}); is every node of the same version?",
        config.shown()
    );
    Failure::new(FailureKind::Unsuitable, Effect::Unknown, text)
}
