//! Sessions: opening, renewal, suspension, expiry, close.

use crate::rig::*;
use simba_backend::{Acquired, KeepAlive, Opened, Owned, SessionId, VersionStep};
use simba_core::{
    Mark, Notice, Reply, RevokeReason, SessionEnd, SessionStatus, StartError, StartOptions, Timing,
};

fn status(rig: &Rig) -> SessionStatus {
    rig.engine.snapshot().session.status
}

/// I20: one keep-alive a period, whatever the number of leases.
#[test]
fn one_keep_alive_a_period_whatever_the_number_of_leases() {
    let mut rig = Rig::live();
    for n in 0..50 {
        rig.start(&format!("job-{n}"));
        rig.win(1);
    }
    rig.take();
    rig.advance_renewing(50_000);
    let renewals = rig.take().iter().filter(|e| matches!(e, Event::KeepAlive(_))).count();
    assert_eq!(renewals, 10);
}

/// I18: OPENING, LIVE, SUSPENDED, LIVE, OPENING, CLOSED.
#[test]
fn status_follows_the_last_keep_alive() {
    let mut rig = Rig::new();
    assert_eq!(status(&rig), SessionStatus::Opening);
    rig.open(15_000);
    assert_eq!(status(&rig), SessionStatus::Live);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Err(failed()));
    assert_eq!(status(&rig), SessionStatus::Suspended);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(alive(15_000, Owned::Unchanged)));
    assert_eq!(status(&rig), SessionStatus::Live);
    assert!(rig.engine.marks().has(Mark::SuspensionRecovered));
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    assert_eq!(status(&rig), SessionStatus::Opening);
    let ticket = rig.close();
    assert_eq!(rig.take().last(), Some(&Event::Open), "an open is under way, and is waited for");
    rig.answer(rig.open_call(), Err(failed()));
    assert_eq!(status(&rig), SessionStatus::Closed);
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
}

/// Terms stay valid while the session is suspended; one failed keep-alive ends nothing (B12).
#[test]
fn suspended_terms_stay_valid_until_the_deadline() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Err(failed()));
    assert!(rig.is_valid(&term));
    rig.advance(9_799);
    assert!(rig.is_valid(&term), "the deadline is at 14.8 s");
    rig.advance(1);
    assert!(!rig.is_valid(&term));
    assert_eq!(term.end_reason(), Some(RevokeReason::DeadlinePassed));
    assert!(rig.engine.marks().has(Mark::SuspensionEnded));
}

/// I19: after a failure the next try comes after half the time left, capped at the period, at least the least
/// backoff, and none after the deadline.
#[test]
fn retries_halve_the_time_left_until_the_deadline() {
    let (mut rig, _, _) = Rig::leading(false);
    rig.take();
    let mut tries = Vec::new();
    while rig.engine.snapshot().session.status != SessionStatus::Opening {
        rig.advance(1);
        if rig.take().iter().any(|e| matches!(e, Event::KeepAlive(_))) {
            tries.push(rig.elapsed_ms());
            rig.answer(rig.keep_alive(), Err(failed()));
        }
    }
    // The deadline is at 14.8 s: 9.8 s left makes 4.9 s, then 4.9 s left makes 2.45 s, and so on to 100 ms.
    assert_eq!(tries, [5_000, 9_900, 12_350, 13_575, 14_188, 14_494, 14_647, 14_747]);
    assert!(rig.engine.marks().has(Mark::NoTimeForAnotherTry));
}

/// I19: one keep-alive in flight; it is given up after a period, or at the deadline if that is sooner.
#[test]
fn a_stuck_keep_alive_is_given_up_after_a_period() {
    let (mut rig, _, _) = Rig::leading(false);
    rig.advance(5_000);
    let stuck = rig.keep_alive();
    assert_eq!(rig.patience(stuck), millis(5_000));
    rig.advance(4_999);
    assert_eq!(rig.calls.len(), 1, "no second keep-alive beside it");
    rig.advance(1);
    assert_eq!(status(&rig), SessionStatus::Suspended);
    // 4.8 s are left: the next try comes after 2.4 s, and may take no longer than what is left then.
    rig.advance(2_400);
    let (second, _, patience) = rig.calls.last().cloned().expect("a second try");
    assert_eq!(patience, millis(2_400));
    rig.answer(stuck, Ok(alive(15_000, Owned::Unchanged)));
    assert_eq!(
        status(&rig),
        SessionStatus::Suspended,
        "the answer to a call that was given up proves nothing new"
    );
    rig.answer(second, Ok(alive(15_000, Owned::Unchanged)));
    assert_eq!(status(&rig), SessionStatus::Live);
}

/// An expired answer counts however late it comes: the session is over for ever.
#[test]
fn a_late_expired_answer_still_counts() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    let stuck = rig.keep_alive();
    rig.advance(5_000);
    rig.answer(stuck, Ok(EXPIRED));
    assert_eq!(term.end_reason(), Some(RevokeReason::SessionExpired));
    assert!(rig.engine.marks().has(Mark::LateExpiredCounted));
}

/// I14, I16: after an expiry a new session with a new id is opened, and only then does the node contend.
#[test]
fn an_expired_session_is_replaced_before_the_node_contends() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    rig.take();
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    let id = term.id();
    let reason = RevokeReason::SessionExpired;
    assert_eq!(rig.take(), [Event::Ended(id, reason), Event::Revoked(id, reason), Event::Open]);
    let second = rig.open(15_000);
    assert_eq!(second, SessionId::new(2));
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
}

/// Any call may say that the session is over, an acquire too.
#[test]
fn an_acquire_that_says_expired_ends_the_session() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.start("other");
    rig.answer(rig.acquire(), Ok(Reply::Acquired(Acquired::Expired)));
    assert_eq!(term.end_reason(), Some(RevokeReason::SessionExpired));
    assert_eq!(status(&rig), SessionStatus::Opening);
}

/// After the deadline the old session is closed in passing, and a new one opened without waiting for that.
#[test]
fn after_the_deadline_the_old_session_is_closed_in_passing() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    rig.take();
    rig.pause(9_800);
    rig.wake();
    let id = term.id();
    let reason = RevokeReason::DeadlinePassed;
    let close = Event::Close(SessionId::new(1));
    assert_eq!(rig.take(), [Event::Ended(id, reason), Event::Revoked(id, reason), close, Event::Open]);
    rig.open(15_000);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])], "the close is not waited for");
}

/// L2, L10: however often opening fails, the node goes on, with a backoff that ends at the renew interval.
#[test]
fn opening_is_tried_for_ever() {
    let mut rig = Rig::new();
    rig.start("job");
    let mut last = rig.elapsed_ms();
    for _ in 0..40 {
        rig.answer(rig.open_call(), Err(failed()));
        rig.take();
        while rig.events.is_empty() {
            rig.advance(1);
        }
        assert!(rig.elapsed_ms() - last <= 5_000);
        last = rig.elapsed_ms();
    }
    rig.open(15_000);
    assert!(rig.take().contains(&Event::Acquire(vec!["job".into()])));
}

/// Two servers that each believe in themselves (a failover from a master that wakes up) end what the other one opens. That
/// is no reason to open sessions as fast as they can answer.
#[test]
fn a_session_that_is_over_before_its_first_renewal_is_followed_by_a_backoff() {
    let mut rig = Rig::new();
    rig.start("job");
    let mut waits = Vec::new();
    for _ in 0..20 {
        rig.open(15_000);
        let acquire = rig.acquire();
        rig.take();
        rig.answer(acquire, Ok(Reply::Acquired(Acquired::Expired)));
        let from = rig.elapsed_ms();
        while !rig.take().contains(&Event::Open) {
            rig.advance(1);
        }
        waits.push(rig.elapsed_ms() - from);
    }
    assert!(rig.engine.marks().has(Mark::ExpiredBeforeRenewal));
    // Once may be a person who ends it.
    assert!(waits[0] == 0 && waits[1] > 0 && waits.iter().all(|wait| *wait <= 5_000), "{waits:?}");
    assert!(waits[10..].iter().all(|wait| *wait >= 2_400), "{waits:?}");
    // A session that was renewed is none of them: the next one is opened at once.
    rig.open(15_000);
    rig.advance(5_000);
    let call = rig.keep_alive();
    rig.answer(call, Ok(alive(15_000, Owned::Unchanged)));
    rig.take();
    rig.advance(5_000);
    let call = rig.keep_alive();
    rig.answer(call, Ok(Reply::KeepAlive(KeepAlive::Expired)));
    assert!(rig.take().contains(&Event::Open));
}

/// An open that was given up, and is answered after all, leaves a session on the store: it is closed.
#[test]
fn a_late_open_is_closed() {
    let mut rig = Rig::new();
    let first = rig.open_call();
    rig.advance(6_000);
    let opened = Opened { session: SessionId::new(77), granted: millis(15_000), remaining: millis(15_000) };
    rig.take();
    rig.answer(first, Ok(Reply::Opened(opened)));
    assert_eq!(rig.take(), [Event::Close(SessionId::new(77))]);
    assert!(rig.engine.marks().has(Mark::LateOpenClosed));
}

/// A session whose deadline has passed by the time its reply comes is of no use.
#[test]
fn a_session_that_opens_too_late_is_not_used() {
    let mut rig = Rig::new();
    rig.start("job");
    rig.advance(4_000);
    rig.take();
    rig.open(4_000);
    assert_eq!(rig.take(), [Event::Close(SessionId::new(1))]);
    assert!(rig.engine.marks().has(Mark::OpenedTooLate));
}

/// I21: a grant in which two keep-alives do not fit: a third of its local validity, and one notice.
#[test]
fn a_shortened_lease_is_renewed_more_often_and_told_once() {
    let mut rig = Rig::new();
    rig.start("job");
    rig.open_granted(4_000, 4_000);
    rig.win(1);
    // 4 s less one percent less 50 ms: 3.91 s, and a third of that.
    let told = |rig: &Rig| {
        rig.notices.iter().filter(|n| matches!(n, Notice::LeaseShortened { .. })).cloned().collect::<Vec<_>>()
    };
    let [Notice::LeaseShortened { requested, granted, period, .. }] = told(&rig)[..] else {
        panic!("one notice")
    };
    assert_eq!((requested, granted), (millis(15_000), millis(4_000)));
    assert_eq!(period.as_micros(), 1_303_333);
    for _ in 0..10 {
        rig.advance(1_304);
        let call = rig.keep_alive();
        assert!(rig.patience(call) <= period, "a call's limit follows the period in effect");
        rig.answer(call, Ok(alive(4_000, Owned::Unchanged)));
    }
    assert_eq!(told(&rig).len(), 1);
    assert_eq!(rig.terms[0].end_reason(), None, "no term was lost");
}

/// A shortened grant in which two keep-alives do fit changes nothing.
#[test]
fn a_shortened_lease_that_fits_keeps_the_renew_interval() {
    let mut rig = Rig::new();
    rig.open_granted(11_000, 11_000);
    assert_eq!(rig.engine.snapshot().session.period, Some(millis(5_000)));
    assert!(!rig.engine.marks().has(Mark::LeaseShortened));
}

/// renew = lease / 2 with a full grant is legal and stays, although drift and margin leave less than two periods.
#[test]
fn half_the_lease_with_a_full_grant_stays() {
    let timing = Timing::builder().lease(millis(10_000)).renew(millis(5_000)).build().expect("legal");
    let mut rig = Rig::with(timing);
    rig.open(10_000);
    assert_eq!(rig.engine.snapshot().session.period, Some(millis(5_000)));
    assert!(rig.notices.iter().all(|n| !matches!(n, Notice::LeaseShortened { .. })));
}

/// A grant of which drift and margin leave nothing is refused with a reason, not used.
#[test]
fn a_grant_that_leaves_nothing_is_refused() {
    let mut rig = Rig::new();
    rig.take();
    rig.open_granted(52, 52);
    assert_eq!(rig.take(), [Event::Close(SessionId::new(1))]);
    let told = rig.notices.iter().any(|n| {
        matches!(n, Notice::OpenFailed { failure, .. }
        if failure.message.contains("grants a lease time of 52ms instead of 15s"))
    });
    assert!(told, "{:?}", rig.notices);
}

/// I17: close ends every term, releases what has no work at once, and closes the session last.
#[test]
fn close_revokes_releases_and_closes_in_that_order() {
    let (mut rig, _, term) = Rig::leading(false);
    let ticket = rig.close();
    let id = term.id();
    let stopped = RevokeReason::Stopped;
    let release = Event::Release(vec![("job".into(), 1)]);
    assert_eq!(rig.take(), [Event::Ended(id, stopped), release, Event::Revoked(id, stopped)]);
    rig.released(rig.release());
    assert_eq!(rig.take(), [Event::Close(SessionId::new(1))]);
    let close = rig.calls[0].0;
    rig.answer(close, Ok(Reply::Closed));
    assert_eq!(rig.take(), [Event::Finished(ticket)]);
    assert!(rig.engine.is_closed());
    assert!(rig.notices.iter().any(|n| matches!(n, Notice::SessionEnded { reason: SessionEnd::Closed, .. })));
    assert_eq!(rig.engine.next_wakeup(), None);
}

/// L3, L6: close completes although the store answers nothing.
#[test]
fn close_completes_with_a_dead_store() {
    let (mut rig, _, term) = Rig::leading(true);
    let ticket = rig.close();
    assert!(!rig.is_valid(&term));
    rig.advance(14_800 + 5_000);
    assert!(rig.take().contains(&Event::Finished(ticket)));
    assert!(rig.engine.is_closed());
}

/// Nothing starts on a closed client, and closing again completes.
#[test]
fn a_closed_client_refuses_and_completes() {
    let mut rig = Rig::live();
    rig.close();
    rig.advance(5_000);
    assert!(rig.engine.is_closed());
    let refused = rig.engine.start(rig.now(), lease("job"), StartOptions::default());
    assert_eq!(refused, Err(StartError::Closed));
    rig.take();
    let again = rig.close();
    assert_eq!(rig.take(), [Event::Finished(again)]);
}

/// I22: a call of an ended session is not repeated, and its late answer changes nothing.
#[test]
fn late_answers_of_an_ended_session_change_nothing() {
    let mut rig = Rig::live();
    rig.start("job");
    let attempt = rig.acquire();
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    rig.open(15_000);
    rig.take();
    let step = VersionStep::default();
    rig.answer(attempt, Ok(won(9, step)));
    assert_eq!(
        rig.take(),
        [Event::Release(vec![("job".into(), 9)])],
        "what it won is released, with the old session"
    );
}
