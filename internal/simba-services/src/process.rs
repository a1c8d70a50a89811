//! A server as a process, and the folder it lives in.
//!
//! # Nothing is left behind
//! A test may panic, be killed, or be interrupted; its servers must end with it. So each server has a small shell as its
//! parent, which reads from a pipe that only the test holds: when the test is gone, however it went, the pipe ends, and
//! the shell kills the server.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::atomic::{AtomicI32, Ordering},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, geteuid, kill_process};

/// Starts "$@", prints its pid, and kills it when standard input ends.
const PARENT: &str = r#"exec 3<&0; log="$1"; shift
"$@" </dev/null >>"$log" 2>&1 3<&- & pid=$!
echo $pid; exec >&- 2>/dev/null
cat <&3 >/dev/null; kill -9 $pid 2>/dev/null; wait $pid"#;

/// A running server.
#[derive(Debug)]
pub struct Process {
    parent: Child,
    /// Its end is the server's end.
    _pipe: Option<ChildStdin>,
    pid: AtomicI32,
    log: PathBuf,
}

impl Process {
    /// Starts `command` (the program and its arguments), as `user` if this is root, writing what it prints to `log`.
    ///
    /// # Panics
    /// If no process can be started.
    #[must_use]
    pub fn start(command: &[String], user: Option<&str>, log: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", PARENT, "sh"]).arg(log);
        if let Some(user) = user.filter(|_| geteuid().is_root()) {
            shell.args(["setpriv", "--reuid", user, "--regid", user, "--init-groups"]);
        }
        let mut parent = shell
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("sh cannot be started: {error}"));
        let pipe = parent.stdin.take();
        let mut line = String::new();
        let out = parent.stdout.take().map(BufReader::new);
        out.map(|mut out| out.read_line(&mut line)).transpose().unwrap_or_else(|e| panic!("no pid: {e}"));
        let pid = line.trim().parse().unwrap_or_else(|_| panic!("{line:?} is no pid of {command:?}"));
        Self { parent, _pipe: pipe, pid: AtomicI32::new(pid), log: log.to_owned() }
    }

    /// The server's process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// Whether it runs (a frozen one does).
    #[must_use]
    pub fn is_running(&self) -> bool {
        state(self.pid()).is_some_and(|state| !matches!(state, 'Z' | 'X'))
    }

    /// Stops it, and every process of it, where they stand: nothing is answered, no connection ends.
    pub fn freeze(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Kills it, as a loss of power would, and waits for its end.
    pub fn kill(&self) {
        self.signal_all(Signal::KILL);
        wait_until("the server is gone", || !self.is_running());
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.pid()) {
            // It may have ended by itself.
            kill_process(pid, signal).ok();
        }
        wait_until("the server has ended", || !self.is_running());
    }

    /// The last lines that it printed.
    #[must_use]
    pub fn log(&self) -> String {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(30).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn signal_all(&self, signal: Signal) {
        for pid in family(self.pid()) {
            if let Some(pid) = Pid::from_raw(pid) {
                kill_process(pid, signal).ok();
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal_all(Signal::KILL);
        drop(self._pipe.take());
        drop(self.parent.wait());
    }
}

fn stat(pid: i32) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may hold anything, brackets too.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn state(pid: i32) -> Option<char> {
    stat(pid).map(|stat| stat.0)
}

/// A process and all below it, the eldest first.
fn family(root: i32) -> Vec<i32> {
    let processes: Vec<(i32, i32)> = fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?.1)))
        .collect();
    let mut family = vec![root];
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        family.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

/// A temporary folder that a server's own user may use.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// A new one, owned by `user` if this is root.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(user: Option<&str>) -> Self {
        use std::os::unix::fs::{PermissionsExt, chown};
        let folder = tempfile::Builder::new().prefix("simba-srv.").tempdir();
        let folder = folder.unwrap_or_else(|error| panic!("no temporary folder: {error}"));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        if let Some(user) = user.filter(|_| geteuid().is_root()) {
            chown(folder.path(), Some(id("-u", user)), Some(id("-g", user))).expect("root may give it away");
        }
        Self(folder)
    }

    /// A folder in it that every user may write, as text.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn make(&self, name: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.join(name);
        fs::create_dir(&path).expect("our own folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("our own folder");
        path.display().to_string()
    }

    /// A path in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The same, as text.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.join(name).display().to_string()
    }
}

fn id(what: &str, user: &str) -> u32 {
    let output = Command::new("id").args([what, user]).output().expect("the program id");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("there is no user {user}; is its package installed?"))
}

/// Waits until a condition holds.
///
/// # Panics
/// If it does not within 60 s.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    const STEP: Duration = Duration::from_millis(20);
    for _ in 0..3_000 {
        if condition() {
            return;
        }
        thread::sleep(STEP);
    }
    panic!("waited 60 s in vain: {what}")
}

/// Runs a program to its end, as `user` if this is root.
///
/// # Panics
/// If it fails; what it printed is shown.
pub(crate) fn run(command: &[String], user: Option<&str>) -> String {
    let output = try_run(command, user);
    output.unwrap_or_else(|error| panic!("{command:?} failed: {error}"))
}

pub(crate) fn try_run(command: &[String], user: Option<&str>) -> Result<String, String> {
    let mut whole: Vec<String> = Vec::new();
    if let Some(user) = user.filter(|_| geteuid().is_root()) {
        whole.extend(["setpriv", "--reuid", user, "--regid", user, "--init-groups"].map(str::to_owned));
    }
    whole.extend_from_slice(command);
    let output = Command::new(&whole[0]).args(&whole[1..]).stdin(Stdio::null()).current_dir("/").output();
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr)))
    }
}
