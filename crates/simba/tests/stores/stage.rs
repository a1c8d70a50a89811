//! The stores: where each one is, and how it is broken.

use simba_services::Process;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A store that the suite runs on.
pub(crate) trait Stage: Sized + Send + Sync + 'static {
    fn start() -> Self;

    fn url(&self) -> String;

    /// Whether whoever waits is told of a release.
    fn tells(&self) -> bool {
        true
    }
}

/// A server of one process, for the tests that break it.
pub(crate) trait Server: Stage {
    fn port(&self) -> u16;

    /// The URL through another port, where a proxy stands.
    fn url_at(&self, port: u16) -> String;

    /// A parameter of the URL with which nobody listens for releases.
    const SILENT: &'static str = "?broadcast=off";

    fn process(&self) -> &Process;

    /// Starts it again with what it has kept, which is everything.
    fn start_again(&mut self);

    /// Starts it again, and it has lost everything.
    fn start_empty(&mut self);

    /// Has the server cut every connection that there is now.
    fn cut_connections(&self);
}

/// The store that the cases of one kind share, for as long as one of them runs.
pub(crate) type Shared<S> = Mutex<Weak<S>>;

pub(crate) fn shared<S: Stage>(place: &Shared<S>) -> Arc<S> {
    let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
    place.upgrade().unwrap_or_else(|| {
        let started = Arc::new(S::start());
        *place = Arc::downgrade(&started);
        started
    })
}

#[cfg(feature = "sqlite")]
pub(crate) struct Sqlite(tempfile::TempDir);

#[cfg(feature = "sqlite")]
impl Stage for Sqlite {
    fn start() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn url(&self) -> String {
        format!("sqlite:{}", self.0.path().join("simba.db").display())
    }
}

#[cfg(feature = "redis")]
pub(crate) use with_redis::{Cluster, Redis, RedisWithTls, Sentinels};

#[cfg(feature = "redis")]
mod with_redis {
    use super::{Process, Server, Stage};
    use simba_services::Certificates;

    /// It keeps everything on a disk.
    pub(crate) struct Redis(pub(crate) simba_services::Redis);

    impl Stage for Redis {
        fn start() -> Self {
            Self(simba_services::Redis::start_durable())
        }

        fn url(&self) -> String {
            self.0.url()
        }
    }

    impl Server for Redis {
        fn port(&self) -> u16 {
            self.0.port()
        }

        fn url_at(&self, port: u16) -> String {
            format!("redis://127.0.0.1:{port}")
        }

        fn process(&self) -> &Process {
            self.0.process()
        }

        fn start_again(&mut self) {
            self.0.start_again();
        }

        fn start_empty(&mut self) {
            self.0.start_again();
            assert_eq!(self.0.cli(&["flushall"]), "OK");
        }

        fn cut_connections(&self) {
            let cut = self.0.cli(&["client", "kill", "type", "normal", "skipme", "yes"]);
            assert!(cut.parse::<u32>().is_ok(), "{cut}");
            assert!(self.0.cli(&["client", "kill", "type", "pubsub"]).parse::<u32>().is_ok());
        }
    }

    pub(crate) struct RedisWithTls(
        simba_services::Redis,
        #[expect(dead_code, reason = "its files")] Certificates,
    );

    impl Stage for RedisWithTls {
        fn start() -> Self {
            let certificates = Certificates::new();
            Self(simba_services::Redis::start_with_tls(&certificates), certificates)
        }

        fn url(&self) -> String {
            self.0.url()
        }
    }

    pub(crate) struct Sentinels(pub(crate) simba_services::Sentinels);

    impl Stage for Sentinels {
        fn start() -> Self {
            Self(simba_services::Sentinels::start())
        }

        fn url(&self) -> String {
            self.0.url()
        }
    }

    pub(crate) struct Cluster(pub(crate) simba_services::Cluster);

    impl Stage for Cluster {
        fn start() -> Self {
            Self(simba_services::Cluster::start())
        }

        fn url(&self) -> String {
            self.0.url()
        }
    }
}

#[cfg(feature = "postgres")]
pub(crate) use with_postgres::{Pooled, Postgres};

#[cfg(feature = "postgres")]
mod with_postgres {
    use super::{Process, Server, Stage};

    const DATABASE: &str = "leases";

    pub(crate) struct Postgres(pub(crate) simba_services::Postgres);

    impl Stage for Postgres {
        fn start() -> Self {
            let server = simba_services::Postgres::start();
            server.create_database(DATABASE);
            Self(server)
        }

        fn url(&self) -> String {
            self.0.url(DATABASE)
        }
    }

    impl Server for Postgres {
        fn port(&self) -> u16 {
            self.0.port()
        }

        fn url_at(&self, port: u16) -> String {
            format!("postgres://postgres@127.0.0.1:{port}/{DATABASE}")
        }

        fn process(&self) -> &Process {
            self.0.process()
        }

        fn start_again(&mut self) {
            self.0.start_again();
        }

        fn start_empty(&mut self) {
            self.0.start_again();
            assert_eq!(self.0.sql("postgres", &format!("drop database {DATABASE} with (force)")), "");
            self.0.create_database(DATABASE);
        }

        fn cut_connections(&self) {
            let others = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                          where pid <> pg_backend_pid() and backend_type = 'client backend'";
            assert!(self.0.sql("postgres", others).parse::<u32>().is_ok());
        }
    }

    /// Behind PgBouncer in transaction mode.
    pub(crate) struct Pooled(
        simba_services::PgBouncer,
        #[expect(dead_code, reason = "it is behind")] Postgres,
    );

    impl Stage for Pooled {
        fn start() -> Self {
            let server = Postgres::start();
            Self(simba_services::PgBouncer::start(&server.0), server)
        }

        fn url(&self) -> String {
            format!("{}?broadcast=off", self.0.url(DATABASE))
        }

        fn tells(&self) -> bool {
            false
        }
    }
}

#[cfg(feature = "mysql")]
pub(crate) use with_mysql::MariaDb;

#[cfg(feature = "mysql")]
mod with_mysql {
    use super::{Process, Server, Stage};

    const DATABASE: &str = "leases";

    pub(crate) struct MariaDb(simba_services::MariaDb);

    impl Stage for MariaDb {
        fn start() -> Self {
            let server = simba_services::MariaDb::start();
            server.create_database(DATABASE);
            Self(server)
        }

        fn url(&self) -> String {
            self.0.url(DATABASE)
        }

        fn tells(&self) -> bool {
            false
        }
    }

    impl Server for MariaDb {
        const SILENT: &'static str = "";

        fn port(&self) -> u16 {
            self.0.port()
        }

        fn url_at(&self, port: u16) -> String {
            format!("mysql://simba:simba@127.0.0.1:{port}/{DATABASE}")
        }

        fn process(&self) -> &Process {
            self.0.process()
        }

        fn start_again(&mut self) {
            self.0.start_again();
        }

        fn start_empty(&mut self) {
            self.0.start_again();
            let emptied = format!("drop database {DATABASE}; create database {DATABASE}");
            assert_eq!(self.0.sql("mysql", &emptied), "");
        }

        fn cut_connections(&self) {
            assert_eq!(self.0.sql("mysql", "kill user simba"), "");
        }
    }
}
