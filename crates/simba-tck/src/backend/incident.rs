//! What people do in an incident, and what they look at first (C13).

use simba_backend::{Examination, FencingToken, Forced, InspectQuery, KeepAlive, Level, Outcome, SessionId};

use super::{Case, LIMIT, Node, Shared, case, name};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C13", a_forced_release_frees_and_raises_the_token),
        case!("C13", a_forced_release_hits_no_other_term),
        case!("C13", an_owner_sees_a_forced_release),
        case!("C13", an_eviction_ends_one_session),
        case!("C13", an_evicted_session_stays_over),
        case!("C13", an_examination_names_no_failure_and_leaves_no_trace),
    ]
}

async fn force(store: &Shared, text: &str, token: FencingToken) -> Result<Forced, String> {
    let forced = store.handle().force_release(&name(text), token, LIMIT).await;
    forced.map_err(|e| format!("force_release: {e}"))
}

async fn evict(store: &Shared, session: SessionId) -> Result<bool, String> {
    store.handle().evict(session, LIMIT).await.map_err(|e| format!("evict: {e}"))
}

async fn a_forced_release_frees_and_raises_the_token(store: Shared) -> Verdict {
    let (a, b) = (Node::open(&store, "a").await?, Node::open(&store, "b").await?);
    let token = a.win("job").await?;
    a.win("other").await?;
    let Forced::Freed { token: raised } = force(&store, "job", token).await? else {
        return Err("the lease is held with that very token, and was not freed".into());
    };
    ensure!(raised > token, "the token was {token}, and is {raised} after a forced release");
    let query = InspectQuery { prefix: "job".into(), after: None, limit: 1 };
    let page = store.handle().inspect(&query, LIMIT).await.map_err(|e| format!("inspect: {e}"))?;
    let shown = page.leases.first().ok_or("the lease is known")?;
    ensure!(shown.token == raised && shown.held.is_none(), "{raised} was answered, and there is {shown:?}");
    let next = b.win("job").await?;
    ensure!(next > raised, "the next term has {next}, and the record carried {raised}");
    // The session itself lives on, with what else it has.
    let (_, left) = a.owned().await?;
    ensure!(left.iter().map(|(name, _)| name.as_str()).eq(["other"]), "{left:?}");
    a.release("job", token).await?;
    let held = a.refused("job").await?;
    ensure!(held.token.is_none_or(|token| token == next), "the late release freed a later term: {held:?}");
    Ok(())
}

async fn a_forced_release_hits_no_other_term(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let first = a.win("job").await?;
    a.release("job", first).await?;
    ensure!(force(&store, "job", first).await? == Forced::Free, "nobody holds it");
    ensure!(force(&store, "never", first).await? == Forced::Free, "nobody ever held it");
    let second = a.win("job").await?;
    let forced = force(&store, "job", first).await?;
    ensure!(forced == Forced::Other { token: second }, "the term is {second}, {first} was named: {forced:?}");
    let (_, owned) = a.owned().await?;
    ensure!(owned == [("job".to_owned(), second.get())], "{owned:?}");
    Ok(())
}

async fn an_owner_sees_a_forced_release(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let token = a.win("job").await?;
    let (version, _) = a.owned().await?;
    force(&store, "job", token).await?;
    let kept = a.keep_alive(Some(version)).await?;
    let KeepAlive::Alive { owned: simba_backend::Owned::Listed { leases, .. }, .. } = &kept else {
        return Err(format!("the set has changed since {version:?}, and is answered {kept:?}"));
    };
    ensure!(leases.is_empty(), "{leases:?}");
    Ok(())
}

async fn an_eviction_ends_one_session(store: Shared) -> Verdict {
    let (a, b) = (Node::open(&store, "a").await?, Node::open(&store, "b").await?);
    let first = a.win("of-a").await?;
    b.win("of-b").await?;
    ensure!(evict(&store, a.session).await?, "the session lived");
    ensure!(
        matches!(b.acquire("of-a").await?, Outcome::Won { token } if token > first),
        "its lease is free at once"
    );
    b.renew().await?;
    let (_, left) = b.owned().await?;
    ensure!(left.len() == 2, "the other session keeps what it has: {left:?}");
    Ok(())
}

async fn an_evicted_session_stays_over(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    evict(&store, a.session).await?;
    a.is_over("evicted").await?;
    ensure!(!evict(&store, a.session).await?, "there is no such session any more");
    a.is_over("evicted twice").await
}

async fn an_examination_names_no_failure_and_leaves_no_trace(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win("job").await?;
    let before = a.owned().await?;
    let examination: Examination = store.handle().examine(LIMIT).await;
    ensure!(!examination.findings.is_empty(), "nothing was looked at");
    let failures: Vec<_> = examination.findings.iter().filter(|f| f.level == Level::Fail).collect();
    ensure!(failures.is_empty(), "a store that works is said to fail: {failures:?}");
    ensure!(examination.tokens.is_some(), "the tokens are not graded");
    let query = InspectQuery { prefix: String::new(), after: None, limit: 10 };
    let page = store.handle().inspect(&query, LIMIT).await.map_err(|e| format!("inspect: {e}"))?;
    ensure!(page.leases.len() == 1, "one lease was there before: {page:?}");
    ensure!(a.owned().await? == before, "what the session owns has changed");
    Ok(())
}
