//! Counting allocations, to report counts instead of times where counts say more.
//!
//! A counting allocator of our own would need unsafe code; this one stands in a crate.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static GLOBAL: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// How often memory was asked for since the start.
pub(crate) fn allocations() -> u64 {
    let stats = GLOBAL.stats();
    (stats.allocations + stats.reallocations) as u64
}

/// How many bytes are in use now, as they were asked for.
pub(crate) fn live_bytes() -> u64 {
    let stats = GLOBAL.stats();
    (stats.bytes_allocated).saturating_sub(stats.bytes_deallocated) as u64
}
