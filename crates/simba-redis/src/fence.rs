//! A fenced writer: writes to a hash of your own that a stale owner cannot make.
//!
//! The hash has a field `fencing_token` with the highest token that it has accepted. Check, write and record are one
//! script. A retry within a term carries the same token and is accepted again.
//!
//! ```no_run
//! # async fn example() -> redis::RedisResult<()> {
//! use simba_backend::FencingToken;
//! use simba_redis::{fence::{self, Written}, redis};
//!
//! let client = redis::Client::open("redis://cache.example")?;
//! let mut connection = client.get_multiplexed_async_connection().await?;
//! let (seven, eight) = (FencingToken::new(7).unwrap(), FencingToken::new(8).unwrap());
//! assert_eq!(fence::write(&mut connection, "ledger:eu", eight, &[("batch", "42")]).await?, Written::Accepted);
//! // The paused owner of the earlier term wakes up.
//! let late = fence::write(&mut connection, "ledger:eu", seven, &[("batch", "99")]).await?;
//! assert_eq!(late, Written::Stale { highest: eight });
//! # Ok(())
//! # }
//! ```
//!
//! A read by another program sees the fields of one write or of the next, never a mixture: a script runs alone.

use redis::{Script, aio::ConnectionLike};
use simba_backend::FencingToken;

const SCRIPT: &str = include_str!("scripts/fence.lua");

/// What became of a fenced write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a stale owner has to stop"]
pub enum Written {
    /// The fields are set, and the token is recorded.
    Accepted,
    /// A later term has written already. Nothing was changed: the caller is no longer the owner and has to stop.
    Stale {
        /// The highest token that the hash has accepted.
        highest: FencingToken,
    },
}

/// Sets fields of the hash `key` if `token` is at least the highest that it has accepted.
///
/// # Errors
/// The library's error: it may have been written or not, and nothing is proved about the token. A recorded token that
/// is no token is one too: somebody else has written the field `fencing_token`.
///
/// # Cancel safety
/// Dropped, it may have been written or not; writing again under the same token is harmless.
pub async fn write(
    connection: &mut impl ConnectionLike,
    key: &str,
    token: FencingToken,
    set: &[(&str, &str)],
) -> redis::RedisResult<Written> {
    let script = Script::new(SCRIPT);
    let mut call = script.key(key);
    call.arg(token.to_string());
    for (field, value) in set {
        call.arg(*field).arg(*value);
    }
    let recorded: Option<String> = call.invoke_async(connection).await?;
    match recorded.map(|text| text.parse()) {
        None => Ok(Written::Accepted),
        Some(Ok(highest)) => Ok(Written::Stale { highest }),
        Some(Err(_)) => Err((
            redis::ErrorKind::UnexpectedReturnType,
            "the field fencing_token of the hash holds no token",
        )
            .into()),
    }
}
