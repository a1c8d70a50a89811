//! The local deadline and the validity of terms.

use crate::rig::*;
use simba_backend::Owned;
use simba_core::{DeadlineWriter, Instant, Latched, Mark, RevokeReason, local_validity};

/// I7: counted from the sending, not from the reply.
#[test]
fn the_deadline_counts_from_the_send() {
    let mut rig = Rig::new();
    rig.advance(3_000);
    rig.open(15_000);
    rig.start("job");
    let term = rig.win(1);
    // 14.8 s of validity, of which 3 s passed while the reply was under way.
    assert_eq!(rig.remaining_ms(&term), 11_800);
    rig.advance(2_000);
    let call = rig.keep_alive();
    rig.advance(4_000);
    rig.answer(call, Ok(alive(15_000, Owned::Unchanged)));
    assert_eq!(rig.remaining_ms(&term), 10_800);
}

/// I7: the newest word of the store counts: one that promises less brings the deadline nearer, and the next renewal.
#[test]
fn a_shorter_promise_brings_the_deadline_nearer() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(alive(1_000, Owned::Unchanged)));
    assert_eq!(rig.remaining_ms(&term), 940);
    rig.advance(470);
    rig.answer(rig.keep_alive(), Ok(alive(15_000, Owned::Unchanged)));
    assert_eq!(rig.remaining_ms(&term), 14_800, "renewed in time");
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(alive(40, Owned::Unchanged)));
    assert_eq!(
        term.end_reason(),
        Some(RevokeReason::DeadlinePassed),
        "less than the margin is no time at all"
    );
}

/// I8: an answer that is handled at the deadline changes nothing, even if the store said "alive".
#[test]
fn a_late_renewal_never_extends() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Err(failed()));
    rig.advance(4_900);
    let call = rig.keep_alive();
    rig.pause(4_900);
    // Exactly the deadline, and the engine hears the answer before it hears the clock.
    rig.take();
    rig.answer(call, Ok(alive(15_000, Owned::Unchanged)));
    assert!(!rig.is_valid(&term));
    assert_eq!(term.end_reason(), Some(RevokeReason::DeadlinePassed));
    assert!(rig.engine.marks().has(Mark::LateRenewalRefused));
}

/// I9, I10: the first read after a pause is right with the engine frozen.
#[test]
fn validity_needs_no_task() {
    let (rig, _, term) = Rig::leading(false);
    rig.pause(14_799);
    assert!(rig.is_valid(&term));
    assert_eq!(rig.remaining_ms(&term), 1);
    rig.pause(1);
    assert!(!rig.is_valid(&term));
    assert_eq!(rig.remaining_ms(&term), 0);
    assert_eq!(term.end_reason(), None, "the engine has not run");
}

/// I6: what a reader has seen pass stays passed, although the engine has a renewal in hand that was in time.
#[test]
fn what_has_read_invalid_never_reads_valid() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(5_000);
    let in_time = rig.now();
    let call = rig.keep_alive();
    rig.pause(9_800);
    assert!(!rig.is_valid(&term), "a reader has seen the deadline pass");
    // The engine had read its clock before that reader did.
    rig.engine.handle_reply(in_time, call, Ok(alive(15_000, Owned::Unchanged)));
    assert!(!rig.is_valid(&term));
    assert!(rig.engine.marks().has(Mark::ExtensionLostToLatch));
    assert_eq!(term.end_reason(), Some(RevokeReason::DeadlinePassed));
}

/// L5: the engine wakes at the deadline by itself.
#[test]
fn the_end_is_told_at_the_deadline_without_traffic() {
    let (mut rig, _, term) = Rig::leading(false);
    rig.advance(14_800);
    assert!(rig.take().contains(&Event::Revoked(term.id(), RevokeReason::DeadlinePassed)));
}

/// I34: an old handle never shows the state of a new term.
#[test]
fn a_new_term_is_another_term() {
    let (mut rig, _, old) = Rig::leading(false);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    rig.open(15_000);
    let new = rig.win(2);
    assert!(rig.is_valid(&new) && !rig.is_valid(&old));
    assert_ne!(old.id(), new.id());
    assert_eq!((old.token(), new.token()), (token(1), token(2)));
}

/// One store extends every term of the node.
#[test]
fn one_renewal_extends_every_term() {
    let mut rig = Rig::live();
    let terms: Vec<_> = (0..20)
        .map(|n| {
            rig.start(&format!("job-{n}"));
            rig.win(1)
        })
        .collect();
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(alive(15_000, Owned::Unchanged)));
    assert!(terms.iter().all(|term| rig.remaining_ms(term) == 14_800));
}

/// The formula rounds down, saturates, and never panics.
#[test]
fn the_formula_at_its_edges() {
    let timing = simba_core::Timing::default();
    assert_eq!(local_validity(millis(0), &timing), millis(0));
    assert_eq!(local_validity(millis(50), &timing), millis(0));
    let odd = std::time::Duration::from_nanos(1_000_000_001);
    assert_eq!(local_validity(odd, &timing).as_nanos(), 940_000_000);
    assert!(local_validity(std::time::Duration::MAX, &timing) > millis(1 << 40));
    assert_eq!(Instant::MAX.saturating_add(millis(1)), Instant::MAX);
}

/// The cell by itself.
#[test]
fn the_latch_is_final() {
    let at = Instant::from_nanos;
    let mut writer = DeadlineWriter::new(at(100));
    let cell = writer.cell();
    assert_eq!(cell.valid_until(|| at(99)), Some((at(99), at(100))));
    assert_eq!(writer.set(at(100)), Ok(()));
    assert_eq!(writer.set(at(200)), Ok(()));
    assert_eq!(cell.valid_until(|| at(200)), None, "the deadline itself is past");
    assert_eq!(writer.set(at(300)), Err(Latched));
    assert_eq!(cell.valid_until(|| at(1)), None);
    assert!(cell.is_ended());
}
