//! The boot-time clock: the one that deadlines are instants of, and that every process of the host reads the same.

use rustix::time::{ClockId, clock_gettime};

/// Now, in nanoseconds.
pub(crate) fn boot_nanos() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
