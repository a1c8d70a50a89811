//! Leases and tokens: C3, C4, C6, C7, C9, C10, C12.

use std::time::Duration;

use simba_backend::{Acquired, FencingToken, Outcome};

use super::{Case, LEASE, Node, Shared, case, name, owner};
use crate::{Verdict, ensure};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        case!("C4", one_owner_at_a_time),
        case!("C4", a_release_frees),
        case!("C4", a_release_with_another_token_frees_nothing),
        case!("C4", a_release_by_another_session_frees_nothing),
        case!("C4", a_late_release_frees_no_later_term),
        case!("C4", a_release_of_what_never_was_is_no_fault),
        case!("C7", acquiring_again_answers_the_same_token),
        case!("C7", releasing_again_is_harmless),
        case!("C6", tokens_rise_over_release_expiry_and_close),
        case!("C6", tokens_rise_by_one, if consecutive_tokens),
        case!("C6", tokens_are_constant_in_a_term),
        case!("C6", tokens_survive_a_restart, where super::reopens),
        case!("C9", names_are_compared_byte_for_byte),
        case!("C10", a_batch_is_judged_name_by_name),
        case!("C10", an_empty_batch_changes_nothing),
        case!("C12", a_refusal_tells_of_the_holder),
    ]
}

async fn one_owner_at_a_time(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    a.win("job").await?;
    b.refused("job").await?;
    b.win("other").await?;
    a.refused("other").await.map(drop)
}

async fn a_release_frees(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let first = a.win("job").await?;
    a.release("job", first).await?;
    let second = b.win("job").await?;
    ensure!(second > first, "token {second:?} after {first:?}");
    Ok(())
}

async fn a_release_with_another_token_frees_nothing(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let token = a.win("job").await?;
    let next = token.next().ok_or("the tokens are used up")?;
    a.release("job", next).await?;
    b.refused("job").await?;
    let far = FencingToken::new(u64::MAX >> 1).ok_or("the largest token")?;
    a.release("job", far).await?;
    b.refused("job").await.map(drop)
}

async fn a_release_by_another_session_frees_nothing(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let token = a.win("job").await?;
    b.release("job", token).await?;
    b.refused("job").await?;
    // Nor by a session that is over, which once was the owner of that very token.
    let gone = Node::open(&store, "c").await?;
    let theirs = gone.win("third").await?;
    gone.close().await?;
    b.win("third").await?;
    gone.release("third", theirs).await?;
    let d = Node::open(&store, "d").await?;
    d.refused("third").await.map(drop)
}

/// B03: the old owner's release comes after the next one has won.
async fn a_late_release_frees_no_later_term(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open_for(&store, "b", LEASE * 3).await?;
    let c = Node::open_for(&store, "c", LEASE * 3).await?;
    let old = a.win("job").await?;
    store.advance(LEASE + Duration::from_millis(20));
    b.win("job").await?;
    a.release("job", old).await?;
    c.refused("job").await?;
    // The same within one session: an earlier term's release comes late.
    let first = b.win("again").await?;
    b.release("again", first).await?;
    b.win("again").await?;
    b.release("again", first).await?;
    c.refused("again").await.map(drop)
}

async fn a_release_of_what_never_was_is_no_fault(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let released = a.release("never", FencingToken::FIRST).await?;
    let step = released.step.ok_or("the session lives")?;
    ensure!(step.before == step.after, "nothing was released, and the version rose: {step:?}");
    a.renew().await
}

async fn acquiring_again_answers_the_same_token(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let first = a.win("job").await?;
    let (version, _) = a.owned().await?;
    for _ in 0..3 {
        let again = a.win("job").await?;
        ensure!(again == first, "the owner acquired again and got {again:?} after {first:?}");
    }
    let (after, list) = a.owned().await?;
    ensure!(after == version, "acquiring again raised the version from {version:?} to {after:?}");
    ensure!(list == [("job".to_owned(), first.get())], "the list is {list:?}");
    Ok(())
}

async fn releasing_again_is_harmless(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let token = a.win("job").await?;
    a.release("job", token).await?;
    b.win("job").await?;
    a.release("job", token).await?;
    a.refused("job").await.map(drop)
}

async fn tokens_rise_over_release_expiry_and_close(store: Shared) -> Verdict {
    let mut last = 0;
    for round in 0..9 {
        let node = Node::open(&store, "a").await?;
        let token = node.win("job").await?;
        ensure!(token.get() > last, "round {round}: token {token:?} after {last}");
        last = token.get();
        match round % 3 {
            0 => drop(node.release("job", token).await?),
            1 => node.close().await?,
            _ => store.advance(LEASE + Duration::from_millis(20)),
        }
    }
    Ok(())
}

async fn tokens_rise_by_one(store: Shared) -> Verdict {
    for expected in 1..=9 {
        let node = Node::open(&store, "a").await?;
        let token = node.win("job").await?;
        ensure!(
            token.get() == expected,
            "token {token:?}, not {expected}: the tokens are claimed to be consecutive"
        );
        if expected % 2 == 0 {
            node.release("job", token).await?;
        } else {
            store.advance(LEASE + Duration::from_millis(20));
        }
    }
    Ok(())
}

async fn tokens_are_constant_in_a_term(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let token = a.win("job").await?;
    for _ in 0..5 {
        store.advance(LEASE / 3);
        let (_, list) = a.owned().await?;
        ensure!(list == [("job".to_owned(), token.get())], "a renewal changed the list to {list:?}");
    }
    Ok(())
}

async fn tokens_survive_a_restart(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let token = a.win("job").await?;
    a.release("job", token).await?;
    ensure!(store.reopen(), "the store could be started anew when it was asked first, and now it cannot");
    let b = Node::open(&store, "b").await?;
    let next = b.win("job").await?;
    ensure!(next > token, "after a restart the token is {next:?}, and it was {token:?} before");
    Ok(())
}

/// I47: two different names never meet.
async fn names_are_compared_byte_for_byte(store: Shared) -> Verdict {
    let long = "x".repeat(128);
    let pairs = [
        ("Report", "report"),
        ("a", "a.b"),
        ("a", "a:token"),
        ("x", "x-1"),
        ("a.", "a"),
        ("..a", ".a"),
        ("0", "00"),
        ("a_b", "aXb"),
        (&long, &long[..127]),
    ];
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    for (one, other) in pairs {
        let mine = a.win(one).await?;
        let theirs =
            b.win(other).await.map_err(|error| format!("{one} and {other} are one lease: {error}"))?;
        a.refused(other).await?;
        b.refused(one).await?;
        a.release(one, mine).await?;
        b.refused(one).await.err().ok_or(format!("{one} was released, and is still held"))?;
        b.release(one, b.win(one).await?).await?;
        b.release(other, theirs).await?;
    }
    Ok(())
}

async fn a_batch_is_judged_name_by_name(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let b = Node::open(&store, "b").await?;
    let names: Vec<_> = (0..1_000).map(|n| name(&format!("job-{n:04}"))).collect();
    let theirs: Vec<_> = names.iter().step_by(2).cloned().collect();
    b.acquire_all(&theirs).await?;
    let Acquired::Judged { outcomes, step } = a.acquire_all(&names).await? else {
        return Err("the session lives".into());
    };
    ensure!(outcomes.len() == 1_000, "{} outcomes for 1,000 names", outcomes.len());
    for (n, outcome) in outcomes.iter().enumerate() {
        let won = matches!(outcome, Outcome::Won { .. });
        ensure!(won == (n % 2 == 1), "job-{n:04}: {outcome:?}");
    }
    ensure!(step.after.0 - step.before.0 == 500, "500 leases were won, and the version went {step:?}");
    Ok(())
}

async fn an_empty_batch_changes_nothing(store: Shared) -> Verdict {
    let a = Node::open(&store, "a").await?;
    let Acquired::Judged { outcomes, step } = a.acquire_all(&[]).await? else {
        return Err("the session lives".into());
    };
    ensure!(outcomes.is_empty() && step.before == step.after, "{outcomes:?} {step:?}");
    Ok(())
}

async fn a_refusal_tells_of_the_holder(store: Shared) -> Verdict {
    let a = Node::open(&store, "holder-7").await?;
    let b = Node::open(&store, "b").await?;
    let token = a.win("job").await?;
    store.advance(LEASE / 2);
    let held = b.refused("job").await?;
    ensure!(held.holder.as_deref() == Some(&owner("holder-7")), "the holder is told as {:?}", held.holder);
    ensure!(held.token == Some(token), "its token as {:?}", held.token);
    let left = held.remaining.ok_or("how long it has left is not told")?;
    ensure!(
        left <= LEASE / 2 + Duration::from_millis(1),
        "half of {LEASE:?} has passed, and {left:?} are told to be left"
    );
    ensure!(left >= LEASE / 4, "half of {LEASE:?} has passed, and only {left:?} are told to be left");
    // Just after what was told, it is free.
    store.advance(left + Duration::from_millis(20));
    let c = Node::open(&store, "c").await?;
    c.win("job").await.map(drop)
}
