//! The engine's own thread: what it does when user code blocks, when the store misbehaves, when it stands still, and
//! when the runtime it was put on goes away.

mod support;

use simba::clock::{BootClock, Clock, RuntimeClock};
use simba::memory::MemoryBackend;
use simba::{Error, Event, Leadership, Listener, RevokeReason, SessionStatus, Simba, Term};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::*;

/// M1: every thread of the user's runtime is blocked for two lease times, and no keep-alive is late.
#[test]
fn a_runtime_that_is_blocked_for_two_lease_times_does_not_cost_the_session() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (suspended, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (see, saw) = (Arc::clone(&suspended), Arc::clone(&lost));
    runtime.block_on(async {
        let simba = Simba::builder(real_store())
            .timing(short_timing())
            .on_event(move |event| match event {
                Event::SessionSuspended { .. } => see.store(true, Ordering::SeqCst),
                Event::SessionEnded { reason, .. } if *reason != simba::SessionEnd::Closed => {
                    saw.store(true, Ordering::SeqCst);
                }
                _ => {}
            })
            .build()
            .unwrap();
        let election = simba.election("job").unwrap().start().unwrap();
        let term = led(&election).await;
        let from = BootClock.now();
        let blockers: Vec<_> = (0..4).map(|_| tokio::spawn(async { std::thread::sleep(secs(1)) })).collect();
        std::thread::sleep(secs(2));
        assert!(term.is_valid(), "the session lives on");
        for blocker in blockers {
            blocker.await.unwrap();
        }
        assert!(BootClock.now().saturating_since(from) >= secs(2));
        assert!(term.is_valid() && term.token().get() == 1);
        simba.close().await;
    });
    assert!(!suspended.load(Ordering::SeqCst) && !lost.load(Ordering::SeqCst));
}

/// M07: a suspend moves the boot clock and not the clock of the runtime's timers. The engine notices within about a
/// second of running time, though its next keep-alive lies minutes ahead.
#[tokio::test]
async fn m07_a_jump_of_the_clock_is_noticed_soon() {
    /// Runs by itself, and can be moved on top of that without anybody being told, as by a suspend.
    #[derive(Debug, Default)]
    struct Suspendable(std::sync::atomic::AtomicU64);
    impl Clock for Suspendable {
        fn now(&self) -> simba::Instant {
            let asleep = Duration::from_nanos(self.0.load(Ordering::SeqCst));
            BootClock.now().saturating_add(asleep)
        }
    }
    let clock = Arc::new(Suspendable::default());
    let timing = simba::Timing::builder().lease(secs(900)).build().unwrap();
    let simba = Simba::builder(real_store()).timing(timing).clock(Arc::clone(&clock) as _).build().unwrap();
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    // Let the engine go to sleep; should it not have by then, this test proves less, and does not fail for it.
    tokio::time::sleep(millis(100)).await;
    clock.0.store(1_000_000_000_000, Ordering::SeqCst);
    assert!(!term.is_valid());
    assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::DeadlinePassed);
}

#[tokio::test]
async fn a_store_that_hangs_panics_or_fails_costs_no_more_than_the_terms() {
    for mode in [Mode::Hang, Mode::Panic, Mode::Fail, Mode::LoseReply] {
        let lab = Lab::new();
        let simba = lab.node("a");
        let election = simba.election("job").unwrap().start().unwrap();
        let term = led(&election).await;
        lab.store.set(mode);
        lab.run_until("suspended", || simba.status() == SessionStatus::Suspended).await;
        assert!(term.is_valid(), "a failed keep-alive ends nothing");
        lab.run_until("the deadline", || simba.status() == SessionStatus::Opening).await;
        assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::DeadlinePassed);
        lab.store.set(Mode::Pass);
        lab.run_until("leads again", || election.leadership().is_leader()).await;
        assert!(led(&election).await.token() > term.token());
    }
}

/// L3: stop, step-down and close always complete, whatever the store does.
#[tokio::test]
async fn everything_completes_although_the_store_never_answers_again() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let first = simba.election("first").unwrap().start().unwrap();
    let second = simba.election("second").unwrap().start().unwrap();
    led(&first).await;
    led(&second).await;
    lab.store.set(Mode::Hang);
    let (stop, step) = (first.stop(), second.step_down(secs(1)));
    lab.run_until("stop and step-down", || stop.is_complete() && step.is_complete()).await;
    let close = simba.close();
    lab.run_until("close", || close.is_complete()).await;
    assert_eq!(simba.status(), SessionStatus::Closed);
}

#[tokio::test]
async fn a_watch_that_ends_is_started_again() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let mut events = simba.events();
    until("the first watch", || lab.store.watches.load(Ordering::SeqCst) == 1).await;
    for _ in 0..2 {
        let before = lab.store.watches.load(Ordering::SeqCst);
        lab.store.set(Mode::Fail);
        soon("an event", async { while !matches!(events.next().await, Some(Event::WatchEnded { .. })) {} })
            .await;
        lab.store.set(Mode::Pass);
        until("another watch", || lab.store.watches.load(Ordering::SeqCst) > before).await;
    }
}

/// What was released while there was no watch is noticed when there is one again: long before the next poll.
#[tokio::test]
async fn a_release_that_no_watch_told_of_is_found_when_the_watch_is_back() {
    let lab = Lab::new();
    let (a, b) = (lab.node("a"), lab.node("b"));
    let holder = a.election("job").unwrap().start().unwrap();
    led(&holder).await;
    let waiter = b.election("job").unwrap().start().unwrap();
    let next_try = || {
        let snapshot = b.snapshot();
        let next = snapshot.election("job").and_then(|view| view.next_at);
        next.map(|at| at.saturating_since(snapshot.at))
    };
    lab.run_for(secs(1)).await;
    lab.run_until("a next try that is far away", || next_try().is_some_and(|wait| wait > secs(1))).await;
    let watches = lab.store.watches.load(Ordering::SeqCst);
    lab.store.cut_watches(true);
    until("both watches are cut", || lab.store.watching.load(Ordering::SeqCst) == 0).await;
    soon("stopped", holder.stop()).await;
    assert!(next_try().is_some_and(|wait| wait > secs(1)), "nobody told it");
    lab.store.cut_watches(false);
    until("brought forward", || next_try().is_some_and(|wait| wait < millis(50))).await;
    assert!(lab.store.watches.load(Ordering::SeqCst) > watches);
    lab.clock.advance(millis(50));
    led(&waiter).await;
}

/// A clean handover where the store tells of releases: milliseconds, in real time.
#[tokio::test]
async fn a_release_that_is_told_is_taken_over_in_milliseconds() {
    let store = real_store();
    let a = Simba::builder(store.clone()).node("a").build().unwrap();
    let b = Simba::builder(store).node("b").build().unwrap();
    let mut took = Vec::new();
    for _ in 0..20 {
        let holder = a.election("job").unwrap().start().unwrap();
        led(&holder).await;
        let waiter = b.election("job").unwrap().start().unwrap();
        // It has tried and was refused, and would try again in seconds.
        until("refused", || b.snapshot().election("job").is_some_and(|view| view.next_at.is_some())).await;
        let from = BootClock.now();
        let stop = holder.stop();
        led(&waiter).await;
        took.push(BootClock.now().saturating_since(from));
        stop.await;
        waiter.stop().await;
    }
    took.sort_unstable();
    assert!(took[took.len() / 2] < millis(50), "{took:?}");
}

/// The runtime of a listener is shut down: nobody can be told any more, so the election stops and the lease is free.
#[test]
fn an_election_whose_runtime_is_gone_stops() {
    struct Told(Arc<tokio::sync::Notify>);
    impl Listener for Told {
        async fn elected(&self, _: Term) {
            self.0.notify_one();
        }
        async fn revoked(&self, _: Term, _: RevokeReason) {}
    }
    let lab = Lab::new();
    let simba = lab.node("a");
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (election, term) = first.block_on(async {
        let told = Arc::new(tokio::sync::Notify::new());
        let election = simba.election("job").unwrap().listen(Told(Arc::clone(&told))).unwrap();
        soon("told", told.notified()).await;
        let term = led(&election).await;
        (election, term)
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::Stopped);
        soon("over", election.ended()).await;
        until("released", || !lab.is_held("job")).await;
    });
}

/// Paused time: the engine on the test's own runtime, and half an hour in an instant.
#[tokio::test(start_paused = true)]
async fn an_ambient_engine_lives_in_paused_time() {
    let clock = Arc::new(RuntimeClock::current().unwrap());
    let stores = Arc::clone(&clock);
    let store = MemoryBackend::new(move || stores.now().as_nanos());
    let simba = Simba::builder(store).clock(Arc::clone(&clock) as _).ambient_runtime().build().unwrap();
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    tokio::time::sleep(secs(1_800)).await;
    assert!(term.is_valid() && term.token().get() == 1, "every keep-alive was in time");
    simba.close().await;
}

#[test]
fn an_ambient_engine_needs_a_runtime() {
    let error = Simba::builder(real_store()).ambient_runtime().build().unwrap_err();
    assert!(matches!(error, Error::NoRuntime { .. }), "{error}");
}

#[tokio::test]
async fn a_closed_client_says_so() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    led(&election).await;
    let builder = simba.election("other").unwrap();
    soon("closed", simba.close()).await;
    assert!(matches!(builder.start(), Err(Error::Closed)));
    assert!(matches!(simba.election("third"), Err(Error::Closed)));
    assert!(matches!(simba.ready(secs(1)).await, Err(Error::Closed)));
    assert!(matches!(election.leadership(), Leadership::Over));
    let snapshot = simba.snapshot();
    assert_eq!((snapshot.session.status, snapshot.elections.len()), (SessionStatus::Closed, 0));
    assert!(!lab.is_held("job"));
}

#[tokio::test]
async fn inspection_pages_through_everything() {
    let lab = Lab::new();
    let simba = lab.node("web-2");
    let elections: Vec<_> =
        (0..2_100).map(|n| simba.election(&format!("many.{n:04}")).unwrap().start().unwrap()).collect();
    let other = simba.election("other").unwrap().start().unwrap();
    led(&other).await;
    for election in &elections {
        led(election).await;
    }
    let all = simba.inspect().leases("many.").await.unwrap();
    assert_eq!(all.len(), 2_100);
    assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name));
    assert_eq!(all[7].held.as_ref().map(|held| held.owner.node.as_str()), Some("web-2"));
    assert_eq!(simba.inspect().who("other").await.unwrap().unwrap().token.get(), 1);
    assert!(simba.inspect().who("oth").await.unwrap().is_none(), "a prefix is not a name");
    let direct = simba::Inspector::new(Arc::new(lab.store.clone()));
    assert_eq!(direct.leases("").await.unwrap().len(), 2_101);
    lab.store.set(Mode::Panic);
    let error = simba.inspect().leases("").await.unwrap_err();
    assert!(error.to_string().contains("a backend with a fault"), "{error}");
    lab.store.set(Mode::Pass);
    // One at a time would be 2,100 round trips.
    let before = lab.store.calls.load(Ordering::SeqCst);
    soon("closed", simba.close()).await;
    assert!(lab.store.calls.load(Ordering::SeqCst) - before < 10);
}
