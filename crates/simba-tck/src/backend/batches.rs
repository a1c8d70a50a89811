//! Batches of every kind, and lists that are read while they change: C8, C10.

use simba_backend::{Acquired, Grant, LeaseName, Outcome};

use super::{Case, LEASE, Node, Shared, case, name};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C10", a_thousand_names_of_every_kind),
        case!("C10", a_thousand_releases_of_every_kind),
        case!("C10", a_name_given_twice_is_one_lease),
        case!("C10", an_empty_batch_of_a_dead_session_is_answered_so),
        case!("C8", every_list_fits_its_version),
    ]
}

fn numbered(stem: &str, count: usize) -> Vec<LeaseName> {
    (0..count).map(|n| name(&format!("{stem}-{n:04}"))).collect()
}

async fn a_thousand_names_of_every_kind(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let names = numbered("job", 1_000);
    let (own, theirs): (Vec<_>, Vec<_>) =
        (names.iter().step_by(3).cloned().collect(), names.iter().skip(1).step_by(3).cloned().collect());
    let tokens = a.win_all(&own).await?;
    b.win_all(&theirs).await?;
    let (step, outcomes) = a.judged(&names).await?;
    for (n, outcome) in outcomes.iter().enumerate() {
        let right = match (n % 3, outcome) {
            (0, Outcome::Won { token }) => tokens[n / 3] == *token,
            (1, Outcome::Held(_)) | (2, Outcome::Won { .. }) => true,
            _ => false,
        };
        ensure!(right, "job-{n:04} was {}: {outcome:?}", ["its own", "another's", "free"][n % 3]);
    }
    ensure!(step.after.0 - step.before.0 == 333, "333 of a thousand were won, and the version went {step:?}");
    let (_, list) = a.owned().await?;
    ensure!(list.len() == 667, "{} leases are listed, not 667", list.len());
    Ok(())
}

async fn a_thousand_releases_of_every_kind(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let (mine, theirs) = (numbered("mine", 600), numbered("theirs", 390));
    let (tokens, others) = (a.win_all(&mine).await?, b.win_all(&theirs).await?);
    let mut grants = Vec::new();
    for (n, (name, token)) in mine.iter().zip(&tokens).enumerate() {
        let wrong = token.next().ok_or("the tokens are used up")?;
        grants.push(Grant { name: name.clone(), token: if n % 2 == 0 { *token } else { wrong } });
    }
    grants
        .extend(theirs.iter().zip(&others).map(|(name, token)| Grant { name: name.clone(), token: *token }));
    grants.extend(numbered("never", 10).into_iter().map(|name| Grant { name, token: tokens[0] }));
    let raised = a.release_all(&grants).await?;
    ensure!(raised == 300, "300 of a thousand match, and the version rose by {raised}");
    let (_, left) = a.owned().await?;
    let expected = mine.iter().zip(&tokens).skip(1).step_by(2).map(|(n, t)| (n.to_string(), t.get()));
    ensure!(
        left == expected.collect::<Vec<_>>(),
        "others are left than those with the wrong token: {}",
        left.len()
    );
    let (_, list) = b.owned().await?;
    ensure!(list.len() == 390, "another session has {} of 390 leases left", list.len());
    Ok(())
}

async fn a_name_given_twice_is_one_lease(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let (step, outcomes) = a.judged(&["x", "y", "x"].map(name)).await?;
    let Outcome::Won { token } = outcomes[0] else { return Err(format!("x was free: {outcomes:?}")) };
    ensure!(outcomes[2] == outcomes[0], "the same name twice: {outcomes:?}");
    ensure!(step.after.0 - step.before.0 == 2, "two leases by three names, and the version went {step:?}");
    let grant = Grant { name: name("x"), token };
    let raised = a.release_all(&[grant.clone(), grant]).await?;
    ensure!(raised == 1, "one lease released twice in a batch raised the version by {raised}");
    Ok(())
}

async fn an_empty_batch_of_a_dead_session_is_answered_so(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    a.close().await?;
    let got = a.acquire_all(&[]).await?;
    ensure!(got == Acquired::Expired, "the session is closed, and an empty batch is answered {got:?}");
    Ok(())
}

/// A list that is read at another point than its version hides a loss until the next change.
async fn every_list_fits_its_version(store: Shared) -> Verdict {
    let first = Node::open(&store, "a").await?;
    for round in 0..30 {
        let node = first.again(LEASE * 100).await?;
        let acquiring = node.clone();
        let acquired = tokio::spawn(async move {
            for batch in 0..4 {
                acquiring.win_all(&numbered(&format!("r{round}-{batch}"), 4)).await?;
                tokio::task::yield_now().await;
            }
            Ok::<_, String>(())
        });
        let looks: Vec<_> = (0..3)
            .map(|_| {
                let node = node.clone();
                tokio::spawn(async move {
                    for _ in 0..4 {
                        // Leases only come, so that the version is their number.
                        let (version, list) = node.owned().await?;
                        ensure!(version.0 == list.len() as u64, "{} leases at {version:?}", list.len());
                        tokio::task::yield_now().await;
                    }
                    Ok(())
                })
            })
            .collect();
        for look in looks {
            look.await.map_err(|e| e.to_string())?.map_err(|e| format!("round {round}: {e}"))?;
        }
        acquired.await.map_err(|e| e.to_string())??;
        node.close().await?;
    }
    Ok(())
}
