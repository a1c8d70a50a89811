//! Two processes and one lease: how long nobody leads after a clean stop, and after a crash.

use std::{
    env,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use simba::{Simba, TermEvent, Timing};
use simba_services::{MariaDb, Postgres, Redis};

use crate::{
    clock::{boot_nanos, median},
    servers::Result,
    table::Row,
};

const LEASE: Duration = Duration::from_secs(2);
const HANDOVERS: usize = 15;
const CRASHES: usize = 5;

/// What this program is when it is started as a node: it says when it is elected, and when it begins to stop.
#[expect(clippy::print_stdout, reason = "its lines are read by the benchmark")]
pub(crate) fn node(url: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        use tokio::signal::unix::{SignalKind, signal};
        let mut stop = signal(SignalKind::terminate())?;
        let timing = Timing::builder().lease(LEASE).build()?;
        let client = Simba::builder_from_url(url)?.timing(timing).build()?;
        let mut terms = client.election("bench")?.terms()?;
        loop {
            tokio::select! {
                event = terms.next() => match event {
                    Some(TermEvent::Elected(_)) => println!("elected {}", boot_nanos()),
                    Some(_) => {}
                    None => return Err("the election has ended".into()),
                },
                _ = stop.recv() => break,
            }
        }
        println!("stopping {}", boot_nanos());
        client.close().await;
        Ok(())
    })
}

struct Node {
    child: Child,
    lines: Receiver<(String, u64)>,
}

impl Node {
    fn start(url: &str) -> Result<Self> {
        let mut child =
            Command::new(env::current_exe()?).args(["node", url]).stdout(Stdio::piped()).spawn()?;
        let out = child.stdout.take().ok_or("no output")?;
        let (teller, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
                let told =
                    line.split_once(' ').and_then(|(what, at)| Some((what.to_owned(), at.parse().ok()?)));
                if told.is_none_or(|told| teller.send(told).is_err()) {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    fn wait(&self, what: &str) -> Result<u64> {
        let (said, at) = self.lines.recv_timeout(Duration::from_secs(30))?;
        if said == what { Ok(at) } else { Err(format!("{said} instead of {what}").into()) }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("no pid")?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn all(rows: &mut Vec<Row>) -> Result<()> {
    let folder = tempfile::tempdir()?;
    measure(rows, "SQLite", &format!("sqlite:{}", folder.path().join("bench.db").display()))?;
    let redis = Redis::start();
    measure(rows, "Redis", &redis.url())?;
    let postgres = Postgres::start();
    measure(rows, "PostgreSQL", &postgres.url("postgres"))?;
    measure(rows, "PostgreSQL, broadcast off", &format!("{}?broadcast=off", postgres.url("postgres")))?;
    let mariadb = MariaDb::start();
    mariadb.create_database("bench");
    measure(rows, "MariaDB", &mariadb.url("bench"))
}

fn measure(rows: &mut Vec<Row>, name: &str, url: &str) -> Result<()> {
    let mut leader = Node::start(url)?;
    leader.wait("elected")?;
    let mut gaps = [Vec::new(), Vec::new()];
    for round in 0..HANDOVERS + CRASHES {
        let crash = round >= HANDOVERS;
        let next = Node::start(url)?;
        // Until it contends, there is nobody to hand over to.
        thread::sleep(Duration::from_millis(400));
        let from = if crash {
            let at = boot_nanos();
            leader.signal(Signal::KILL)?;
            at
        } else {
            leader.signal(Signal::TERM)?;
            leader.wait("stopping")?
        };
        let gap = next.wait("elected")?.saturating_sub(from);
        gaps[usize::from(crash)].push(Duration::from_nanos(gap).as_secs_f64() * 1e3);
        leader = next;
    }
    let handover = format!("{:.2} ms", median(&mut gaps[0]));
    rows.push(Row::value(&format!("{name}: clean handover between two processes"), "reported", handover));
    let worst = gaps[1].iter().copied().fold(0.0, f64::max);
    let row = Row::value(
        &format!("{name}: failover after kill -9, lease time {LEASE:?}"),
        "<= lease + 1 s",
        format!("{:.0} ms", median(&mut gaps[1])),
    );
    rows.push(row.noted(format!("worst of {CRASHES}: {worst:.0} ms")));
    Ok(())
}
