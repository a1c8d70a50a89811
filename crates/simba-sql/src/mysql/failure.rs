//! What an error of the server or of the connection proves.

use mysql_async::{Error, ServerError};
use simba_backend::{Effect, Failure, FailureKind};

use super::config::MysqlConfig;

/// An error before a call was sent: nothing was done.
pub(crate) fn before(config: &MysqlConfig, error: &Error) -> Failure {
    Failure { effect: Effect::None, ..during(config, error) }
}

/// An error of a call.
pub(crate) fn during(config: &MysqlConfig, error: &Error) -> Failure {
    let at = config.shown();
    if let Error::Server(server) = error {
        let (kind, effect, advice) = of_server(server);
        return Failure::new(kind, effect, format!("{at}: {}; {advice}", server.message));
    }
    let advice = "is it running, can this host reach it, and does it take the URL's ssl-mode?";
    Failure::new(FailureKind::Unreachable, Effect::Unknown, format!("{at}: {error}; {advice}"))
}

/// A call is a transaction that an error rolls back. Not so when the connection is ended from outside: it may have
/// committed just before.
fn of_server(error: &ServerError) -> (FailureKind, Effect, &'static str) {
    const NONE: Effect = Effect::None;
    match error.code {
        1146 | 1305 => (
            FailureKind::Unsuitable,
            NONE,
            "the tables or procedures are missing: run `simba schema apply`, or look at the database of the URL",
        ),
        1044 | 1045 | 1049 | 1698 => {
            (FailureKind::Denied, NONE, "look at the user, the password and the database of the URL")
        }
        1142 | 1143 | 1227 | 1370 => {
            (FailureKind::Denied, NONE, "give the user the rights that `simba schema grants` lists")
        }
        1290 | 1792 | 1836 => (FailureKind::Busy, NONE, "it is a replica, or read-only; name the primary"),
        1205 | 1213 | 1020 => {
            (FailureKind::Busy, NONE, "another transaction holds a lock; it is tried again")
        }
        1040 | 1203 | 1226 => (FailureKind::Busy, NONE, "it has too many connections; it is tried again"),
        1021 | 1114 => (FailureKind::Busy, NONE, "its disk or its table is full: make room"),
        1665 => (FailureKind::Unsuitable, NONE, "set binlog_format to ROW or MIXED"),
        1644 if error.state == "45001" => (FailureKind::Busy, NONE, "it is tried again"),
        1053 | 1184 | 1317 | 1927 | 1969 | 3024 | 4031 => {
            (FailureKind::Unreachable, Effect::Unknown, "it was ended from outside; it is tried again")
        }
        _ => (FailureKind::Unsuitable, Effect::Unknown, "see the server's own message"),
    }
}

/// No answer came in time.
pub(crate) fn timed_out(config: &MysqlConfig, effect: Effect) -> Failure {
    let text = format!("{}: no answer in time; it may be overloaded or cut off", config.shown());
    Failure::new(FailureKind::TimedOut, effect, text)
}

/// An answer that no procedure of ours gives.
pub(crate) fn strange(config: &MysqlConfig, what: &str) -> Failure {
    let text = format!(
        "{}: its answer cannot be understood ({what}); is every node of the same version?",
        config.shown()
    );
    Failure::new(FailureKind::Unsuitable, Effect::Unknown, text)
}
