//! Pairing, and deliveries that are refused.

use crate::rig::*;
use simba_core::{Mark, RevokeReason};

fn refuse(rig: &mut Rig, term: &simba_core::Term) {
    rig.engine.handle_delivery_refused(rig.now(), term.id());
    rig.wake();
}

/// I42: nobody learnt of the term: no work, no revoked, the lease is given back, and the election cools down.
#[test]
fn a_refused_delivery_steps_down_in_silence() {
    for working in [false, true] {
        let (mut rig, _, term) = Rig::leading(working);
        refuse(&mut rig, &term);
        let ended = Event::Ended(term.id(), RevokeReason::SteppedDown);
        assert_eq!(rig.take(), [ended, Event::Release(vec![("job".into(), 1)])]);
        rig.released(rig.release());
        rig.advance_renewing(14_999);
        assert!(rig.take().iter().all(|e| !matches!(e, Event::Acquire(_) | Event::Revoked(..))));
        rig.advance_renewing(1);
        assert!(rig.take().contains(&Event::Acquire(vec!["job".into()])), "one lease time later it contends");
        let second = rig.win(2);
        rig.advance(5_000);
        rig.answer(rig.keep_alive(), Ok(EXPIRED));
        let told = Event::Revoked(second.id(), RevokeReason::SessionExpired);
        assert!(rig.take().contains(&told), "the silence was for that one term");
        assert!(rig.engine.marks().has(Mark::DeliveryRefused));
    }
}

/// A refusal that comes during the handover keeps that term's revoked back too.
#[test]
fn a_refused_delivery_during_the_handover() {
    let (mut rig, election, term) = Rig::leading(true);
    let ticket = rig.stop(election);
    refuse(&mut rig, &term);
    rig.released(rig.release());
    let events = rig.take();
    assert!(events.iter().all(|e| !matches!(e, Event::Revoked(..))), "{events:?}");
    assert!(events.contains(&Event::Finished(ticket)));
}

/// A refusal that comes after the term was lost lets the election contend again.
#[test]
fn a_refused_delivery_after_the_loss() {
    let (mut rig, _, term) = Rig::leading(true);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    rig.open(15_000);
    rig.take();
    refuse(&mut rig, &term);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
}

/// I40: one revoked for each elected, whatever comes together.
#[test]
fn one_revoked_for_each_elected() {
    let (mut rig, election, term) = Rig::leading(false);
    rig.stop(election);
    rig.stop(election);
    rig.close();
    rig.pause(60_000);
    rig.wake();
    rig.advance(60_000);
    let told = rig.take().iter().filter(|e| matches!(e, Event::Revoked(id, _) if *id == term.id())).count();
    assert_eq!(told, 1);
}

/// I30: a deadline that has passed wins over everything that is handled after it.
#[test]
fn a_passed_deadline_is_the_reason() {
    let (mut rig, election, term) = Rig::leading(false);
    rig.pause(14_800);
    rig.stop(election);
    assert_eq!(term.end_reason(), Some(RevokeReason::DeadlinePassed));
    rig.advance(1_000);
    let released = rig.take().iter().any(|e| matches!(e, Event::Release(_)));
    assert!(!released, "its session is closed instead");
}
