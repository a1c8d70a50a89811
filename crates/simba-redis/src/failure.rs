//! What an error of the server or of the connection proves.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use simba_backend::{Effect, Failure, FailureKind};

use crate::config::RedisConfig;

/// An error before anything was asked of the server: nothing was done.
pub(crate) fn before(config: &RedisConfig, error: &RedisError) -> Failure {
    Failure { effect: Effect::None, ..during(config, error) }
}

/// An error of a call.
pub(crate) fn during(config: &RedisConfig, error: &RedisError) -> Failure {
    let at = config.shown();
    let (kind, effect, advice) = match error.kind() {
        ErrorKind::AuthenticationFailed => {
            (FailureKind::Denied, Effect::None, "look at the user and the password of the URL")
        }
        ErrorKind::Server(server) => {
            let server = if lacks_right(error) { ServerErrorKind::NoPerm } else { server };
            let (kind, advice) = of_server(server, error.code());
            (kind, proof(error, kind), advice)
        }
        ErrorKind::Extension => {
            let (kind, advice) = of_server(ServerErrorKind::ResponseError, error.code());
            (kind, proof(error, kind), advice)
        }
        ErrorKind::Io if error.is_timeout() => {
            (FailureKind::TimedOut, Effect::Unknown, "it may be overloaded or cut off")
        }
        ErrorKind::MasterNameNotFoundBySentinel => {
            (FailureKind::Unsuitable, Effect::None, "look at the master's name in the URL")
        }
        ErrorKind::InvalidClientConfig => (FailureKind::Unsuitable, Effect::None, "look at the URL"),
        _ => (FailureKind::Unreachable, Effect::Unknown, "is it running, and can this host reach it?"),
    };
    Failure::new(kind, effect, format!("{at}: {error}; {advice}"))
}

/// What an answer of the server proves. It refuses scripts that are too much for it (full, loading, a replica) before
/// their first write. A missing right, or a key of another type, can stop one in its middle, and what it has written
/// before that stays.
fn proof(error: &RedisError, kind: FailureKind) -> Effect {
    let inside = error.detail().is_some_and(|text| text.contains("script: "));
    match kind {
        FailureKind::Denied | FailureKind::Unsuitable if inside => Effect::Unknown,
        FailureKind::Denied
        | FailureKind::Unsuitable
        | FailureKind::Busy
        | FailureKind::TimedOut
        | FailureKind::Unreachable => Effect::None,
    }
}

/// Redis 7.0 has no code for a right that is missing inside a script.
fn lacks_right(error: &RedisError) -> bool {
    error.detail().is_some_and(|text| text.contains("The user executing the script can't"))
}

const fn of_server(kind: ServerErrorKind, code: Option<&str>) -> (FailureKind, &'static str) {
    match kind {
        ServerErrorKind::NoPerm => (
            FailureKind::Denied,
            "the user needs eval, evalsha and the commands and keys that `simba schema grants` lists",
        ),
        ServerErrorKind::ReadOnly => {
            (FailureKind::Busy, "it is a replica; the master is looked for with the next call")
        }
        ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown | ServerErrorKind::ClusterDown => {
            (FailureKind::Busy, "it is tried again")
        }
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::TryAgain => {
            (FailureKind::Busy, "the slot has moved; its master is looked for with the next call")
        }
        ServerErrorKind::CrossSlot => {
            (FailureKind::Unsuitable, "use redis+cluster: with a prefix that has one {tag}")
        }
        ServerErrorKind::ResponseError
        | ServerErrorKind::ExecAbort
        | ServerErrorKind::NoScript
        | ServerErrorKind::NotBusy
        | ServerErrorKind::NoSub => of_code(code),
        // The library may learn of more kinds.
        _ => (FailureKind::Busy, "it is tried again"),
    }
}

const fn of_code(code: Option<&str>) -> (FailureKind, &'static str) {
    let Some(code) = code else { return (FailureKind::Unsuitable, "see the server's own message") };
    match code.as_bytes() {
        b"NOAUTH" | b"WRONGPASS" => (FailureKind::Denied, "look at the user and the password of the URL"),
        b"OOM" => (FailureKind::Busy, "its memory is full: raise maxmemory, and keep noeviction"),
        b"MISCONF" | b"NOREPLICAS" | b"BUSY" => (FailureKind::Busy, "it is tried again"),
        b"WRONGTYPE" => (
            FailureKind::Unsuitable,
            "a key of another program has this name: choose another prefix in the URL",
        ),
        _ => (FailureKind::Unsuitable, "see the server's own message"),
    }
}

/// No answer came in time.
pub(crate) fn timed_out(config: &RedisConfig, effect: Effect) -> Failure {
    let text = format!("{}: no answer in time; it may be overloaded or cut off", config.shown());
    Failure::new(FailureKind::TimedOut, effect, text)
}

/// An answer that no script of ours gives.
pub(crate) fn strange(config: &RedisConfig, what: &str) -> Failure {
    let text = format!(
        "{}: its answer cannot be understood ({what}); is every node of the same version?",
        config.shown()
    );
    Failure::new(FailureKind::Unsuitable, Effect::Unknown, text)
}
