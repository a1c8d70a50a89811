//! What the functions of the schema answer, read into the contract's replies.

use std::{sync::Arc, time::Duration};

use simba_backend::{
    Acquired, FencingToken, Forced, Grant, Held, HeldRecord, InspectQuery, Inspection, KeepAlive, LeaseName,
    LeaseRecord, Namespace, NodeLabel, Outcome, Owned, Owner, Released, SessionId, Version, VersionStep,
};
use tokio_postgres::{
    Row,
    types::{FromSql, ToSql, Type},
};

/// What was read, or what could not be.
pub(crate) type Read<T> = Result<T, String>;

/// A parameter and its type: no statement is prepared, so that a pooler may give the next one another connection.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Read<T> {
    row.try_get(index).map_err(|error| error.to_string())
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

fn step(before: i64, after: i64) -> Read<VersionStep> {
    Ok(VersionStep { before: version(before)?, after: version(after)? })
}

fn owner(node: &str, host: &str, pid: i64, client: String) -> Arc<Owner> {
    Arc::new(Owner {
        node: NodeLabel::sanitized(node),
        host: NodeLabel::sanitized(host),
        pid: u32::try_from(pid).unwrap_or(0),
        version: client,
    })
}

/// Names as they are stored, and back.
#[derive(Clone, Debug)]
pub(crate) struct Keys(pub(crate) Option<Namespace>);

impl Keys {
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

pub(crate) fn keep_alive(rows: &[Row], keys: &Keys) -> Read<KeepAlive> {
    let Some(row) = rows.first() else { return Ok(KeepAlive::Expired) };
    let remaining = micros(column(row, 0)?);
    let Some(names) = column::<Option<Vec<String>>>(row, 2)? else {
        return Ok(KeepAlive::Alive { remaining, owned: Owned::Unchanged });
    };
    let mut leases = Vec::with_capacity(names.len());
    for (key, value) in names.iter().zip(column::<Vec<i64>>(row, 3)?) {
        // A session belongs to one client, so all its leases lie in that client's namespace.
        if let Some(name) = keys.name(key) {
            leases.push(Grant { name, token: token(value)? });
        }
    }
    let version = version(column(row, 1)?)?;
    Ok(KeepAlive::Alive { remaining, owned: Owned::Listed { version, leases } })
}

pub(crate) fn acquired(rows: &[Row], names: usize) -> Read<Acquired> {
    let Some(row) = rows.first() else { return Ok(Acquired::Expired) };
    let step = step(column(row, 0)?, column(row, 1)?)?;
    if names == 0 {
        return Ok(Acquired::Judged { step, outcomes: Vec::new() });
    }
    let tokens: Vec<i64> = column(row, 2)?;
    let numbers: Vec<Option<i64>> = column(row, 3)?;
    let holders = holders(row)?;
    if tokens.len() != names || numbers.len() != names {
        return Err(format!("{names} names were asked for, and {} answered", tokens.len()));
    }
    let judge = |(value, number): (i64, Option<i64>)| {
        let token = token(value)?;
        let Some(number) = number else {
            return Ok(Outcome::Held(Held { token: Some(token), ..Held::default() }));
        };
        if number == 0 {
            return Ok(Outcome::Won { token });
        }
        let found = usize::try_from(number - 1).ok().and_then(|index| holders.get(index));
        let (holder, remaining) = found.ok_or_else(|| format!("there is no holder {number}"))?;
        Ok(Outcome::Held(Held {
            holder: Some(Arc::clone(holder)),
            token: Some(token),
            remaining: Some(*remaining),
        }))
    };
    let outcomes = tokens.into_iter().zip(numbers).map(judge).collect::<Read<_>>()?;
    Ok(Acquired::Judged { step, outcomes })
}

fn holders(row: &Row) -> Read<Vec<(Arc<Owner>, Duration)>> {
    let Some(nodes) = column::<Option<Vec<String>>>(row, 4)? else { return Ok(Vec::new()) };
    let (hosts, pids): (Vec<String>, Vec<i64>) = (column(row, 5)?, column(row, 6)?);
    let (clients, left): (Vec<String>, Vec<i64>) = (column(row, 7)?, column(row, 8)?);
    let people = nodes.iter().zip(hosts).zip(pids).zip(clients);
    let owners = people.map(|(((node, host), pid), client)| owner(node, &host, pid, client));
    // What was rounded down to a microsecond is told as one more.
    Ok(owners.zip(left.into_iter().map(|left| micros(left.saturating_add(1)))).collect())
}

pub(crate) fn released(rows: &[Row]) -> Read<Released> {
    let Some(row) = rows.first() else { return Ok(Released { step: None }) };
    Ok(Released { step: Some(step(column(row, 0)?, column(row, 1)?)?) })
}

pub(crate) fn forced(rows: &[Row]) -> Read<Forced> {
    let Some(row) = rows.first() else { return Ok(Forced::Free) };
    let token = token(column(row, 0)?)?;
    Ok(if column(row, 1)? { Forced::Freed { token } } else { Forced::Other { token } })
}

/// The statement for people. The parameters: the prefix of the keys, the prefix wanted, the key before, how many.
pub(crate) const INSPECT: &str = "\
select l.name, l.token, s.id::text, n.instant - l.acquired_us, n.instant - s.renewed_us, \
    least(s.expires_us - n.instant, s.lease_us), s.node, s.host, s.pid, s.client \
from (select simba_now() as instant) n cross join simba_lease l \
left join simba_session s on s.id = l.session and s.expires_us > n.instant \
where l.name >= ($1::text || $2::text) collate \"C\" and starts_with(l.name, $1 || $2) \
    and l.name > $3::text collate \"C\" and strpos(substr(l.name, length($1) + 1), '/') = 0 \
order by l.name limit $4";

pub(crate) fn inspection(rows: &[Row], query: &InspectQuery, keys: &Keys) -> Read<Inspection> {
    let wanted = usize::try_from(query.limit.max(1)).unwrap_or(usize::MAX);
    let mut leases = Vec::new();
    for row in rows.iter().take(wanted) {
        let Some(name) = keys.name(column(row, 0)?) else { continue };
        leases.push(LeaseRecord { name, token: token(column(row, 1)?)?, held: held(row)? });
    }
    Ok(Inspection { leases, more: rows.len() > wanted })
}

fn held(row: &Row) -> Read<Option<HeldRecord>> {
    let Some(id) = column::<Option<&str>>(row, 2)? else { return Ok(None) };
    let node: &str = column(row, 6)?;
    Ok(Some(HeldRecord {
        session: session(id)?,
        owner: owner(node, column(row, 7)?, column(row, 8)?, column(row, 9)?),
        held_for: micros(column(row, 3)?),
        renewed_ago: micros(column(row, 4)?),
        remaining: micros(column(row, 5)?),
    }))
}

/// The server writes an id in groups of digits.
fn session(text: &str) -> Read<SessionId> {
    text.replace('-', "").parse().map_err(|_| format!("{text:?} is no session"))
}
