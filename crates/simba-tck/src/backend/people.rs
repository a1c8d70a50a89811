//! What people see: inspect, and the watch (C12).

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use simba_backend::{Hint, HintSink, InspectQuery, Inspection};

use super::{Case, LEASE, LIMIT, Node, Shared, case, name, owner};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C12", inspect_shows_holders_and_free_leases),
        case!("C12", inspect_gives_pages),
        case!("C12", inspect_needs_no_session_and_changes_nothing),
        case!("C12", a_watch_tells_of_releases_and_closes, if broadcast),
    ]
}

async fn inspect(
    store: &Shared,
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Inspection, String> {
    let query = InspectQuery { prefix: prefix.into(), after: after.map(name), limit };
    store.handle().inspect(&query, LIMIT).await.map_err(|e| format!("inspect: {e}"))
}

async fn inspect_shows_holders_and_free_leases(store: Shared) -> Verdict {
    let a = Node::open(&store, "web-2").await?;
    let token = a.win("held").await?;
    let free = a.win("free").await?;
    a.release("free", free).await?;
    store.advance(LEASE / 4);
    let page = inspect(&store, "", None, 10).await?;
    let names: Vec<_> = page.leases.iter().map(|l| l.name.to_string()).collect();
    ensure!(names == ["free", "held"], "in the order of their names: {names:?}");
    ensure!(page.leases[0].held.is_none() && page.leases[0].token == free, "{:?}", page.leases[0]);
    let held = page.leases[1].held.as_ref().ok_or("it is held")?;
    ensure!(page.leases[1].token == token && held.session == a.session, "{held:?}");
    ensure!(*held.owner == owner("web-2"), "{held:?}");
    ensure!(
        held.held_for >= LEASE / 4 && held.renewed_ago >= LEASE / 4,
        "a quarter of {LEASE:?} has passed: {held:?}"
    );
    ensure!(held.remaining <= LEASE * 3 / 4 + Duration::from_millis(1), "{held:?}");
    store.advance(LEASE);
    let page = inspect(&store, "held", None, 10).await?;
    ensure!(page.leases.len() == 1 && page.leases[0].held.is_none(), "its session ran out: {page:?}");
    Ok(())
}

async fn inspect_gives_pages(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let names: Vec<_> = (0..25).map(|n| name(&format!("job-{n:02}"))).collect();
    a.acquire_all(&names).await?;
    a.win("other").await?;
    let mut seen = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = inspect(&store, "job-", after.as_deref(), 10).await?;
        ensure!(page.leases.len() <= 10, "{} records for a limit of 10", page.leases.len());
        seen.extend(page.leases.iter().map(|l| l.name.clone()));
        ensure!(seen.len() <= names.len(), "the pages hold more than there is: {} of 25", seen.len());
        if !page.more {
            break;
        }
        after = seen.last().map(ToString::to_string);
    }
    ensure!(seen == names, "the pages hold {} of 25", seen.len());
    ensure!(!inspect(&store, "job-", None, 25).await?.more, "there is nothing behind the last one");
    ensure!(inspect(&store, "nothing", None, 10).await?.leases.is_empty(), "no name begins with that");
    Ok(())
}

async fn inspect_needs_no_session_and_changes_nothing(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win("job").await?;
    let before = a.owned().await?;
    store.advance(LEASE * 6 / 10);
    inspect(&store, "", None, 10).await?;
    store.advance(LEASE * 6 / 10);
    ensure!(a.is_expired().await?, "looking at a lease renewed it");
    ensure!(before.1.len() == 1, "{before:?}");
    Ok(())
}

async fn a_watch_tells_of_releases_and_closes(store: Shared) -> Verdict {
    let heard: Arc<Mutex<Vec<Hint>>> = Arc::default();
    let sink = {
        let heard = Arc::clone(&heard);
        HintSink::new(move |hint| heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(hint))
    };
    let a = Node::open(&store, "a").await?;
    let released = a.win("released").await?;
    a.win("closed").await?;
    let watcher = store.handle();
    let watch = tokio::spawn(async move { watcher.watch(sink).await });
    let told = |what: &'static str| {
        let heard = Arc::clone(&heard);
        async move {
            for _ in 0..800 {
                let hints = heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
                if hints
                    .iter()
                    .any(|hint| matches!(hint, Hint::Freed(n) if n.as_str() == what) || *hint == Hint::Missed)
                {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(format!("{what} was freed, and nobody was told within 4 s"))
        }
    };
    // A watch may begin a moment after it was asked for: what is missed before is found by polling, so a first
    // release is repeated until it is heard of.
    let mut token = released;
    for _ in 0..100 {
        a.release("released", token).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if !heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).is_empty() {
            break;
        }
        token = a.win("released").await?;
    }
    told("released").await?;
    heard.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    a.close().await?;
    told("closed").await?;
    watch.abort();
    Ok(())
}
