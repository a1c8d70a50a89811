//! The guard: signal x phase x kind of child, with one checker: nothing that the child writes lies after the deadline,
//! and nothing of it is left.

use std::{fs, path::Path};

use rustix::process::Signal;

use crate::stage::{Running, Stage, guard_of, now_ns, on_an_idle_machine, processes_of, send, until};

/// The lease of these tests: 2 s, of which 1.93 s may be relied on.
const LEASE: &str = "2s";
const VALIDITY_NS: u64 = 1_930_000_000;

/// A child that stamps a file, and what it is like. `STAMP` is the loop.
const KINDS: &[(&str, &str)] = &[
    ("plain", "STAMP"),
    ("ignores TERM", "trap '' TERM HUP INT; STAMP"),
    ("a daemonised grandchild", "setsid sh -c \"trap '' TERM HUP; STAMP\" & STAMP"),
    (
        "orphaned grandchildren",
        "(setsid sh -c \"STAMP\" &) ; (setsid sh -c \"(STAMP) & (STAMP) & wait\" &) ; STAMP",
    ),
    ("forks without end", "while :; do (sleep 0.02; echo x >> LOG) & sleep 0.01; STAMP1; done"),
];

fn script(kind: &str, log: &Path) -> String {
    let log = log.display().to_string();
    kind.replace("STAMP1", "cut -d' ' -f1 /proc/uptime >> LOG")
        .replace("STAMP", "while :; do cut -d' ' -f1 /proc/uptime >> LOG; sleep 0.02; done")
        .replace("LOG", &log)
}

/// The last stamp, in nanoseconds of the boot-time clock, rounded down to 10 ms.
fn last_stamp(log: &Path) -> u64 {
    let text = fs::read_to_string(log).unwrap_or_default();
    let stamps = text.lines().filter_map(|line| {
        let (seconds, hundredths) = line.trim().split_once('.')?;
        Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + hundredths.parse::<u64>().ok()? * 10_000_000)
    });
    stamps.max().unwrap_or(0)
}

fn started(stage: &Stage, lease: &str, kind: &str) -> Running {
    let log = stage.path("log");
    let running = stage.spawn(&["run", lease, "--lease", LEASE, "-q", "-c", &script(kind, &log)]);
    until("the child to write", || (last_stamp(&log) > 0).then_some(()));
    running
}

fn assert_nothing_is_left(lease: &str, kind: &str) {
    until(&format!("the end of everything ({kind})"), || processes_of(lease).is_empty().then_some(()));
}

/// A keeper that is frozen past the deadline: the guard has ended the tree before it.
#[test]
fn a_frozen_keeper_does_not_keep_the_child_alive() {
    for (kind, line) in KINDS {
        on_an_idle_machine(|| {
            let stage = Stage::new();
            let keeper = started(&stage, "frozen", line);
            keeper.signal(Signal::STOP);
            let frozen = now_ns();
            until("the tree to end", || processes_of("frozen").is_empty().then_some(()));
            let last = last_stamp(&stage.path("log"));
            assert!(last + 20_000_000 > frozen, "{kind}: it ran on at first");
            keeper.signal(Signal::CONT);
            assert_eq!(keeper.wait().code, Some(79), "{kind}: the lease was lost");
            // The last renewal was sent before the freeze, so the deadline is at most the validity after it.
            in_time(last, frozen, kind)
        });
    }
}

/// Whether the last write came before the deadline of a lease that was renewed at `renewed` at the latest.
fn in_time(last: u64, renewed: u64, kind: &str) -> Result<(), String> {
    match last.checked_sub(renewed + VALIDITY_NS) {
        None => Ok(()),
        Some(late) => Err(format!("{kind}: last write {} ms after the deadline", late / 1_000_000)),
    }
}

/// A keeper that is killed: the tree ends at once, and the lease is free within the lease time.
#[test]
fn a_killed_keeper_ends_the_child_at_once() {
    for (kind, line) in KINDS {
        let stage = Stage::new();
        let keeper = started(&stage, "killed", line);
        keeper.signal(Signal::KILL);
        let killed = now_ns();
        assert_nothing_is_left("killed", kind);
        let last = last_stamp(&stage.path("log"));
        assert!(
            last < killed + 500_000_000,
            "{kind}: it wrote for another {} ms",
            last.saturating_sub(killed) / 1_000_000
        );
        let next = stage.run(&[
            "run",
            "killed",
            "--lease",
            LEASE,
            "--wait",
            "10s",
            "-q",
            "--",
            "sh",
            "-c",
            "echo $SIMBA_TOKEN",
        ]);
        assert_eq!(next.out, "2\n", "{kind}: the next token");
        assert!(now_ns() < killed + 4_000_000_000, "{kind}: within the lease time and a retry");
    }
}

/// A guard that is killed: the command dies with it, and the keeper ends the rest.
#[test]
fn a_killed_guard_takes_everything_with_it() {
    for (kind, line) in KINDS {
        let stage = Stage::new();
        let keeper = started(&stage, "unguarded", line);
        let guard = until("the guard", || guard_of("unguarded"));
        send(guard, Signal::KILL);
        let killed = now_ns();
        let ran = keeper.wait();
        assert_eq!(ran.code, Some(79), "{kind}: {ran:?}");
        assert_nothing_is_left("unguarded", kind);
        let last = last_stamp(&stage.path("log"));
        assert!(last < killed + 500_000_000, "{kind}");
        assert_eq!(stage.run(&["who", "unguarded"]).code, Some(1), "{kind}: released");
    }
}

/// A signal to the wrapper reaches the command once; the lease is released after everything is gone.
#[test]
fn a_signal_is_passed_on_and_the_tree_is_ended() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        for (kind, line) in KINDS {
            let stage = Stage::new();
            let keeper = started(&stage, "asked", line);
            keeper.signal(signal);
            let asked = now_ns();
            let ran = keeper.wait();
            assert_nothing_is_left("asked", kind);
            assert!(
                now_ns() < asked + VALIDITY_NS + 2_000_000_000,
                "{kind}: by the deadline as of the signal"
            );
            let codes = [128 + signal.as_raw(), 137];
            assert!(ran.code.is_some_and(|code| codes.contains(&code)), "{kind}: {ran:?}");
            assert_eq!(stage.run(&["who", "asked"]).code, Some(1), "{kind}: released");
        }
    }
}

/// A command that handles the signal ends in its own way, with its own code; a second signal cuts that short.
#[test]
fn a_polite_end_takes_its_time_and_a_second_signal_cuts_it_short() {
    let stage = Stage::new();
    let log = stage.path("log");
    let polite = format!(
        "trap 'sleep 0.3; echo done >> {}; exit 5' TERM; while :; do sleep 0.02; cut -d' ' -f1 /proc/uptime >> {0}; done",
        log.display()
    );
    let keeper = stage.spawn(&["run", "polite", "--lease", "20s", "-q", "-c", &polite]);
    until("the child to write", || (last_stamp(&log) > 0).then_some(()));
    keeper.signal(Signal::TERM);
    assert_eq!(keeper.wait().code, Some(5));
    assert!(fs::read_to_string(&log).expect("a log").contains("done"));

    fs::remove_file(&log).expect("a file");
    let stubborn = script("trap '' TERM; STAMP", &log);
    let keeper = stage.spawn(&["run", "polite", "--lease", "60s", "-q", "-c", &stubborn]);
    until("the child to write", || (last_stamp(&log) > 0).then_some(()));
    keeper.signal(Signal::TERM);
    // The wrapper takes two signals of one kind that come together for one.
    let asked = now_ns();
    until("some time to pass", || (now_ns() > asked + 300_000_000).then_some(()));
    keeper.signal(Signal::TERM);
    assert_eq!(keeper.wait().code, Some(137), "killed");
    assert!(now_ns() < asked + 10_000_000_000, "long before the deadline");
}

/// What a command leaves running is ended before the lease is released, and its own code is kept.
#[test]
fn what_a_command_leaves_behind_is_ended() {
    let stage = Stage::new();
    let log = stage.path("log");
    let line = script("(setsid sh -c \"trap '' TERM; STAMP\" &) ; sleep 0.2; exit 6", &log);
    let ran = stage.run(&["run", "left", "--lease", LEASE, "--kill-after", "300ms", "-q", "-c", &line]);
    assert_eq!(ran.code, Some(6), "{ran:?}");
    assert!(processes_of("left").is_empty());
    assert!(last_stamp(&log) > 0);
}

/// Renewals keep a command alive far beyond one lease time, and a lost store ends it in time.
#[test]
fn a_store_that_is_gone_ends_the_command_before_the_deadline() {
    on_an_idle_machine(|| {
        let stage = Stage::new();
        let log = stage.path("log");
        let keeper = started(&stage, "cut", "trap 'echo asked >> LOG' TERM; STAMP");
        let first = last_stamp(&log);
        until("three lease times", || (last_stamp(&log) > first + 6_000_000_000).then_some(()));
        // Every later write finds another file in the place of the store's.
        for name in ["simba.db", "simba.db-wal", "simba.db-shm"] {
            fs::remove_file(stage.path(name)).expect("the store's file");
        }
        let cut = now_ns();
        let ran = keeper.wait();
        assert_eq!(ran.code, Some(79), "{ran:?}");
        assert!(fs::read_to_string(&log).expect("a log").contains("asked"), "politely first");
        assert_nothing_is_left("cut", "plain");
        in_time(last_stamp(&log), cut, "plain")
    });
}

/// A check that cannot fail is a defect: with each planted bug the command outlives its deadline, or its keeper.
#[cfg(feature = "planted")]
mod planted {
    use super::*;
    use crate::stage::kill_all_of;

    fn started_with(bug: &str, stage: &Stage, lease: &str, line: &str) -> std::process::Child {
        let log = stage.path("log");
        let mut command = stage.simba(&["run", lease, "--lease", LEASE, "-q", "-c", &script(line, &log)]);
        command
            .env("SIMBA_PLANTED", bug)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let child = command.spawn().expect("it starts");
        until("the child to write", || (last_stamp(&log) > 0).then_some(()));
        child
    }

    fn outlives(bug: &str, lease: &str, line: &str, signal: Signal) {
        let stage = Stage::new();
        let mut keeper = started_with(bug, &stage, lease, line);
        send(keeper.id(), signal);
        let frozen = now_ns();
        let log = stage.path("log");
        until("a write after the deadline", || (last_stamp(&log) > frozen + VALIDITY_NS).then_some(()));
        send(keeper.id(), Signal::KILL);
        kill_all_of(lease);
        drop(keeper.wait());
    }

    #[test]
    fn a_guard_that_forgets_the_deadline_is_caught() {
        outlives("DeadlineForgotten", "forgotten", KINDS[0].1, Signal::STOP);
    }

    #[test]
    fn a_guard_that_outlives_its_keeper_is_caught() {
        // It still holds the last deadline, so the write that gives it away comes long after the kill and before that.
        let stage = Stage::new();
        let mut keeper = started_with("KeeperOutlived", &stage, "outlived", KINDS[0].1);
        send(keeper.id(), Signal::KILL);
        let killed = now_ns();
        let log = stage.path("log");
        until("a write long after the kill", || (last_stamp(&log) > killed + 500_000_000).then_some(()));
        kill_all_of("outlived");
        drop(keeper.wait());
    }

    #[test]
    fn a_guard_that_ends_only_the_group_is_caught() {
        outlives("GroupOnly", "grouped", KINDS[2].1, Signal::STOP);
    }
}
