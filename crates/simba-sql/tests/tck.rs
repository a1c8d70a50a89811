//! The conformance suite against SQLite: a file of its own for each case, and a clock that is moved by hand.

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::{
        process::ExitCode,
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use simba_backend::{DynBackend, LeaseName};
    use simba_sql::sqlite::{SqliteBackend, SqliteConfig, StoreClock, rusqlite::Connection};

    struct Sqlite {
        folder: tempfile::TempDir,
        clock: Arc<AtomicU64>,
        boots: AtomicU64,
        namespace: Option<&'static str>,
    }

    impl Sqlite {
        fn new(namespace: Option<&'static str>) -> Self {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let clock = Arc::new(AtomicU64::new(1_000_000_000_000));
            Self { folder, clock, boots: AtomicU64::new(0), namespace }
        }
    }

    fn nanos(time: Duration) -> u64 {
        u64::try_from(time.as_nanos()).expect("short")
    }

    impl simba_tck::backend::Store for Sqlite {
        fn handle(&self) -> Arc<dyn DynBackend> {
            let clock = Arc::clone(&self.clock);
            let boot = format!("boot-{}", self.boots.load(Ordering::SeqCst));
            let mut config = SqliteConfig::new(self.folder.path().join("simba.db"))
                .clock(StoreClock::new(&boot, move || clock.load(Ordering::SeqCst)));
            if let Some(namespace) = self.namespace {
                config = config.namespace(namespace.parse().expect("a namespace"));
            }
            Arc::new(SqliteBackend::new(config).expect("a path that fits"))
        }

        fn advance(&self, by: Duration) {
            self.clock.fetch_add(nanos(by), Ordering::SeqCst);
        }

        fn step_back(&self, by: Duration) -> bool {
            self.clock.fetch_sub(nanos(by), Ordering::SeqCst);
            true
        }

        fn reopen(&self) -> bool {
            // Each handle is a connection of its own, so that the file is all that is kept: as after a reboot.
            self.boots.fetch_add(1, Ordering::SeqCst);
            true
        }

        fn exact(&self) -> bool {
            true
        }

        fn hold(&self) -> Option<Box<dyn Send>> {
            let db = Connection::open(self.folder.path().join("simba.db")).expect("the file");
            db.busy_timeout(Duration::from_secs(30)).expect("a timeout");
            db.execute_batch("begin immediate").expect("the write lock");
            Some(Box::new(db))
        }

        fn tamper_free(&self, name: &LeaseName) -> bool {
            let key = self.namespace.map_or_else(|| name.to_string(), |space| format!("{space}/{name}"));
            let db = Connection::open(self.folder.path().join("simba.db")).expect("the file");
            db.execute("update simba_lease set session = null where name = ?1", [key])
                .expect("a plain update")
                == 1
        }
    }

    pub(crate) fn run() -> ExitCode {
        let left_out = simba_tck::backend::left_out(|| Box::new(Sqlite::new(None)));
        assert!(left_out.is_empty(), "every case concerns SQLite, and these are left out: {left_out:?}");
        // The suite twice over: names in a namespace are other keys.
        let plain = simba_tck::backend::run(|| Box::new(Sqlite::new(None)));
        let spaced = simba_tck::backend::run(|| Box::new(Sqlite::new(Some("staging"))));
        if plain == ExitCode::SUCCESS { spaced } else { plain }
    }
}

fn main() -> std::process::ExitCode {
    #[cfg(feature = "sqlite")]
    return sqlite::run();
    #[cfg(not(feature = "sqlite"))]
    std::process::ExitCode::SUCCESS
}
