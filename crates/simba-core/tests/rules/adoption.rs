//! Which wins are adopted, and what happens to the others.

use crate::rig::*;
use simba_backend::{Owned, VersionStep};
use simba_core::{Mark, Notice};

/// I25, I27: a win that comes with the reply to an abandoned attempt is released, with its token.
#[test]
fn a_win_of_an_abandoned_attempt_is_released() {
    let mut rig = Rig::live();
    rig.start("job");
    let first = rig.acquire();
    rig.advance_renewing(5_500);
    rig.take();
    rig.win_call(first, 4);
    assert_eq!(rig.take(), [Event::Release(vec![("job".into(), 4)])]);
    assert!(rig.terms.is_empty());
    assert!(rig.engine.marks().has(Mark::LateWinReleased));
}

/// I26, F5: two attempts get one token; the first reply is released late; the second must not be adopted.
#[test]
fn f5_a_token_that_was_released_is_spent() {
    let mut rig = Rig::live();
    rig.start("job");
    let first = rig.acquire();
    rig.advance_renewing(5_000);
    rig.calls.retain(|(id, ..)| *id == first);
    rig.advance_renewing(5_000);
    let second = rig.calls.last().expect("a second attempt").0;
    assert_ne!(first, second);
    let step = rig.step(1);
    rig.answer(first, Ok(won(4, step)));
    rig.take();
    let same = rig.step(0);
    rig.answer(second, Ok(won(4, same)));
    assert!(rig.terms.is_empty(), "the release of token 4 is under way");
    assert_eq!(rig.take(), [], "and it is released once");
    assert!(rig.engine.marks().has(Mark::WinBelowFloor));
    // The next attempt gets a new token, and that one is good.
    rig.advance_renewing(5_000);
    rig.win_call(rig.calls.last().expect("a third attempt").0, 5);
    assert_eq!(rig.terms.last().map(|t| t.token()), Some(token(5)));
}

/// A late reply that names the token of the present term must not release it.
#[test]
fn a_late_reply_with_the_present_token_releases_nothing() {
    let mut rig = Rig::live();
    rig.start("job");
    let first = rig.acquire();
    rig.advance_renewing(10_000);
    let second = rig.calls.iter().rfind(|(id, ..)| *id != first).expect("a second attempt").0;
    rig.win_call(second, 4);
    rig.take();
    let same = rig.step(0);
    rig.answer(first, Ok(won(4, same)));
    assert_eq!(rig.take(), []);
    assert!(rig.is_valid(&rig.terms[0]));
    assert!(rig.engine.marks().has(Mark::LateWinIsCurrent));
}

/// I25: no adoption after a stop; the win is released.
#[test]
fn a_win_after_stop_is_released() {
    let mut rig = Rig::live();
    let election = rig.start("job");
    let call = rig.acquire();
    let ticket = rig.stop(election);
    assert!(rig.take().contains(&Event::Finished(ticket)), "nothing to wait for");
    rig.win_call(call, 3);
    assert_eq!(rig.take(), [Event::Release(vec![("job".into(), 3)])]);
    assert!(rig.engine.marks().has(Mark::StopDuringAttempt));
}

/// I25: no adoption while cooling down.
#[test]
fn a_win_while_cooling_down_is_released() {
    let mut rig = Rig::live();
    let election = rig.start("job");
    let call = rig.acquire();
    rig.step_down(election, 60_000);
    rig.take();
    rig.win_call(call, 3);
    assert_eq!(rig.take(), [Event::Release(vec![("job".into(), 3)])]);
}

/// I25: a reply that is read after the deadline is not adopted.
#[test]
fn a_win_after_the_deadline_is_not_adopted() {
    let mut rig = Rig::live();
    rig.start("job");
    let call = rig.acquire();
    rig.pause(14_800);
    rig.win_call(call, 3);
    assert!(rig.terms.is_empty());
}

/// A term shares the session's deadline; it has no lease time of its own.
#[test]
fn a_term_ends_with_the_session_it_was_won_in() {
    let mut rig = Rig::live();
    rig.advance(4_000);
    rig.start("job");
    let term = rig.win(1);
    assert_eq!(rig.remaining_ms(&term), 10_800);
}

/// Tokens that go back on a store that lost writes are an event, and are never adopted.
#[test]
fn a_token_that_goes_back_is_refused_and_told() {
    let mut rig = Rig::live();
    rig.start("job");
    rig.win(40);
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Ok(EXPIRED));
    rig.open(15_000);
    rig.take();
    let call = rig.acquire();
    rig.win_call(call, 7);
    assert_eq!(rig.terms.len(), 1);
    assert_eq!(rig.take(), [Event::Release(vec![("job".into(), 7)])]);
    let told = Notice::TokenRegressed { name: lease("job"), seen: token(40), given: token(7) };
    assert!(rig.notices.contains(&told));
}

/// A retry after a lost reply is harmless: the store answers the token it gave before, and it is adopted.
#[test]
fn an_answer_with_the_existing_token_is_adopted() {
    let mut rig = Rig::live();
    rig.start("job");
    let lost = rig.acquire();
    rig.answer(lost, Err(failed()));
    rig.advance_renewing(5_000);
    let call = rig.acquire();
    let same = rig.step(0);
    rig.answer(call, Ok(won(4, same)));
    assert_eq!(rig.terms.last().map(|t| t.token()), Some(token(4)));
}

/// A reply that does not fit its request is a failure, not a win.
#[test]
fn a_malformed_reply_is_a_failure() {
    let mut rig = Rig::live();
    rig.start("job");
    let call = rig.acquire();
    let wrong = simba_core::Reply::Acquired(simba_backend::Acquired::Judged {
        step: VersionStep::default(),
        outcomes: vec![],
    });
    rig.answer(call, Ok(wrong));
    assert!(rig.terms.is_empty());
    rig.advance_renewing(5_000);
    assert_eq!(rig.calls.len(), 1, "tried again");
    let call = rig.acquire();
    rig.answer(call, Ok(alive(15_000, Owned::Unchanged)));
    assert!(rig.terms.is_empty());
}

/// A duplicate of an answer, or one to a call that never was, is ignored.
#[test]
fn foreign_replies_are_ignored() {
    let mut rig = Rig::live();
    rig.start("job");
    let call = rig.acquire();
    rig.win_call(call, 1);
    rig.take();
    let same = rig.step(0);
    rig.answer(call, Ok(won(9, same)));
    assert_eq!(rig.take(), []);
    assert!(rig.engine.marks().has(Mark::ForeignReply));
}
