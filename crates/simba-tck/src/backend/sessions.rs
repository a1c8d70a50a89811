//! Sessions: C1, C2, C3, C5, C7, C11.

use std::{collections::BTreeSet, time::Duration};

use simba_backend::{Acquired, KeepAlive, Released, SessionId};

use super::{Case, LEASE, LIMIT, Node, Shared, case, name, owner};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C1", remaining_is_never_more_than_granted),
        case!("C1", a_session_lives_at_least_as_long_as_was_promised),
        case!("C1", a_session_ends_when_it_is_not_renewed),
        case!("C1", a_renewal_counts_from_the_renewal),
        case!("C2", an_expired_session_is_never_revived),
        case!("C2", an_expired_session_stays_dead_after_its_lease_was_taken_and_freed),
        case!("C2", a_clock_that_steps_back_revives_nothing, where super::steps_back),
        case!("C3", an_unknown_session_gets_nothing),
        case!("C3", an_expired_session_gets_nothing),
        case!("C3", a_closed_session_gets_nothing),
        case!("C5", close_frees_everything_at_once),
        case!("C5", close_frees_nothing_of_others),
        case!("C7", closing_again_is_harmless),
        case!("C2", ids_are_never_used_again),
        case!("C11", a_dropped_call_leaves_the_next_one_clean),
        case!("C1", leases_of_all_lengths),
    ]
}

async fn remaining_is_never_more_than_granted(store: Shared) -> Verdict {
    let handle = store.handle();
    let opened = handle.open(LEASE, &owner("a"), LIMIT).await.map_err(|e| e.to_string())?;
    ensure!(opened.granted <= LEASE, "granted {:?} of {LEASE:?}", opened.granted);
    ensure!(opened.remaining <= opened.granted, "remaining {:?} of {:?}", opened.remaining, opened.granted);
    let node = Node { store: handle, session: opened.session };
    store.advance(LEASE / 4);
    match node.keep_alive(None).await? {
        KeepAlive::Alive { remaining, .. } => {
            ensure!(remaining <= opened.granted, "renewed to {remaining:?} of {:?}", opened.granted);
            ensure!(remaining > opened.granted / 2, "renewed to {remaining:?} of {:?} only", opened.granted);
            Ok(())
        }
        KeepAlive::Expired => Err("expired after a quarter of its lease".into()),
    }
}

async fn a_session_lives_at_least_as_long_as_was_promised(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open_for(&store, "b", LEASE * 3).await?;
    a.win("job").await?;
    store.advance(LEASE * 8 / 10);
    b.refused("job").await?;
    a.renew().await
}

async fn a_session_ends_when_it_is_not_renewed(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open_for(&store, "b", LEASE * 3).await?;
    let first = a.win("job").await?;
    store.advance(LEASE + Duration::from_millis(20));
    let second = b.win("job").await?;
    ensure!(second > first, "the new term has token {second:?} after {first:?}");
    ensure!(a.is_expired().await?, "the old owner is told that it lives");
    Ok(())
}

async fn a_renewal_counts_from_the_renewal(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open_for(&store, "b", LEASE * 9).await?;
    a.win("job").await?;
    for _ in 0..4 {
        store.advance(LEASE * 7 / 10);
        a.renew().await?;
    }
    b.refused("job").await.map(drop)
}

async fn an_expired_session_is_never_revived(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    store.advance(LEASE + Duration::from_millis(20));
    for _ in 0..3 {
        ensure!(a.is_expired().await?, "a keep-alive revived a session that had run out");
    }
    ensure!(
        a.acquire_all(&[name("job")]).await? == Acquired::Expired,
        "its acquire was not answered Expired"
    );
    Ok(())
}

/// B04: held back, meanwhile taken over and freed again; then the old owner's renewal comes.
async fn an_expired_session_stays_dead_after_its_lease_was_taken_and_freed(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open_for(&store, "b", LEASE * 3).await?;
    a.win("job").await?;
    store.advance(LEASE + Duration::from_millis(20));
    let token = b.win("job").await?;
    b.release("job", token).await?;
    ensure!(a.is_expired().await?, "the late renewal was accepted");
    let next = b.win("job").await?;
    ensure!(next > token, "token {next:?} after {token:?}");
    Ok(())
}

async fn a_clock_that_steps_back_revives_nothing(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open_for(&store, "b", LEASE * 9).await?;
    a.win("job").await?;
    store.advance(LEASE + Duration::from_millis(20));
    b.win("job").await?;
    ensure!(store.step_back(LEASE), "the clock could be set back when it was asked first, and now it cannot");
    ensure!(a.is_expired().await?, "the clock stepped back, and a session that was over lives again");
    ensure!(a.acquire_all(&[name("other")]).await? == Acquired::Expired, "and acquires");
    b.renew().await
}

async fn gets_nothing(node: &Node, other: &Node) -> Verdict {
    ensure!(node.is_expired().await?, "its keep-alive is answered as if it lived");
    ensure!(node.acquire_all(&[name("x"), name("y")]).await? == Acquired::Expired, "its acquire is judged");
    ensure!(
        node.release("x", simba_backend::FencingToken::FIRST).await? == Released { step: None },
        "its release counts"
    );
    // Nothing was written for it: the names are free, and if their tokens count they begin at the beginning.
    let token = other.win("x").await?;
    ensure!(
        !other.store.capabilities().consecutive_tokens || token.get() == 1,
        "the refused acquire used a token up"
    );
    Ok(())
}

async fn an_unknown_session_gets_nothing(store: Shared) -> Verdict {
    let other = Node::open(&store, "b").await?;
    gets_nothing(&Node { store: store.handle(), session: SessionId::new(0x0123_4567_89ab) }, &other).await
}

async fn an_expired_session_gets_nothing(store: Shared) -> Verdict {
    let node = Node::open(&store, "a").await?;
    store.advance(LEASE + Duration::from_millis(20));
    let other = Node::open(&store, "b").await?;
    gets_nothing(&node, &other).await
}

async fn a_closed_session_gets_nothing(store: Shared) -> Verdict {
    let node = Node::open(&store, "a").await?;
    node.close().await?;
    let other = Node::open(&store, "b").await?;
    gets_nothing(&node, &other).await
}

async fn close_frees_everything_at_once(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    for n in 0..100 {
        a.win(&format!("job-{n}")).await?;
    }
    a.close().await?;
    for n in 0..100 {
        let token = b.win(&format!("job-{n}")).await?;
        ensure!(token.get() > 1, "job-{n} has token {token:?} again");
    }
    Ok(())
}

async fn close_frees_nothing_of_others(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let c = Node::open(&store, "c").await?;
    a.win("mine").await?;
    b.win("theirs").await?;
    a.close().await?;
    c.refused("theirs").await?;
    b.renew().await
}

async fn closing_again_is_harmless(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    a.win("job").await?;
    a.close().await?;
    b.win("job").await?;
    a.close().await?;
    a.close().await?;
    let c = Node::open(&store, "c").await?;
    c.refused("job").await.map(drop)
}

async fn ids_are_never_used_again(store: Shared) -> Verdict {
    let mut seen = BTreeSet::new();
    for n in 0..50 {
        let node = Node::open(&store, "a").await?;
        ensure!(seen.insert(node.session), "session {:?} came twice", node.session);
        if n % 2 == 0 {
            node.close().await?;
        }
    }
    Ok(())
}

/// C11: every call is dropped after its first poll, again and again; the next one finds a clean connection.
async fn a_dropped_call_leaves_the_next_one_clean(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let names = [name("job")];
    for _ in 0..50 {
        let mut call = a.store.acquire(a.session, &names, LIMIT);
        std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        drop(call);
        let mut call = a.store.keep_alive(a.session, None, LIMIT);
        std::future::poll_fn(|cx| std::task::Poll::Ready(call.as_mut().poll(cx).is_ready())).await;
        drop(call);
        a.renew().await?;
    }
    let token = a.win("job").await?;
    a.release("job", token).await?;
    let b = Node::open(&store, "b").await?;
    b.win("job").await.map(drop)
}

async fn leases_of_all_lengths(store: Shared) -> Verdict {
    for lease in [1, 10, 1_000, 60_000, 86_400_000, 31_536_000_000].map(Duration::from_millis) {
        let node = store.handle();
        let opened = node.open(lease, &owner("a"), LIMIT).await.map_err(|e| e.to_string())?;
        ensure!(opened.remaining <= lease && opened.granted <= lease, "{lease:?} became {opened:?}");
    }
    Ok(())
}
