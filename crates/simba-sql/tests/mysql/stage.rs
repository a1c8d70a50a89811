//! Databases for cases: one server, and for each case a database of its own, with a clock that is moved by hand.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use simba_backend::DynBackend;
use simba_services::MariaDb;
use simba_sql::mysql::{
    MysqlBackend, MysqlConfig,
    mysql_async::{Conn, Opts, prelude::Queryable},
    schema,
};
use tokio::runtime::Runtime;

/// The clock as the procedures read it.
const CLOCK: &str = "cast(unix_timestamp(sysdate(6)) * 1000000 as signed)";
/// The clock as the tests have it.
const MOVED: &str = "(cast(unix_timestamp(sysdate(6)) * 1000000 as signed) + (select us from test_clock))";

/// A server, and what its databases are made of.
pub(crate) struct Ground {
    server: Mutex<MariaDb>,
    sql: String,
    made: AtomicU32,
}

impl Ground {
    /// `bend` gets the shipped schema, and answers what the cases run on.
    pub(crate) fn new(bend: impl Fn(String) -> String) -> Arc<Self> {
        let server = MariaDb::start_with(&["--max-connections=400"]);
        let shipped = schema::sql();
        assert!(shipped.contains(CLOCK), "the procedures read another clock");
        let moved = bend(shipped.to_owned()).replace(CLOCK, MOVED);
        let sql = format!(
            "create table test_clock (us bigint not null); insert into test_clock values (0);\n{moved}"
        );
        Arc::new(Self { server: Mutex::new(server), sql, made: AtomicU32::new(0) })
    }

    /// A database with tables.
    pub(crate) fn stage(self: &Arc<Self>, adjust: impl Fn(MysqlConfig) -> MysqlConfig) -> Stage {
        let database = format!("case{}", self.made.fetch_add(1, Ordering::Relaxed));
        self.sql("mysql", &format!("create database {database}"));
        self.sql(&database, &self.sql);
        let url = self.lock().url(&database);
        let config = adjust(MysqlConfig::from_url(&url).expect("a URL"));
        Stage { ground: Arc::clone(self), database, url, config, restarts: false }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, MariaDb> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sql(&self, database: &str, sql: &str) {
        let run = self.lock().prompt(database, sql);
        assert_eq!(run(), "");
    }
}

pub(crate) struct Stage {
    ground: Arc<Ground>,
    database: String,
    url: String,
    config: MysqlConfig,
    restarts: bool,
}

impl Stage {
    /// Lets cases restart the server, which is nobody else's.
    pub(crate) fn restarting(mut self) -> Self {
        self.restarts = true;
        self
    }

    fn move_clock(&self, by: &str) {
        self.ground.sql(&self.database, &format!("update test_clock set us = us + ({by})"));
    }
}

/// Locks that a connection holds for as long as this lives, on a runtime of its own.
struct Held(Option<(Runtime, Conn)>);

impl Held {
    fn new(url: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let conn = runtime.block_on(async {
            let mut conn = Conn::new(Opts::from_url(url).expect("a URL")).await.expect("the server");
            conn.query_drop("lock tables simba_session write, simba_lease write").await.expect("the locks");
            conn
        });
        Self(Some((runtime, conn)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = self.0.take();
        // The cases have a runtime of their own, and one cannot be waited for within another.
        let given_back = std::thread::spawn(move || {
            if let Some((runtime, mut conn)) = held {
                runtime.block_on(conn.query_drop("unlock tables")).expect("the locks");
            }
        });
        given_back.join().expect("no panic");
    }
}

impl simba_tck::backend::Store for Stage {
    fn handle(&self) -> Arc<dyn DynBackend> {
        Arc::new(MysqlBackend::new(self.config.clone()).expect("a configuration that fits"))
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
        let url = self.url.clone();
        let held = std::thread::spawn(move || Held::new(&url)).join().expect("locks");
        Some(Box::new(held))
    }
}
