//! Ten processes contend for one name on one file, and are frozen, killed and stopped at random.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::process::Signal;
use simba_cli::history::{Record, What, judge, median};

use crate::stage::{Stage, now_ns, send};

type Records = Arc<Mutex<Vec<Record>>>;

struct Node {
    child: Child,
    reader: JoinHandle<()>,
}

fn start(stage: &Stage, records: &Records) -> Node {
    let mut child = stage
        .simba(&["__node", "contended", "--lease", "1500ms", "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let records = Arc::clone(records);
    let reader = thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            // A killed process may leave half a line.
            if let Ok(record) = serde_json::from_str(&line) {
                records.lock().expect("no panic").push(record);
            }
        }
    });
    Node { child, reader }
}

/// A small generator (`xorshift64*`), so that a seed replays the same choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % n
    }
}

fn leader(records: &Records) -> Option<u32> {
    let records = records.lock().expect("no panic");
    let last = records
        .iter()
        .rfind(|r| matches!(r.what, What::Elected { .. } | What::Revoked { .. } | What::Killed));
    last.filter(|r| matches!(r.what, What::Elected { .. })).map(|r| r.pid)
}

#[test]
#[expect(clippy::print_stdout, reason = "the seed and the figures are what a run is looked at for")]
fn ten_processes_under_random_faults_never_overlap() {
    let seconds: u64 =
        std::env::var("SIMBA_CONTENTION_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(20);
    let seed: u64 =
        std::env::var("SIMBA_CONTENTION_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(now_ns() | 1);
    println!("seed {seed} (SIMBA_CONTENTION_SEED replays the choices), {seconds} s");
    let mut choices = Choices(seed);
    let stage = Stage::new();
    let records: Records = Arc::default();
    let mut nodes: Vec<Node> = (0..10).map(|_| start(&stage, &records)).collect();
    let end = now_ns() + seconds * 1_000_000_000;
    let (mut frozen, mut killed, mut stopped) = (0, 0, 0);
    while now_ns() < end {
        thread::sleep(Duration::from_millis(80 + choices.below(300)));
        // Mostly the leader: that is where it matters.
        let at = leader(&records)
            .filter(|_| choices.below(4) > 0)
            .and_then(|pid| nodes.iter().position(|node| node.child.id() == pid))
            .unwrap_or(usize::try_from(choices.below(10)).expect("small"));
        let pid = nodes[at].child.id();
        match choices.below(6) {
            0 => {
                frozen += 1;
                send(pid, Signal::STOP);
                thread::sleep(Duration::from_millis(100 + choices.below(2_500)));
                send(pid, Signal::CONT);
            }
            1 => {
                killed += 1;
                nodes[at].child.kill().expect("it runs");
                let gone = std::mem::replace(&mut nodes[at], start(&stage, &records));
                finish(gone);
                records.lock().expect("no panic").push(Record { at_ns: now_ns(), pid, what: What::Killed });
            }
            _ => {
                stopped += 1;
                send(pid, Signal::TERM);
                let gone = std::mem::replace(&mut nodes[at], start(&stage, &records));
                finish(gone);
            }
        }
    }
    for node in &nodes {
        send(node.child.id(), Signal::TERM);
    }
    nodes.into_iter().for_each(finish);
    let records = records.lock().expect("no panic");
    let verdict = judge(&records);
    let handover = median(&verdict.handover_ms);
    println!(
        "{} terms, {frozen} freezes, {killed} kills, {stopped} clean stops; handover median {handover:?} ms of {}",
        verdict.terms,
        verdict.handover_ms.len()
    );
    assert!(verdict.is_clean(), "{:#?}", verdict.faults);
    assert!(
        verdict.terms >= usize::try_from(seconds / 5).expect("small"),
        "a run that did nothing shows nothing"
    );
    assert!(handover.is_some_and(|ms| ms <= 50), "median of {:?}", verdict.handover_ms);
}

fn finish(mut node: Node) {
    drop(node.child.wait());
    node.reader.join().expect("no panic");
}
