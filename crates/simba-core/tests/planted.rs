//! Planted bugs that show in one engine by itself. The simulator catches the others.
#![cfg(feature = "planted")]

use simba_backend::{Acquired, Held, Hint, LeaseName, Opened, Outcome, SessionId, VersionStep};
use simba_core::{Engine, Instant, Output, Planted, Reply, Request, StartOptions, Timing};
use std::time::Duration;

/// Attempts in one second of forged hints, each refused at once.
fn attempts_in_a_storm(bug: Option<Planted>) -> u32 {
    let mut now = 1_000_000_000;
    let mut engine = Engine::new(Timing::default(), 3, Instant::from_nanos(now));
    if let Some(bug) = bug {
        engine.plant(bug);
    }
    let name = LeaseName::new("job").expect("a name");
    engine.start(Instant::from_nanos(now), name.clone(), StartOptions::default()).expect("free");
    let lease = Duration::from_secs(15);
    let mut attempts = 0;
    for _ in 0..10_000 {
        now += 100_000;
        let at = Instant::from_nanos(now);
        engine.handle_hint(at, &Hint::Freed(name.clone()));
        engine.handle_wakeup(at);
        while let Some(output) = engine.poll_output() {
            let Output::Call { id, request, .. } = output else { continue };
            let reply = match request {
                Request::Open { .. } => {
                    Reply::Opened(Opened { session: SessionId::new(1), granted: lease, remaining: lease })
                }
                Request::Acquire { .. } => {
                    attempts += 1;
                    let outcomes = vec![Outcome::Held(Held::default())];
                    Reply::Acquired(Acquired::Judged { step: VersionStep::default(), outcomes })
                }
                Request::KeepAlive { .. } | Request::Release(_) | Request::Close { .. } => continue,
            };
            engine.handle_reply(at, id, Ok(reply));
        }
    }
    attempts
}

/// M42: without the pace, a storm of hints becomes a storm of attempts; with it, at most one a spread (4 ms).
#[test]
fn m42_a_hint_that_always_tries_is_caught_by_the_rate_of_attempts() {
    let paced = attempts_in_a_storm(None);
    assert!((200..=252).contains(&paced), "{paced} attempts in a second");
    let wild = attempts_in_a_storm(Some(Planted::M42HintAlwaysTries));
    assert!(wild > 1_000, "{wild} attempts in a second");
}
