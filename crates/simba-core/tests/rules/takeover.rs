//! The store's list against our own view.

use crate::rig::*;
use simba_backend::{Owned, Version, VersionStep};
use simba_core::{Mark, RevokeReason};

fn renew(rig: &mut Rig, owned: Owned) {
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(alive(15_000, owned)));
}

/// Steady: the version is named, and the answer carries no list.
#[test]
fn a_steady_keep_alive_names_the_version() {
    let (mut rig, _, _) = Rig::leading(false);
    renew(&mut rig, Owned::Unchanged);
    renew(&mut rig, Owned::Unchanged);
    let named: Vec<_> = rig.take().into_iter().filter(|e| matches!(e, Event::KeepAlive(_))).collect();
    assert_eq!(named, [Event::KeepAlive(Some(1)), Event::KeepAlive(Some(1))]);
}

/// I31: a list that lacks the lease ends the term, at once and without a release (I32).
#[test]
fn a_list_without_the_lease_is_a_takeover() {
    let (mut rig, _, term) = Rig::leading(false);
    renew(&mut rig, listed(2, vec![]));
    let (id, reason) = (term.id(), RevokeReason::TakenOver);
    assert_eq!(rig.take(), [Event::KeepAlive(Some(1)), Event::Ended(id, reason), Event::Revoked(id, reason)]);
    rig.advance_renewing(5_000);
    assert!(rig.take().contains(&Event::Acquire(vec!["job".into()])), "it contends again");
}

/// I31: the same name with another token counts as taken over; the listed one is nobody's, and is released.
#[test]
fn another_token_is_a_takeover() {
    let (mut rig, _, term) = Rig::leading(false);
    renew(&mut rig, listed(3, vec![grant("job", 2)]));
    assert_eq!(term.end_reason(), Some(RevokeReason::TakenOver));
    assert!(rig.take().contains(&Event::Release(vec![("job".into(), 2)])));
}

/// I31: a term is judged only by a keep-alive that was sent after it was adopted.
#[test]
fn a_list_from_before_the_win_ends_nothing() {
    let mut rig = Rig::live();
    rig.advance(5_000);
    let early = rig.keep_alive();
    rig.start("job");
    let term = rig.win(1);
    rig.answer(early, Ok(alive(15_000, listed(0, vec![]))));
    assert!(rig.is_valid(&term));
    assert!(rig.engine.marks().has(Mark::ListJudgedInPart));
    // The next one asks for the list again, and judges it.
    rig.take();
    rig.advance(5_000);
    assert!(rig.take().contains(&Event::KeepAlive(None)));
    rig.answer(rig.keep_alive(), Ok(alive(15_000, listed(1, vec![]))));
    assert_eq!(term.end_reason(), Some(RevokeReason::TakenOver), "seen within two renew periods");
}

/// Rule 3: a lease that is listed as ours and that nothing here explains is released with the listed token.
#[test]
fn an_orphan_is_released() {
    let mut rig = Rig::live();
    rig.advance(2_000);
    rig.start("job");
    // The reply that would have brought token 6 is lost.
    rig.answer(rig.acquire(), Err(failed()));
    rig.advance(3_000);
    let keep_alive = rig.keep_alive();
    if rig.calls.len() > 1 {
        rig.answer(rig.acquire(), Err(failed()));
    }
    rig.take();
    rig.answer(keep_alive, Ok(alive(15_000, listed(1, vec![grant("job", 6), grant("gone", 2)]))));
    assert_eq!(rig.take(), [Event::Release(vec![("gone".into(), 2), ("job".into(), 6)])]);
    assert!(rig.engine.marks().has(Mark::OrphanFound));
}

/// A lease that is being won is no orphan: it is judged by the next list.
#[test]
fn a_lease_that_is_being_won_is_no_orphan() {
    let mut rig = Rig::live();
    rig.advance(4_000);
    rig.start("job");
    let attempt = rig.acquire();
    rig.advance(1_000);
    rig.take();
    rig.answer(rig.keep_alive(), Ok(alive(15_000, listed(1, vec![grant("job", 6)]))));
    assert_eq!(rig.take(), []);
    let step = VersionStep { before: Version(0), after: Version(1) };
    rig.answer(attempt, Ok(won(6, step)));
    assert!(rig.is_valid(&rig.terms[0]));
    rig.advance(5_000);
    assert!(rig.take().contains(&Event::KeepAlive(None)), "what was not judged is asked for again");
}

/// A lease that is being released is no orphan either.
#[test]
fn a_lease_that_is_being_released_is_no_orphan() {
    let (mut rig, election, _) = Rig::leading(false);
    rig.advance(4_999);
    rig.stop(election);
    rig.advance(1);
    rig.take();
    rig.answer(rig.keep_alive(), Ok(alive(15_000, listed(1, vec![grant("job", 1)]))));
    assert_eq!(rig.take(), []);
}

/// A release whose answer is lost is found by the next list, and sent again.
#[test]
fn a_lost_release_is_sent_again() {
    let (mut rig, election, _) = Rig::leading(false);
    rig.stop(election);
    rig.answer(rig.release(), Err(failed()));
    rig.take();
    rig.advance(5_000);
    assert_eq!(rig.take(), [Event::KeepAlive(None)], "the version is not known any more");
    rig.answer(rig.keep_alive(), Ok(alive(15_000, listed(1, vec![grant("job", 1)]))));
    assert_eq!(rig.take(), [Event::Release(vec![("job".into(), 1)])]);
}

/// A gap in the versions means that something happened which was not seen here.
#[test]
fn a_gap_in_the_versions_asks_for_the_list() {
    let mut rig = Rig::live();
    rig.start("job");
    let call = rig.acquire();
    let step = VersionStep { before: Version(1), after: Version(2) };
    rig.answer(call, Ok(won(1, step)));
    rig.advance(5_000);
    assert!(rig.take().contains(&Event::KeepAlive(None)));
}
