//! News of releases: the names stand in `simba_freed`, and a touched file says that there are new ones.
//!
//! The writer commits first and touches after, so that whoever is woken finds the names. A touch that is missed
//! costs time only: candidates try by themselves too, and a watch looks once a second in any case.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use rusqlite::{Connection, OpenFlags};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    fs::inotify,
    io::Errno,
};
use simba_backend::{Effect, Failure, FailureKind, Hint, HintSink};
use tokio::sync::oneshot;

use super::{
    clock::StoreClock,
    config::SqliteConfig,
    connection::{identity, wake_path},
    store::Ground,
};

/// How often a watch looks although nothing woke it.
const LOOK: Duration = Duration::from_secs(1);

/// Says that there are new rows in `simba_freed`. A file that cannot be written costs others time, and nothing
/// else, so it is no failure of the call.
pub(crate) fn touch(path: &Path) {
    let touched = OpenOptions::new().create(true).append(true).open(wake_path(path)).and_then(|mut file| {
        // One byte; the file is cut again before it grows to a page.
        if file.metadata()?.len() >= 4_096 {
            file.set_len(0)?;
        }
        file.write_all(b".")
    });
    drop(touched);
}

/// Watches for as long as the future lives.
pub(crate) async fn watch(config: Arc<SqliteConfig>, clock: StoreClock, sink: HintSink) -> Failure {
    let (done, failed) = oneshot::channel();
    let stop = match eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK) {
        Ok(stop) => Arc::new(stop),
        Err(error) => return no_watch(&error),
    };
    let stopped = StopOnDrop(Arc::clone(&stop));
    let thread = thread::Builder::new().name("simba-sqlite-watch".to_owned()).spawn(move || {
        let ended = Watch::start(&config, &clock, sink).and_then(|mut watch| watch.run(&stop));
        drop(done.send(ended.err().unwrap_or_else(stopped_by_itself)));
    });
    let result = match thread {
        Ok(_) => failed.await.unwrap_or_else(|_| stopped_by_itself()),
        Err(error) => no_watch(&error),
    };
    drop(stopped);
    result
}

struct StopOnDrop(Arc<OwnedFd>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        // It fails only when the counter is full, and then the thread is woken anyway.
        let written = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
        debug_assert!(written.is_ok() || written == Err(Errno::AGAIN));
    }
}

fn no_watch(error: &dyn std::fmt::Display) -> Failure {
    let text = format!("releases cannot be watched for ({error}); candidates find them by polling");
    Failure::new(FailureKind::Unsuitable, Effect::None, text)
}

fn stopped_by_itself() -> Failure {
    Failure::new(
        FailureKind::Unreachable,
        Effect::None,
        "the watch for releases has ended; it is started again",
    )
}

struct Watch<'a> {
    ground: Ground<'a>,
    conn: Connection,
    inotify: OwnedFd,
    sink: HintSink,
    last: i64,
    file: Option<(u64, u64)>,
}

impl<'a> Watch<'a> {
    fn start(config: &'a SqliteConfig, clock: &'a StoreClock, sink: HintSink) -> Result<Self, Failure> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
            .map_err(|error| no_watch(&error))?;
        let wake: PathBuf = wake_path(config.path());
        let made: Result<File, _> = OpenOptions::new().create(true).append(true).open(&wake);
        made.map_err(|error| no_watch(&error))?;
        let changes = inotify::WatchFlags::MODIFY
            | inotify::WatchFlags::ATTRIB
            | inotify::WatchFlags::DELETE_SELF
            | inotify::WatchFlags::MOVE_SELF;
        inotify::add_watch(&inotify, &wake, changes).map_err(|error| no_watch(&error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(config.path(), flags).map_err(|error| no_watch(&error))?;
        let file = identity(config.path());
        let mut watch = Self { ground: Ground { config, clock }, conn, inotify, sink, last: 0, file };
        watch.last = watch.newest().map_err(|error| no_watch(&error))?;
        Ok(watch)
    }

    fn newest(&self) -> rusqlite::Result<i64> {
        self.conn
            .prepare_cached("select coalesce(max(seq), 0) from simba_freed")?
            .query_row([], |row| row.get(0))
    }

    fn run(&mut self, stop: &OwnedFd) -> Result<(), Failure> {
        let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
        debug_assert_eq!(LOOK.as_secs(), 1);
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(self.inotify.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(no_watch(&error)),
            }
            if fds[1].revents().contains(PollFlags::IN) {
                return Ok(());
            }
            if fds[0].revents().contains(PollFlags::IN) && self.wake_file_is_gone()? {
                return Ok(());
            }
            if identity(self.ground.config.path()) != self.file {
                // Another database is there now, with news of its own.
                return Ok(());
            }
            self.tell().map_err(|error| no_watch(&error))?;
        }
    }

    /// Takes the events off; answers whether the file was deleted or moved, so that the watch must begin anew.
    fn wake_file_is_gone(&self) -> Result<bool, Failure> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1_024];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    let gone = inotify::ReadFlags::DELETE_SELF
                        | inotify::ReadFlags::MOVE_SELF
                        | inotify::ReadFlags::IGNORED;
                    if event.events().intersects(gone) {
                        return Ok(true);
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(error) => return Err(no_watch(&error)),
            }
        }
    }

    fn tell(&mut self) -> rusqlite::Result<()> {
        let newest = self.newest()?;
        if newest == self.last {
            return Ok(());
        }
        let rows: Vec<(i64, String)> = self
            .conn
            .prepare_cached("select seq, name from simba_freed where seq > ?1 order by seq")?
            .query_map([self.last], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let whole = rows.first().is_some_and(|(seq, _)| *seq == self.last + 1);
        self.last = rows.last().map_or(newest, |(seq, _)| *seq);
        // A gap: rows were pruned before they were seen, or the table was emptied by hand.
        if !whole || rows.iter().any(|(_, name)| name.is_empty()) {
            self.sink.send(Hint::Missed);
            return Ok(());
        }
        for (_, key) in rows {
            if let Some(name) = self.ground.name_of(&key) {
                self.sink.send(Hint::Freed(name));
            }
        }
        Ok(())
    }
}
