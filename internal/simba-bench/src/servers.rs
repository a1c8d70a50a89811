//! The stores on servers, each a private one of its own: acquire and release beside raw round trips of the same driver,
//! the keep-alive from 1 to 100,000 leases, a mass acquire.

use std::{error::Error, future::Future, sync::Arc, time::Duration};

use simba::backend::{
    Acquired, DynBackend, Grant, KeepAlive, LeaseName, NodeLabel, Outcome, Owned, Owner, SessionId, Version,
};
use simba_services::{MariaDb, Postgres, Redis};
use tokio::runtime::Runtime;

use crate::{
    clock::{median, paired, wall},
    table::Row,
};

const LIMIT: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(600);
const PAIRS: u32 = 1_001;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) fn all(rows: &mut Vec<Row>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    redis(rows, &runtime)?;
    postgres(rows, &runtime)?;
    mariadb(rows, &runtime)
}

fn redis(rows: &mut Vec<Row>, runtime: &Runtime) -> Result<()> {
    let server = Redis::start();
    let bench = Bench::open("Redis", runtime, &server.url())?;
    let client = simba::redis::redis::Client::open(server.url())?;
    let raw = runtime.block_on(client.get_multiplexed_async_connection())?;
    let round_trip = |command: &'static [&'static str]| {
        let mut raw = raw.clone();
        async move {
            let mut command_of = simba::redis::redis::cmd(command[0]);
            command_of.arg(&command[1..]);
            command_of.query_async::<simba::redis::redis::Value>(&mut raw).await.expect("an answer");
        }
    };
    bench.pair(rows, "two raw writes (HSET)", || round_trip(&["HSET", "raw", "field", "value"]));
    bench.pair(rows, "two raw scripts of one write (EVAL)", || {
        round_trip(&[
            "EVAL",
            "return redis.call('HSET', KEYS[1], 'field', redis.call('TIME')[1])",
            "1",
            "raw",
        ])
    });
    bench.rest(rows)
}

fn postgres(rows: &mut Vec<Row>, runtime: &Runtime) -> Result<()> {
    for (name, settings) in [("PostgreSQL", &[][..]), ("PostgreSQL, fsync off", &["fsync=off"][..])] {
        let server = Postgres::start_with(settings);
        assert_eq!(
            server.sql(
                "postgres",
                "create table raw (id int primary key, n int); insert into raw values (1, 0)"
            ),
            ""
        );
        let bench = Bench::open(name, runtime, &server.url("postgres"))?;
        let client = runtime.block_on(async {
            let url = server.url("postgres");
            let connected =
                simba::postgres::tokio_postgres::connect(&url, simba::postgres::tokio_postgres::NoTls);
            let (client, wire) = connected.await?;
            tokio::spawn(wire);
            Ok::<_, Box<dyn Error>>(client)
        })?;
        let write = || async {
            client.query_typed("update raw set n = n + 1 where id = 1", &[]).await.expect("an answer");
        };
        bench.pair(rows, "two raw updates of one row", write);
        bench.rest(rows)?;
    }
    Ok(())
}

fn mariadb(rows: &mut Vec<Row>, runtime: &Runtime) -> Result<()> {
    use simba::mysql::mysql_async::{Conn, Opts, prelude::Queryable};
    let server = MariaDb::start();
    server.create_database("bench");
    let table = "create table raw (id int primary key, n int); insert into raw values (1, 0)";
    assert_eq!(server.sql("bench", table), "");
    let bench = Bench::open("MariaDB", runtime, &server.url("bench"))?;
    let raw = runtime.block_on(Conn::new(Opts::from_url(&server.url("bench"))?))?;
    let raw = std::cell::RefCell::new(Some(raw));
    let write = || async {
        let mut conn = raw.borrow_mut().take().expect("one at a time");
        conn.query_drop("update raw set n = n + 1 where id = 1").await.expect("an answer");
        raw.replace(Some(conn));
    };
    bench.pair(rows, "two raw updates of one row", write);
    bench.rest(rows)
}

struct Bench<'a> {
    name: &'a str,
    runtime: &'a Runtime,
    store: Arc<dyn DynBackend>,
    session: SessionId,
}

fn names(prefix: &str, count: u32) -> Result<Vec<LeaseName>> {
    Ok((0..count).map(|n| LeaseName::new(&format!("{prefix}-{n}"))).collect::<std::result::Result<_, _>>()?)
}

impl<'a> Bench<'a> {
    fn open(name: &'a str, runtime: &'a Runtime, url: &str) -> Result<Self> {
        let store = simba::open_store(url, &simba::StoreOptions::default())?;
        let session = open(runtime, &store)?;
        Ok(Self { name, runtime, store, session })
    }

    fn pair<F: Future<Output = ()>>(&self, rows: &mut Vec<Row>, what: &str, raw: impl Fn() -> F) {
        let names = names("pair", 1).expect("a name");
        let floor = || {
            self.runtime.block_on(async {
                raw().await;
                raw().await;
            });
        };
        let ours = || {
            self.runtime.block_on(async {
                let acquired = self.store.acquire(self.session, &names, LIMIT).await.expect("an answer");
                let Acquired::Judged { outcomes, .. } = acquired else { panic!("the session lives") };
                let Outcome::Won { token } = outcomes[0] else { panic!("the lease is free") };
                let grants = [Grant { name: names[0].clone(), token }];
                self.store.release(self.session, &grants, LIMIT).await.expect("an answer");
            });
        };
        ours();
        let (ratio, floor) = paired(PAIRS, floor, ours);
        let note = format!("floor {:.0} us", floor / 1e3);
        rows.push(Row::ratio(&format!("{} acquire + release / {what}", self.name), "<= 1.15", ratio, &note));
    }

    fn rest(&self, rows: &mut Vec<Row>) -> Result<()> {
        let fresh = names("mass", 10_000)?;
        let start = wall();
        self.runtime.block_on(self.store.acquire(self.session, &fresh, LIMIT))?;
        let rate = 10_000.0 / start.elapsed().as_secs_f64() / 1e3;
        let what = format!("{} mass acquire of 10,000 names, one call", self.name);
        rows.push(Row::value(&what, "reported", format!("{rate:.0} k/s")));

        let mut first = None;
        for count in [1u32, 10, 100, 1_000, 10_000, 100_000] {
            let session = open(self.runtime, &self.store)?;
            for batch in names(&format!("keep-{count}"), count)?.chunks(10_000) {
                self.runtime.block_on(self.store.acquire(session, batch, LIMIT))?;
            }
            let mut times = Vec::new();
            for _ in 0..1_001 {
                let start = wall();
                let known = Some(Version(u64::from(count)));
                let reply = self.runtime.block_on(self.store.keep_alive(session, known, LIMIT))?;
                times.push(start.elapsed().as_secs_f64() * 1e6);
                if !matches!(reply, KeepAlive::Alive { owned: Owned::Unchanged, .. }) {
                    return Err(format!("{}: the version differs: {reply:?}", self.name).into());
                }
            }
            let micros = median(&mut times);
            let base = *first.get_or_insert(micros);
            let what = format!("{} keep-alive with {count} leases / with 1", self.name);
            let row = Row::value(&what, "<= 1.1", format!("{:.2}", micros / base));
            rows.push(row.noted(format!("{micros:.0} us; the answer carries no list")));
        }
        Ok(())
    }
}

fn open(runtime: &Runtime, store: &Arc<dyn DynBackend>) -> Result<SessionId> {
    let owner = Owner {
        node: NodeLabel::sanitized("bench"),
        host: NodeLabel::sanitized("bench"),
        pid: std::process::id(),
        version: "0".into(),
    };
    Ok(runtime.block_on(store.open(LEASE, &owner, LIMIT))?.session)
}
