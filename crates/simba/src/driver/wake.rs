//! Waking in time.
//!
//! A timer of the runtime counts whole milliseconds and comes up to 1.1 ms late. For keep-alives and deadlines that
//! is nothing; for candidates that were just told of a release it is most of the handover. So the last two
//! milliseconds of a *short* wait are passed in yielding, which leaves replies and commands their turn. And since
//! those timers stand still while the machine is suspended, no sleep is longer than a second: after a suspend the
//! engine looks at the clock soon. Validity does not depend on any of this.

use simba_core::Instant;
use std::{future::pending, time::Duration};

use crate::clock::Source;

/// The longest sleep without a look at the clock.
const LONGEST: Duration = Duration::from_secs(1);
/// Waits up to this long end to the microsecond.
const SHORT: Duration = Duration::from_millis(20);
/// How much earlier the runtime's timer is set then.
const EARLY: Duration = Duration::from_millis(2);

/// Waits until `at`, or for some time less. Never resolves without an instant to wait for.
pub(super) async fn until(clock: &Source, at: Option<Instant>) {
    let Some(at) = at else { return pending().await };
    let wait = at.saturating_since(clock.now());
    if clock.is_manual() {
        // Moving the clock sends an input.
        return if wait.is_zero() { tokio::task::yield_now().await } else { pending().await };
    }
    if !clock.is_real() || wait > SHORT {
        return tokio::time::sleep(wait.min(LONGEST)).await;
    }
    if wait > EARLY {
        tokio::time::sleep(wait - EARLY).await;
    }
    while clock.now() < at {
        tokio::task::yield_now().await;
    }
}
