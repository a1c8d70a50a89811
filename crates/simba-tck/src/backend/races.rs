//! Races: C2, C4, C10.

use std::time::Duration;

use simba_backend::{Acquired, KeepAlive, Outcome};

use super::{Case, LEASE, Node, Shared, case, name};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C4", of_eight_that_race_one_wins),
        case!("C10", batches_in_opposite_orders_do_not_block_each_other),
        case!("C2", a_renewal_and_a_takeover_at_the_same_instant_have_one_outcome),
    ]
}

/// B07: many rounds; exactly one wins each, and its token is a new one.
async fn of_eight_that_race_one_wins(store: Shared) -> Verdict {
    let mut nodes = Vec::new();
    for n in 0..8 {
        nodes.push(std::sync::Arc::new(Node::open_for(&store, &format!("n{n}"), LEASE * 100).await?));
    }
    let mut last = 0;
    for round in 0..50 {
        let tries: Vec<_> = nodes
            .iter()
            .map(|node| {
                let node = std::sync::Arc::clone(node);
                tokio::spawn(async move { node.acquire("job").await.map(|outcome| (node, outcome)) })
            })
            .collect();
        let mut won = Vec::new();
        for attempt in tries {
            let (node, outcome) = attempt.await.map_err(|e| e.to_string())??;
            if let Outcome::Won { token } = outcome {
                won.push((node, token));
            }
        }
        ensure!(won.len() == 1, "round {round}: {} of 8 won", won.len());
        let (winner, token) = &won[0];
        ensure!(token.get() > last, "round {round}: token {token:?} after {last}");
        last = token.get();
        winner.release("job", *token).await?;
    }
    Ok(())
}

async fn batches_in_opposite_orders_do_not_block_each_other(store: Shared) -> Verdict {
    let a = std::sync::Arc::new(Node::open_for(&store, "a", LEASE * 100).await?);
    let b = std::sync::Arc::new(Node::open_for(&store, "b", LEASE * 100).await?);
    for round in 0..20 {
        let names: Vec<_> = (0..50).map(|n| name(&format!("r{round}-{n}"))).collect();
        let reversed: Vec<_> = names.iter().rev().cloned().collect();
        let (one, other) = (std::sync::Arc::clone(&a), std::sync::Arc::clone(&b));
        let first = tokio::spawn(async move { one.acquire_all(&names).await });
        let second = tokio::spawn(async move { other.acquire_all(&reversed).await });
        let mut won = 0;
        for call in [first, second] {
            let Acquired::Judged { outcomes, .. } = call.await.map_err(|e| e.to_string())?? else {
                return Err("the session lives".into());
            };
            won += outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count();
        }
        ensure!(won == 50, "round {round}: 50 names were won {won} times");
    }
    Ok(())
}

/// Long enough to acquire a lease on a busy machine, and short enough for a store whose clock cannot be moved.
const SHORT: Duration = Duration::from_secs(1);

/// F3, F4: a renewal that waits while the takeover is being decided must not bring the session back. A takeover that meets
/// the renewal in the middle of its judgement may be told that the lease is held; the next one is not.
async fn a_renewal_and_a_takeover_at_the_same_instant_have_one_outcome(store: Shared) -> Verdict {
    for round in 0..60 {
        let job = format!("job-{round}");
        let a = std::sync::Arc::new(Node::open_for(&store, "a", SHORT).await?);
        let b = std::sync::Arc::new(Node::open_for(&store, "b", LEASE * 1_000).await?);
        a.win(&job).await?;
        store.advance(SHORT + Duration::from_millis(round % 2));
        let (renewing, taking) = (std::sync::Arc::clone(&a), std::sync::Arc::clone(&b));
        let renewal = tokio::spawn(async move { renewing.keep_alive(None).await });
        let wanted = job.clone();
        let takeover = tokio::spawn(async move { taking.acquire(&wanted).await });
        let renewed = matches!(renewal.await.map_err(|e| e.to_string())??, KeepAlive::Alive { .. });
        let mut taken = matches!(takeover.await.map_err(|e| e.to_string())??, Outcome::Won { .. });
        if !renewed && !taken {
            taken = matches!(b.acquire(&job).await?, Outcome::Won { .. });
        }
        ensure!(!(renewed && taken), "round {round}: the session was renewed and its lease was taken over");
        ensure!(renewed || taken, "round {round}: the session is over, and its lease is still held");
        if taken {
            ensure!(a.is_expired().await?, "round {round}: the loser's next renewal was accepted");
        }
    }
    Ok(())
}
