//! One connection, used by one call at a time.
//!
//! The connection is taken out of its place for the time of a call, and put back only when the call has succeeded. A call
//! that fails, is dropped or runs into its limit takes the connection with it: a late answer can never be taken for that
//! of the next call, a transaction that is open ends with its connection, and a server that is cut off is looked for anew.

use std::{sync::Arc, time::Duration};

use mysql_async::{Conn, Error, OptsBuilder, Row, SslOpts, prelude::Queryable};
use simba_backend::{Effect, Failure, FailureKind};
use tokio::{sync::Mutex, time::Instant};

use super::{
    config::MysqlConfig,
    failure::{before, during, timed_out},
    schema,
};

/// The end of a call.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

/// The answers of a text of several statements: the rows of each that has some.
pub(crate) type Answers = Vec<Vec<Row>>;

/// What a connection is set to; and a look at the clock, over a moment, that tells a server whose `sysdate` is `now`.
const SET_UP: &str = "\
set session transaction isolation level read committed; \
set time_zone = '+00:00', autocommit = 1, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'; \
select sleep(0.002) + (sysdate(6) = now(6))";

/// A place for a connection.
pub(crate) struct Place {
    pub(crate) config: Arc<MysqlConfig>,
    conn: Mutex<Option<Conn>>,
}

/// Whether missing tables are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    Make,
    Need,
    /// They are looked at by the caller.
    Any,
}

impl Place {
    pub(crate) fn new(config: &Arc<MysqlConfig>) -> Self {
        Self { config: Arc::clone(config), conn: Mutex::new(None) }
    }

    /// Has a text run on the connection, within `limit`.
    pub(crate) async fn run(
        &self,
        text: String,
        tables: Tables,
        limit: Duration,
    ) -> Result<Answers, Failure> {
        let config = &*self.config;
        let deadline = Deadline::after(limit);
        let Ok(mut place) = tokio::time::timeout_at(deadline.0, self.conn.lock()).await else {
            return Err(timed_out(config, Effect::None));
        };
        let mut conn = match place.take() {
            Some(conn) => conn,
            None => open(config, tables, deadline).await?,
        };
        match tokio::time::timeout_at(deadline.0, ask(&mut conn, text)).await {
            Ok(Ok(answers)) => {
                *place = Some(conn);
                Ok(answers)
            }
            Ok(Err(error)) => Err(during(config, &error)),
            Err(_) => Err(timed_out(config, Effect::Unknown)),
        }
    }

    /// Makes the tables, if they are missing.
    pub(crate) async fn apply(&self, limit: Duration) -> Result<(), Failure> {
        let deadline = Deadline::after(limit);
        drop(open(&self.config, Tables::Make, deadline).await?);
        Ok(())
    }
}

/// Runs a text of statements to its end.
pub(crate) async fn ask(conn: &mut Conn, text: String) -> Result<Answers, Error> {
    let mut result = conn.query_iter(text).await?;
    let mut answers = Vec::new();
    loop {
        let shown = result.columns_ref().is_empty();
        let rows: Vec<Row> = result.collect().await?;
        if !shown {
            answers.push(rows);
        }
        if result.is_empty() {
            // The driver keeps an error of a later statement until it is asked for more.
            result.drop_result().await?;
            return Ok(answers);
        }
    }
}

fn opts(config: &MysqlConfig) -> OptsBuilder {
    let tls = config.tls.then(|| {
        let opts = SslOpts::default();
        match &config.ca {
            Some(path) => opts.with_root_certs(vec![path.clone().into()]).with_disable_built_in_roots(true),
            None => opts,
        }
    });
    OptsBuilder::default()
        .ip_or_hostname(config.host.clone())
        .tcp_port(config.port)
        .user(Some(config.user.clone()))
        .pass(config.password.clone())
        .db_name(Some(config.database.clone()))
        // A socket is another server's more often than not; and what the driver would ask for first is set here.
        .prefer_socket(false)
        .max_allowed_packet(Some(64 << 20))
        .wait_timeout(Some(28_800))
        .stmt_cache_size(0)
        .tcp_nodelay(true)
        .ssl_opts(tls)
}

/// A connection that is set up, to a server whose clock is fit and whose tables are of this version.
async fn open(config: &MysqlConfig, tables: Tables, deadline: Deadline) -> Result<Conn, Failure> {
    let opened = tokio::time::timeout_at(deadline.0, async {
        let mut conn = Conn::new(opts(config)).await.map_err(|error| before(config, &error))?;
        let answers = ask(&mut conn, SET_UP.to_owned()).await.map_err(|error| before(config, &error))?;
        let stands = answers.first().and_then(|rows| rows.first()).and_then(|row| row.get::<i64, _>(0));
        if stands != Some(0) {
            return Err(unsuitable(
                config,
                "its sysdate() stands still during a statement, so that a lease could be renewed after its end; start it \
                 without --sysdate-is-now",
            ));
        }
        fit(config, &mut conn, tables).await?;
        Ok(conn)
    });
    opened.await.unwrap_or_else(|_| Err(timed_out(config, Effect::None)))
}

async fn fit(config: &MysqlConfig, conn: &mut Conn, tables: Tables) -> Result<(), Failure> {
    if tables == Tables::Any {
        return Ok(());
    }
    let failed = |error: Error| before(config, &error);
    let mut found = version(conn).await.map_err(failed)?;
    if found.is_none() && tables == Tables::Make {
        make(conn).await.map_err(failed)?;
        found = version(conn).await.map_err(failed)?;
    }
    match found.as_deref() {
        Some(found) if found == schema::VERSION.to_string() => Ok(()),
        Some(other) => Err(unsuitable(
            config,
            &format!(
                "the tables are of version {other}, and this program needs version {}; use a program of that version, or \
                 another database",
                schema::VERSION
            ),
        )),
        None => Err(unsuitable(config, "the tables of Simba are missing; run `simba schema apply`")),
    }
}

fn unsuitable(config: &MysqlConfig, what: &str) -> Failure {
    Failure::new(FailureKind::Unsuitable, Effect::None, format!("{}: {what}", config.shown()))
}

/// The version of the tables, or `None` if there are none.
pub(crate) async fn version(conn: &mut Conn) -> Result<Option<String>, Error> {
    match conn.query_first("select value from simba_meta where name = 'schema'").await {
        Err(Error::Server(error)) if error.code == 1146 => Ok(None),
        found => found,
    }
}

/// Makes the tables. Statements that make tables are no transactions: each can be repeated, the mark that all is done comes
/// last, and a lock that only this uses lets one of many do it.
async fn make(conn: &mut Conn) -> Result<(), Error> {
    conn.query_drop("do get_lock('simba_schema', 30)").await?;
    if version(conn).await?.is_none() {
        for statement in schema::statements() {
            conn.query_drop(statement).await?;
        }
    }
    conn.query_drop("do release_lock('simba_schema')").await
}
