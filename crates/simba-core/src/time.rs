//! Time is a number that is handed in: nanoseconds on the node's own monotonic clock that counts suspend.

use core::{fmt, time::Duration};

/// An instant on this node's monotonic clock, in nanoseconds since some fixed point in the past.
///
/// The engine never reads a clock. Whoever drives it must hand in instants of one clock that never goes back and
/// that runs on while the machine is suspended (`CLOCK_BOOTTIME` on Linux).
///
/// ```
/// use core::time::Duration;
/// use simba_core::Instant;
///
/// let start = Instant::from_nanos(1_000);
/// let later = start.saturating_add(Duration::from_nanos(500));
/// assert_eq!(later.saturating_since(start), Duration::from_nanos(500));
/// assert_eq!(start.saturating_since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The latest instant, some 584 years after the clock's start.
    pub const MAX: Self = Self(u64::MAX);

    /// An instant from its nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This instant moved later; [`Instant::MAX`] if there is none so late.
    #[must_use]
    pub fn saturating_add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// The time from `earlier` to this instant; zero if it lies ahead.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

/// A duration as nanoseconds; what does not fit into 64 bits (584 years) becomes the largest number.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
