//! What cannot be reached from outside: a dispatcher that is gone at the very moment of an election, a forked child,
//! and what is left behind.

use simba_backend::{NodeLabel, Owner};
use simba_core::{RevokeReason, Role, Timing};
use simba_memory::MemoryBackend;
use std::{future::Future, sync::Arc, task::Context, time::Duration};
use tokio::sync::mpsc;

use super::{Driver, Input, Parts, Shared, assemble};
use crate::{
    Error, Event, Simba, TermEvent,
    clock::{BootClock, Clock, ManualClock, Source},
    contender::Contender,
    wait::lock,
};

fn parts(pid: u32, clock: &ManualClock) -> Parts {
    let stores = clock.clone();
    let store = MemoryBackend::new(move || stores.now().as_nanos());
    Parts {
        id: 1_000_000,
        owner: Owner {
            node: NodeLabel::sanitized("a"),
            host: NodeLabel::sanitized("h"),
            pid,
            version: String::new(),
        },
        timing: Timing::default(),
        clock: Source::Other(Arc::new(clock.clone())),
        seed: 1,
        backend: Arc::new(store),
        #[cfg(feature = "planted")]
        planted: None,
    }
}

fn assembled() -> (ManualClock, Arc<Shared>, Driver) {
    let clock = ManualClock::new();
    let (shared, driver) = assemble(parts(std::process::id(), &clock));
    (clock, shared, driver)
}

/// M33 and the spec's last rule on callbacks: if nobody can be told of a term, its work never starts, the election
/// steps down for one lease time, and the end of that term is not told either.
#[tokio::test]
async fn m33_a_term_that_cannot_be_delivered_is_given_up_for_one_lease_and_its_end_is_not_told() {
    let (_clock, shared, driver) = assembled();
    let mut events = shared.events.subscribe();
    let (mailbox, gone) = mpsc::unbounded_channel();
    drop(gone);
    let (contender, end) = Contender::new(&shared, "job".parse().unwrap()).unwrap();
    let mut stream = contender.subscribe();
    shared.send(Input::Start { contender: Arc::clone(&contender), mailbox: Some(mailbox), end });
    let running = tokio::spawn(driver.run());
    loop {
        match events.next().await.unwrap() {
            Event::DeliveryRefused { token, .. } => break assert_eq!(token.get(), 1),
            Event::Elected { .. } => panic!("nobody was told"),
            _ => {}
        }
    }
    let out = loop {
        let view = lock(&shared.engine).snapshot().elections.remove(0);
        if view.role == Role::CoolingDown {
            break view.next_at.unwrap().saturating_since(shared.clock.now());
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(out, Duration::from_secs(15));
    shared.close();
    running.await.unwrap();
    assert!(stream.recv().await.is_none(), "neither beginning nor end was told");
    while let Some(event) = events.next().await {
        assert!(!matches!(event, Event::Revoked { .. }), "{event:?}");
    }
}

/// Any other process than the one that built the client.
#[test]
fn a_forked_child_is_refused_and_does_nothing_to_its_parents_session() {
    let clock = ManualClock::new();
    let (shared, mut driver) = assemble(parts(std::process::id() + 1, &clock));
    let simba = Simba::new(Arc::clone(&shared));
    let forked = |error: Error| assert!(error.to_string().contains("forked"), "{error}");
    forked(simba.election("job").unwrap_err());
    let now = |future: std::pin::Pin<Box<dyn Future<Output = Result<(), Error>> + '_>>| {
        let mut future = future;
        match future.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => panic!("it waits"),
        }
    };
    forked(now(Box::pin(simba.ready(Duration::from_secs(1)))).unwrap_err());
    let inspect = simba.inspect();
    forked(now(Box::pin(async move { inspect.who("job").await.map(drop) })).unwrap_err());
    drop(simba.close());
    drop(simba);
    assert!(!driver.has_input(), "the child sends nothing, not even a close");
}

#[tokio::test]
async fn a_lease_that_is_merely_held_or_was_waited_for_leaves_nothing_behind() {
    let (_clock, shared, driver) = assembled();
    let running = tokio::spawn(driver.run());
    let simba = Simba::new(Arc::clone(&shared));
    let mut terms = simba.election("job").unwrap().terms().unwrap();
    let Some(TermEvent::Elected(term)) = terms.next().await else { panic!("elected") };
    assert_eq!(shared.terms.len(), 0, "held, and nothing else");
    let mut waiting = Box::pin(term.revoked());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_pending());
    assert_eq!(shared.terms.len(), 1);
    drop(waiting);
    assert_eq!(shared.terms.len(), 0, "a waiter that went away");
    assert_eq!(term.spawn(async { 1 }).unwrap().await.unwrap(), Some(1));
    let waiting = tokio::spawn({
        let term = term.clone();
        async move { term.revoked().await }
    });
    terms.election().stop().await;
    assert_eq!(waiting.await.unwrap(), RevokeReason::Stopped);
    assert_eq!(shared.terms.len(), 0, "after the end");
    assert!(lock(&shared.names).is_empty());
    drop((terms, simba));
    running.await.unwrap();
}

/// A short wait ends to within a fraction of a millisecond, though the runtime's timers count whole ones.
#[tokio::test]
async fn short_waits_are_precise() {
    let mut late: Vec<_> = Vec::new();
    for micros in [300, 1_500, 2_300, 3_700, 4_900].repeat(10) {
        let at = BootClock.now().saturating_add(Duration::from_micros(micros));
        super::wake::until(&Source::Boot, Some(at)).await;
        let now = BootClock.now();
        assert!(now >= at, "never early");
        late.push(now.saturating_since(at));
    }
    late.sort_unstable();
    assert!(late[late.len() / 2] < Duration::from_micros(500), "{late:?}");
}
