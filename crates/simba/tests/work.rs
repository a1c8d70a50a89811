//! Leader work: interruption, handover order, failures, sub-tasks.

mod support;

use simba::clock::Clock;
use simba::{Election, Event, Flow, Interrupt, LeadError, OnError, RevokeReason, Role, Simba, Term, Timing};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::*;
use tokio::sync::Notify;

/// Sets a flag when it goes away, as a future's local does when the future is dropped.
#[derive(Clone)]
struct Out(Arc<AtomicBool>);

impl Out {
    fn new() -> Self {
        Self(Arc::default())
    }
    fn is_out(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
    fn guard(&self) -> Guard {
        Guard(Arc::clone(&self.0))
    }
}

struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Work that goes on until it is let go, whatever happens to its term; answers when it has begun.
async fn stubborn(
    lab: &Lab,
    simba: &Simba,
    interrupt: Interrupt,
    out: &Out,
    go: &Arc<Notify>,
) -> (Election, Term) {
    let begun = Arc::new(Notify::new());
    let state = (out.clone(), Arc::clone(go), Arc::clone(&begun));
    let election = simba.election("job").unwrap().interrupt(interrupt);
    let election = election
        .run_while_leader(state, |_, (out, go, begun)| async move {
            let _guard = out.guard();
            begun.notify_one();
            go.notified().await;
        })
        .unwrap();
    soon("the work begins", begun.notified()).await;
    assert!(lab.is_held("job") && !out.is_out());
    let term = led(&election).await;
    (election, term)
}

#[tokio::test]
async fn by_default_the_future_is_dropped_when_the_term_ends_and_only_then_the_lease_is_free() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let (out, go) = (Out::new(), Arc::new(Notify::new()));
    let (election, _) = stubborn(&lab, &simba, Interrupt::Drop, &out, &go).await;
    soon("stopped", election.stop()).await;
    assert!(out.is_out() && !lab.is_held("job"));
}

#[tokio::test]
async fn graceful_work_that_does_not_end_is_dropped_at_the_deadline_as_of_the_stop() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let (out, go) = (Out::new(), Arc::new(Notify::new()));
    let (election, term) = stubborn(&lab, &simba, Interrupt::Graceful, &out, &go).await;
    let deadline = term.deadline().unwrap();
    let stop = election.stop();
    lab.run_until("the stop completes", || stop.is_complete()).await;
    let late = lab.clock.now().saturating_since(deadline);
    assert!(late < secs(1), "the renewals did not move the wait: {late:?}");
    assert!(lab.clock.now() >= deadline && out.is_out() && !lab.is_held("job"));
}

#[tokio::test]
async fn cooperative_work_is_never_dropped_and_does_not_run_twice() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let (out, go) = (Out::new(), Arc::new(Notify::new()));
    let (election, _) = stubborn(&lab, &simba, Interrupt::Cooperative, &out, &go).await;
    let step = election.step_down(secs(1));
    lab.run_until("the step-down completes", || step.is_complete()).await;
    assert!(!out.is_out() && !lab.is_held("job"), "the lease is not kept beyond the deadline");
    lab.run_for(secs(30)).await;
    assert!(!lab.is_held("job"), "no second run beside the first");
    go.notify_one();
    lab.run_until("leads again", || election.leadership().is_leader()).await;
}

#[tokio::test]
async fn work_of_a_lost_term_is_dropped_at_once_and_runs_again_with_a_higher_token() {
    for interrupt in [Interrupt::Drop, Interrupt::Graceful] {
        let lab = Lab::new();
        let simba = lab.node("a");
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let out = Out::new();
        let election = simba
            .election("job")
            .unwrap()
            .interrupt(interrupt)
            .run_while_leader((Arc::clone(&tokens), out.clone()), |term, (tokens, out)| async move {
                let _guard = out.guard();
                tokens.lock().unwrap().push(term.token().get());
                std::future::pending::<()>().await;
            })
            .unwrap();
        let term = led(&election).await;
        until("the work begins", || !tokens.lock().unwrap().is_empty()).await;
        lab.store.set(Mode::Fail);
        lab.run_until("lost", || term.end_reason().is_some()).await;
        assert_eq!(soon("revoked", term.revoked()).await, RevokeReason::DeadlinePassed);
        until("dropped", || out.is_out()).await;
        lab.store.set(Mode::Pass);
        lab.run_until("leads again", || tokens.lock().unwrap().len() == 2).await;
        assert_eq!(*tokens.lock().unwrap(), [1, 2]);
        assert!(!term.is_valid(), "the old term stays ended");
    }
}

#[tokio::test]
async fn blocking_work_is_waited_for_until_it_returns() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Arc::new(Mutex::new(receiver));
    let (out, begun) = (Out::new(), Arc::new(Notify::new()));
    let election = simba
        .election("job")
        .unwrap()
        .run_while_leader_blocking(
            (receiver, out.clone(), Arc::clone(&begun)),
            |_, (receiver, out, begun)| {
                let _guard = out.guard();
                begun.notify_one();
                receiver.lock().unwrap().recv().map_err(|error| error.to_string())
            },
        )
        .unwrap();
    soon("the work begins", begun.notified()).await;
    let stop = election.stop();
    lab.run_for(secs(3)).await;
    assert!(!stop.is_complete() && lab.is_held("job"));
    sender.send(()).unwrap();
    soon("stopped", stop).await;
    assert!(out.is_out() && !lab.is_held("job"));
}

#[tokio::test]
async fn the_handover_waits_for_sub_tasks_too() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let receiver = Arc::new(Mutex::new(Some(receiver)));
    let (task_out, started) = (Out::new(), Arc::new(Notify::new()));
    let state = (receiver, task_out.clone(), Arc::clone(&started));
    let election = simba
        .election("job")
        .unwrap()
        .run_while_leader(state, |term, (receiver, task_out, started)| async move {
            let receiver = receiver.lock().unwrap().take().unwrap();
            let task = term.spawn(async move {
                let _guard = task_out.guard();
                std::future::pending::<()>().await;
            });
            let blocking = term.spawn_blocking(move || {
                started.notify_one();
                receiver.recv().is_ok()
            });
            // Not awaited: they belong to the term all the same.
            drop((task, blocking));
            std::future::pending::<()>().await;
        })
        .unwrap();
    let term = led(&election).await;
    soon("started", started.notified()).await;
    let stop = election.stop();
    until("the async one is dropped", || task_out.is_out()).await;
    lab.run_for(secs(2)).await;
    assert!(!stop.is_complete() && lab.is_held("job"), "the blocking one still runs");
    sender.send(()).unwrap();
    soon("stopped", stop).await;
    assert!(!lab.is_held("job"));
    // After the end nothing starts any more.
    assert_eq!(soon("refused", term.spawn(async { 1 }).unwrap()).await.unwrap(), None);
    assert_eq!(soon("refused", term.spawn_blocking(|| 1).unwrap()).await.unwrap(), None);
}

#[tokio::test]
async fn sub_tasks_answer_and_belong_to_terms_without_work_too() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    assert_eq!(soon("done", term.spawn(async { 5 }).unwrap()).await.unwrap(), Some(5));
    assert_eq!(soon("done", term.spawn_blocking(|| 6).unwrap()).await.unwrap(), Some(6));
    let out = Out::new();
    let guard = out.guard();
    let task = term
        .spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        })
        .unwrap();
    soon("stopped", election.stop()).await;
    assert!(out.is_out() && !lab.is_held("job"));
    assert_eq!(soon("answered", task).await.unwrap(), None);
}

#[tokio::test]
async fn work_that_returns_stops_the_election() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().run_while_leader((), |_, ()| async {}).unwrap();
    soon("ended", election.ended()).await;
    assert!(!lab.is_held("job"));
    assert!(simba.snapshot().election("job").is_none());
}

/// How long the election of "job" is out from now on, as the engine says; none while it is not.
fn cooldown(lab: &Lab, simba: &Simba) -> Option<Duration> {
    let snapshot = simba.snapshot();
    let view = snapshot.election("job")?;
    let out = view.role == Role::CoolingDown;
    view.next_at.filter(|_| out).map(|at| at.saturating_since(lab.clock.now()))
}

#[tokio::test]
async fn flow_step_down_and_again_do_what_they_say() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let calls = Arc::new(AtomicUsize::new(0));
    let election = simba
        .election("job")
        .unwrap()
        .run_while_leader(Arc::clone(&calls), |_, calls| async move {
            match calls.fetch_add(1, Ordering::SeqCst) {
                0 | 1 => Flow::Again,
                2 => Flow::StepDown(secs(40)),
                _ => Flow::Stop(()),
            }
        })
        .unwrap();
    until("steps down", || cooldown(&lab, &simba).is_some()).await;
    assert_eq!(cooldown(&lab, &simba), Some(secs(40)));
    assert_eq!(calls.load(Ordering::SeqCst), 3, "again means at once, in the same term");
    lab.run_until("stops", || election.ended().is_complete()).await;
    assert_eq!(calls.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn failures_in_a_row_cool_down_longer_up_to_a_limit() {
    let lab = Lab::new();
    let failed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&failed);
    let simba = lab
        .builder("a")
        .timing(Timing::builder().lease(millis(1_500)).build().unwrap())
        .on_event(move |event| {
            if let Event::WorkFailed { error, failures, .. } = event {
                assert_eq!((&**error, *failures as usize), ("no luck", count.load(Ordering::SeqCst) + 1));
                count.fetch_add(1, Ordering::SeqCst);
            }
        })
        .build()
        .unwrap();
    let _election = simba
        .election("job")
        .unwrap()
        .run_while_leader((), |_, ()| async { Err::<(), _>("no luck") })
        .unwrap();
    let mut waits = Vec::new();
    for n in 1..=6 {
        lab.run_until("fails", || failed.load(Ordering::SeqCst) == n).await;
        until("cools down", || cooldown(&lab, &simba).is_some()).await;
        // The clock may have moved by some steps since.
        let wait = cooldown(&lab, &simba).unwrap() + millis(400);
        waits.push(wait.as_millis() / 500 * 500);
    }
    assert_eq!(waits, [500, 1_000, 2_000, 4_000, 8_000, 8_000]);
}

#[tokio::test]
async fn on_error_stop_and_restart() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let stop = simba.election("stop").unwrap().on_error(OnError::Stop);
    let result: Result<(), _> = soon("stops", stop.lead(|_| async { Err("no luck") })).await;
    assert_eq!(result, Err(LeadError::Work("no luck")));

    let tokens = Arc::new(Mutex::new(Vec::new()));
    let election = simba
        .election("restart")
        .unwrap()
        .on_error(OnError::Restart)
        .run_while_leader(Arc::clone(&tokens), |term: Term, tokens| async move {
            tokens.lock().unwrap().push(term.token().get());
            let runs = tokens.lock().unwrap().len();
            if runs < 2 { Err("no luck") } else { Ok(()) }
        })
        .unwrap();
    soon("ends well", election.ended()).await;
    assert_eq!(*tokens.lock().unwrap(), [1, 1], "in the same term");
}

#[tokio::test]
async fn any_number_of_waiters_learn_of_the_end_also_after_it() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    let waiters: Vec<_> = (0..100)
        .map(|_| {
            let term = term.clone();
            tokio::spawn(async move { term.revoked().await })
        })
        .collect();
    let token = term.cancelled();
    // One that goes away leaves nothing behind.
    drop(tokio::time::timeout(millis(1), term.revoked()).await);
    soon("stopped", election.stop()).await;
    for waiter in waiters {
        assert_eq!(soon("told", waiter).await.unwrap(), RevokeReason::Stopped);
    }
    assert!(token.is_cancelled() && term.cancelled().is_cancelled());
    assert_eq!(soon("told after the end", term.revoked()).await, RevokeReason::Stopped);
}

#[tokio::test]
async fn ensure_valid_is_strict_and_its_error_tells_all() {
    let lab = Lab::new();
    let simba = lab.node("a");
    let election = simba.election("job").unwrap().start().unwrap();
    let term = led(&election).await;
    let left = term.remaining();
    assert_eq!(term.ensure_valid(left - Duration::from_nanos(1)), Ok(()));
    let error = term.ensure_valid(left).unwrap_err();
    assert_eq!((error.reason, error.remaining, error.needed), (None, left, left));
    assert!(error.to_string().contains("\"job\" with token 1 ends in 14.8s"), "{error}");
    soon("stopped", election.stop()).await;
    let error = term.ensure_valid(Duration::ZERO).unwrap_err();
    assert_eq!((error.reason, error.remaining), (Some(RevokeReason::Stopped), Duration::ZERO));
    assert_eq!(
        error.to_string(),
        "the term of \"job\" with token 1 has ended (stopped); do not start the step"
    );
    assert_eq!((error.name.as_str(), error.token.get()), ("job", 1));
}
