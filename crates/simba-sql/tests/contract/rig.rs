//! A store in a folder of its own, with a clock that the test moves, and calls that block.

use std::{
    future::Future,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use simba_backend::{
    Acquired, Backend, Failure, FencingToken, Grant, InspectQuery, KeepAlive, LeaseName, LeaseRecord,
    NodeLabel, Outcome, Owned, Owner, Released, SessionId, Version,
};
use simba_sql::sqlite::{SqliteBackend, SqliteConfig, StoreClock, rusqlite::Connection};
use tempfile::TempDir;

/// Far more than any call here needs.
pub(crate) const PLENTY: Duration = Duration::from_secs(20);
/// The usual lease time, on the test's clock.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// A session that no test outlives, on the test's clock.
pub(crate) const FOREVER: Duration = Duration::from_secs(100_000_000);

/// A way to change the configuration: plants a bug, or nothing.
pub(crate) type Plant = fn(SqliteConfig) -> SqliteConfig;

pub(crate) const fn sound(config: SqliteConfig) -> SqliteConfig {
    config
}

/// Fails a rule with a text instead of a panic, so that a planted bug can be seen to fail it.
macro_rules! ensure {
    ($what:expr, $($text:tt)+) => {
        if !$what {
            return Err(format!($($text)+));
        }
    };
}
pub(crate) use ensure;

pub(crate) struct Rig {
    folder: TempDir,
    pub(crate) clock: TestClock,
    plant: Plant,
}

/// A clock in nanoseconds, moved by hand.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_000_000_000_000)))
    }

    pub(crate) fn store_clock(&self, domain: &str) -> StoreClock {
        let clock = Arc::clone(&self.0);
        StoreClock::new(domain, move || clock.load(Ordering::SeqCst))
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, nanos: u64) {
        self.0.store(nanos, Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.set(self.now() + u64::try_from(by.as_nanos()).unwrap());
    }
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(sound)
    }

    pub(crate) fn with(plant: Plant) -> Self {
        let folder = tempfile::Builder::new().prefix("simba-sql-").tempdir().unwrap();
        Self { folder, clock: TestClock::new(), plant }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder().join("leases.db")
    }

    pub(crate) fn config(&self) -> SqliteConfig {
        (self.plant)(SqliteConfig::new(self.path()).clock(self.clock.store_clock("boot-1")))
    }

    /// A store of its own: other connections than every other one.
    pub(crate) fn store(&self) -> SqliteBackend {
        SqliteBackend::new(self.config()).unwrap()
    }

    pub(crate) fn node(&self, lease: Duration) -> Node {
        Node::open(self.store(), lease).unwrap()
    }

    /// Waits until all of it is in the one file and nobody has it open.
    pub(crate) fn settle(&self) {
        let log = self.folder().join("leases.db-wal");
        eventually("the file is closed", || {
            self.prompt().close().unwrap();
            !log.exists()
        });
    }

    /// A connection as a person at the database's prompt has it.
    pub(crate) fn prompt(&self) -> Connection {
        let db = Connection::open(self.path()).unwrap();
        db.busy_timeout(PLENTY).unwrap();
        db.query_row("select count(*) from sqlite_schema", [], |_| Ok(())).unwrap();
        db
    }
}

/// A store and a session on it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) store: SqliteBackend,
    pub(crate) session: SessionId,
}

impl Node {
    pub(crate) fn open(store: SqliteBackend, lease: Duration) -> Result<Self, Failure> {
        let session = wait(store.open(lease, &owner(), PLENTY))?.session;
        Ok(Self { store, session })
    }

    pub(crate) fn keep_alive(&self, known: Option<Version>) -> Result<KeepAlive, Failure> {
        wait(self.store.keep_alive(self.session, known, PLENTY))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.keep_alive(None).unwrap() != KeepAlive::Expired
    }

    /// The version and the leases that a keep-alive lists.
    pub(crate) fn listed(&self) -> (Version, Vec<Grant>) {
        match self.keep_alive(None).unwrap() {
            KeepAlive::Alive { owned: Owned::Listed { version, leases }, .. } => (version, leases),
            other => panic!("a keep-alive without a known version lists everything: {other:?}"),
        }
    }

    pub(crate) fn acquire(&self, names: &[&str]) -> Result<Acquired, Failure> {
        let names: Vec<LeaseName> = names.iter().map(|text| name(text)).collect();
        wait(self.store.acquire(self.session, &names, PLENTY))
    }

    /// The token, if the lease was won.
    pub(crate) fn try_take(&self, name: &str) -> Option<FencingToken> {
        match self.acquire(&[name]).unwrap() {
            Acquired::Judged { outcomes, .. } => match outcomes.as_slice() {
                [Outcome::Won { token }] => Some(*token),
                _ => None,
            },
            Acquired::Expired => None,
        }
    }

    /// The token as a number, or 0.
    pub(crate) fn take(&self, name: &str) -> u64 {
        self.try_take(name).map_or(0, FencingToken::get)
    }

    pub(crate) fn release(&self, lease: &str, token: u64) -> Released {
        let grant = Grant { name: name(lease), token: FencingToken::new(token).unwrap() };
        wait(self.store.release(self.session, &[grant], PLENTY)).unwrap()
    }

    pub(crate) fn close(&self) {
        wait(self.store.close(self.session, PLENTY)).unwrap();
    }
}

pub(crate) fn record(store: &SqliteBackend, lease: &str) -> Option<LeaseRecord> {
    let query = InspectQuery { prefix: lease.to_owned(), after: None, limit: 1_000 };
    let page = wait(store.inspect(&query, PLENTY)).unwrap();
    page.leases.into_iter().find(|record| record.name.as_str() == lease)
}

/// Who owns the lease by the store's own record.
pub(crate) fn holder(store: &SqliteBackend, lease: &str) -> Option<SessionId> {
    record(store, lease).and_then(|record| record.held).map(|held| held.session)
}

pub(crate) fn owner() -> Owner {
    Owner {
        node: NodeLabel::sanitized("test"),
        host: NodeLabel::sanitized("h"),
        pid: std::process::id(),
        version: "0.0.0".into(),
    }
}

pub(crate) fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap()
}

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

/// Real time, for bounds on how long a call takes.
#[expect(clippy::disallowed_methods, reason = "a test measures; nothing of the product decides by it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Looks until `met` is, for half a minute at most.
pub(crate) fn eventually(what: &str, mut met: impl FnMut() -> bool) {
    let start = now();
    while !met() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what}: not within 30 s");
        thread::sleep(Duration::from_millis(2));
    }
}

/// This test program again, as a process that plays `part` (see `processes`) in `folder`.
pub(crate) fn child(part: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::a_part_of_another_test", "--nocapture", "--test-threads=1"]);
    command.env("SIMBA_TEST_PART", part).env("SIMBA_TEST_FOLDER", folder);
    command
}

/// Numbers that a printed seed brings back.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}
