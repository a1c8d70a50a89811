//! Stop, step-down and close: the order, and that they always complete.

use crate::rig::*;
use simba_backend::{Owned, SessionId};
use simba_core::{Mark, RevokeReason, Role};

/// I36: ended, work exits, release, told, complete.
#[test]
fn the_order_of_a_stop_with_work() {
    let (mut rig, election, term) = Rig::leading(true);
    let ticket = rig.stop(election);
    let (id, stopped) = (term.id(), RevokeReason::Stopped);
    assert!(!rig.is_valid(&term), "ended before anything else");
    assert_eq!(rig.take(), [Event::Ended(id, stopped)], "nothing more while the work runs");
    rig.advance_renewing(3_000);
    rig.take();
    rig.work_exits(&term);
    assert_eq!(rig.take(), [Event::Release(vec![("job".into(), 1)]), Event::Revoked(id, stopped)]);
    rig.released(rig.release());
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
}

/// I38: without work the release goes out at once.
#[test]
fn the_order_of_a_stop_without_work() {
    let (mut rig, election, term) = Rig::leading(false);
    let ticket = rig.stop(election);
    let (id, stopped) = (term.id(), RevokeReason::Stopped);
    let release = Event::Release(vec![("job".into(), 1)]);
    assert_eq!(rig.take(), [Event::Ended(id, stopped), release, Event::Revoked(id, stopped)]);
    rig.released(rig.release());
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
}

/// I37: the session is renewed during the handover, and the lease stays ours.
#[test]
fn the_session_is_renewed_during_the_handover() {
    let (mut rig, election, _) = Rig::leading(true);
    rig.stop(election);
    rig.take();
    rig.advance_renewing(14_000);
    let events = rig.take();
    assert_eq!(events.iter().filter(|e| matches!(e, Event::KeepAlive(_))).count(), 2);
    assert!(events.iter().all(|e| !matches!(e, Event::Release(_))));
}

/// The wait ends at the deadline as it was at the stop, although renewals move the session's deadline on.
#[test]
fn work_that_never_exits_is_waited_for_until_the_deadline_at_the_stop() {
    let (mut rig, election, _) = Rig::leading(true);
    rig.advance_renewing(1_000);
    let ticket = rig.stop(election);
    rig.advance_renewing(13_799);
    assert!(rig.take().iter().all(|e| !matches!(e, Event::Release(_))));
    rig.advance_renewing(1);
    assert!(rig.take().contains(&Event::Release(vec![("job".into(), 1)])));
    rig.released(rig.release());
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
    assert!(rig.engine.marks().has(Mark::HandoverTimedOut));
}

/// L3: a stop completes although the release is never answered.
#[test]
fn a_stop_completes_with_a_dead_store() {
    let (mut rig, election, _) = Rig::leading(false);
    let ticket = rig.stop(election);
    rig.advance(5_000);
    assert!(rig.take().contains(&Event::Finished(ticket)));
}

/// A session that ends during a handover ends the handover: the lease is not ours any more.
#[test]
fn a_session_that_ends_during_a_handover_ends_it() {
    let (mut rig, election, term) = Rig::leading(true);
    let ticket = rig.stop(election);
    rig.advance(5_000);
    rig.take();
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    let told = Event::Revoked(term.id(), RevokeReason::Stopped);
    assert_eq!(rig.take(), [told, Event::Finished(ticket), Event::Open], "with the reason it ended for");
    assert!(rig.engine.marks().has(Mark::SessionEndedInHandover));
}

/// I44: a step-down does not contend before the cooldown is over, counted from the step-down.
#[test]
fn a_step_down_cools_down_from_the_call() {
    let (mut rig, election, term) = Rig::leading(true);
    let ticket = rig.step_down(election, 20_000);
    rig.advance_renewing(8_000);
    rig.work_exits(&term);
    rig.released(rig.release());
    let events = rig.take();
    assert!(events.contains(&Event::Revoked(term.id(), RevokeReason::SteppedDown)));
    assert!(events.contains(&Event::Finished(ticket)));
    rig.advance_renewing(11_999);
    assert!(rig.take().iter().all(|e| !matches!(e, Event::Acquire(_))));
    rig.advance_renewing(1);
    assert!(rig.take().contains(&Event::Acquire(vec!["job".into()])));
}

/// A cooldown beyond all time does not overflow; the election stays started, and can be stopped.
#[test]
fn an_endless_cooldown_is_endless() {
    let (mut rig, election, _) = Rig::leading(false);
    rig.engine.step_down(rig.now(), election, std::time::Duration::MAX);
    rig.wake();
    rig.released(rig.release());
    rig.advance_renewing(100_000);
    assert_eq!(rig.engine.snapshot().elections[0].role, Role::CoolingDown);
    rig.take();
    let ticket = rig.stop(election);
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
}

/// A candidate can step down too: it does not contend.
#[test]
fn a_candidate_can_step_down() {
    let mut rig = Rig::live();
    let election = rig.start("job");
    rig.answer(rig.acquire(), Ok(held(None)));
    rig.take();
    let ticket = rig.step_down(election, 30_000);
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
    rig.advance_renewing(29_999);
    assert!(rig.take().iter().all(|e| !matches!(e, Event::Acquire(_))));
    assert!(rig.engine.marks().has(Mark::StepDownWithoutTerm));
}

/// A stop that comes during a step-down's handover wins; both complete, once each.
#[test]
fn a_stop_during_a_step_down_wins() {
    let (mut rig, election, term) = Rig::leading(true);
    let down = rig.step_down(election, 1_000);
    let stop = rig.stop(election);
    rig.take();
    rig.work_exits(&term);
    rig.released(rig.release());
    let (id, reason) = (term.id(), RevokeReason::SteppedDown);
    let release = Event::Release(vec![("job".into(), 1)]);
    assert_eq!(
        rig.take(),
        [release, Event::Revoked(id, reason), Event::Finished(down), Event::Finished(stop)],
        "one reason, the first"
    );
    assert!(rig.engine.snapshot().elections.is_empty());
}

/// I43: a repeated stop completes and has no second effect.
#[test]
fn a_repeated_stop_completes() {
    let (mut rig, election, _) = Rig::leading(false);
    rig.stop(election);
    rig.released(rig.release());
    rig.take();
    let again = rig.stop(election);
    assert_eq!(rig.take(), [Event::Finished(again)]);
}

/// I39: a lost term is told at once, whatever its work does, and the node contends again when that is out.
#[test]
fn a_lost_term_does_not_wait_for_its_work() {
    let (mut rig, _, term) = Rig::leading(true);
    rig.advance(5_000);
    rig.take();
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    let (id, reason) = (term.id(), RevokeReason::SessionExpired);
    assert_eq!(rig.take(), [Event::Ended(id, reason), Event::Revoked(id, reason), Event::Open]);
    rig.open(15_000);
    assert_eq!(rig.take(), [], "two runs of one election never overlap in one process");
    rig.work_exits(&term);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
    assert!(rig.engine.marks().has(Mark::Draining));
}

/// Work that ended by itself is not waited for.
#[test]
fn work_that_is_out_already_is_not_waited_for() {
    let (mut rig, election, term) = Rig::leading(true);
    rig.work_exits(&term);
    rig.stop(election);
    assert!(rig.take().contains(&Event::Release(vec![("job".into(), 1)])));
}

/// Releases that are due together go out in one call.
#[test]
fn stops_that_come_together_share_one_release() {
    let mut rig = Rig::live();
    let elections: Vec<_> = (0..100)
        .map(|n| {
            let id = rig.start(&format!("job-{n:03}"));
            rig.win(1);
            id
        })
        .collect();
    rig.take();
    for election in elections {
        rig.engine.stop(rig.now(), election);
    }
    rig.wake();
    let releases: Vec<_> = rig
        .take()
        .into_iter()
        .filter_map(|e| match e {
            Event::Release(leases) => Some(leases.len()),
            _ => None,
        })
        .collect();
    assert_eq!(releases, [100]);
}

/// Close waits for work by the same order, and closes the session last.
#[test]
fn close_waits_for_work() {
    let (mut rig, _, term) = Rig::leading(true);
    rig.start("idle");
    rig.win(8);
    rig.take();
    let ticket = rig.close();
    assert!(rig.take().contains(&Event::Release(vec![("idle".into(), 8)])), "what has no work goes at once");
    rig.released(rig.release());
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(alive(15_000, Owned::Unchanged)));
    rig.take();
    rig.work_exits(&term);
    rig.released(rig.release());
    assert_eq!(rig.take().last(), Some(&Event::Close(SessionId::new(1))));
    let close = rig.calls[0].0;
    rig.answer(close, Err(failed()));
    assert_eq!(rig.take(), [Event::Finished(ticket)], "whatever the store says");
}
