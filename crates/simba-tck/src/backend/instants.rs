//! What hangs on one instant of the store's clock, or on a clock that goes back: C1, C2, C3, C5, C6, C7.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use simba_backend::{Acquired, Grant, KeepAlive, Outcome, Owned, Released};

use super::{Case, LEASE, LIMIT, Node, Shared, Store, case, name, owner};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C1", a_session_lives_for_all_of_what_remains, where is_exact),
        case!("C2", a_session_that_had_released_stays_dead),
        case!("C2", no_judgement_is_taken_back_by_the_clock, where super::steps_back),
        case!("C2", a_renewal_and_a_takeover_across_the_instant_of_expiry, where is_exact),
        case!("C3", nothing_is_written_for_the_dead),
        case!("C5", a_late_close_frees_nothing_of_the_next_owner),
        case!("C6", a_held_lease_keeps_its_token_over_a_restart, where super::reopens),
        case!("C7", acquiring_again_renews_nothing, where is_exact),
    ]
}

fn is_exact(store: &dyn Store) -> bool {
    store.exact()
}

const MOMENT: Duration = Duration::from_millis(1);
const OVER: Duration = LEASE.saturating_add(Duration::from_millis(20));

async fn a_session_lives_for_all_of_what_remains(store: Shared) -> Verdict {
    let handle = store.handle();
    let opened = handle.open(LEASE, &owner("a"), LIMIT).await.map_err(|e| e.to_string())?;
    let a = Node { store: handle, session: opened.session };
    store.advance(opened.remaining.saturating_sub(MOMENT));
    let KeepAlive::Alive { remaining, .. } = a.keep_alive(None).await? else {
        return Err(format!("opened for {:?}, and over {MOMENT:?} before that", opened.remaining));
    };
    store.advance(remaining.saturating_sub(MOMENT));
    a.renew().await.map_err(|e| format!("renewed for {remaining:?}; {MOMENT:?} before that: {e}"))
}

/// B04: what it held was free when it ran out, so that no takeover tells of its death.
async fn a_session_that_had_released_stays_dead(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let token = a.win("job").await?;
    a.release("job", token).await?;
    store.advance(OVER);
    let got = a.acquire_all(&[name("job")]).await?;
    ensure!(got == Acquired::Expired, "it has run out, and its acquire of a free lease is answered {got:?}");
    a.is_over("it held nothing any more when it ran out").await?;
    let b = Node::open(&store, "b").await?;
    b.win("job").await?;
    a.is_over("what it once held is another's").await
}

async fn no_judgement_is_taken_back_by_the_clock(store: Shared) -> Verdict {
    for judge in ["keep-alive", "acquire", "release"] {
        let a = Node::open(&store, "a").await?;
        let job = format!("job-{judge}");
        let token = a.win(&job).await?;
        store.advance(OVER);
        match judge {
            "keep-alive" => drop(a.keep_alive(None).await?),
            "acquire" => drop(a.acquire_all(&[]).await?),
            _ => drop(a.release(&job, token).await?),
        }
        ensure!(store.step_back(LEASE), "the clock could be set back, and now it cannot");
        a.is_over(&format!("its own {judge} found it dead, then the clock was set back")).await?;
        let b = Node::open(&store, "b").await?;
        b.win(&job).await?;
    }
    // A step back is no gift either: the lease time counts from the renewal, whatever the clock said before.
    let a = Node::open(&store, "a").await?;
    ensure!(store.step_back(LEASE / 2), "the clock could be set back, and now it cannot");
    a.renew().await?;
    store.advance(OVER);
    a.is_over("its lease time has passed since its last renewal").await
}

/// How often the takeover is tried within a round.
const TRIES: u32 = 100;

/// F3, F4: the clock passes the instant of expiry while a keep-alive and a takeover are under way. Either may be
/// first, and then the other one fails.
async fn a_renewal_and_a_takeover_across_the_instant_of_expiry(store: Shared) -> Verdict {
    let (keeper, taker) = (Node::open(&store, "keeper").await?, Node::open(&store, "taker").await?);
    for round in 0..100 {
        let job = format!("job-{round}");
        let (a, b) = (keeper.again(LEASE).await?, taker.again(LEASE * 2).await?);
        let token = a.win(&job).await?;
        store.advance(LEASE.saturating_sub(MOMENT));
        let (kept, won) = race(&store, &a, &b, &job).await?;
        let at = format!("round {round}: a keep-alive is answered {kept:?}, a takeover {won:?}");
        match (&kept, won) {
            (KeepAlive::Alive { .. }, Some(_)) => return Err(format!("both have succeeded in {at}")),
            (KeepAlive::Alive { owned, .. }, None) => {
                let all = Owned::Listed {
                    version: simba_backend::Version(1),
                    leases: vec![Grant { name: name(&job), token }],
                };
                ensure!(*owned == all, "the session lives without its lease in {at}");
                b.refused(&job).await.map_err(|e| format!("{e} in {at}"))?;
            }
            (KeepAlive::Expired, won) => {
                a.is_over(&at).await?;
                let next = match won {
                    Some(next) => next,
                    None => b.win(&job).await.map_err(|e| format!("{e} in {at}"))?,
                };
                ensure!(next > token, "the token went from {token:?} to {next:?} in {at}");
            }
        }
        a.close().await?;
        b.close().await?;
    }
    Ok(())
}

type Raced = (KeepAlive, Option<simba_backend::FencingToken>);

async fn race(store: &Shared, a: &Node, b: &Node, job: &str) -> Result<Raced, String> {
    let go = Arc::new(AtomicBool::new(false));
    let (keeping, gate) = (a.clone(), Arc::clone(&go));
    let kept = tokio::spawn(async move {
        while !gate.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        keeping.keep_alive(None).await
    });
    let (taking, gate, job) = (b.clone(), Arc::clone(&go), job.to_owned());
    let won = tokio::spawn(async move {
        while !gate.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        for _ in 0..TRIES {
            if let Outcome::Won { token } = taking.acquire(&job).await? {
                return Ok::<_, String>(Some(token));
            }
            tokio::task::yield_now().await;
        }
        Ok(None)
    });
    let (clock, gate) = (Arc::clone(store), Arc::clone(&go));
    let moved = tokio::task::spawn_blocking(move || {
        gate.store(true, Ordering::SeqCst);
        std::thread::yield_now();
        clock.advance(MOMENT * 2);
    });
    moved.await.map_err(|e| e.to_string())?;
    let kept = kept.await.map_err(|e| e.to_string())??;
    Ok((kept, won.await.map_err(|e| e.to_string())??))
}

async fn nothing_is_written_for_the_dead(store: Shared) -> Verdict {
    let gone = Node::open(&store, "gone").await?;
    let token = gone.win("job").await?;
    gone.release("job", token).await?;
    store.advance(OVER);
    let got = gone.acquire_all(&[name("job"), name("fresh")]).await?;
    ensure!(got == Acquired::Expired, "its acquire is answered {got:?}");
    let query = simba_backend::InspectQuery { prefix: String::new(), after: None, limit: 10 };
    let page = store.handle().inspect(&query, LIMIT).await.map_err(|e| e.to_string())?;
    let records: Vec<_> = page.leases.iter().map(|l| (l.name.as_str(), l.token, l.held.is_some())).collect();
    ensure!(records == [("job", token, false)], "an acquire that was answered Expired left {records:?}");
    let released = gone.release("job", token).await?;
    ensure!(released == Released { step: None }, "its release is answered {released:?}");
    gone.close().await
}

async fn a_late_close_frees_nothing_of_the_next_owner(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let (b, c) =
        (Node::open_for(&store, "b", LEASE * 3).await?, Node::open_for(&store, "c", LEASE * 3).await?);
    a.win("job").await?;
    store.advance(OVER);
    b.win("job").await?;
    a.close().await?;
    c.refused("job").await?;
    b.renew().await
}

async fn a_held_lease_keeps_its_token_over_a_restart(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let token = a.win("job").await?;
    drop(a);
    ensure!(store.reopen(), "the store could be started anew, and now it cannot");
    // Its session may have come through the restart.
    store.advance(OVER);
    let next = Node::open(&store, "b").await?.win("job").await?;
    ensure!(next > token, "a lease was held over a restart; its token went from {token:?} to {next:?}");
    Ok(())
}

async fn acquiring_again_renews_nothing(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win("job").await?;
    store.advance(LEASE / 2);
    a.win("job").await?;
    let query = simba_backend::InspectQuery { prefix: "job".into(), after: None, limit: 1 };
    let page = store.handle().inspect(&query, LIMIT).await.map_err(|e| e.to_string())?;
    let held = page.leases.first().and_then(|lease| lease.held.as_ref()).ok_or("it is held")?;
    ensure!(held.held_for >= LEASE / 2, "acquiring again began a new term: {held:?}");
    store.advance(LEASE / 2);
    a.is_over("only keep-alives renew, and an acquire is none").await
}
