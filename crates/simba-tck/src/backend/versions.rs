//! The ownership version: C8.

use simba_backend::{Acquired, KeepAlive, Owned, Version};

use super::{Case, LEASE, Node, Shared, case, name};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C8", a_session_begins_at_version_zero),
        case!("C8", each_lease_is_one_step),
        case!("C8", the_present_version_is_answered_without_a_list),
        case!("C8", another_version_is_answered_with_the_list),
        case!("C8", the_list_is_complete),
        case!("C8", a_change_by_hand_raises_the_version, if sees_foreign_changes),
    ]
}

async fn a_session_begins_at_version_zero(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    ensure!(unchanged(&a, 0).await?, "a new session is not at version 0");
    let (version, list) = a.owned().await?;
    ensure!(version == Version(0) && list.is_empty(), "{version:?} {list:?}");
    Ok(())
}

async fn unchanged(node: &Node, known: u64) -> Result<bool, String> {
    match node.keep_alive(Some(Version(known))).await? {
        KeepAlive::Alive { owned, .. } => Ok(owned == Owned::Unchanged),
        KeepAlive::Expired => Err("the session lives".into()),
    }
}

async fn each_lease_is_one_step(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let Acquired::Judged { step, .. } = a.acquire_all(&["x", "y", "z"].map(name)).await? else {
        return Err("the session lives".into());
    };
    ensure!((step.before, step.after) == (Version(0), Version(3)), "three wins: {step:?}");
    let token = a.win("x").await?;
    let step = a.release("x", token).await?.step.ok_or("the session lives")?;
    ensure!((step.before, step.after) == (Version(3), Version(4)), "one release: {step:?}");
    let step = a.release("x", token).await?.step.ok_or("the session lives")?;
    ensure!((step.before, step.after) == (Version(4), Version(4)), "nothing to release: {step:?}");
    Ok(())
}

async fn the_present_version_is_answered_without_a_list(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win("x").await?;
    for _ in 0..3 {
        store.advance(LEASE / 3);
        ensure!(unchanged(&a, 1).await?, "the version is the present one, and a list came");
    }
    // What others do is none of its business.
    let b = Node::open(&store, "b").await?;
    let token = b.win("y").await?;
    b.release("y", token).await?;
    ensure!(unchanged(&a, 1).await?, "another session's leases raised this one's version");
    Ok(())
}

async fn another_version_is_answered_with_the_list(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win("x").await?;
    for known in [0, 2, u64::MAX] {
        ensure!(!unchanged(&a, known).await?, "version {known} is not the present one, and no list came");
    }
    Ok(())
}

async fn the_list_is_complete(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let names: Vec<_> = (0..300).map(|n| name(&format!("job-{n:03}"))).collect();
    a.acquire_all(&names).await?;
    b.win("theirs").await?;
    let token = a.win("job-007").await?;
    a.release("job-007", token).await?;
    let (version, list) = a.owned().await?;
    ensure!(version == Version(301), "300 wins and a release: {version:?}");
    ensure!(
        list.len() == 299 && list.iter().all(|(name, _)| name.starts_with("job-") && name != "job-007"),
        "{} leases",
        list.len()
    );
    Ok(())
}

async fn a_change_by_hand_raises_the_version(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win("x").await?;
    a.win("y").await?;
    ensure!(
        store.tamper_free(&name("x")),
        "the store claims to see changes by hand, and its test cannot make one"
    );
    ensure!(!unchanged(&a, 2).await?, "a lease was freed by hand, and the version is the same");
    let (_, list) = a.owned().await?;
    ensure!(list == [("y".to_owned(), 1)], "the list is {list:?}");
    Ok(())
}
