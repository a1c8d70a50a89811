//! Text that has to come back as it was given, and the end of a watch: C9, C12.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use simba_backend::{Hint, HintSink, InspectQuery, Inspection, LeaseName, NodeLabel, Owner};

use super::{Case, LEASE, LIMIT, Node, Shared, case, name};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C9", names_that_look_alike_are_apart),
        case!("C9", names_come_back_byte_for_byte),
        case!("C12", a_prefix_is_plain_text),
        case!("C12", pages_of_every_size_are_whole_and_in_order),
        case!("C12", an_owner_comes_back_as_it_was_given),
        case!("C12", a_watch_tells_of_every_lease_of_a_close, if broadcast),
        case!("C12", a_watch_ends_with_its_future, if broadcast),
    ]
}

/// Every two names of a group, both ways round.
async fn names_that_look_alike_are_apart(store: Shared) -> Verdict {
    let (long, short) = ("x".repeat(128), "x".repeat(64));
    let other = format!("{}y", &long[1..]);
    let groups: [&[&str]; 5] = [
        &["report", "Report", "REPORT", "reporT"],
        &["a", "a.b", "a:token", "a-1", "a.", "a:", "aa"],
        &["a_b", "axb", "a-b", "a:b", "a.b"],
        &["1", "01", "1.0", "1e0", "...", "-", "_", ":"],
        &[&long, &long[..127], &short, &other],
    ];
    let (a, b) = (Node::open(&store, "a").await?, Node::open(&store, "b").await?);
    for group in groups {
        for one in group {
            for other in group.iter().filter(|other| *other != one) {
                let mine = a.win(one).await?;
                let theirs =
                    b.win(other).await.map_err(|e| format!("{one} and {other} are one lease: {e}"))?;
                a.release(one, mine).await?;
                a.refused(other).await.map_err(|e| format!("{one} was released: {e}"))?;
                b.release(other, theirs).await?;
            }
        }
    }
    Ok(())
}

async fn names_come_back_byte_for_byte(store: Shared) -> Verdict {
    let long = "Z.z_-:9".repeat(18) + "ab";
    let odd = [
        "A",
        "a",
        "...",
        "..a",
        "-",
        "--",
        "_",
        ":",
        "::",
        "0",
        "00",
        "1e3",
        "NULL",
        "true",
        "x.y-z_0:9",
        &long,
    ];
    let given: Vec<_> = odd.iter().map(|text| name(text)).collect();
    let a = Node::open(&store, "a").await?;
    a.win_all(&given).await?;
    let given: BTreeSet<String> = given.iter().map(ToString::to_string).collect();
    let listed: BTreeSet<_> = a.owned().await?.1.into_iter().map(|(name, _)| name).collect();
    ensure!(listed == given, "given were {given:?}, and a keep-alive lists {listed:?}");
    let seen = page(&store, "", None, 100).await?;
    let seen: BTreeSet<_> = seen.leases.iter().map(|lease| lease.name.to_string()).collect();
    ensure!(seen == given, "given were {given:?}, and inspect shows {seen:?}");
    Ok(())
}

async fn page(
    store: &Shared,
    prefix: &str,
    after: Option<LeaseName>,
    limit: u32,
) -> Result<Inspection, String> {
    let query = InspectQuery { prefix: prefix.into(), after, limit };
    store.handle().inspect(&query, LIMIT).await.map_err(|e| format!("inspect: {e}"))
}

async fn a_prefix_is_plain_text(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.win_all(&["a_b", "axb", "a.b", "A_b", "a_b.c", "b"].map(name)).await?;
    let expected: [(&str, &[&str]); 8] = [
        ("a_", &["a_b", "a_b.c"]),
        ("a.", &["a.b"]),
        ("A", &["A_b"]),
        ("a_b", &["a_b", "a_b.c"]),
        ("a_b.c.d", &[]),
        ("%", &[]),
        ("*", &[]),
        ("'", &[]),
    ];
    for (prefix, expected) in expected {
        let page = page(&store, prefix, None, 100).await?;
        let seen: Vec<_> = page.leases.iter().map(|lease| lease.name.as_str()).collect();
        ensure!(seen == expected, "below {prefix:?} are {expected:?}, and {seen:?} are shown");
    }
    Ok(())
}

async fn pages_of_every_size_are_whole_and_in_order(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let mut names: Vec<_> = (0..12).map(|n| name(&format!("b.{n:02}"))).collect();
    names.extend(["a", "a.b", "A", "Z", "_", "b.03.x", "c"].map(name));
    a.win_all(&names).await?;
    names.sort();
    for limit in [1, 2, 9, 18, 19, 20] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = page(&store, "", after, limit).await?;
            ensure!(page.leases.len() <= limit as usize, "{} records for {limit}", page.leases.len());
            seen.extend(page.leases.into_iter().map(|lease| lease.name));
            ensure!(seen.len() <= names.len(), "pages of {limit} show more than there is: {seen:?}");
            ensure!(!page.more || seen.len() < names.len(), "pages of {limit}: there is nothing more");
            if !page.more {
                break;
            }
            after = seen.last().cloned();
        }
        ensure!(seen == names, "pages of {limit} show {seen:?}, and should show {names:?}");
    }
    let gone = page(&store, "", Some(name("b.10.gone")), 1).await?;
    let next = gone.leases.first().map(|lease| lease.name.as_str());
    ensure!(next == Some("b.11"), "behind b.10.gone comes b.11, and shown is {next:?}");
    Ok(())
}

async fn an_owner_comes_back_as_it_was_given(store: Shared) -> Verdict {
    for (label, pid, version) in [
        ("web-2@rack.1", u32::MAX, "0.1.0"),
        ("-", 0, ""),
        (&"n".repeat(128), 1, "1.2.3-rc.1+a \"quoted\" 'text' \\ % \u{e9}\u{1f511}"),
    ] {
        let owner = Owner {
            node: NodeLabel::sanitized(label),
            host: NodeLabel::sanitized(label),
            pid,
            version: version.to_owned(),
        };
        let handle = store.handle();
        let opened = handle.open(LEASE, &owner, LIMIT).await.map_err(|e| format!("open: {e}"))?;
        let a = Node { store: handle, session: opened.session };
        a.win("job").await?;
        let page = page(&store, "job", None, 1).await?;
        let held = page.leases.first().and_then(|lease| lease.held.as_ref()).ok_or("it is held")?;
        ensure!(*held.owner == owner, "{owner:?} comes back as {:?}", held.owner);
        let b = Node::open(&store, "b").await?;
        let holder = b.refused("job").await?.holder;
        ensure!(holder.as_deref() == Some(&owner), "{owner:?} is told to others as {holder:?}");
        a.close().await?;
    }
    Ok(())
}

/// Real time within which a watch has to do what it should.
const SOON: Duration = Duration::from_secs(10);
const LOOKS: u32 = 1_000;

type Heard = Arc<Mutex<Vec<Hint>>>;

fn sink(heard: &Heard) -> HintSink {
    let heard = Arc::clone(heard);
    HintSink::new(move |hint| heard.lock().unwrap_or_else(PoisonError::into_inner).push(hint))
}

fn taken(heard: &Heard) -> Vec<Hint> {
    std::mem::take(&mut heard.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Releases until the watch is heard of: it may begin a moment after it was asked for.
async fn is_on(heard: &Heard, node: &Node) -> Verdict {
    for _ in 0..100 {
        let token = node.win("probe").await?;
        node.release("probe", token).await?;
        tokio::time::sleep(SOON / 200).await;
        if !taken(heard).is_empty() {
            return Ok(());
        }
    }
    Err("a hundred leases were released, and the watch told of none".into())
}

async fn a_watch_tells_of_every_lease_of_a_close(store: Shared) -> Verdict {
    let (a, b) = (Node::open(&store, "a").await?, Node::open(&store, "b").await?);
    let heard = Heard::default();
    let (watcher, sink) = (store.handle(), sink(&heard));
    let watch = tokio::spawn(async move { watcher.watch(sink).await });
    is_on(&heard, &a).await?;
    let mut left: BTreeSet<_> = ["x", "X", "a.b:c-d_e"].map(name).into();
    b.win_all(&left.iter().cloned().collect::<Vec<_>>()).await?;
    b.close().await?;
    for _ in 0..LOOKS {
        for hint in taken(&heard) {
            match hint {
                Hint::Freed(name) => drop(left.remove(&name)),
                Hint::Missed => left.clear(),
            }
        }
        if left.is_empty() {
            watch.abort();
            return Ok(());
        }
        tokio::time::sleep(SOON / LOOKS).await;
    }
    Err(format!("a close freed {left:?} too, and nobody was told within {SOON:?}"))
}

async fn a_watch_ends_with_its_future(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let heard = Heard::default();
    let (watcher, sink) = (store.handle(), sink(&heard));
    let watch = tokio::spawn(async move { watcher.watch(sink).await });
    is_on(&heard, &a).await?;
    watch.abort();
    for _ in 0..LOOKS {
        if Arc::strong_count(&heard) == 1 {
            return Ok(());
        }
        tokio::time::sleep(SOON / LOOKS).await;
    }
    Err(format!("a watch was dropped, and {SOON:?} later it still has its sink"))
}
