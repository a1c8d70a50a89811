//! The statements: one function a call, each inside one immediate transaction.
//!
//! The order in each is the same: the write lock is held when it begins; the clock is read; the own session is
//! judged, and deleted if it is over; then leases; a foreign session that is found dead is deleted in the same
//! transaction that takes its lease. What two calls could do to each other is settled by the lock alone.

use std::{collections::HashMap, sync::Arc, time::Duration};

use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use simba_backend::{
    Acquired, FencingToken, Forced, Grant, Held, HeldRecord, InspectQuery, Inspection, KeepAlive, LeaseName,
    LeaseRecord, NodeLabel, Outcome, Owned, Owner, Released, SessionId, Version, VersionStep,
};

use super::{clock::StoreClock, config::SqliteConfig, planted::planted};

/// How many dead sessions one call clears away, so that none does so for long.
const REAPED: u32 = 16;
/// How many freed leases are listed one by one; beyond it, waiting processes are told to look at everything.
const LISTED: i64 = 64;
/// How many rows of `simba_freed` are kept for those that have not looked yet.
const KEPT: i64 = 1_024;

type Sql<T> = rusqlite::Result<T>;

/// What a call needs besides its transaction.
pub(crate) struct Ground<'a> {
    pub(crate) config: &'a SqliteConfig,
    pub(crate) clock: &'a StoreClock,
}

/// What a call did, and whether waiting processes should look.
pub(crate) struct Done<T> {
    pub(crate) value: T,
    pub(crate) freed: bool,
}

impl Ground<'_> {
    /// The name as it is stored.
    fn key(&self, name: &LeaseName) -> String {
        match &self.config.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_string(),
        }
    }

    /// The name that a stored one stands for in this namespace.
    pub(crate) fn name_of(&self, key: &str) -> Option<LeaseName> {
        let text = match &self.config.namespace {
            Some(namespace) => key.strip_prefix(namespace.as_str())?.strip_prefix('/')?,
            None => key,
        };
        LeaseName::new(text).ok()
    }
}

fn sql_nanos(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn from_sql(nanos: i64) -> u64 {
    u64::try_from(nanos).unwrap_or(0)
}

fn between(from: u64, to: u64) -> Duration {
    Duration::from_nanos(to.saturating_sub(from))
}

fn bad_column(column: &'static str) -> rusqlite::Error {
    rusqlite::Error::InvalidColumnName(column.to_owned())
}

fn read_token(value: i64) -> Sql<FencingToken> {
    FencingToken::from_i64(value).ok_or_else(|| bad_column("token"))
}

/// A session as it stands in its row.
struct SessionRow {
    lease: Duration,
    version: Version,
}

/// Sessions.
impl Ground<'_> {
    pub(crate) fn open(
        &self,
        tx: &Transaction<'_>,
        id: SessionId,
        lease: Duration,
        owner: &Owner,
    ) -> Sql<Done<()>> {
        let now = self.clock.now();
        let freed = self.reap(tx, now)?;
        let expires = sql_nanos(now.saturating_add(nanos(lease)));
        tx.prepare_cached(
            "insert into simba_session (id, clock, expires_ns, renewed_ns, lease_ns, node, pid, client, host) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            id.to_string(),
            self.clock.domain(),
            expires,
            sql_nanos(now),
            sql_nanos(nanos(lease)),
            owner.node.as_str(),
            owner.pid,
            owner.version,
            owner.host.as_str()
        ])?;
        Ok(Done { value: (), freed })
    }

    pub(crate) fn keep_alive(
        &self,
        tx: &Transaction<'_>,
        id: SessionId,
        known: Option<Version>,
    ) -> Sql<Done<KeepAlive>> {
        let now = self.clock.now();
        let freed = self.reap(tx, now)?;
        let Some(session) = self.live(tx, id, now)? else {
            return Ok(Done { value: KeepAlive::Expired, freed: true });
        };
        tx.prepare_cached("update simba_session set expires_ns = ?2, renewed_ns = ?3 where id = ?1")?
            .execute(params![
                id.to_string(),
                sql_nanos(now.saturating_add(nanos(session.lease))),
                sql_nanos(now)
            ])?;
        let version = session.version;
        let owned = if known == Some(version) {
            Owned::Unchanged
        } else {
            Owned::Listed { version, leases: self.owned_by(tx, id)? }
        };
        Ok(Done { value: KeepAlive::Alive { remaining: session.lease, owned }, freed })
    }

    fn owned_by(&self, tx: &Transaction<'_>, id: SessionId) -> Sql<Vec<Grant>> {
        let mut statement = tx.prepare_cached("select name, token from simba_lease where session = ?1")?;
        let rows =
            statement.query_map([id.to_string()], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        let mut leases = Vec::new();
        for row in rows {
            let (key, token) = row?;
            // A session belongs to one client, so all its leases lie in that client's namespace.
            if let Some(name) = self.name_of(&key) {
                leases.push(Grant { name, token: read_token(token)? });
            }
        }
        Ok(leases)
    }

    pub(crate) fn close(&self, tx: &Transaction<'_>, id: SessionId) -> Sql<Done<()>> {
        if planted!(self.config, M27TokenReset) {
            tx.execute("delete from simba_lease where session = ?1", [id.to_string()])?;
        }
        let freed = self.end_session(tx, &id.to_string())?;
        Ok(Done { value: (), freed })
    }

    /// The judge of a session: its row, if it lives. One that does not is deleted, for ever.
    fn live(&self, tx: &Transaction<'_>, id: SessionId, now: u64) -> Sql<Option<SessionRow>> {
        let id = id.to_string();
        let found = tx
            .prepare_cached("select clock, expires_ns, lease_ns, version from simba_session where id = ?1")?
            .query_row([&id], |row| {
                Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?, row.get::<_, i64>(3)?))
            })
            .optional()?;
        let Some((clock, expires, lease, version)) = found else { return Ok(None) };
        if !self.is_live(&clock, expires, now) && !planted!(self.config, M12RenewsExpired) {
            self.end_session(tx, &id)?;
            return Ok(None);
        }
        let lease = Duration::from_nanos(from_sql(lease));
        Ok(Some(SessionRow { lease, version: Version(from_sql(version)) }))
    }

    fn is_live(&self, clock: &str, expires: i64, now: u64) -> bool {
        clock == self.clock.domain() && from_sql(expires) > now
    }

    /// Deletes a session's row: every lease of it is free from then on, though their rows still name it. Tells
    /// those who wait; answers whether there was anything to tell.
    fn end_session(&self, tx: &Transaction<'_>, id: &str) -> Sql<bool> {
        let deleted = tx.prepare_cached("delete from simba_session where id = ?1")?.execute([id])?;
        if deleted == 0 {
            return Ok(false);
        }
        let owned: i64 = tx
            .prepare_cached("select count(*) from (select 1 from simba_lease where session = ?1 limit ?2)")?
            .query_row(params![id, LISTED + 1], |row| row.get(0))?;
        if owned > LISTED {
            tx.prepare_cached("insert into simba_freed (name) values ('')")?.execute([])?;
        } else if owned > 0 {
            tx.prepare_cached(
                "insert into simba_freed (name) select name from simba_lease where session = ?1",
            )?
            .execute([id])?;
        }
        self.prune_freed(tx)?;
        Ok(owned > 0)
    }

    /// Clears away some sessions that are over, so that those whose owners died do not pile up.
    fn reap(&self, tx: &Transaction<'_>, now: u64) -> Sql<bool> {
        let no_judge = planted!(self.config, M12RenewsExpired);
        let no_half = planted!(self.config, M13DeadRowKept);
        if no_judge || no_half {
            return Ok(false);
        }
        let over: Vec<String> = tx
            .prepare_cached("select id from simba_session where clock <> ?1 or expires_ns <= ?2 limit ?3")?
            .query_map(params![self.clock.domain(), sql_nanos(now), REAPED], |row| row.get(0))?
            .collect::<Sql<_>>()?;
        let mut freed = false;
        for id in over {
            freed |= self.end_session(tx, &id)?;
        }
        Ok(freed)
    }

    fn prune_freed(&self, tx: &Transaction<'_>) -> Sql<()> {
        tx.prepare_cached("delete from simba_freed where seq <= (select max(seq) from simba_freed) - ?1")?
            .execute([KEPT])?;
        Ok(())
    }
}

/// A lease as an acquire finds it.
struct LeaseRow {
    token: i64,
    session: Option<String>,
    /// Its session's row, if there is one: clock, expiry, lease time, owner.
    holder: Option<(String, i64, i64, Owner)>,
}

fn lease_row(row: &Row<'_>) -> Sql<LeaseRow> {
    let clock: Option<String> = row.get(2)?;
    let holder = match clock {
        Some(clock) => Some((clock, row.get(3)?, row.get(4)?, owner(row, 5)?)),
        None => None,
    };
    Ok(LeaseRow { token: row.get(0)?, session: row.get(1)?, holder })
}

fn owner(row: &Row<'_>, from: usize) -> Sql<Owner> {
    let node: String = row.get(from)?;
    let host: String = row.get(from + 3)?;
    Ok(Owner {
        node: NodeLabel::sanitized(&node),
        host: NodeLabel::sanitized(&host),
        pid: row.get(from + 1)?,
        version: row.get(from + 2)?,
    })
}

/// Leases.
impl Ground<'_> {
    pub(crate) fn acquire(
        &self,
        tx: &Transaction<'_>,
        id: SessionId,
        names: &[LeaseName],
    ) -> Sql<Done<Acquired>> {
        let now = self.clock.now();
        let before = match self.live(tx, id, now)? {
            Some(session) => session.version,
            None if planted!(self.config, M16ExpiredAcquires) => Version(0),
            None => return Ok(Done { value: Acquired::Expired, freed: true }),
        };
        let me = id.to_string();
        let mut holders = HashMap::new();
        let mut freed = false;
        let mut outcomes = Vec::with_capacity(names.len());
        for name in names {
            outcomes.push(self.acquire_one(tx, &me, now, &self.key(name), &mut holders, &mut freed)?);
        }
        let step = VersionStep { before, after: self.version(tx, &me)? };
        Ok(Done { value: Acquired::Judged { step, outcomes }, freed })
    }

    fn acquire_one(
        &self,
        tx: &Transaction<'_>,
        me: &str,
        now: u64,
        key: &str,
        holders: &mut HashMap<String, Arc<Owner>>,
        freed: &mut bool,
    ) -> Sql<Outcome> {
        let found = tx
            .prepare_cached(
                "select l.token, l.session, s.clock, s.expires_ns, s.lease_ns, s.node, s.pid, s.client, s.host \
                 from simba_lease l left join simba_session s on s.id = l.session where l.name = ?1",
            )?
            .query_row([key], lease_row)
            .optional()?;
        let Some(LeaseRow { token, session, holder }) = found else {
            tx.prepare_cached(
                "insert into simba_lease (name, token, session, acquired_ns) values (?1, 1, ?2, ?3)",
            )?
            .execute(params![key, me, sql_nanos(now)])?;
            return Ok(Outcome::Won { token: FencingToken::FIRST });
        };
        let token = read_token(token)?;
        let mut next = token.next();
        if let (Some(session), Some((clock, expires, lease, owner))) = (session, holder) {
            if session == me {
                if !planted!(self.config, M28TokenBumpedOnRepeat) {
                    return Ok(Outcome::Won { token });
                }
            } else if self.is_live(&clock, expires, now) {
                let holder = Arc::clone(holders.entry(session).or_insert_with(|| Arc::new(owner)));
                // Never longer than the lease, also when a clock that a test moves has stepped back since.
                let left = between(now, from_sql(expires)).min(Duration::from_nanos(from_sql(lease)));
                return Ok(Outcome::Held(Held {
                    holder: Some(holder),
                    token: Some(token),
                    remaining: Some(left),
                }));
            } else if !planted!(self.config, M13DeadRowKept) {
                // The other half of the judgement: its owner's next keep-alive finds nothing to renew.
                *freed |= self.end_session(tx, &session)?;
            }
            if planted!(self.config, M26TokenNotBumped) {
                next = Some(token);
            }
        }
        // The tokens of a name are used up after 2^63 terms; the lease then stays as it is.
        let Some(next) = next else { return Ok(Outcome::Held(Held::default())) };
        tx.prepare_cached(
            "update simba_lease set token = ?2, session = ?3, acquired_ns = ?4 where name = ?1",
        )?
        .execute(params![key, next.as_i64(), me, sql_nanos(now)])?;
        Ok(Outcome::Won { token: next })
    }

    pub(crate) fn release(
        &self,
        tx: &Transaction<'_>,
        id: SessionId,
        grants: &[Grant],
    ) -> Sql<Done<Released>> {
        let now = self.clock.now();
        let me = id.to_string();
        let before = match self.live(tx, id, now)? {
            Some(session) => session.version,
            None if planted!(self.config, M24ReleaseWithoutSession) => Version(0),
            None => return Ok(Done { value: Released { step: None }, freed: true }),
        };
        let mut freed = 0;
        let mut statement = tx.prepare_cached(release_sql(self.config))?;
        for grant in grants {
            freed += statement.execute(params![self.key(&grant.name), me, grant.token.as_i64()])?;
        }
        drop(statement);
        if freed > 0 {
            self.prune_freed(tx)?;
        }
        let step = VersionStep { before, after: self.version(tx, &me)? };
        Ok(Done { value: Released { step: Some(step) }, freed: freed > 0 })
    }

    /// Frees the term that carries `token`, whoever owns it.
    pub(crate) fn force_release(
        &self,
        tx: &Transaction<'_>,
        name: &LeaseName,
        token: FencingToken,
    ) -> Sql<Done<Forced>> {
        let key = self.key(name);
        let found = tx
            .prepare_cached("select token, session is not null from simba_lease where name = ?1")?
            .query_row([&key], |row| Ok((row.get(0)?, row.get::<_, bool>(1)?)))
            .optional()?;
        let Some((present, true)) = found else { return Ok(Done { value: Forced::Free, freed: false }) };
        let present = read_token(present)?;
        if present != token {
            return Ok(Done { value: Forced::Other { token: present }, freed: false });
        }
        // The last token there is cannot be raised; it is freed as it is, and nobody gets the lease any more.
        let raised = token.next().unwrap_or(token);
        tx.prepare_cached("update simba_lease set session = null, token = ?2 where name = ?1")?
            .execute(params![key, raised.as_i64()])?;
        self.prune_freed(tx)?;
        Ok(Done { value: Forced::Freed { token: raised }, freed: true })
    }

    /// Ends somebody's session; answers whether it was alive.
    pub(crate) fn evict(&self, tx: &Transaction<'_>, id: SessionId) -> Sql<Done<bool>> {
        let alive = self.live(tx, id, self.clock.now())?.is_some();
        let freed = self.end_session(tx, &id.to_string())?;
        Ok(Done { value: alive, freed: freed || !alive })
    }

    fn version(&self, tx: &Transaction<'_>, id: &str) -> Sql<Version> {
        let version: Option<i64> = tx
            .prepare_cached("select version from simba_session where id = ?1")?
            .query_row([id], |row| row.get(0))
            .optional()?;
        Ok(Version(version.map_or(0, from_sql)))
    }
}

/// Frees a lease where name, session and token all match.
const RELEASE: &str = "update simba_lease set session = null where name = ?1 and session = ?2 and token = ?3";

#[cfg(feature = "planted")]
fn release_sql(config: &SqliteConfig) -> &'static str {
    use super::Planted;
    match config.planted {
        Some(Planted::M23ReleaseWithoutToken) => {
            "update simba_lease set session = null where name = ?1 and session = ?2 and ?3 > 0"
        }
        Some(Planted::M24ReleaseWithoutSession) => {
            "update simba_lease set session = null where name = ?1 and ?2 <> '' and token = ?3"
        }
        _ => RELEASE,
    }
}

#[cfg(not(feature = "planted"))]
const fn release_sql(_config: &SqliteConfig) -> &'static str {
    RELEASE
}

/// For people.
impl Ground<'_> {
    pub(crate) fn inspect(&self, conn: &Connection, query: &InspectQuery) -> Sql<Inspection> {
        let now = self.clock.now();
        let root =
            self.config.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
        let prefix = format!("{root}{}", query.prefix);
        // Behind every text with this prefix: no character of a name sorts after `~`.
        let end = format!("{prefix}~");
        let after = query.after.as_ref().map_or_else(String::new, |name| self.key(name));
        let limit = i64::from(query.limit.max(1));
        let mut statement = conn.prepare_cached(
            "select l.name, l.token, l.acquired_ns, s.id, s.clock, s.expires_ns, s.renewed_ns, s.lease_ns, \
             s.node, s.pid, s.client, s.host from simba_lease l left join simba_session s on s.id = l.session \
             where l.name >= ?1 and l.name < ?2 and l.name > ?3 and (?5 or instr(l.name, '/') = 0) \
             order by l.name limit ?4",
        )?;
        let namespaced = self.config.namespace.is_some();
        let mut rows = statement.query(params![prefix, end, after, limit + 1, namespaced])?;
        let mut leases = Vec::new();
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            if count > limit {
                break;
            }
            if let Some(name) = self.name_of(&row.get::<_, String>(0)?) {
                leases.push(LeaseRecord {
                    name,
                    token: read_token(row.get(1)?)?,
                    held: self.held(row, now)?,
                });
            }
        }
        Ok(Inspection { leases, more: count > limit })
    }

    fn held(&self, row: &Row<'_>, now: u64) -> Sql<Option<HeldRecord>> {
        let Some(session) = row.get::<_, Option<String>>(3)? else { return Ok(None) };
        let (clock, expires): (String, i64) = (row.get(4)?, row.get(5)?);
        if !self.is_live(&clock, expires, now) {
            return Ok(None);
        }
        let lease = Duration::from_nanos(from_sql(row.get(7)?));
        Ok(Some(HeldRecord {
            session: session.parse().map_err(|_| bad_column("session"))?,
            owner: Arc::new(owner(row, 8)?),
            held_for: between(from_sql(row.get(2)?), now),
            renewed_ago: between(from_sql(row.get(6)?), now),
            remaining: between(now, from_sql(expires)).min(lease),
        }))
    }
}
