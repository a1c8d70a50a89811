//! SQLite: acquire and release beside bare transactions, and the keep-alive from 1 to 100,000 leases.

use std::{error::Error, path::Path, time::Duration};

use rusqlite::Connection;
use simba_backend::{
    Acquired, Backend, Grant, KeepAlive, LeaseName, NodeLabel, Outcome, Owned, Owner, Version,
};
use simba_sql::sqlite::{SqliteBackend, SqliteConfig, rusqlite};
use tokio::runtime::Runtime;

use crate::{
    clock::{median, paired, wall},
    table::Row,
};

const LIMIT: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(600);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) fn all(rows: &mut Vec<Row>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let folder = tempfile::tempdir()?;
    pair(rows, &runtime, folder.path())?;
    keep_alive(rows, &runtime, folder.path())?;
    mass(rows, &runtime, folder.path())
}

fn owner() -> Owner {
    Owner {
        node: NodeLabel::sanitized("bench"),
        host: NodeLabel::sanitized("bench"),
        pid: std::process::id(),
        version: "0".into(),
    }
}

/// A database of the same settings, with one row that is updated in immediate transactions.
fn bare(path: &Path, synchronous: &str) -> Result<Connection> {
    let db = Connection::open(path)?;
    db.execute_batch(&format!(
        "pragma journal_mode = wal; pragma synchronous = {synchronous};
         create table bare (id integer primary key, value integer); insert into bare values (1, 0);"
    ))?;
    Ok(db)
}

fn transaction(db: &Connection) {
    db.execute_batch("begin immediate; update bare set value = value + 1 where id = 1; commit")
        .expect("a bare write");
}

/// An acquire is synced to the disk and a release is not, so the floor is one bare transaction of each kind.
fn pair(rows: &mut Vec<Row>, runtime: &Runtime, folder: &Path) -> Result<()> {
    let store = SqliteBackend::new(SqliteConfig::new(folder.join("pair.db")))?;
    let full = bare(&folder.join("full.db"), "full")?;
    let normal = bare(&folder.join("normal.db"), "normal")?;
    let session = runtime.block_on(store.open(LEASE, &owner(), LIMIT))?.session;
    let names = [LeaseName::new("job")?];
    let mut once = || {
        runtime.block_on(async {
            let acquired = store.acquire(session, &names, LIMIT).await.expect("an answer");
            let Acquired::Judged { outcomes, .. } = acquired else { panic!("the session lives") };
            let Outcome::Won { token } = outcomes[0] else { panic!("the lease is free") };
            let grants = [Grant { name: names[0].clone(), token }];
            store.release(session, &grants, LIMIT).await.expect("an answer")
        })
    };
    once();
    let both_synced = || {
        transaction(&full);
        transaction(&full);
    };
    let (ratio, floor) = paired(201, both_synced, &mut once);
    let note = format!("floor {:.0} us: two bare synced transactions", floor / 1e3);
    rows.push(Row::ratio(
        "SQLite acquire + release / two bare transactions",
        "<= 1.1 (2.2 singles)",
        ratio,
        &note,
    ));
    let as_ours = || {
        transaction(&full);
        transaction(&normal);
    };
    let (ratio, floor) = paired(201, as_ours, &mut once);
    let note = format!("floor {:.0} us: one synced and one unsynced", floor / 1e3);
    rows.push(Row::ratio("the same / bare transactions of the same durability", "reported", ratio, &note));
    Ok(())
}

fn keep_alive(rows: &mut Vec<Row>, runtime: &Runtime, folder: &Path) -> Result<()> {
    let mut first = None;
    for count in [1u32, 10, 100, 1_000, 10_000, 100_000] {
        let store = SqliteBackend::new(SqliteConfig::new(folder.join(format!("keep-{count}.db"))))?;
        let session = runtime.block_on(store.open(LEASE, &owner(), LIMIT))?.session;
        let names = (0..count)
            .map(|n| LeaseName::new(&format!("job-{n}")))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        for batch in names.chunks(10_000) {
            runtime.block_on(store.acquire(session, batch, LIMIT))?;
        }
        let mut times = Vec::new();
        for _ in 0..401 {
            let start = wall();
            let reply =
                runtime.block_on(store.keep_alive(session, Some(Version(u64::from(count))), LIMIT))?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
            if !matches!(reply, KeepAlive::Alive { owned: Owned::Unchanged, .. }) {
                return Err("the version differs".into());
            }
        }
        let micros = median(&mut times);
        let base = *first.get_or_insert(micros);
        let row = Row::value(
            &format!("SQLite keep-alive with {count} leases / with 1"),
            "<= 1.1",
            format!("{:.2}", micros / base),
        );
        rows.push(row.noted(format!("{micros:.0} us; the answer carries no list")));
    }
    Ok(())
}

fn mass(rows: &mut Vec<Row>, runtime: &Runtime, folder: &Path) -> Result<()> {
    let store = SqliteBackend::new(SqliteConfig::new(folder.join("mass.db")))?;
    let session = runtime.block_on(store.open(LEASE, &owner(), LIMIT))?.session;
    let names = (0..10_000)
        .map(|n| LeaseName::new(&format!("job-{n}")))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let start = wall();
    runtime.block_on(store.acquire(session, &names, LIMIT))?;
    let rate = 10_000.0 / start.elapsed().as_secs_f64() / 1e3;
    rows.push(Row::value(
        "SQLite mass acquire of 10,000 names, one call",
        "reported",
        format!("{rate:.0} k/s"),
    ));
    Ok(())
}
