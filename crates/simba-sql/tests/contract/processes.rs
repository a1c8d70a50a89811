//! Several processes, processes that are killed, and what a process leaves to its children.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use simba_backend::{Backend, FailureKind, HintSink};
use simba_sql::sqlite::{SqliteBackend, SqliteConfig};

use crate::rig::{FOREVER, LEASE, Node, Rig, Rng, child, eventually, wait};

/// What this program does as another test's child process.
#[test]
fn a_part_of_another_test() {
    let (Ok(part), Some(folder)) = (std::env::var("SIMBA_TEST_PART"), std::env::var_os("SIMBA_TEST_FOLDER"))
    else {
        return;
    };
    let folder = PathBuf::from(folder);
    match part.as_str() {
        "start" => start_with_others(&folder),
        "write" => write_until_killed(&folder),
        "grow" => grow_until_refused(&folder),
        "rights" => be_refused(&folder),
        "relative" => move_elsewhere(&folder),
        "leave" => leave_nothing(&folder),
        other => panic!("no part {other:?}"),
    }
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\nsaid: {text}").unwrap();
}

fn said(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix("said: ")).map(str::to_owned).collect()
}

fn store(folder: &Path) -> SqliteBackend {
    SqliteBackend::new(SqliteConfig::new(folder.join("leases.db"))).unwrap()
}

fn start_with_others(folder: &Path) {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let node = Node::open(store(folder), FOREVER).unwrap();
    say(&format!("{} {}", node.take("shared"), node.take(&format!("own-{}", std::process::id()))));
}

#[test]
fn ten_processes_make_the_tables_at_once() {
    for round in 0..5 {
        let rig = Rig::new();
        let mut children: Vec<_> = (0..10)
            .map(|_| {
                child("start", rig.folder()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for child in &mut children {
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        }
        let mut shared = Vec::new();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "round {round}: a process failed");
            let lines = said(&String::from_utf8_lossy(&output.stdout));
            let (first, own) = lines[0].split_once(' ').unwrap();
            assert_eq!(own, "1");
            shared.push(first.to_owned());
        }
        shared.sort();
        assert_eq!(shared.iter().filter(|token| *token == "1").count(), 1, "one process wins: {shared:?}");
        assert_eq!(shared.iter().filter(|token| *token == "0").count(), 9, "nine are refused: {shared:?}");
    }
}

fn write_until_killed(folder: &Path) {
    let store = store(folder);
    for round in 0_u64.. {
        let node = Node::open(store.clone(), Duration::from_millis(300)).unwrap();
        for lease in ["a", "b", "c"] {
            let token = node.take(lease);
            if token > 0 {
                say(&format!("{lease} {token}"));
            }
            if round % 3 == 0 && token > 0 {
                node.release(lease, token);
            }
        }
        node.is_alive();
        node.close();
    }
}

/// Whenever a process is killed, the file is whole and no token that was handed out comes again.
#[test]
fn a_killed_process_leaves_a_consistent_store() {
    const SEED: u64 = 9;
    let mut rng = Rng::new(SEED);
    let rig = Rig::new();
    let mut highest: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..15 {
        let mut writer = child("write", rig.folder()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(writer.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("said: ") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "round {round}: the writer ended");
        }
        thread::sleep(Duration::from_micros(rng.below(60_000)));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let mut rest = line;
        output.read_to_string(&mut rest).unwrap();
        for text in said(&rest) {
            // The last line may be cut off in the middle of a number.
            let Some((lease, token)) = text.split_once(' ') else { continue };
            let token = token.parse().unwrap_or(0);
            let seen = highest.entry(lease.to_owned()).or_insert(0);
            assert!(token >= *seen, "seed {SEED}, round {round}: {lease} went from {seen} to {token}");
            *seen = token;
        }
        let whole: String = rig.prompt().query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok", "seed {SEED}, round {round}");
        let node = Node::open(store(rig.folder()), Duration::from_secs(60)).unwrap();
        for (lease, seen) in &mut highest {
            let mut token = 0;
            eventually("the dead process's lease runs out", || {
                token = node.take(lease);
                token > 0
            });
            assert!(token > *seen, "seed {SEED}, round {round}: {lease} had {seen}, and now {token}");
            *seen = token;
        }
        node.close();
    }
    assert!(highest["a"] > 15, "{highest:?}");
}

/// A limit on the size of files, as a quota is: the kernel refuses the write in the middle of a commit.
fn grow_until_refused(folder: &Path) {
    let node = Node::open(store(folder), FOREVER).unwrap();
    for number in 0..1_000_000 {
        let lease = format!("lease-{number}");
        match node.acquire(&[&lease]) {
            Ok(_) => say(&lease),
            Err(failure) => {
                assert!(
                    matches!(failure.kind, FailureKind::Busy | FailureKind::Unreachable),
                    "{:?}: {failure}",
                    failure.kind
                );
                say("refused");
                return;
            }
        }
    }
    panic!("nothing was refused");
}

#[test]
fn a_write_that_the_kernel_refuses_loses_nothing_that_was_granted() {
    let rig = Rig::new();
    let program = child("grow", rig.folder());
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; ulimit -f 600; exec \"$@\"", "sh"]).arg(program.get_program());
    shell.args(program.get_args());
    for (key, value) in program.get_envs() {
        shell.env(key, value.unwrap());
    }
    let output = shell.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let lines = said(&text);
    assert_eq!(lines.last().map(String::as_str), Some("refused"));
    let whole: String = rig.prompt().query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    let held: u32 = rig
        .prompt()
        .query_row("select count(*) from simba_lease where token = 1", [], |row| row.get(0))
        .unwrap();
    let held = usize::try_from(held).unwrap();
    assert!(held >= lines.len() - 1 && lines.len() > 20, "{held} of {}", lines.len() - 1);
    assert_eq!(Node::open(store(rig.folder()), LEASE).unwrap().take("later"), 1);
}

fn be_refused(folder: &Path) {
    for (file, words) in [
        ("read-only.db", &["read-only", "unreadable", "rights", "access"][..]),
        ("unreadable.db", &["read", "rights", "access"]),
        ("locked-folder/leases.db", &["folder", "read-only", "rights"]),
        ("locked-folder/new.db", &["folder", "rights"]),
        ("closed-folder/leases.db", &["rights", "access"]),
    ] {
        let path = folder.join(file);
        let failure = SqliteBackend::new(SqliteConfig::new(&path))
            .and_then(|store| Node::open(store, LEASE))
            .map(|_| ())
            .expect_err(file);
        assert_eq!(failure.kind, FailureKind::Denied, "{file}: {failure}");
        assert!(failure.message.contains(&*path.display().to_string()), "{file}: {failure}");
        assert!(words.iter().any(|word| failure.message.contains(word)), "{file}: {failure}");
    }
}

/// As another user, since the rights of files bind everyone but the administrator.
#[test]
fn a_file_without_the_rights_is_refused_before_anything_is_written() {
    let rig = Rig::new();
    rig.node(LEASE).close();
    rig.settle();
    let mode = |path: &Path, mode: u32| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for (folder, bits) in [("locked-folder", 0o555), ("closed-folder", 0o000)] {
        let folder = rig.folder().join(folder);
        fs::create_dir(&folder).unwrap();
        fs::copy(rig.path(), folder.join("leases.db")).unwrap();
        mode(&folder.join("leases.db"), 0o666);
        mode(&folder, bits);
    }
    for (file, bits) in [("read-only.db", 0o444), ("unreadable.db", 0o000)] {
        fs::copy(rig.path(), rig.folder().join(file)).unwrap();
        mode(&rig.folder().join(file), bits);
    }
    mode(rig.folder(), 0o755);
    let program = rig.folder().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    mode(&program, 0o755);
    let template = child("rights", rig.folder());
    let mut command = Command::new(&program);
    command.args(template.get_args()).current_dir("/");
    for (key, value) in template.get_envs() {
        command.env(key, value.unwrap());
    }
    if fs::metadata(rig.folder()).unwrap().uid() == 0 {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    mode(&rig.folder().join("closed-folder"), 0o755);
    mode(&rig.folder().join("locked-folder"), 0o755);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let made: Vec<_> = fs::read_dir(rig.folder().join("locked-folder")).unwrap().collect();
    assert_eq!(made.len(), 1, "{made:?}");
}

/// A daemon goes to the root folder after it has begun.
fn move_elsewhere(folder: &Path) {
    std::env::set_current_dir(folder).unwrap();
    let node = Node::open(SqliteBackend::new(SqliteConfig::new("leases.db")).unwrap(), FOREVER).unwrap();
    assert_eq!(node.take("x"), 1);
    std::env::set_current_dir("/").unwrap();
    assert!(node.is_alive(), "the session is found after a change of the working folder");
    assert_eq!(node.take("y"), 1);
    let again = Node::open(node.store.clone(), FOREVER).unwrap();
    assert_eq!(again.take("x"), 0);
}

#[test]
fn a_relative_path_stays_where_it_was_when_the_process_moves() {
    let rig = Rig::new();
    let output = child("relative", rig.folder()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(rig.path().is_file() && !Path::new("/leases.db").exists());
}

/// B44: a child process has nothing of the store open, and its end changes nothing.
#[test]
fn a_child_process_inherits_nothing_of_the_store() {
    let rig = Rig::new();
    let node = rig.node(FOREVER);
    node.take("x");
    let watch = crate::watching::Watch::start(rig.store());
    let output = Command::new("sh").args(["-c", "ls -l /proc/self/fd"]).output().unwrap();
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("/proc/"), "the list is there: {listed}");
    for kind in ["leases.db", "inotify", "eventfd"] {
        assert!(!listed.contains(kind), "a child has {kind} open: {listed}");
    }
    drop(watch);
    assert!(node.is_alive());
}

/// Threads and descriptors of the store, by what the kernel lists.
fn own() -> (usize, usize) {
    let threads = fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|entry| fs::read_to_string(entry.unwrap().path().join("comm")).ok())
        .filter(|comm| comm.starts_with("simba-sqlite"))
        .count();
    let files = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.unwrap().path()).ok())
        .filter(|target| {
            let target = target.to_string_lossy().into_owned();
            target.contains("leases.db") || target.contains("inotify")
        })
        .count();
    (threads, files)
}

fn leave_nothing(folder: &Path) {
    assert_eq!(own(), (0, 0));
    let store = store(folder);
    assert_eq!(own(), (0, 0), "nothing is started before the first call");
    for _ in 0..20 {
        let node = Node::open(store.clone(), FOREVER).unwrap();
        node.take("x");
        node.close();
        // A watch that is dropped at once, and one that has begun.
        drop(store.watch(HintSink::new(|_| ())));
        wait(async {
            let watch = store.watch(HintSink::new(|_| ()));
            tokio::time::timeout(Duration::from_millis(5), watch).await.unwrap_err();
        });
    }
    eventually("the watches have ended", || own().0 == 2);
    drop(store);
    eventually("the threads have ended", || own() == (0, 0));
}

#[test]
fn the_threads_and_files_end_with_the_last_handle() {
    let rig = Rig::new();
    let output = child("leave", rig.folder()).output().unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
