//! Scenarios in real time, on a machine that has other things to do.

use crate::support::secs;
use simba::Instant;
use simba::clock::{BootClock, Clock};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

pub(crate) fn now() -> Instant {
    BootClock.now()
}

/// Waits for a future on this thread, whatever it needs of a runtime.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(secs(60), future).await.expect("within a minute") })
}

/// Looks until `met` is, or until the time has passed: then `Err` says what was late.
pub(crate) fn within(limit: Duration, what: &str, mut met: impl FnMut() -> bool) -> Result<(), String> {
    let from = now();
    while !met() {
        let waited = now().saturating_since(from);
        if waited > limit {
            return Err(format!("not within {limit:?}: {what}"));
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Runs a scenario that is late (`Err`) once more, if the machine stood still meanwhile: what this process was not given
/// to run, neither the nodes nor the server were given. What is wrong whatever the machine did is a panic, and final.
pub(crate) fn on_an_idle_machine(mut scenario: impl FnMut() -> Result<(), String>) {
    const STILL: Duration = Duration::from_millis(100);
    for attempt in 1..=3 {
        let (result, stall) = with_stall(&mut scenario);
        match result {
            Ok(()) => return,
            Err(fault) => assert!(
                stall > STILL && attempt < 3,
                "{fault} (attempt {attempt}; the machine stood still for {stall:?} at most)"
            ),
        }
    }
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The scenario's result, and the longest time for which a sleeping thread was not woken.
fn with_stall<T>(scenario: &mut impl FnMut() -> T) -> (T, Duration) {
    const NAP: Duration = Duration::from_millis(5);
    let (done, worst) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let from = now();
                thread::sleep(NAP);
                let late = now().saturating_since(from).saturating_sub(NAP);
                worst.fetch_max(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        // Also when the scenario panics: the scope waits for its thread.
        let _done = SetOnDrop(&done);
        scenario()
    });
    (result, Duration::from_nanos(worst.into_inner()))
}
