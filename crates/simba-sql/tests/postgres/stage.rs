//! Databases for cases: one server, and for each case a copy of a database that is ready, with a clock that is moved by
//! hand.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use simba_backend::{DynBackend, LeaseName};
use simba_services::{PgBouncer, Postgres};
use simba_sql::postgres::{PostgresBackend, PostgresConfig, schema, tokio_postgres};
use tokio::runtime::Runtime;

/// The function that is the clock, as the tests have it.
const MOVED_CLOCK: &str = "\
create table test_clock (us bigint not null);
insert into test_clock values (0);
create or replace function simba_now() returns bigint language sql volatile as
$$ select floor(extract(epoch from clock_timestamp()) * 1000000)::bigint + us from test_clock $$;";

/// A server with a template of a database.
pub(crate) struct Ground {
    server: Mutex<Postgres>,
    pooler: Option<PgBouncer>,
    made: AtomicU32,
}

impl Ground {
    /// `bend` gets the shipped schema, and answers what the cases run on.
    pub(crate) fn new(pooled: bool, bend: impl Fn(String) -> String) -> Arc<Self> {
        let server = Postgres::start_with(&["max_connections=400", "fsync=off"]);
        let pooler = pooled.then(|| PgBouncer::start(&server));
        server.create_database("ready");
        let sql = format!("{}\n{MOVED_CLOCK}", bend(schema::sql().to_owned()));
        assert_eq!(server.sql("ready", &sql), "");
        Arc::new(Self { server: Mutex::new(server), pooler, made: AtomicU32::new(0) })
    }

    /// A database like the template.
    pub(crate) fn stage(self: &Arc<Self>, adjust: impl Fn(PostgresConfig) -> PostgresConfig) -> Stage {
        let database = format!("case{}", self.made.fetch_add(1, Ordering::Relaxed));
        let copied = self.sql("postgres", &format!("create database {database} template ready"));
        assert_eq!(copied, "");
        let direct = self.lock().url(&database);
        let url = self.pooler.as_ref().map_or(direct.clone(), |pooler| pooler.url(&database));
        let mut config = PostgresConfig::from_url(&url).expect("a URL");
        if self.pooler.is_some() {
            config = config.broadcast(false);
        }
        Stage { ground: Arc::clone(self), database, direct, config: adjust(config), restarts: false }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Postgres> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sql(&self, database: &str, sql: &str) -> String {
        let run = self.lock().prompt(database, sql);
        run()
    }
}

pub(crate) struct Stage {
    ground: Arc<Ground>,
    database: String,
    direct: String,
    config: PostgresConfig,
    restarts: bool,
}

impl Stage {
    /// Lets cases restart the server, which is nobody else's.
    pub(crate) fn restarting(mut self) -> Self {
        self.restarts = true;
        self
    }

    fn move_clock(&self, by: &str) {
        assert_eq!(self.ground.sql(&self.database, &format!("update test_clock set us = us + ({by})")), "");
    }

    fn key(&self, name: &LeaseName) -> String {
        let named = format!("{:?}", self.config);
        if named.contains("staging") { format!("staging/{name}") } else { name.to_string() }
    }
}

/// Locks that a transaction holds for as long as this lives.
struct Held {
    runtime: Runtime,
    client: Option<tokio_postgres::Client>,
}

impl Held {
    fn new(url: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async {
            let (client, wire) =
                tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server");
            tokio::spawn(wire);
            let locks = "begin; lock table simba_session, simba_lease in access exclusive mode";
            client.batch_execute(locks).await.expect("the locks");
            client
        });
        Self { runtime, client: Some(client) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            self.runtime.block_on(client.batch_execute("commit")).expect("a commit");
        }
    }
}

impl simba_tck::backend::Store for Stage {
    fn handle(&self) -> Arc<dyn DynBackend> {
        Arc::new(PostgresBackend::new(self.config.clone()).expect("a configuration that fits"))
    }

    fn advance(&self, by: Duration) {
        self.move_clock(&by.as_micros().to_string());
    }

    fn step_back(&self, by: Duration) -> bool {
        self.move_clock(&format!("-{}", by.as_micros()));
        true
    }

    fn reopen(&self) -> bool {
        if self.restarts {
            let mut server = self.ground.lock();
            server.kill();
            server.start_again();
        }
        self.restarts
    }

    fn hold(&self) -> Option<Box<dyn Send>> {
        let url = self.direct.clone();
        // The cases have a runtime of their own, and one cannot be waited for within another.
        let held = std::thread::spawn(move || Held::new(&url)).join().expect("locks");
        Some(Box::new(Elsewhere(Some(held))))
    }

    fn tamper_free(&self, name: &LeaseName) -> bool {
        let sql = format!(
            "with freed as (update simba_lease set session = null where name = '{}' returning 1) \
             select count(*) from freed",
            self.key(name)
        );
        self.ground.sql(&self.database, &sql) == "1"
    }
}

/// Drops what it holds on a thread of its own.
struct Elsewhere(Option<Held>);

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let held = self.0.take();
        std::thread::spawn(move || drop(held)).join().expect("the locks are given back");
    }
}
