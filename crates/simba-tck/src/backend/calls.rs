//! Calls that are dropped, and calls without time: C11.

use std::{future::poll_fn, task::Poll, time::Duration};

use simba_backend::{BoxFuture, Effect, Grant, Outcome};

use super::{Case, LEASE, LIMIT, Node, Shared, case, name};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C11", a_call_may_be_dropped_at_any_poll),
        case!("C11", a_call_without_time_left_ends_at_once),
        case!("C11", a_held_up_call_ends_at_its_limit, where |store| store.hold().is_some()),
    ]
}

/// Polls a call this often, and then drops it.
async fn poll_and_drop<T>(mut call: BoxFuture<'_, T>, mut polls: u32) {
    poll_fn(|context| {
        if polls == 0 || call.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        polls -= 1;
        // Not when the call can go on, but at any moment: that is what is tested.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The session lives, and owns as many leases as its version has counted: nothing is half done.
async fn is_clean(node: &Node, after: &str) -> Verdict {
    let (version, list) = node.owned().await.map_err(|e| format!("after {after}: {e}"))?;
    ensure!(version.0 == list.len() as u64, "after {after}: {version:?} and {} leases", list.len());
    Ok(())
}

async fn a_call_may_be_dropped_at_any_poll(store: Shared) -> Verdict {
    let a = Node::open_for(&store, "a", LEASE * 100).await?;
    for polls in [0, 1, 2, 3, 5, 10, 30, 100, 1_000, 3_000] {
        let names: Vec<_> = (0..20).map(|n| name(&format!("p{polls}-{n}"))).collect();
        poll_and_drop(a.store.acquire(a.session, &names, LIMIT), polls).await;
        is_clean(&a, &format!("an acquire dropped at poll {polls}")).await?;
        poll_and_drop(a.store.keep_alive(a.session, None, LIMIT), polls).await;
        is_clean(&a, &format!("a keep-alive dropped at poll {polls}")).await?;
        a.win_all(&names).await.map_err(|e| format!("after an acquire dropped at poll {polls}: {e}"))?;
    }
    let b = Node::open_for(&store, "b", LEASE * 100).await?;
    for polls in [0, 1, 2, 5, 100, 1_000] {
        let job = format!("job-{polls}");
        let token = b.win(&job).await?;
        let grants = [Grant { name: name(&job), token }];
        poll_and_drop(b.store.release(b.session, &grants, LIMIT), polls).await;
        // Done or not; said again, it is done.
        let after = format!("after a release dropped at poll {polls}");
        b.release_all(&grants).await.map_err(|e| format!("{after}: {e}"))?;
        let next = b.win(&job).await.map_err(|e| format!("{after}: {e}"))?;
        ensure!(next > token, "{after} the token went from {token:?} to {next:?}");
        let c = b.again(LEASE).await?;
        poll_and_drop(c.store.close(c.session, LIMIT), polls).await;
        c.close().await.map_err(|e| format!("after a close dropped at poll {polls}: {e}"))?;
        c.is_over("it was closed").await?;
    }
    Ok(())
}

/// Real time that a call may take beyond its limit on a machine that is busy.
const DELAY: Duration = Duration::from_secs(5);

async fn a_call_without_time_left_ends_at_once(store: Shared) -> Verdict {
    let a = Node::open_for(&store, "a", LEASE * 100).await?;
    let names = [name("job")];
    for limit in [Duration::ZERO, Duration::from_nanos(1)] {
        let calls = tokio::time::timeout(DELAY, async {
            // Whether they are done all the same is nobody's business here.
            drop(a.store.acquire(a.session, &names, limit).await);
            drop(a.store.keep_alive(a.session, None, limit).await);
        });
        ensure!(calls.await.is_ok(), "calls with a limit of {limit:?} are not over after {DELAY:?}");
        is_clean(&a, "calls without time left").await?;
    }
    a.win("job").await.map(drop)
}

async fn a_held_up_call_ends_at_its_limit(store: Shared) -> Verdict {
    let a = Node::open_for(&store, "a", LEASE * 100).await?;
    a.win("first").await?;
    let Some(held) = store.hold() else { return Err("the store could be held up, and now it cannot".into()) };
    let (limit, names) = (Duration::from_millis(200), [name("second")]);
    let late = |_| format!("a call with a limit of {limit:?} is not over {DELAY:?} later");
    let acquired = tokio::time::timeout(limit + DELAY, a.store.acquire(a.session, &names, limit));
    let Err(failure) = acquired.await.map_err(late)? else {
        return Err("the store is held up, and answers".into());
    };
    let renewed = tokio::time::timeout(limit + DELAY, a.store.keep_alive(a.session, None, limit));
    ensure!(renewed.await.map_err(late)?.is_err(), "the store is held up, and answers a keep-alive");
    drop(held);
    is_clean(&a, "calls that were held up").await?;
    let (_, list) = a.owned().await?;
    ensure!(
        failure.effect == Effect::Unknown || list.len() == 1,
        "a call failed without effect, it was said, and what is owned is {list:?}"
    );
    let (_, outcomes) = a.judged(&names).await?;
    ensure!(matches!(outcomes[0], Outcome::Won { .. }), "the store goes on, and answers {outcomes:?}");
    Ok(())
}
