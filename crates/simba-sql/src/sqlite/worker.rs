//! A thread with a connection of its own, which calls are handed to.
//!
//! A call that is dropped before its turn is not executed at all; one that is running is broken off at its limit.
//! So a call that nobody waits for any more does not hold up the next one for longer than that.

use std::{
    io, process,
    sync::{Arc, Mutex, OnceLock, mpsc},
    thread,
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};
use simba_backend::{Effect, Failure, FailureKind};
use tokio::sync::oneshot;

use super::{
    config::SqliteConfig,
    connection::{Link, check_limit},
    failure::unsuitable,
};

/// Until when a call may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit(u64);

impl Limit {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(wait_clock().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(crate) const fn at(self) -> u64 {
        self.0
    }

    pub(crate) fn is_over(self) -> bool {
        wait_clock() >= self.0
    }

    pub(crate) fn left(self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(wait_clock()))
    }
}

/// The clock of waiting: nothing that is written depends on it.
pub(crate) fn wait_clock() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

type Job = Box<dyn FnOnce(&mut Link) + Send>;

/// The thread, started with the first call and ended with the last handle.
pub(crate) struct Worker {
    name: &'static str,
    config: Arc<SqliteConfig>,
    jobs: OnceLock<Result<Mutex<mpsc::Sender<Job>>, io::ErrorKind>>,
    pid: u32,
}

impl Worker {
    pub(crate) fn new(name: &'static str, config: Arc<SqliteConfig>) -> Self {
        Self { name, config, jobs: OnceLock::new(), pid: process::id() }
    }

    /// Has `act` done, and waits for its result. Dropping the future takes the call back if its turn has not come.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        limit: Duration,
        act: impl FnOnce(&mut Link, Limit) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if process::id() != self.pid {
            return Err(unsuitable(
                "this process was forked off the one that opened the store; a forked process must open its own",
            ));
        }
        let limit = Limit::after(limit);
        let (reply, answer) = oneshot::channel();
        let config = Arc::clone(&self.config);
        let job: Job = Box::new(move |link| {
            if reply.is_closed() {
                return;
            }
            let result = check_limit(config.path(), limit).and_then(|()| act(link, limit));
            // Whoever asked may be gone by now; what was done is found by a later call.
            drop(reply.send(result));
        });
        self.send(job)?;
        answer.await.unwrap_or_else(|_| Err(broken()))
    }

    fn send(&self, job: Job) -> Result<(), Failure> {
        let jobs = self.jobs.get_or_init(|| self.start().map(Mutex::new).map_err(|e| e.kind()));
        let sender = match jobs {
            Ok(sender) => sender.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone(),
            Err(kind) => return Err(unsuitable(format!("no thread can be started for the store: {kind}"))),
        };
        sender.send(job).map_err(|_| broken())
    }

    fn start(&self) -> io::Result<mpsc::Sender<Job>> {
        let (sender, jobs) = mpsc::channel::<Job>();
        let config = Arc::clone(&self.config);
        thread::Builder::new().name(self.name.to_owned()).spawn(move || {
            let mut link = Link::new(config);
            for job in jobs {
                job(&mut link);
            }
        })?;
        Ok(sender)
    }
}

fn broken() -> Failure {
    Failure::new(
        FailureKind::Unsuitable,
        Effect::Unknown,
        "the store's thread has ended; this is a bug of simba-sql",
    )
}
