//! Clocks and pairs: the one place of this program that reads a clock.

use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// One raw reading of the boot-time clock.
#[inline]
pub(crate) fn boot_nanos() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time, and nothing depends on it")]
pub(crate) fn wall() -> Instant {
    Instant::now()
}

/// Runs the floor and the thing in turn, the order swapped each pair; answers the median ratio, and the floor's
/// median in nanoseconds.
pub(crate) fn paired<A, B>(
    pairs: u32,
    mut floor: impl FnMut() -> A,
    mut thing: impl FnMut() -> B,
) -> (f64, f64) {
    let mut ratios = Vec::new();
    let mut floors = Vec::new();
    for n in 0..pairs {
        let time_floor = |floor: &mut dyn FnMut()| {
            let start = wall();
            floor();
            start.elapsed().as_secs_f64()
        };
        let mut run_floor = || drop(std::hint::black_box(floor()));
        let mut run_thing = || drop(std::hint::black_box(thing()));
        let (a, b) = if n % 2 == 0 {
            let a = time_floor(&mut run_floor);
            (a, time_floor(&mut run_thing))
        } else {
            let b = time_floor(&mut run_thing);
            (time_floor(&mut run_floor), b)
        };
        ratios.push(b / a);
        floors.push(a * 1e9);
    }
    (median(&mut ratios), median(&mut floors))
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
