//! The calls as texts, and what the procedures answer, read into the contract's replies.

use std::{sync::Arc, time::Duration};

use mysql_async::{FromValueError, Row, prelude::FromValue};
use simba_backend::{
    Acquired, FencingToken, Forced, Grant, Held, HeldRecord, InspectQuery, Inspection, KeepAlive, LeaseName,
    LeaseRecord, Namespace, NodeLabel, Outcome, Owned, Owner, Released, SessionId, Version, VersionStep,
};

use super::connection::Answers;

/// What was read, or what could not be.
pub(crate) type Read<T> = Result<T, String>;

fn column<T: FromValue>(row: &Row, index: usize) -> Read<T> {
    let found: Option<Result<T, FromValueError>> = row.get_opt(index);
    found.ok_or_else(|| format!("there is no column {index}"))?.map_err(|error| error.to_string())
}

fn rows(answers: &Answers, index: usize) -> Read<&[Row]> {
    answers.get(index).map(Vec::as_slice).ok_or_else(|| format!("there is no answer {index}"))
}

fn only(answers: &Answers) -> Read<&Row> {
    rows(answers, 0)?.first().ok_or_else(|| "the first answer is empty".to_owned())
}

fn token(value: i64) -> Read<FencingToken> {
    FencingToken::from_i64(value).ok_or_else(|| format!("{value} is no token"))
}

fn version(value: i64) -> Read<Version> {
    u64::try_from(value).map(Version).map_err(|_| format!("{value} is no version"))
}

fn micros(value: i64) -> Duration {
    Duration::from_micros(u64::try_from(value).unwrap_or(0))
}

/// The owner in the four columns from this one on.
fn owner(row: &Row, from: usize) -> Read<Arc<Owner>> {
    let (node, host): (String, String) = (column(row, from)?, column(row, from + 1)?);
    Ok(Arc::new(Owner {
        node: NodeLabel::sanitized(&node),
        host: NodeLabel::sanitized(&host),
        pid: u32::try_from(column::<i64>(row, from + 2)?).unwrap_or(0),
        version: column(row, from + 3)?,
    }))
}

/// Any text as a literal that no setting of the server reads otherwise.
pub(crate) fn literal(text: &str) -> String {
    let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("convert(x'{hex}' using utf8mb4)")
}

/// Names as they are stored, and back.
#[derive(Clone, Debug)]
pub(crate) struct Keys(pub(crate) Option<Namespace>);

impl Keys {
    /// What a name is made of needs no escape, neither in a literal nor in JSON.
    pub(crate) fn key(&self, name: &LeaseName) -> String {
        format!("{}{name}", self.prefix())
    }

    /// What the keys of this namespace begin with.
    pub(crate) fn prefix(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"))
    }

    pub(crate) fn name(&self, key: &str) -> Option<LeaseName> {
        LeaseName::new(key.strip_prefix(&*self.prefix())?).ok()
    }
}

pub(crate) fn open_text(session: SessionId, micros: i64, owner: &Owner) -> String {
    // A version of any length is a program's mistake, and no reason to refuse it.
    let client: String = owner.version.chars().take(255).collect();
    format!(
        "call simba_open(x'{session}', {micros}, '{}', '{}', {}, {})",
        owner.node,
        owner.host,
        owner.pid,
        literal(&client)
    )
}

pub(crate) fn keep_alive_text(session: SessionId, known: Option<Version>) -> String {
    // A version that no session can have is like none.
    let known = known.filter(|version| i64::try_from(version.0).is_ok());
    let known = known.map_or_else(|| "null".to_owned(), |version| version.0.to_string());
    format!("call simba_keep_alive(x'{session}', {known})")
}

pub(crate) fn keep_alive(answers: &Answers, keys: &Keys) -> Read<KeepAlive> {
    let row = only(answers)?;
    let Some(present) = column::<Option<i64>>(row, 0)? else { return Ok(KeepAlive::Expired) };
    let remaining = micros(column(row, 1)?);
    let Some(list) = answers.get(1) else {
        return Ok(KeepAlive::Alive { remaining, owned: Owned::Unchanged });
    };
    let mut leases = Vec::with_capacity(list.len());
    for row in list {
        // A session belongs to one client, so all its leases lie in that client's namespace.
        if let Some(name) = keys.name(&column::<String>(row, 0)?) {
            leases.push(Grant { name, token: token(column(row, 1)?)? });
        }
    }
    Ok(KeepAlive::Alive { remaining, owned: Owned::Listed { version: version(present)?, leases } })
}

pub(crate) fn acquire_text(session: SessionId, names: &[LeaseName], keys: &Keys) -> String {
    let list: Vec<_> = names.iter().map(|name| format!("\"{}\"", keys.key(name))).collect();
    format!("call simba_acquire(x'{session}', '[{}]')", list.join(","))
}

fn step(answers: &Answers) -> Read<Option<VersionStep>> {
    let row = only(answers)?;
    let Some(before) = column::<Option<i64>>(row, 0)? else { return Ok(None) };
    Ok(Some(VersionStep { before: version(before)?, after: version(column(row, 1)?)? }))
}

pub(crate) fn acquired(answers: &Answers, names: usize) -> Read<Acquired> {
    let Some(step) = step(answers)? else { return Ok(Acquired::Expired) };
    let list = rows(answers, 1)?;
    if list.len() != names {
        return Err(format!("{names} names were asked for, and {} answered", list.len()));
    }
    let outcomes = list.iter().map(outcome).collect::<Read<_>>()?;
    Ok(Acquired::Judged { step, outcomes })
}

fn outcome(row: &Row) -> Read<Outcome> {
    let token = token(column(row, 0)?)?;
    if column(row, 1)? {
        return Ok(Outcome::Won { token });
    }
    let Some(left) = column::<Option<i64>>(row, 6)? else {
        return Ok(Outcome::Held(Held { token: Some(token), ..Held::default() }));
    };
    Ok(Outcome::Held(Held {
        holder: Some(owner(row, 2)?),
        token: Some(token),
        // What was rounded down to a microsecond is told as one more.
        remaining: Some(micros(left.saturating_add(1))),
    }))
}

pub(crate) fn release_text(session: SessionId, grants: &[Grant], keys: &Keys) -> String {
    let pair = |grant: &Grant| format!("[\"{}\",{}]", keys.key(&grant.name), grant.token);
    let list: Vec<_> = grants.iter().map(pair).collect();
    format!("call simba_release(x'{session}', '[{}]')", list.join(","))
}

pub(crate) fn released(answers: &Answers) -> Read<Released> {
    Ok(Released { step: step(answers)? })
}

pub(crate) fn closed(answers: &Answers) -> Read<bool> {
    column(only(answers)?, 0)
}

pub(crate) fn force_text(name: &LeaseName, token: FencingToken, keys: &Keys) -> String {
    format!("call simba_force_release('{}', {token})", keys.key(name))
}

pub(crate) fn forced(answers: &Answers) -> Read<Forced> {
    let row = only(answers)?;
    let Some(present) = column::<Option<i64>>(row, 0)? else { return Ok(Forced::Free) };
    let token = token(present)?;
    Ok(if column(row, 1)? { Forced::Freed { token } } else { Forced::Other { token } })
}

pub(crate) fn inspect_text(query: &InspectQuery, keys: &Keys) -> String {
    let prefix = keys.prefix();
    let after = query.after.as_ref().map_or_else(String::new, |name| keys.key(name));
    let wanted = literal(&format!("{prefix}{}", query.prefix));
    format!("call simba_inspect('{prefix}', {wanted}, '{after}', {})", u64::from(query.limit.max(1)) + 1)
}

pub(crate) fn inspection(answers: &Answers, query: &InspectQuery, keys: &Keys) -> Read<Inspection> {
    let list = rows(answers, 0)?;
    let wanted = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let mut leases = Vec::new();
    for row in list.iter().take(wanted) {
        let Some(name) = keys.name(&column::<String>(row, 0)?) else { continue };
        leases.push(LeaseRecord { name, token: token(column(row, 1)?)?, held: held(row)? });
    }
    Ok(Inspection { leases, more: list.len() > wanted })
}

fn held(row: &Row) -> Read<Option<HeldRecord>> {
    let Some(id) = column::<Option<String>>(row, 2)? else { return Ok(None) };
    Ok(Some(HeldRecord {
        session: id.parse().map_err(|_| format!("{id:?} is no session"))?,
        owner: owner(row, 6)?,
        held_for: micros(column(row, 3)?),
        renewed_ago: micros(column(row, 4)?),
        remaining: micros(column(row, 5)?),
    }))
}
