//! The local deadline: the one formula on which everything rests.
//!
//! # The problem
//! A node must know by itself, without asking, until when nobody else can own its leases. The store judges a
//! session by the store's clock; the node has only its own.
//!
//! # Wrong answers
//! * *The store's expiry as a point in time, compared with the local wall clock.* Two wall clocks differ by
//!   seconds, and step.
//! * *A timer started when the reply arrives.* The store counted from some instant before; a reply that was five
//!   seconds under way makes the node believe five seconds too long.
//! * *A task that clears a flag when the time is over.* After a pause the flag is still set when the first reader
//!   comes.
//!
//! # The idea
//! The store answers a *duration*: how long the session lives from some instant within the call. Whatever that
//! instant was, it was not before the call was sent. So, on this node's clock,
//!
//! ```text
//! deadline = sent_at + remaining x (1 - drift) - margin
//! ```
//!
//! As long as the two clocks run at rates within `1 +- drift` of each other, the store's clock has then advanced
//! by at most `remaining - margin / (1 - drift)` since the sending: the deadline passes before the store can
//! give the leases to anybody else. The margin pays for rounding and for the step from reading to acting.
//!
//! # Limits
//! It holds for rates, not for steps: a store whose clock jumps forward may expire a session whose deadline lies
//! ahead, and then only the fencing token protects. And it needs a local clock that runs while the machine is
//! suspended.

use core::time::Duration;

use crate::{
    Timing,
    time::{Instant, nanos},
};

/// How long a lease of which the store says `remaining` may be relied on here, counted from the sending of the
/// call. Rounded down; zero if drift and margin leave nothing.
///
/// ```
/// use core::time::Duration;
/// use simba_core::{Timing, local_validity};
///
/// // 15 s, less one percent, less 50 ms.
/// let validity = local_validity(Duration::from_secs(15), &Timing::default());
/// assert_eq!(validity, Duration::from_millis(14_800));
/// ```
#[must_use]
pub fn local_validity(remaining: Duration, timing: &Timing) -> Duration {
    const BILLION: u128 = 1_000_000_000;
    let keep = BILLION - u128::from(timing.drift().parts_per_billion());
    // 64 bits times 30 bits fit into 128, and the division brings the product back below 64 bits.
    let scaled = u64::try_from(u128::from(nanos(remaining)) * keep / BILLION).unwrap_or(u64::MAX);
    Duration::from_nanos(scaled.saturating_sub(nanos(timing.margin())))
}

/// The local deadline of a session of which a call sent at `sent_at` brought `remaining`.
pub(crate) fn local_deadline(sent_at: Instant, remaining: Duration, timing: &Timing) -> Instant {
    sent_at.saturating_add(local_validity(remaining, timing))
}
