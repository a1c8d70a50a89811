//! `simba demo`: three real processes and one lease. A leader is elected, frozen, replaced, woken; its late write is
//! refused; the next one is stopped cleanly. The closing line is computed by the checker that the tests use, from
//! what the processes recorded.

use std::{
    env, fs,
    path::{Path, PathBuf},
    pin::Pin,
    process::{ExitCode, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use simba::sqlite::rusqlite::Connection;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use crate::{
    args::DemoArgs,
    clock::boot_nanos,
    command::{node::Ledger, watch::stop_signal},
    exit::{Exit, INTERNAL, USAGE},
    history::{Record, Verdict, What, judge},
    output::{self, Format},
    store,
};

/// Tells a node which process must not be outlived.
pub(crate) const PARENT: &str = "SIMBA_DEMO_PARENT";

pub(crate) fn demo(args: &DemoArgs, format: Format) -> Result<ExitCode, Exit> {
    let lease = args.lease_time;
    if !(Duration::from_millis(500)..=Duration::from_secs(10)).contains(&lease) {
        return Err(Exit::new(USAGE, "the demo's lease time must be from 500ms to 10s"));
    }
    store::block_on(async {
        // Before there is anything that would be left behind; and once, so that no signal falls between two waits.
        let stop = Box::pin(stop_signal()?);
        let folder = Folder::new()?;
        let mut stage = Stage::new(&folder.0, lease, format, stop)?;
        let shown = stage.play().await;
        stage.end().await;
        shown?;
        let verdict = judge(&stage.records);
        Ok(stage.close(&verdict))
    })
}

/// A private folder, removed with everything in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Exit> {
        let path = env::temp_dir().join(format!("simba-demo-{}-{:x}", std::process::id(), boot_nanos()));
        fs::create_dir(&path).map_err(|error| {
            Exit::new(
                INTERNAL,
                format!("no folder for the demo can be made in {}: {error}", env::temp_dir().display()),
            )
        })?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            output::note(format!("{} could not be removed: {error}", self.0.display()));
        }
    }
}

struct Node {
    name: String,
    pid: u32,
    child: Child,
    readers: Vec<tokio::task::JoinHandle<()>>,
}

/// Ready when this process is asked to end.
type Stop = Pin<Box<dyn Future<Output = ()>>>;

struct Stage<'a> {
    folder: &'a Path,
    lease: Duration,
    format: Format,
    start_ns: u64,
    nodes: Vec<Node>,
    sender: Option<mpsc::UnboundedSender<Record>>,
    news: mpsc::UnboundedReceiver<Record>,
    records: Vec<Record>,
    paused_at: Option<u64>,
    stop: Stop,
}

impl<'a> Stage<'a> {
    fn new(folder: &'a Path, lease: Duration, format: Format, stop: Stop) -> Result<Self, Exit> {
        let (sender, news) = mpsc::unbounded_channel();
        let mut stage = Self {
            folder,
            lease,
            format,
            start_ns: boot_nanos(),
            nodes: Vec::new(),
            sender: Some(sender),
            news,
            records: Vec::new(),
            paused_at: None,
            stop,
        };
        if format == Format::Text {
            output::line(format!(
                "simba demo - 3 nodes, lease \"report\", store sqlite:{} (lease time {lease:?})\n",
                folder.join("simba.db").display()
            ));
        }
        Ledger::create(&folder.join("ledger.db"))?;
        for n in 1..=3 {
            let node = stage.spawn(&format!("node-{n}"))?;
            stage.nodes.push(node);
        }
        Ok(stage)
    }

    fn spawn(&self, name: &str) -> Result<Node, Exit> {
        let program = env::current_exe()?;
        let mut child = Command::new(program)
            .args([
                "__node",
                "report",
                "--quiet",
                "--node",
                name,
                "--lease",
                &format!("{}ms", self.lease.as_millis()),
            ])
            .arg("--url")
            .arg(format!("sqlite:{}", self.folder.join("simba.db").display()))
            .arg("--ledger")
            .arg(self.folder.join("ledger.db"))
            .env(PARENT, std::process::id().to_string())
            .env_remove("SIMBA_CONFIG")
            .current_dir(self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C on the terminal is for this process; it tells the nodes itself.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().unwrap_or_default();
        let mut readers = Vec::new();
        if let (Some(out), Some(sender)) = (child.stdout.take(), self.sender.clone()) {
            readers.push(tokio::spawn(async move {
                let mut lines = BufReader::new(out).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Ok(record) = serde_json::from_str(&line)
                        && sender.send(record).is_err()
                    {
                        return;
                    }
                }
            }));
        }
        if let Some(err) = child.stderr.take() {
            let name = name.to_owned();
            readers.push(tokio::spawn(async move {
                let mut lines = BufReader::new(err).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    output::note(format!("{name}: {line}"));
                }
            }));
        }
        Ok(Node { name: name.to_owned(), pid, child, readers })
    }

    /// The story. Each step waits for what the processes do; nothing is said that they did not record.
    async fn play(&mut self) -> Result<(), Exit> {
        let elected = |record: &Record| matches!(record.what, What::Elected { .. });
        let wrote =
            |pid: u32| move |record: &Record| record.pid == pid && matches!(record.what, What::Wrote { .. });
        let first = self.wait("a first leader", elected).await?.pid;
        // The lines of three processes come in any order: a refusal may be told before the win that caused it.
        while self.records.iter().filter(|record| record.what == What::Candidate).count() < 2 {
            self.wait("a candidate", |record| record.what == What::Candidate).await?;
        }
        self.wait("some writes", move |r| {
            r.pid == first && matches!(r.what, What::Wrote { batch, .. } if batch >= 40)
        })
        .await?;

        self.paused_at = Some(boot_nanos());
        self.say(
            "----",
            &format!(
                "pausing {} (SIGSTOP), like a long pause of its memory manager or a frozen machine",
                self.name(first)
            ),
        );
        self.freeze(first).await?;
        let second = self.wait("another leader", |r| r.pid != first && elected(r)).await?.pid;
        self.wait("a write of the new leader", wrote(second)).await?;

        self.say("----", &format!("waking {}", self.name(first)));
        signal(first, Signal::CONT);
        let late = move |r: &Record| r.pid == first && matches!(r.what, What::Invalid { .. });
        self.wait("the first read after waking", late).await?;
        let refused = move |r: &Record| r.pid == first && matches!(r.what, What::Rejected { .. });
        self.wait("the late write", refused).await?;

        self.say("----", &format!("clean stop of {} (SIGTERM)", self.name(second)));
        self.records.push(Record { at_ns: boot_nanos(), pid: second, what: What::AskedToStop });
        signal(second, Signal::TERM);
        let third = self.wait("the next leader", |r| r.pid != second && elected(r)).await?.pid;
        self.wait("a write of the next leader", wrote(third)).await?;
        Ok(())
    }

    /// Stops a process, outside of any transaction: one that is stopped while it holds the lock of a database holds
    /// everybody up until it is woken. That is safe, and not what is to be shown.
    async fn freeze(&self, pid: u32) -> Result<(), Exit> {
        loop {
            signal(pid, Signal::STOP);
            for _ in 0..20 {
                if !self.is_locked("ledger.db")? && !self.is_locked("simba.db")? {
                    return Ok(());
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            signal(pid, Signal::CONT);
        }
    }

    fn is_locked(&self, file: &str) -> Result<bool, Exit> {
        let looked = Connection::open(self.folder.join(file)).and_then(|db| {
            db.busy_timeout(Duration::ZERO)?;
            Ok(db.execute_batch("begin immediate; rollback").is_err())
        });
        looked.map_err(|error| Exit::new(INTERNAL, format!("{file}: {error}")))
    }

    /// Takes records in, telling each that is worth it, until one satisfies the test.
    async fn wait(&mut self, what: &str, wanted: impl Fn(&Record) -> bool) -> Result<Record, Exit> {
        let limit = self.lease * 4 + Duration::from_secs(5);
        let mut timeout = std::pin::pin!(tokio::time::sleep(limit));
        loop {
            let record = tokio::select! {
                biased;
                () = &mut self.stop => return Err(Exit::new(130, "stopped")),
                record = self.news.recv() => record,
                () = &mut timeout => None,
            };
            let Some(record) = record else {
                return Err(Exit::new(
                    INTERNAL,
                    format!("{what} did not come within {limit:?}; this is a bug of simba"),
                ));
            };
            self.tell(&record);
            self.records.push(record.clone());
            if wanted(&record) {
                return Ok(record);
            }
        }
    }

    fn name(&self, pid: u32) -> String {
        self.nodes
            .iter()
            .find(|node| node.pid == pid)
            .map_or_else(|| pid.to_string(), |node| node.name.clone())
    }

    fn say(&self, who: &str, what: &str) {
        self.say_at(boot_nanos(), who, what);
    }

    fn say_at(&self, at_ns: u64, who: &str, what: &str) {
        if self.format == Format::Text {
            let seconds = at_ns.saturating_sub(self.start_ns) as f64 / 1e9;
            output::line(format!("{seconds:6.2}s  {who:6}  {what}"));
        }
    }

    fn tell(&self, record: &Record) {
        if self.format == Format::Json {
            if !matches!(record.what, What::Valid { .. }) {
                output::json(record);
            }
            return;
        }
        let name = self.name(record.pid);
        let text = match &record.what {
            What::Ready => "session live".to_owned(),
            What::Candidate => "candidate".to_owned(),
            What::Elected { token } => {
                let after = self.paused_at.filter(|_| *token == 2).map_or_else(String::new, |paused| {
                    let seconds = record.at_ns.saturating_sub(paused) as f64 / 1e9;
                    format!("   ({seconds:.1}s after the pause: what was left of one lease)")
                });
                let stopped = self.records.iter().rev().find(|r| matches!(r.what, What::AskedToStop));
                let after = stopped.map_or(after, |stop| {
                    let millis = record.at_ns.saturating_sub(stop.at_ns) as f64 / 1e6;
                    format!("   ({millis:.0} ms after the signal: clean handover)")
                });
                format!("LEADER of report, token {token}{after}")
            }
            What::Wrote { token, batch } => format!("wrote batch {batch} with token {token}"),
            What::Invalid { late_ms, .. } => {
                format!("first read after waking: term valid = no   (its deadline passed {late_ms} ms ago)")
            }
            What::Rejected { token, highest } => {
                format!("late write with token {token}  ->  REJECTED by the ledger ({token} < {highest})")
            }
            What::Revoked { token, reason } => format!("term with token {token} ended: {reason}"),
            What::Stopped => "stopped".to_owned(),
            What::Valid { .. } | What::Killed | What::AskedToStop => return,
        };
        // Writes are many; one a term is enough for a person.
        let told = |r: &Record| match (&r.what, &record.what) {
            (What::Wrote { token: one, .. }, What::Wrote { token: other, .. }) => one == other,
            (What::Rejected { token: one, .. }, What::Rejected { token: other, .. }) => one == other,
            _ => false,
        };
        if !self.records.iter().any(told) {
            self.say_at(record.at_ns, &name, &text);
        }
    }

    /// Stops every node, and takes the rest of what they recorded.
    async fn end(&mut self) {
        for node in &self.nodes {
            signal(node.pid, Signal::CONT);
            signal(node.pid, Signal::TERM);
        }
        let patience = self.lease * 2 + Duration::from_secs(3);
        for node in &mut self.nodes {
            if tokio::time::timeout(patience, node.child.wait()).await.is_err() {
                output::note(format!("{} did not stop, and is killed", node.name));
                self.records.push(Record { at_ns: boot_nanos(), pid: node.pid, what: What::Killed });
                if let Err(error) = node.child.kill().await {
                    output::note(format!("{} could not be killed: {error}", node.name));
                }
            }
            for reader in node.readers.drain(..) {
                // It ends with the pipe, which ended with the process.
                drop(tokio::time::timeout(patience, reader).await);
            }
        }
        self.sender = None;
        while let Some(record) = self.news.recv().await {
            self.tell(&record);
            self.records.push(record);
        }
    }

    /// The closing line, from the checker's verdict.
    fn close(&self, verdict: &Verdict) -> ExitCode {
        let shown = verdict.terms >= 3 && verdict.stale_writes_refused >= 1 && verdict.writes >= 3;
        let ok = shown && verdict.is_clean();
        match self.format {
            Format::Json => {
                output::json(&serde_json::json!({ "v": 1, "ok": ok, "verdict": verdict }));
            }
            Format::Text => {
                let tokens: Vec<String> = verdict.tokens.iter().map(ToString::to_string).collect();
                let refused = verdict.stale_writes_refused;
                let writes = if refused == 1 { "stale write" } else { "stale writes" };
                output::line(String::new());
                if verdict.is_clean() {
                    output::line(format!(
                        "checked: no two valid terms at once, tokens {}, every \"elected\" has one \"revoked\", \
                         {refused} {writes} refused",
                        tokens.join(" < ")
                    ));
                } else {
                    output::line(format!("checked, and found wrong: {}", verdict.faults.join("; ")));
                }
                output::line("next: simba run hello -- echo hi | simba status | simba --help");
            }
        }
        if ok { ExitCode::SUCCESS } else { ExitCode::from(INTERNAL) }
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw)
        && let Err(error) = kill_process(pid, signal)
        && error != rustix::io::Errno::SRCH
    {
        output::note(format!("process {} cannot be signalled: {error}", pid.as_raw_nonzero()));
    }
}
