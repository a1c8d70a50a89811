//! Candidates: when they try.

use crate::rig::*;
use simba_backend::{Acquired, Held, Hint, Outcome, VersionStep};
use simba_core::{Mark, Notice, Reply, Request, StartError, StartOptions, Timing};

/// Attempts of candidates that were refused, as milliseconds since the rig was made.
fn attempts(rig: &mut Rig, during_ms: u64, remaining: Option<u64>) -> Vec<u64> {
    let mut at = Vec::new();
    for _ in 0..during_ms {
        rig.advance_renewing(1);
        while let Some((id, Request::Acquire { names, .. }, _)) =
            rig.calls.iter().find(|(_, r, _)| matches!(r, Request::Acquire { .. })).cloned()
        {
            at.push(rig.elapsed_ms());
            let held = Held { holder: None, token: None, remaining: remaining.map(millis) };
            let outcomes = names.iter().map(|_| Outcome::Held(held.clone())).collect();
            rig.answer(id, Ok(Reply::Acquired(Acquired::Judged { step: VersionStep::default(), outcomes })));
        }
    }
    at
}

/// A candidate tries every renew / 2 plus jitter.
#[test]
fn a_refused_candidate_tries_again_after_half_a_renewal_and_jitter() {
    let mut rig = Rig::live();
    rig.start("job");
    let tries = attempts(&mut rig, 120_000, None);
    let gaps: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() > 20);
    assert!(gaps.iter().all(|gap| (2_500..=5_001).contains(gap)), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < 3_500) && gaps.iter().any(|gap| *gap > 4_000), "{gaps:?}");
}

/// Rule 11: a refusal that tells how long the holder has left brings the next try to that instant.
#[test]
fn a_refused_candidate_aims_at_the_holders_end() {
    let mut rig = Rig::live();
    rig.start("job");
    rig.answer(rig.acquire(), Ok(held(Some(1_200))));
    rig.take();
    rig.advance(1_199);
    assert_eq!(rig.take(), [], "not before the holder's session runs out");
    rig.advance(9);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])], "and within the spread after it");
    assert!(rig.engine.marks().has(Mark::AimedAtExpiry));
}

/// A store that says "no time left" again and again is not hammered.
#[test]
fn aiming_does_not_hammer() {
    let mut rig = Rig::live();
    rig.start("job");
    let tries = attempts(&mut rig, 1_000, Some(0));
    assert!(tries.len() <= 251, "{} tries in a second", tries.len());
}

/// Rule 12: what is due together goes out in one call, and stays together.
#[test]
fn ten_thousand_names_make_the_calls_of_one() {
    let mut rig = Rig::live();
    for n in 0..10_000 {
        rig.engine.start(rig.now(), lease(&format!("job-{n}")), StartOptions::default()).expect("free");
    }
    rig.wake();
    let many = attempts(&mut rig, 60_000, None).len();
    let mut rig = Rig::live();
    rig.start("job");
    let one = attempts(&mut rig, 60_000, None).len();
    assert!(many <= one + 3, "{many} calls for ten thousand names, {one} for one");
}

/// Candidates that were started at different times come together on their own.
#[test]
fn candidates_join_each_other() {
    let mut rig = Rig::live();
    for n in 0..100 {
        rig.start(&format!("job-{n}"));
        attempts(&mut rig, 37, None);
    }
    attempts(&mut rig, 30_000, None);
    let calls = attempts(&mut rig, 60_000, None).len();
    assert!(calls <= 40, "{calls} calls in a minute for a hundred names");
    assert!(rig.engine.marks().has(Mark::JoinedRetry));
}

/// I24: one attempt in flight; one that times out is abandoned before the next starts.
#[test]
fn one_attempt_in_flight() {
    let mut rig = Rig::live();
    rig.start("job");
    let first = rig.acquire();
    assert_eq!(rig.patience(first), millis(5_000));
    rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("job")));
    rig.engine.handle_hint(rig.now(), &Hint::Missed);
    rig.take();
    rig.advance_renewing(4_999);
    assert!(rig.take().iter().all(|e| !matches!(e, Event::Acquire(_))));
    rig.advance_renewing(6_000);
    let tries = rig.take().iter().filter(|e| matches!(e, Event::Acquire(_))).count();
    assert_eq!(tries, 1, "given up at 5 s, tried again between 7.5 and 10 s");
    assert!(rig.notices.iter().any(|n| matches!(n, Notice::AttemptFailed { .. })));
}

/// A release that is announced brings the candidates forward, within the spread.
#[test]
fn a_hint_brings_candidates_forward() {
    let mut rig = Rig::live();
    rig.start("job");
    rig.answer(rig.acquire(), Ok(held(None)));
    rig.advance(100);
    rig.take();
    rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("job")));
    rig.advance(5);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
}

/// A hint that comes while an attempt is in flight makes a refusal stale: the next try follows at once.
#[test]
fn a_hint_during_an_attempt_is_not_lost() {
    let mut rig = Rig::live();
    rig.start("job");
    rig.advance(10);
    rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("job")));
    rig.take();
    rig.answer(rig.acquire(), Ok(held(None)));
    rig.advance(5);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
    assert!(rig.engine.marks().has(Mark::HintDuringAttempt));
}

/// I55: a storm of forged hints changes the rate of attempts, and not beyond one a spread.
#[test]
fn forged_hints_cannot_raise_the_rate_beyond_one_a_spread() {
    let mut rig = Rig::live();
    rig.start("job");
    let mut tries = 0;
    for _ in 0..1_000 {
        for _ in 0..100 {
            rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("job")));
            rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("unknown")));
        }
        tries += attempts(&mut rig, 1, None).len();
    }
    assert!((200..=251).contains(&tries), "{tries} attempts in a second, the spread is 4 ms");
}

/// A hint never makes a candidate of one that is not: a leader, one that cools down.
#[test]
fn hints_do_nothing_to_leaders_and_those_that_cool_down() {
    let (mut rig, election, _) = Rig::leading(false);
    rig.engine.handle_hint(rig.now(), &Hint::Missed);
    rig.advance(10);
    assert_eq!(rig.take(), []);
    rig.step_down(election, 60_000);
    rig.released(rig.release());
    rig.take();
    rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("job")));
    rig.advance(10);
    assert_eq!(rig.take(), []);
}

/// I35: a name is used once on a client, until its stop has completed.
#[test]
fn a_name_is_used_once() {
    let (mut rig, election, _) = Rig::leading(false);
    let again = |rig: &mut Rig| rig.engine.start(rig.now(), lease("job"), StartOptions::default());
    assert_eq!(again(&mut rig), Err(StartError::AlreadyStarted(lease("job"))));
    rig.stop(election);
    assert_eq!(again(&mut rig), Err(StartError::AlreadyStarted(lease("job"))), "the release is under way");
    rig.released(rig.release());
    assert!(again(&mut rig).is_ok());
}

/// Without a session there is nothing to ask with; as soon as there is one, all ask together.
#[test]
fn candidates_wait_for_a_session_and_then_ask_together() {
    let mut rig = Rig::new();
    rig.start("a");
    rig.start("b");
    rig.advance(1_000);
    assert_eq!(rig.take(), [Event::Open]);
    rig.open(15_000);
    assert_eq!(rig.take(), [Event::Acquire(vec!["a".into(), "b".into()])]);
}

/// A candidate may try while the session is suspended, but its call ends with the deadline.
#[test]
fn an_attempt_never_outlives_the_deadline() {
    let mut rig = Rig::live();
    rig.advance(5_000);
    rig.answer(rig.keep_alive(), Err(failed()));
    rig.advance(4_900);
    rig.answer(rig.keep_alive(), Err(failed()));
    rig.advance(2_000);
    rig.start("job");
    let call = rig.acquire();
    assert_eq!(rig.patience(call), millis(2_900));
    rig.advance(2_900);
    assert!(rig.take().contains(&Event::Open), "the session has ended");
    rig.open(15_000);
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
}

/// The spread can be switched off.
#[test]
fn without_a_spread_a_hint_is_followed_at_once() {
    let mut rig = Rig::with(Timing::builder().spread(millis(0)).build().expect("legal"));
    rig.open(15_000);
    rig.start("job");
    rig.answer(rig.acquire(), Ok(held(None)));
    rig.take();
    rig.engine.handle_hint(rig.now(), &Hint::Freed(lease("job")));
    rig.wake();
    assert_eq!(rig.take(), [Event::Acquire(vec!["job".into()])]);
}
