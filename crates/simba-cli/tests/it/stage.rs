//! A private folder with a store, and what tests do with processes in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};

use rustix::{
    process::{Pid, Signal, kill_process},
    time::{ClockId, clock_gettime},
};

/// The boot-time clock, in nanoseconds: the one that deadlines are instants of.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec).expect("positive") * 1_000_000_000
        + u64::try_from(time.tv_nsec).expect("positive")
}

pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `simba` with a home, a state folder and a working folder of its own, on its own store.
    pub(crate) fn simba(&self, args: &[&str]) -> Command {
        let mut command = self.simba_without_url(args);
        command.env("SIMBA_URL", format!("sqlite:{}", self.path("simba.db").display()));
        command
    }

    pub(crate) fn simba_without_url(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_simba"));
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.simba(args).output().expect("the command starts"))
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        let child =
            self.simba(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        Running(Some(child))
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// What a command left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }
}

/// A process that is killed when the test is over, however that ends.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().expect("running").id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn wait(mut self) -> Ran {
        let child = self.0.take().expect("running");
        Ran::of(child.wait_with_output().expect("it ends"))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.as_mut().expect("running").try_wait().expect("a child").is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            send(child.id(), Signal::CONT);
            drop(child.kill());
            drop(child.wait());
        }
    }
}

pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    let sent = kill_process(pid, signal);
    assert!(matches!(sent, Ok(()) | Err(rustix::io::Errno::SRCH)), "it may have ended already: {sent:?}");
}

/// Looks until the answer is there; fails after a generous time.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = now_ns();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now_ns() - start < 30_000_000_000, "{what} did not come within 30 s");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that carry this lease in their environment: the guard, the command, and all that came from it.
pub(crate) fn processes_of(lease: &str) -> Vec<u32> {
    let wanted = format!("SIMBA_LEASE={lease}");
    let carries = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| carries(*pid)).collect()
}

/// Kills whatever a test has left behind on purpose.
#[cfg(feature = "planted")]
pub(crate) fn kill_all_of(lease: &str) {
    until("the end of what was left", || {
        let left = processes_of(lease);
        left.iter().for_each(|pid| send(*pid, Signal::KILL));
        left.is_empty().then_some(())
    });
}

/// The pid of the guard of a lease.
pub(crate) fn guard_of(lease: &str) -> Option<u32> {
    processes_of(lease).into_iter().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"__guard")
    })
}

/// Runs a scenario whose outcome depends on real time, and again if it failed on a machine that stood still meanwhile:
/// what this process was not given to run, the guard was not given either.
pub(crate) fn on_an_idle_machine(mut scenario: impl FnMut() -> Result<(), String>) {
    const STILL: u64 = 60_000_000;
    for attempt in 1..=3 {
        let (result, stall) = with_stall(&mut scenario);
        match result {
            Ok(()) => return,
            Err(fault) => assert!(
                stall > STILL && attempt < 3,
                "{fault} (attempt {attempt}; the machine stood still for {} ms at most)",
                stall / 1_000_000
            ),
        }
    }
}

struct SetOnDrop<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The scenario's result, and the longest time in nanoseconds for which a sleeping thread was not woken.
fn with_stall<T>(scenario: &mut impl FnMut() -> T) -> (T, u64) {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    const NAP: u64 = 5_000_000;
    let (done, worst) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let start = now_ns();
                thread::sleep(Duration::from_nanos(NAP));
                worst.fetch_max(now_ns().saturating_sub(start + NAP), Ordering::Relaxed);
            }
        });
        // Also when the scenario panics: the scope waits for its thread.
        let _done = SetOnDrop(&done);
        scenario()
    });
    (result, worst.into_inner())
}
