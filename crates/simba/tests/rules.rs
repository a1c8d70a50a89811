//! The rules table of the documentation (`simba::rules`), one test a row and a cell.

mod support;

use simba::{Error, Event, Flow, LeadError, Leadership, Listener, RevokeReason, Simba, Term, TermEvent};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use support::*;
use tokio::sync::Notify;

type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it is told.
struct Scribe(Log);

impl Scribe {
    fn note(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }
}

impl Listener for Scribe {
    async fn elected(&self, term: Term) {
        self.note(format!("elected {}", term.token()));
    }
    async fn revoked(&self, term: Term, reason: RevokeReason) {
        self.note(format!("revoked {} {reason}", term.token()));
    }
}

fn lines(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

// --- connect, ready -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn ready_dropped_leaves_the_client_as_it_is() {
    let lab = Lab::new();
    lab.store.set(Mode::Fail);
    let simba = lab.node("a");
    let mut ready = Box::pin(simba.ready(LONG));
    assert!(ready.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(ready);
    lab.store.set(Mode::Pass);
    lab.run_until("a session", || simba.status() == simba::SessionStatus::Live).await;
    soon("ready", simba.ready(LONG)).await.unwrap();
}

#[tokio::test]
async fn ready_that_runs_out_says_why() {
    let lab = Lab::new();
    lab.store.set(Mode::Fail);
    let failed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&failed);
    let see = move |event: &Event| {
        seen.fetch_or(matches!(event, Event::OpenFailed { .. }), Ordering::SeqCst);
    };
    let simba = lab.builder("a").on_event(see).build().unwrap();
    until("a failed open", || failed.load(Ordering::SeqCst)).await;
    let error = simba.ready(millis(1)).await.unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }));
    assert!(error.to_string().contains("the wire is cut"), "{error}");
}

#[test]
fn connect_and_ready_need_no_runtime() {
    let simba = block_on(Simba::connect("memory:")).unwrap();
    block_on(simba.ready(LONG)).unwrap();
    block_on(simba.close());
}

/// An executor that is not tokio's.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

// --- lead -----------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn lead_returns_its_value_after_the_lease_was_given_back() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let got: Result<u64, LeadError<String>> = soon(
        "led",
        simba.election("job").unwrap().lead(|term| async move { Ok(Flow::Stop(term.token().get())) }),
    )
    .await;
    assert_eq!(got, Ok(1));
    assert!(!lab.is_held("job"));
}

#[tokio::test]
async fn lead_dropped_revokes_the_term_and_frees_the_lease_without_time_passing() {
    let lab = Lab::new();
    let (a, b) = (lab.node("a"), lab.node("b"));
    let held: Arc<Mutex<Option<Term>>> = Arc::default();
    let dropped = Arc::new(AtomicBool::new(false));
    let mut leading = Box::pin(a.election("job").unwrap().lead(|term| {
        let (held, dropped) = (Arc::clone(&held), SetOnDrop(Arc::clone(&dropped)));
        async move {
            let _dropped = dropped;
            *held.lock().unwrap() = Some(term);
            std::future::pending::<Result<Flow<()>, String>>().await
        }
    }));
    soon(
        "leading",
        poll_fn(|cx| {
            let polled = leading.as_mut().poll(cx);
            assert!(polled.is_pending());
            if held.lock().unwrap().is_some() { Poll::Ready(()) } else { Poll::Pending }
        }),
    )
    .await;
    let term = held.lock().unwrap().clone().unwrap();
    assert!(term.is_valid());
    let other = b.election("job").unwrap().start().unwrap();
    drop(leading);
    assert!(dropped.load(Ordering::SeqCst), "the work goes with it");
    assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::Stopped);
    until("released", || lab.holder("job").as_deref() != Some("a")).await;
    // No lease time has passed: the clock moves only as far as a candidate's next try.
    let before = simba::clock::Clock::now(&lab.clock);
    lab.run_until("the other leads", || other.leadership().is_leader()).await;
    let took = simba::clock::Clock::now(&lab.clock).saturating_since(before);
    assert!(took < secs(6), "a candidate's poll, not the lease: {took:?}");
}

struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn lead_needs_only_some_executor_and_may_hold_what_cannot_be_sent() {
    let simba = Simba::builder(real_store()).build().unwrap();
    let count = Rc::new(std::cell::Cell::new(0));
    let borrowed = &count;
    let got: Result<&str, LeadError<String>> = block_on(simba.election("job").unwrap().lead(|term| {
        let rc = Rc::clone(borrowed);
        async move {
            rc.set(rc.get() + 1);
            term.ensure_valid(Duration::ZERO).map_err(|error| error.to_string())?;
            if rc.get() < 3 { Ok(Flow::Again) } else { Ok(Flow::Stop("done")) }
        }
    }));
    assert_eq!((got, count.get()), (Ok("done"), 3));
    block_on(simba.close());
}

#[tokio::test]
async fn lead_may_run_in_a_spawned_task_if_its_work_may() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap();
    let task = tokio::spawn(election.lead(|_| async { Ok::<_, String>(Flow::Stop(5)) }));
    assert_eq!(soon("led", task).await.unwrap(), Ok(5));
}

#[tokio::test]
async fn a_panic_in_lead_unwinds_to_the_caller_after_the_term_was_revoked() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let held: Arc<Mutex<Option<Term>>> = Arc::default();
    let hold = Arc::clone(&held);
    let election = simba.election("job").unwrap();
    let task = tokio::spawn(election.lead(move |term| {
        *hold.lock().unwrap() = Some(term);
        async { panic!("the work is broken") as Result<Flow<()>, String> }
    }));
    let error = soon("unwound", task).await.unwrap_err();
    assert!(error.is_panic());
    let term = held.lock().unwrap().clone().unwrap();
    assert_eq!(term.end_reason(), Some(RevokeReason::Stopped));
    assert!(!lab.is_held("job"));
}

#[tokio::test]
async fn lead_ends_with_its_client() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let leading = simba
        .election("job")
        .unwrap()
        .lead(|_| async { std::future::pending::<Result<Flow<()>, String>>().await });
    let (result, ()) = soon("closed", async { tokio::join!(leading, simba.close()) }).await;
    assert_eq!(result, Err(LeadError::Simba(Error::Closed)));
}

// --- run_while_leader -----------------------------------------------------------------------------------------------

#[tokio::test]
async fn run_while_leader_runs_on_without_its_handle_and_ends_with_the_client() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let (running, dropped) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let state = (Arc::clone(&running), Arc::clone(&dropped));
    let handle = simba.election("job").unwrap().run_while_leader(state, |_, (running, dropped)| async move {
        let _dropped = SetOnDrop(dropped);
        running.notify_one();
        std::future::pending::<()>().await;
    });
    drop(handle.unwrap());
    soon("running", running.notified()).await;
    lab.run_for(secs(20)).await;
    assert!(lab.is_held("job") && !dropped.load(Ordering::SeqCst), "runs on");
    soon("closed", simba.close()).await;
    assert!(dropped.load(Ordering::SeqCst) && !lab.is_held("job"));
}

#[tokio::test]
async fn run_while_leader_with_abort_on_drop_ends_with_its_handle() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let handle = simba
        .election("job")
        .unwrap()
        .run_while_leader((), |_, ()| std::future::pending::<()>())
        .unwrap()
        .abort_on_drop();
    led(&handle).await;
    drop(handle);
    until("released", || !lab.is_held("job")).await;
}

#[test]
fn user_code_needs_a_runtime_and_the_error_says_so() {
    let simba = Simba::builder(real_store()).build().unwrap();
    let error = simba.election("a").unwrap().run_while_leader((), |_, ()| async {}).unwrap_err();
    assert!(matches!(error, Error::NoRuntime { call: "run_while_leader" }), "{error}");
    let error = simba.election("a").unwrap().listen(Scribe(Log::default())).unwrap_err();
    assert!(error.to_string().contains("listen must be called from within a tokio runtime"), "{error}");
    let term = {
        let election = simba.election("a").unwrap().start().unwrap();
        block_on(async {
            let mut watch = election.watch();
            while !watch.current().is_leader() {
                watch.changed().await.unwrap();
            }
            let term = watch.current().term().unwrap().clone();
            assert!(matches!(term.spawn(async {}), Err(Error::NoRuntime { .. })));
            assert!(matches!(term.spawn_blocking(|| ()), Err(Error::NoRuntime { .. })));
            term
        })
    };
    // The handle is gone, on a thread without a runtime: the engine's thread sees to it.
    assert_eq!(block_on(term.revoked()), RevokeReason::Stopped);
    drop(simba);
}

#[test]
fn blocking_work_needs_no_runtime() {
    let simba = Simba::builder(real_store()).build().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let handle = simba
        .election("job")
        .unwrap()
        .run_while_leader_blocking(sender, |term, sender| {
            term.ensure_valid(millis(1)).map_err(|error| error.to_string())?;
            sender.send(std::thread::current().name().map(str::to_owned)).map_err(|error| error.to_string())
        })
        .unwrap();
    assert_eq!(receiver.recv().unwrap().as_deref(), Some("simba:job#1"), "on a thread of its own");
    block_on(handle.ended());
    block_on(simba.close());
}

#[tokio::test]
async fn a_panic_in_spawned_work_is_caught_and_the_election_steps_down() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let mut events = simba.events();
    let runs = Arc::new(AtomicUsize::new(0));
    let election = simba
        .election("job")
        .unwrap()
        .run_while_leader(Arc::clone(&runs), |_, runs| async move {
            assert!(runs.fetch_add(1, Ordering::SeqCst) > 0, "the first run is broken");
            std::future::pending::<()>().await;
        })
        .unwrap();
    let failed = soon("an event", async {
        loop {
            if let Some(Event::WorkFailed { error, failures, .. }) = events.next().await {
                return (error, failures);
            }
        }
    })
    .await;
    assert_eq!((&*failed.0, failed.1), ("the first run is broken", 1));
    until("released", || !lab.is_held("job")).await;
    lab.run_until("runs again", || runs.load(Ordering::SeqCst) == 2).await;
    assert!(election.leadership().is_leader());
}

// --- stop, step_down, close -----------------------------------------------------------------------------------------

#[tokio::test]
async fn the_operation_goes_on_when_its_future_is_dropped() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    drop(election.step_down(secs(1)));
    assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::SteppedDown);
    lab.run_until("leads again", || election.leadership().is_leader()).await;
    let term = led(&election).await;
    drop(election.stop());
    assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::Stopped);
    soon("awaited again", election.stop()).await;
    drop(simba.close());
    soon("closed", simba.closed()).await;
    soon("closed again", simba.close()).await;
    assert!(matches!(simba.election("job"), Err(Error::Closed)));
}

#[test]
fn the_last_handle_dropped_closes_without_any_runtime() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let mut events = simba.events();
    let election = simba.election("job").unwrap().start().unwrap();
    drop(simba);
    block_on(async {
        let mut watch = election.watch();
        while !watch.current().is_leader() {
            watch.changed().await.unwrap();
        }
    });
    assert!(lab.is_held("job"), "an election's handle keeps the client open");
    drop(election);
    block_on(async { while events.next().await.is_some() {} });
    assert!(!lab.is_held("job"));
}

#[tokio::test]
async fn awaited_from_inside_work_a_listener_or_a_sub_task_they_do_not_wait_for_themselves() {
    struct Stopper(Simba, Arc<Mutex<Option<simba::Election>>>, Arc<AtomicUsize>);
    impl Listener for Stopper {
        async fn elected(&self, _: Term) {
            let election = loop {
                if let Some(election) = self.1.lock().unwrap().clone() {
                    break election;
                }
                tokio::task::yield_now().await;
            };
            election.stop().await;
            self.0.close().await;
            self.2.fetch_add(1, Ordering::SeqCst);
        }
        async fn revoked(&self, _: Term, _: RevokeReason) {
            self.0.close().await;
            self.2.fetch_add(1, Ordering::SeqCst);
        }
    }

    // Work, and a sub-task of it.
    let lab = Lab::new();
    let simba = lab.node("a");
    let passed = Arc::new(AtomicUsize::new(0));
    let state = (simba.clone(), Arc::clone(&passed));
    let work = simba
        .election("work")
        .unwrap()
        .graceful()
        .run_while_leader(state, |term, (simba, passed)| async move {
            let inner = (simba.clone(), Arc::clone(&passed));
            let task = term.spawn(async move {
                inner.0.close().await;
                inner.1.fetch_add(1, Ordering::SeqCst);
            });
            if let Ok(task) = task {
                // It may have been dropped at the end of the term, which it has brought about itself.
                drop(task.await);
            }
            simba.close().await;
            passed.fetch_add(1, Ordering::SeqCst);
        })
        .unwrap();
    soon("the work ends", work.ended()).await;
    assert!(passed.load(Ordering::SeqCst) >= 1, "the close inside did not wait for itself");
    soon("closed", simba.closed()).await;

    // A listener.
    let lab = Lab::new();
    let simba = lab.node("a");
    let (slot, called) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let listener = Stopper(simba.clone(), Arc::clone(&slot), Arc::clone(&called));
    let election = simba.election("job").unwrap().listen(listener).unwrap();
    *slot.lock().unwrap() = Some(election.clone());
    soon("the election ends", election.ended()).await;
    assert_eq!(called.load(Ordering::SeqCst), 2);
    soon("closed", simba.closed()).await;

    // Blocking work.
    let lab = Lab::new();
    let simba = lab.node("a");
    let work = simba
        .election("job")
        .unwrap()
        .run_while_leader_blocking(simba.clone(), |_, simba| block_on(simba.close()))
        .unwrap();
    soon("the blocking work ends", work.ended()).await;
    soon("closed", simba.closed()).await;
}

// --- terms, events --------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_dropped_next_loses_no_event() {
    let lab = Lab::new();
    lab.store.set(Mode::Fail);
    let simba = lab.node("a");
    let mut terms = simba.election("job").unwrap().terms().unwrap();
    for _ in 0..3 {
        let mut next = Box::pin(terms.next());
        assert!(next.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    lab.store.set(Mode::Pass);
    lab.run_until("leads", || terms.election().leadership().is_leader()).await;
    soon("stopped", terms.election().stop()).await;
    let Some(TermEvent::Elected(term)) = terms.next().await else { panic!("the first is an elected") };
    let Some(TermEvent::Revoked { term: ended, reason }) = terms.next().await else { panic!("its revoked") };
    assert_eq!((ended.token(), reason), (term.token(), RevokeReason::Stopped));
    assert!(terms.next().await.is_none());
}

#[tokio::test]
async fn a_dropped_wait_for_a_change_or_an_event_loses_none() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let mut events = simba.events();
    let election = simba.election("job").unwrap().start().unwrap();
    let mut watch = election.watch();
    led(&election).await;
    soon("led, as the watch sees it", async { while !watch.changed().await.unwrap().is_leader() {} }).await;
    let mut waiting = Box::pin(watch.changed());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(waiting);
    soon("stopped", election.stop()).await;
    assert!(watch.changed().await.is_some(), "it has changed since");
    soon("closed", simba.close()).await;
    while let Some(leadership) = watch.changed().await {
        assert!(!leadership.is_leader());
    }
    let mut seen = Vec::new();
    loop {
        // Each event is waited for twice, and the first wait dropped.
        drop(Box::pin(events.next()));
        match events.next().await {
            Some(Event::Elected { token, .. }) => seen.push(format!("elected {token}")),
            Some(Event::Revoked { token, reason, .. }) => seen.push(format!("revoked {token} {reason}")),
            Some(_) => {}
            None => break,
        }
    }
    assert_eq!(seen, ["elected 1", "revoked 1 stopped"]);
}

#[tokio::test]
async fn a_plain_election_stops_with_its_last_handle_and_a_listening_one_does_not() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("plain").unwrap().start().unwrap();
    let watch = election.watch();
    led(&election).await;
    drop(election);
    lab.run_for(secs(1)).await;
    assert!(lab.is_held("plain"), "the watch is a handle too");
    drop(watch);
    until("released", || !lab.is_held("plain")).await;
    let log = Log::default();
    drop(simba.election("listened").unwrap().listen(Scribe(Arc::clone(&log))).unwrap());
    until("told", || !lines(&log).is_empty()).await;
    lab.run_for(secs(1)).await;
    assert!(lab.is_held("listened"));
    soon("closed", simba.close()).await;
    assert_eq!(lines(&log), ["elected 1", "revoked 1 stopped"]);
}

#[tokio::test]
async fn a_sub_task_runs_on_without_its_handle_and_its_panic_is_its_own() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    let done = Arc::new(Notify::new());
    let notify = Arc::clone(&done);
    drop(term.spawn(async move { notify.notify_one() }).unwrap());
    soon("the task without a handle", done.notified()).await;
    let panicked = term.spawn(async { panic!("a broken task") as u32 }).unwrap();
    assert!(soon("panicked", panicked).await.unwrap_err().is_panic());
    let panicked = term.spawn_blocking(|| panic!("a broken task") as u32).unwrap();
    assert!(soon("panicked", panicked).await.unwrap_err().is_panic());
    assert!(term.is_valid());
    soon("stopped: nothing is waited for", election.stop()).await;
}

#[tokio::test]
async fn a_stream_dropped_without_a_stop_stops_the_election() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let mut terms = simba.election("job").unwrap().terms().unwrap();
    let Some(TermEvent::Elected(term)) = soon("elected", terms.next()).await else { panic!("elected") };
    drop(terms);
    assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::Stopped);
    lab.run_until("the name is free again", || simba.election("job").unwrap().start().is_ok()).await;
}

// --- listeners ------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_listener_is_told_in_pairs_and_nothing_after_the_stop() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let log = Log::default();
    let election = simba.election("job").unwrap().listen(Scribe(Arc::clone(&log))).unwrap();
    led(&election).await;
    soon("stepped down", election.step_down(secs(1))).await;
    assert_eq!(lines(&log), ["elected 1", "revoked 1 stepped_down"], "told before the answer");
    lab.run_until("leads again", || election.leadership().is_leader()).await;
    soon("stopped", election.stop()).await;
    let all = ["elected 1", "revoked 1 stepped_down", "elected 2", "revoked 2 stopped"];
    assert_eq!(lines(&log), all);
    lab.run_for(secs(30)).await;
    assert_eq!(lines(&log), all, "silent after the stop");
}

#[tokio::test]
async fn a_listener_that_panics_is_reported_and_its_pairing_kept() {
    struct Fragile(Log);
    impl Listener for Fragile {
        async fn elected(&self, term: Term) {
            Scribe(Arc::clone(&self.0)).elected(term).await;
            panic!("cannot take office");
        }
        async fn revoked(&self, term: Term, reason: RevokeReason) {
            Scribe(Arc::clone(&self.0)).revoked(term, reason).await;
        }
    }
    let lab = Lab::new();
    let simba = lab.node("a");
    let mut events = simba.events();
    let log = Log::default();
    let election = simba.election("job").unwrap().listen(Fragile(Arc::clone(&log))).unwrap();
    led(&election).await;
    soon("stopped", election.stop()).await;
    assert_eq!(lines(&log), ["elected 1", "revoked 1 stopped"]);
    let reported = soon("an event", async {
        loop {
            if let Some(Event::ListenerPanicked { error, .. }) = events.next().await {
                return error;
            }
        }
    })
    .await;
    assert_eq!(&*reported, "cannot take office");
}

#[tokio::test]
async fn a_listener_that_takes_long_delays_only_its_own_election() {
    struct Slow(Arc<Notify>);
    impl Listener for Slow {
        async fn elected(&self, _: Term) {
            self.0.notified().await;
        }
        async fn revoked(&self, _: Term, _: RevokeReason) {}
    }
    let lab = Lab::new();
    let simba = lab.node("a");
    let gate = Arc::new(Notify::new());
    let slow = simba.election("slow").unwrap().listen(Slow(Arc::clone(&gate))).unwrap();
    let log = Log::default();
    let quick = simba.election("quick").unwrap().listen(Scribe(Arc::clone(&log))).unwrap();
    let term = led(&slow).await;
    led(&quick).await;
    soon("the quick one stops", quick.stop()).await;
    assert_eq!(lines(&log), ["elected 1", "revoked 1 stopped"]);
    let stop = slow.stop();
    // The engine does not wait for a callback: the lease is free while the listener still sits in `elected`.
    assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::Stopped);
    until("released", || !lab.is_held("slow")).await;
    assert!(!stop.is_complete(), "its last callback has not run");
    gate.notify_one();
    soon("the slow one stops", stop).await;
}

/// Whoever asks for an end, in whatever order, is answered after the last callback has run.
#[tokio::test]
async fn every_answer_comes_after_the_last_callback() {
    struct Held(Arc<Notify>, Arc<AtomicBool>);
    impl Listener for Held {
        async fn elected(&self, _: Term) {}
        async fn revoked(&self, _: Term, _: RevokeReason) {
            self.0.notified().await;
            self.1.store(true, Ordering::SeqCst);
        }
    }
    let lab = Lab::new();
    let simba = lab.node("a");
    let (gate, told) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let election = simba.election("job").unwrap().listen(Held(Arc::clone(&gate), Arc::clone(&told))).unwrap();
    let term = led(&election).await;
    let (stop, step) = (election.stop(), election.step_down(secs(1)));
    soon("revoked", term.revoked()).await;
    until("released", || !lab.is_held("job")).await;
    let (again, later) = (election.stop(), election.step_down(secs(1)));
    let close = simba.close();
    until("the session is closed", || simba.status() == simba::SessionStatus::Closed).await;
    let close_again = simba.close();
    let all = [stop, step, again, later, close, close_again, election.ended(), simba.closed()];
    // The engine has ended; the listener has not, and cannot.
    tokio::time::sleep(millis(50)).await;
    assert!(all.iter().all(|answer| !answer.is_complete()), "{all:?}");
    gate.notify_one();
    for answer in all {
        soon("answered", answer).await;
        assert!(told.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn a_name_is_in_use_until_its_stop_is_complete() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    assert!(matches!(simba.election("job").unwrap().start(), Err(Error::AlreadyStarted(_))));
    soon("stopped", election.stop()).await;
    let again = simba.election("job").unwrap().start().unwrap();
    assert!(matches!(again.leadership(), Leadership::Candidate | Leadership::Leader(_)));
    assert!(matches!(election.leadership(), Leadership::Over));
    // A stop of the old handle does not reach the new election.
    soon("stopped again", election.stop()).await;
    led(&again).await;
}

#[tokio::test]
async fn bad_names_are_refused_before_anything_starts() {
    let lab = Lab::new();
    let simba = lab.node("a");
    for bad in ["", ".", "..", "a/b", "é", "a\0", "a\n", &"x".repeat(129)] {
        let error = simba.election(bad).unwrap_err();
        assert!(matches!(error, Error::Name(_)) && error.to_string().contains("use 1 to 128"), "{error}");
    }
    let error = lab.builder("no spaces here").build().unwrap_err();
    assert!(error.to_string().contains("node label"), "{error}");
}
