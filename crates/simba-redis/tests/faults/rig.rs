//! A session on a store, calls that block, and a proxy that lets connections fall silent.

use std::{
    fmt::Debug,
    future::Future,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, LazyLock, Mutex},
    thread,
    time::{Duration, Instant},
};

use simba_backend::{
    Acquired, Backend, Failure, FailureKind, FencingToken, Grant, Hint, HintSink, KeepAlive, LeaseName,
    NodeLabel, Outcome, Owned, Owner, Released, SessionId,
};
use simba_redis::{RedisBackend, RedisConfig};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::watch,
    task::JoinHandle,
};

/// Far more than any call to a healthy server needs.
pub(crate) const PLENTY: Duration = Duration::from_secs(20);
/// A call to a server that may be silent waits this long.
pub(crate) const SHORT: Duration = Duration::from_millis(500);
/// What a busy machine may add to a call's limit.
pub(crate) const DELAY: Duration = Duration::from_secs(3);
/// A session that no test outlives.
pub(crate) const LEASE: Duration = Duration::from_secs(3_600);

/// The connections live on it, also between the calls.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.block_on(future)
}

pub(crate) fn store(url: &str) -> RedisBackend {
    RedisBackend::new(RedisConfig::from_url(url).unwrap()).unwrap()
}

/// A store and a session on it.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) store: RedisBackend,
    pub(crate) session: SessionId,
}

impl Node {
    pub(crate) fn open(url: &str) -> Self {
        Self::open_on(store(url)).unwrap()
    }

    pub(crate) fn open_on(store: RedisBackend) -> Result<Self, Failure> {
        let session = wait(store.open(LEASE, &owner(), PLENTY))?.session;
        Ok(Self { store, session })
    }

    pub(crate) fn keep_alive(&self, limit: Duration) -> Result<KeepAlive, Failure> {
        wait(self.store.keep_alive(self.session, None, limit))
    }

    /// What the session owns; `None` if it is over.
    pub(crate) fn owned(&self, limit: Duration) -> Result<Option<Vec<Grant>>, Failure> {
        match self.keep_alive(limit)? {
            KeepAlive::Alive { owned: Owned::Listed { leases, .. }, .. } => Ok(Some(leases)),
            KeepAlive::Expired => Ok(None),
            other => panic!("a keep-alive without a known version lists everything: {other:?}"),
        }
    }

    /// Acquires one lease: the token, or 0 if it was not won.
    pub(crate) fn take(&self, lease: &str, limit: Duration) -> Result<u64, Failure> {
        match wait(self.store.acquire(self.session, &[name(lease)], limit))? {
            Acquired::Judged { outcomes, .. } => match outcomes.as_slice() {
                [Outcome::Won { token }] => Ok(token.get()),
                _ => Ok(0),
            },
            Acquired::Expired => Ok(0),
        }
    }

    pub(crate) fn release(&self, lease: &str, token: u64, limit: Duration) -> Result<Released, Failure> {
        wait(self.store.release(self.session, &[grant(lease, token)], limit))
    }
}

pub(crate) fn grant(lease: &str, token: u64) -> Grant {
    Grant { name: name(lease), token: FencingToken::new(token).unwrap() }
}

pub(crate) fn name(text: &str) -> LeaseName {
    LeaseName::new(text).unwrap()
}

pub(crate) fn owner() -> Owner {
    Owner {
        node: NodeLabel::sanitized("test"),
        host: NodeLabel::sanitized("h"),
        pid: std::process::id(),
        version: "0.0.0 '\"\n{x}".into(),
    }
}

/// Real time, for bounds on how long a call takes.
#[expect(clippy::disallowed_methods, reason = "a test measures; nothing of the product decides by it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// A call that must fail, and in time. Answers how.
pub(crate) fn fails<T: Debug>(limit: Duration, call: impl FnOnce(Duration) -> Result<T, Failure>) -> Failure {
    let start = now();
    let failure = call(limit).expect_err("a call to a server that does not answer");
    let took = start.elapsed();
    assert!(took < limit + DELAY, "limit {limit:?}, but it took {took:?}: {failure:?}");
    failure
}

/// Repeats a call until it succeeds, for a minute at most. No attempt may outlive its limit.
pub(crate) fn again<T>(what: &str, mut call: impl FnMut(Duration) -> Result<T, Failure>) -> T {
    // A server that is coming up may need more than a moment, and a call that is cut short teaches nothing.
    const LIMIT: Duration = Duration::from_secs(2);
    let begun = now();
    loop {
        let start = now();
        let result = call(LIMIT);
        let took = start.elapsed();
        assert!(took < LIMIT + DELAY, "{what}: limit {LIMIT:?}, but it took {took:?}");
        match result {
            Ok(answer) => return answer,
            Err(failure) if begun.elapsed() < Duration::from_secs(60) => {
                assert!(retried(&failure), "{what}: nobody would try that again: {failure:?}");
                thread::sleep(Duration::from_millis(20));
            }
            Err(failure) => panic!("{what}: not within a minute; at last {failure:?}"),
        }
    }
}

/// Whether a failure passes by itself, as those of a server that is away do.
fn retried(failure: &Failure) -> bool {
    match failure.kind {
        FailureKind::Unreachable | FailureKind::TimedOut | FailureKind::Busy => true,
        FailureKind::Denied | FailureKind::Unsuitable => false,
    }
}

/// Looks until `met` is, for a minute at most.
pub(crate) fn eventually(what: &str, met: impl FnMut() -> bool) {
    simba_services::wait_until(what, met);
}

/// A watch that is started again whenever it ends, as the engine does.
pub(crate) struct Watcher {
    hints: Arc<Mutex<Vec<Hint>>>,
    task: JoinHandle<()>,
}

impl Watcher {
    pub(crate) fn start(store: RedisBackend) -> Self {
        let hints = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&hints);
        let sink = HintSink::new(move |hint| seen.lock().unwrap().push(hint));
        let task = RUNTIME.spawn(async move {
            loop {
                let failure = store.watch(sink.clone()).await;
                assert!(retried(&failure), "nobody would begin that again: {failure:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        Self { hints, task }
    }

    pub(crate) fn forget(&self) {
        self.hints.lock().unwrap().clear();
    }

    pub(crate) fn waits_for(&self, hint: &Hint, when: &str) {
        eventually(&format!("{hint:?} is heard {when}"), || self.hints.lock().unwrap().contains(hint));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Passes bytes on to a server, until the connections that it has are made silent.
pub(crate) struct Proxy {
    port: u16,
    era: watch::Sender<u64>,
}

impl Proxy {
    pub(crate) fn before(server: u16) -> Self {
        let (era, now) = watch::channel(0);
        let listener = wait(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        RUNTIME.spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut now = now.clone();
                now.mark_unchanged();
                tokio::spawn(async move {
                    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
                    let mut server = TcpStream::connect(to).await.unwrap();
                    let silent = tokio::select! {
                        // However a connection ends, it has ended.
                        _ended = copy_bidirectional(&mut client, &mut server) => false,
                        changed = now.changed() => changed.is_ok(),
                    };
                    if silent {
                        // Both ends stay open, and nothing passes any more.
                        std::future::pending::<()>().await;
                    }
                });
            }
        });
        Self { port, era }
    }

    /// From now on nothing passes on the present connections. New ones are as good as ever.
    pub(crate) fn silence(&self) {
        self.era.send_modify(|era| *era += 1);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}
