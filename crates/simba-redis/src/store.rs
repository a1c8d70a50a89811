//! What the scripts answer, read once into the contract's types.

use std::{sync::Arc, time::Duration};

use simba_backend::{
    Acquired, FencingToken, Forced, Grant, Held, HeldRecord, Inspection, KeepAlive, LeaseName, LeaseRecord,
    NodeLabel, Outcome, Owned, Owner, Released, Version, VersionStep,
};

/// What an answer lacks.
pub(crate) type Read<T> = Result<T, &'static str>;

fn micros(text: &str) -> Read<Duration> {
    text.parse().map(Duration::from_micros).map_err(|_| "a time is no number")
}

fn token(text: &str) -> Read<FencingToken> {
    text.parse().map_err(|_| "a token is no token")
}

fn name(text: &str) -> Read<LeaseName> {
    LeaseName::new(text).map_err(|_| "a name is no name of a lease")
}

fn version(text: &str) -> Read<Version> {
    text.parse().map(Version).map_err(|_| "a version is no number")
}

fn owner(node: &str, host: &str, pid: &str, client: &str) -> Read<Owner> {
    Ok(Owner {
        node: NodeLabel::sanitized(node),
        host: NodeLabel::sanitized(host),
        pid: pid.parse().map_err(|_| "a process id is no number")?,
        version: client.to_owned(),
    })
}

pub(crate) fn keep_alive(answer: Option<Vec<String>>) -> Read<KeepAlive> {
    let Some(answer) = answer else { return Ok(KeepAlive::Expired) };
    let [lease, rest @ ..] = answer.as_slice() else { return Err("the lease time is missing") };
    let owned = match rest {
        [] => Owned::Unchanged,
        [known, leases @ ..] => {
            let pairs = leases.chunks_exact(2);
            if !pairs.remainder().is_empty() {
                return Err("a name without a token");
            }
            let grant = |pair: &[String]| Ok(Grant { name: name(&pair[0])?, token: token(&pair[1])? });
            Owned::Listed { version: version(known)?, leases: pairs.map(grant).collect::<Read<_>>()? }
        }
    };
    Ok(KeepAlive::Alive { remaining: micros(lease)?, owned })
}

/// The answer of the acquire script: versions, outcomes, holders.
pub(crate) type Judged = (String, String, Vec<String>, Vec<Vec<String>>);

pub(crate) fn acquired(answer: Option<Judged>) -> Read<Acquired> {
    let Some((before, after, outcomes, holders)) = answer else { return Ok(Acquired::Expired) };
    let holders: Vec<(Duration, Arc<Owner>)> = holders
        .iter()
        .map(|holder| match holder.as_slice() {
            [left, node, host, pid, client] => Ok((micros(left)?, Arc::new(owner(node, host, pid, client)?))),
            _ => Err("a holder has other parts"),
        })
        .collect::<Read<_>>()?;
    let outcome = |text: &String| match text.split_at_checked(1) {
        Some(("W", won)) => Ok(Outcome::Won { token: token(won)? }),
        Some(("H", held)) => {
            let (index, tok) = held.split_once(':').ok_or("an outcome without a token")?;
            let index: usize = index.parse().map_err(|_| "an outcome without a holder")?;
            let (left, who) =
                index.checked_sub(1).and_then(|index| holders.get(index)).ok_or("an outcome of nobody")?;
            Ok(Outcome::Held(Held {
                holder: Some(Arc::clone(who)),
                token: Some(token(tok)?),
                // The server's clock has moved on since: rounded up, it is never too short.
                remaining: Some(*left + Duration::from_micros(1)),
            }))
        }
        // The tokens of a name are used up after 2^63 terms; the lease then stays as it is.
        Some(("X", "")) => Ok(Outcome::Held(Held::default())),
        _ => Err("an outcome of no kind"),
    };
    let step = VersionStep { before: version(&before)?, after: version(&after)? };
    Ok(Acquired::Judged { step, outcomes: outcomes.iter().map(outcome).collect::<Read<_>>()? })
}

pub(crate) fn released(answer: Option<(String, String)>) -> Read<Released> {
    let step = match answer {
        Some((before, after)) => Some(VersionStep { before: version(&before)?, after: version(&after)? }),
        None => None,
    };
    Ok(Released { step })
}

pub(crate) fn forced(answer: &[String]) -> Read<Forced> {
    match answer {
        [word] if word == "N" => Ok(Forced::Free),
        [word, tok] if word == "O" => Ok(Forced::Other { token: token(tok)? }),
        [word, tok] if word == "F" => Ok(Forced::Freed { token: token(tok)? }),
        _ => Err("a forced release of no kind"),
    }
}

/// A page, of which one record more was asked for than is shown.
pub(crate) fn inspection(answer: &[Vec<String>], limit: usize) -> Read<Inspection> {
    let record = |one: &Vec<String>| {
        let (lease, tok, held) = match one.as_slice() {
            [lease, tok] => (lease, tok, None),
            [lease, tok, session, node, host, pid, client, held_for, renewed, left] => {
                let held = HeldRecord {
                    session: session.parse().map_err(|_| "a session is no session")?,
                    owner: Arc::new(owner(node, host, pid, client)?),
                    held_for: micros(held_for)?,
                    renewed_ago: micros(renewed)?,
                    remaining: micros(left)?,
                };
                (lease, tok, Some(held))
            }
            _ => return Err("a record has other parts"),
        };
        Ok(LeaseRecord { name: name(lease)?, token: token(tok)?, held })
    };
    let leases = answer.iter().take(limit).map(record).collect::<Read<_>>()?;
    Ok(Inspection { leases, more: answer.len() > limit })
}
