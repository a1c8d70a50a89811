//! Rules that planted bugs break: each holds for the sound client, and fails for a client with its bug.

use super::*;
use simba::{Listener, RevokeReason, TermEvent};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use tokio::sync::Notify;

/// What is done to a builder before it is built: nothing, or a bug.
pub(crate) type Plant = fn(Builder) -> Builder;

fn current_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// M06, M07: the client's clock is `CLOCK_BOOTTIME`: neither the wall clock, which can be set, nor
/// `CLOCK_MONOTONIC`, which stands still during a suspend. A reading that lies between two readings of one clock is
/// a reading of that clock, if the others are far away; for that it must run in a time namespace whose boot clock
/// was moved.
pub(crate) fn the_boot_clock_is_read(plant: Plant) {
    use rustix::time::{ClockId, clock_gettime};
    let nanos = |clock| {
        let time = clock_gettime(clock);
        u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
    };
    let far = |one: u64, other: u64| one.abs_diff(other) > 100_000_000_000_000;
    let boot = nanos(ClockId::Boottime);
    assert!(far(boot, nanos(ClockId::Monotonic)), "not in a time namespace of its own");
    assert!(far(boot, nanos(ClockId::Realtime)));
    let simba = plant(Simba::builder(real_store())).build().unwrap();
    for _ in 0..1_000 {
        let before = nanos(ClockId::Boottime);
        let read = simba.now().as_nanos();
        let after = nanos(ClockId::Boottime);
        assert!((before..=after).contains(&read), "not the boot clock: {before} {read} {after}");
    }
}

/// M10, I9: validity is read, not told. The engine does not run at all between the move of the clock and the read.
pub(crate) fn the_first_read_after_a_pause_is_false(plant: Plant) {
    current_thread().block_on(async {
        let clock = ManualClock::new();
        let stores = clock.clone();
        // On this very runtime, which has one thread: between two awaits the engine cannot run.
        let builder = Simba::builder(MemoryBackend::new(move || stores.now().as_nanos()));
        let builder = plant(builder.clock(Arc::new(clock.clone())).ambient_runtime());
        let simba = builder.build().unwrap();
        let election = simba.election("job").unwrap().start().unwrap();
        let term = led(&election).await;
        let left = term.remaining();
        clock.advance_silently(left - Duration::from_nanos(1));
        assert!(term.is_valid());
        assert_eq!(term.remaining(), Duration::from_nanos(1));
        clock.advance_silently(Duration::from_nanos(1));
        assert!(!term.is_valid(), "exactly at the deadline it is over");
        assert_eq!((term.remaining(), term.deadline(), term.end_reason()), (Duration::ZERO, None, None));
        assert!(matches!(election.leadership(), Leadership::Leader(_)), "the cached hint is behind");
        assert!(!election.leadership().is_leader(), "but asks the term");
        let error = term.ensure_valid(Duration::ZERO).unwrap_err().to_string();
        assert!(error.contains("has passed its deadline"), "{error}");
        clock.advance(Duration::ZERO);
        assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::DeadlinePassed);
        assert!(!term.is_valid());
    });
}

#[derive(Default)]
struct Seen {
    inside: AtomicUsize,
    overlaps: AtomicUsize,
    log: Mutex<Vec<(bool, u64)>>,
}

/// Takes its time, so that overlapping and early answers show.
struct Counter(Arc<Seen>);

impl Counter {
    async fn call(&self, elected: bool, term: &Term) {
        if self.0.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.0.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.0.log.lock().unwrap().push((elected, term.token().get()));
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Listener for Counter {
    async fn elected(&self, term: Term) {
        self.call(true, &term).await;
    }
    async fn revoked(&self, term: Term, _: RevokeReason) {
        assert!(!term.is_valid(), "revoked before it is told");
        self.call(false, &term).await;
    }
}

/// M34, M35: callbacks of one election never overlap and come in pairs, in order, however many threads the runtime
/// has; and a step-down is complete only after its callback has run.
pub(crate) fn callbacks_are_serial_paired_and_before_the_answer(plant: Plant) {
    const ROUNDS: usize = 200;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let simba = plant(Simba::builder(real_store())).build().unwrap();
        let seen = Arc::new(Seen::default());
        let election = simba.election("job").unwrap().listen(Counter(Arc::clone(&seen))).unwrap();
        for round in 1..=ROUNDS {
            led(&election).await;
            soon("stepped down", election.step_down(Duration::ZERO)).await;
            let told = seen.log.lock().unwrap().iter().filter(|(elected, _)| !elected).count();
            assert!(told >= round, "the answer came before the callback");
        }
        soon("stopped", election.stop()).await;
        assert_eq!(seen.overlaps.load(Ordering::SeqCst), 0);
        let log = seen.log.lock().unwrap().clone();
        for (at, pair) in log.chunks(2).enumerate() {
            let token = at as u64 + 1;
            assert_eq!(pair, [(true, token), (false, token)]);
        }
    });
}

/// The runtime of an ambient engine is shut down: nobody waits in vain, and no term reads valid.
pub(crate) fn an_engine_that_is_gone_leaves_no_valid_term_and_no_waiter(plant: Plant) {
    let runtime = current_thread();
    let (simba, election, mut terms, term, close) = runtime.block_on(async {
        let simba = plant(Simba::builder(real_store()).ambient_runtime()).build().unwrap();
        let terms = simba.election("job").unwrap().terms().unwrap();
        let election = terms.election().clone();
        let term = led(&election).await;
        (simba.clone(), election, terms, term, simba.closed())
    });
    assert!(term.is_valid());
    drop(runtime);
    assert!(!term.is_valid());
    current_thread().block_on(async {
        assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::Stopped);
        soon("cancelled", term.cancelled().cancelled()).await;
        soon("closed", close).await;
        soon("ended", election.stop()).await;
        soon("stepped down", election.step_down(secs(1))).await;
        assert!(matches!(soon("told", terms.next()).await, Some(TermEvent::Elected(_))));
        assert!(matches!(soon("told", terms.next()).await, Some(TermEvent::Revoked { .. })));
        assert!(soon("over", terms.next()).await.is_none());
        assert!(matches!(simba.ready(secs(1)).await, Err(simba::Error::Closed)));
        assert!(matches!(simba.inspect().who("job").await, Err(simba::Error::Closed)));
        assert!(simba.events().next().await.is_none());
    });
}

/// The handover order: the lease is kept until the work is out.
pub(crate) fn graceful_work_keeps_the_lease_until_it_is_out(plant: Plant) {
    current_thread().block_on(async {
        let lab = Lab::new();
        let simba = plant(lab.builder("a")).build().unwrap();
        let (begun, go, out) =
            (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let state = (Arc::clone(&begun), Arc::clone(&go), Arc::clone(&out));
        let election = simba.election("job").unwrap().graceful();
        let election = election
            .run_while_leader(state, |_, (begun, go, out)| async move {
                begun.notify_one();
                go.notified().await;
                out.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
        soon("begun", begun.notified()).await;
        let term = led(&election).await;
        let stop = election.stop();
        soon("told", term.cancelled().cancelled()).await;
        assert!(!term.is_valid());
        lab.run_for(secs(3)).await;
        assert!(out.load(Ordering::SeqCst) == 0 && !stop.is_complete());
        assert_eq!(lab.holder("job").as_deref(), Some("a"), "nobody else may start while it finishes");
        go.notify_one();
        soon("stopped", stop).await;
        assert!(out.load(Ordering::SeqCst) == 1 && !lab.is_held("job"));
    });
}

/// A plain return upon the end of a term is no end of the election.
pub(crate) fn what_interrupted_work_returns_counts_for_nothing(plant: Plant) {
    current_thread().block_on(async {
        let lab = Lab::new();
        let simba = plant(lab.builder("a")).build().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let election = simba.election("job").unwrap().graceful();
        let election = election
            .run_while_leader(Arc::clone(&runs), |term, runs| async move {
                runs.fetch_add(1, Ordering::SeqCst);
                term.cancelled().cancelled().await;
            })
            .unwrap();
        until("runs", || runs.load(Ordering::SeqCst) == 1).await;
        soon("stepped down", election.step_down(secs(1))).await;
        lab.run_for(millis(500)).await;
        assert!(!election.ended().is_complete(), "the election goes on");
        lab.run_until("runs again", || runs.load(Ordering::SeqCst) == 2).await;
        assert!(election.leadership().is_leader());
    });
}

/// Runs a test of this program, by its name, in a time namespace whose boot clock lies far ahead; `None` if this
/// machine does not let us.
pub(crate) fn in_a_time_namespace(test: &str, plant: &str) -> Option<std::process::Output> {
    let program = std::env::current_exe().unwrap();
    let output = std::process::Command::new("unshare")
        .args(["--time", "--boottime", "1000000", "--"])
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(NAMESPACE, plant)
        .output()
        .ok()?;
    // What the test harness itself exits with; anything else is unshare's own refusal.
    matches!(output.status.code(), Some(0 | 101)).then_some(output)
}

/// Set in the child of [`in_a_time_namespace`]: the bug's name, or nothing.
pub(crate) const NAMESPACE: &str = "SIMBA_TEST_TIME_NAMESPACE";
