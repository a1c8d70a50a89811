//! The demo: it shows what it is for, and leaves nothing behind, however it ends.

use std::{fs, process::Stdio, time::Duration};

use rustix::process::Signal;

use crate::stage::{Stage, until};

/// Folders of demos in the temporary folder of this test.
fn folders(stage: &Stage) -> usize {
    let entries = fs::read_dir(stage.folder()).expect("a folder").flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("simba-demo-")).count()
}

/// Nodes of demos whose store lies in the temporary folder of this test.
fn nodes(stage: &Stage) -> usize {
    let folder = stage.folder().display().to_string();
    let is_node = |pid: &str| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains("__node") && line.contains(&folder)
    };
    let entries = fs::read_dir("/proc").expect("/proc is mounted").flatten();
    entries.filter(|entry| is_node(&entry.file_name().to_string_lossy())).count()
}

fn demo(stage: &Stage, args: &[&str]) -> std::process::Command {
    let mut command = stage.simba_without_url(&[&["demo"], args].concat());
    command.env("TMPDIR", stage.folder());
    command
}

#[test]
fn the_demo_shows_what_it_is_for() {
    let stage = Stage::new();
    let out = demo(&stage, &["--json"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text} {}", String::from_utf8_lossy(&out.stderr));
    let last: serde_json::Value = serde_json::from_str(text.lines().last().expect("lines")).expect("JSON");
    assert_eq!(last["ok"], true);
    assert!(
        last["verdict"]["terms"].as_u64() >= Some(3)
            && last["verdict"]["stale_writes_refused"].as_u64() >= Some(1)
    );
    assert_eq!((folders(&stage), nodes(&stage)), (0, 0));

    let out = demo(&stage, &["--lease-time", "1s"]).output().expect("it runs");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(text.contains("checked: no two valid terms at once, tokens 1 < 2 < 3"), "{text}");
    assert!(text.contains("REJECTED by the ledger (1 < 2)"), "{text}");
}

/// Interrupted at any point: no process and no file is left.
#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    for (round, signal) in [0, 20, 60, 200, 600, 1_200, 1_800, 2_600]
        .into_iter()
        .zip([Signal::INT, Signal::TERM].into_iter().cycle())
    {
        let stage = Stage::new();
        let mut child =
            demo(&stage, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        // Not to synchronise with anything: the instant of the interrupt is what is varied.
        std::thread::sleep(Duration::from_millis(round));
        crate::stage::send(child.id(), signal);
        let status = child.wait().expect("it ends");
        assert!(status.code() != Some(70), "round {round}: {status:?}");
        until("the nodes to end", || (nodes(&stage) == 0).then_some(()));
        assert_eq!(folders(&stage), 0, "round {round}");
    }
}

/// A demo that is killed takes its nodes along.
#[test]
fn a_killed_demo_takes_its_nodes_along() {
    let stage = Stage::new();
    let mut child = demo(&stage, &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    until("three nodes", || (nodes(&stage) == 3).then_some(()));
    child.kill().expect("it runs");
    drop(child.wait());
    until("the nodes to end", || (nodes(&stage) == 0).then_some(()));
}
