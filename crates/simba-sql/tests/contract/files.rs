//! What can be wrong with a file: told clearly, and nothing of it is overwritten.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    pin::pin,
    process::Command,
    time::Duration,
};

use simba_backend::{Acquired, Backend, Effect, Failure, FailureKind};
use simba_sql::sqlite::{SqliteBackend, SqliteConfig};

use crate::rig::{FOREVER, LEASE, Node, PLENTY, Rig, holder, name, record, wait};

/// The failure that the file at `path` is refused with, at once or by the first call.
fn refusal(path: &Path) -> Failure {
    let failure = SqliteBackend::new(SqliteConfig::new(path))
        .and_then(|store| Node::open(store, LEASE))
        .expect_err("the file is refused");
    assert_eq!(failure.effect, Effect::None, "{failure}");
    failure
}

/// Every file of a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect()
}

fn assert_refused(path: &Path, kind: FailureKind, words: &[&str]) {
    let failure = refusal(path);
    assert_eq!(failure.kind, kind, "{failure}");
    let shown = path.file_name().unwrap().to_string_lossy().into_owned();
    for word in words.iter().copied().chain([shown.as_str()]) {
        assert!(failure.message.contains(word), "{word:?} is missing in: {failure}");
    }
}

#[test]
fn what_is_no_file_is_refused() {
    let rig = Rig::new();
    let folder = rig.folder().join("folder");
    fs::create_dir(&folder).unwrap();
    assert_refused(&folder, FailureKind::Unsuitable, &["is a directory", "give the path of a file"]);
    assert_refused(
        &folder.join("no/such/place.db"),
        FailureKind::Unsuitable,
        &["does not exist", "make it first"],
    );
    let pipe = rig.folder().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_refused(&pipe, FailureKind::Unsuitable, &["not an ordinary file"]);
}

#[test]
fn what_is_no_database_is_refused_and_kept_byte_for_byte() {
    let rig = Rig::new();
    let mut page = b"SQLite format 3\0".to_vec();
    page.extend((0..8_176_u32).map(|i| i.to_le_bytes()[0].wrapping_mul(31)));
    for (file, bytes) in [
        ("letter.txt", b"Dear Sir,".to_vec()),
        ("garbage", (0..20_000_u32).map(|i| i.to_le_bytes()[0].wrapping_mul(101)).collect()),
        ("zeros", vec![0; 8_192]),
        ("torn.db", page),
        ("cut.db", b"SQLite format 3\0".to_vec()),
    ] {
        fs::write(rig.folder().join(file), bytes).unwrap();
    }
    let before = contents(rig.folder());
    for path in before.keys() {
        assert_refused(path, FailureKind::Unsuitable, &["is not an SQLite database", "left as it is"]);
    }
    assert_eq!(contents(rig.folder()), before);
}

/// Damage inside a store is told where it is met. A panic would end the store's thread, and its failure says so.
#[test]
fn damage_is_told_and_never_a_panic() {
    for seed in 0..30_u64 {
        let mut rng = crate::rig::Rng::new(seed);
        let rig = Rig::new();
        let a = rig.node(FOREVER);
        let names: Vec<String> = (0..300).map(|i| format!("lease-with-a-longer-name-{i}")).collect();
        a.acquire(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        drop(a);
        rig.settle();
        let mut bytes = fs::read(rig.path()).unwrap();
        let length = bytes.len();
        for _ in 0..40 {
            let at = usize::try_from(rng.below(u64::try_from(length - 100).unwrap())).unwrap() + 100;
            bytes[at] = bytes[at].wrapping_add(u8::try_from(1 + rng.below(255)).unwrap());
        }
        fs::write(rig.path(), &bytes).unwrap();
        let Ok(b) = SqliteBackend::new(rig.config()).and_then(|store| Node::open(store, FOREVER)) else {
            continue;
        };
        for lease in &names {
            match b.acquire(&[lease]) {
                Ok(Acquired::Judged { .. } | Acquired::Expired) => {}
                Err(failure) => assert!(
                    matches!(failure.kind, FailureKind::Unsuitable | FailureKind::Unreachable)
                        && !failure.message.contains("this is a bug"),
                    "seed {seed}: {failure}"
                ),
            }
        }
    }
}

#[test]
fn tables_of_another_version_are_refused_with_both_numbers() {
    let rig = Rig::new();
    rig.node(LEASE).close();
    rig.prompt().execute_batch("update simba_meta set value = '7' where key = 'schema'").unwrap();
    assert_refused(&rig.path(), FailureKind::Unsuitable, &["version 7", "needs version 1"]);
    rig.prompt().execute_batch("delete from simba_meta").unwrap();
    assert_refused(&rig.path(), FailureKind::Unsuitable, &["needs version 1"]);
}

#[test]
fn a_database_of_someone_else_is_shared_and_left_whole() {
    let rig = Rig::new();
    let theirs = rig.prompt();
    theirs
        .execute_batch(
            "create table invoice (id integer primary key, sum integer); insert into invoice values (1, 99)",
        )
        .unwrap();
    assert_eq!(rig.node(LEASE).take("x"), 1);
    let sum: u32 = theirs.query_row("select sum from invoice where id = 1", [], |row| row.get(0)).unwrap();
    assert_eq!(sum, 99);
}

/// B28: a table of theirs with one of our names is neither used nor changed.
#[test]
fn a_foreign_table_with_a_name_of_ours_is_refused() {
    let rig = Rig::new();
    rig.prompt()
        .execute_batch("create table simba_lease (lion text); insert into simba_lease values ('mufasa')")
        .unwrap();
    let failure = refusal(&rig.path());
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure}");
    assert!(failure.message.contains("simba_lease"), "{failure}");
    let tables: u32 = rig
        .prompt()
        .query_row("select count(*) from sqlite_schema where name like 'simba%'", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1);
}

#[test]
fn nothing_is_made_unless_it_may_be() {
    let rig = Rig::new();
    let failure = SqliteBackend::new(rig.config().create(false))
        .and_then(|store| Node::open(store, LEASE))
        .expect_err("the file is missing");
    assert_eq!(failure.kind, FailureKind::Unsuitable);
    assert_eq!(contents(rig.folder()).len(), 0);
    fs::write(rig.path(), b"").unwrap();
    let store = SqliteBackend::new(rig.config().create(false)).unwrap();
    let failure = Node::open(store.clone(), LEASE).expect_err("the tables are missing");
    assert!(failure.message.contains("schema apply"), "{failure}");
    rig.node(LEASE).close();
    assert_eq!(Node::open(store, LEASE).unwrap().take("x"), 1);
}

/// `SQLite` names its log after the path, so two names of one file would be two logs.
#[test]
fn a_file_with_two_names_is_refused() {
    let rig = Rig::new();
    let a = rig.node(LEASE);
    fs::hard_link(rig.path(), rig.folder().join("other.db")).unwrap();
    assert_refused(&rig.folder().join("other.db"), FailureKind::Unsuitable, &["hard link"]);
    drop(a);
}

#[test]
fn a_symbolic_link_leads_to_the_same_leases() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    let link = rig.folder().join("link.db");
    std::os::unix::fs::symlink(rig.path(), &link).unwrap();
    let config = SqliteConfig::new(&link).clock(rig.clock.store_clock("boot-1"));
    let b = Node::open(SqliteBackend::new(config).unwrap(), FOREVER).unwrap();
    assert_eq!(b.take("x"), 0);
    assert_eq!(holder(&b.store, "x"), Some(a.session));
}

#[test]
fn a_deleted_file_is_noticed_before_anything_is_granted() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    fs::remove_file(rig.path()).unwrap();
    for failure in [a.keep_alive(None).unwrap_err(), a.acquire(&["y"]).unwrap_err()] {
        assert_eq!((failure.kind, failure.effect), (FailureKind::Unsuitable, Effect::None), "{failure}");
        assert!(failure.message.contains("does not exist"), "{failure}");
    }
    // A client opens a new session then, which makes the file anew; the old session is unknown there.
    let b = Node::open(a.store.clone(), FOREVER).unwrap();
    assert_eq!(b.take("x"), 1);
    assert!(!a.is_alive());
    let whole: String = rig.prompt().query_row("pragma integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
}

#[test]
fn a_replaced_file_ends_the_sessions_of_the_old_one() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    let elsewhere = Rig::new();
    elsewhere.node(FOREVER).take("x");
    put_in_place_of(&rig, &elsewhere);
    assert!(!a.is_alive(), "the session is unknown in the new file");
    assert_eq!(a.acquire(&["x"]), Ok(Acquired::Expired));
    assert_eq!(record(&a.store, "x").map(|r| r.token.get()), Some(1));
}

/// As a careful person does: the new file comes whole, and the log of the old one is taken away.
pub(crate) fn put_in_place_of(old: &Rig, new: &Rig) {
    new.settle();
    for log in ["leases.db-wal", "leases.db-shm"] {
        fs::remove_file(old.folder().join(log)).unwrap();
    }
    fs::rename(new.path(), old.path()).unwrap();
}

/// The file is replaced while a call waits for the lock of the old one: nothing is granted in a file that nobody
/// else can reach.
#[test]
fn a_file_replaced_during_the_wait_for_the_lock_grants_nothing() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    let elsewhere = Rig::new();
    elsewhere.node(FOREVER).close();
    let locker = rig.prompt();
    locker.execute_batch("begin immediate").unwrap();
    let answer = wait(async {
        let names = [name("y")];
        let mut call = pin!(a.store.acquire(a.session, &names, PLENTY));
        // The call has been handed over, and waits for the lock or is about to.
        assert!(tokio::time::timeout(Duration::from_millis(100), &mut call).await.is_err());
        put_in_place_of(&rig, &elsewhere);
        locker.execute_batch("rollback").unwrap();
        call.await
    });
    match answer {
        Err(failure) => assert_eq!(failure.effect, Effect::None, "{failure}"),
        Ok(answer) => assert_eq!(answer, Acquired::Expired, "granted in a file that is gone"),
    }
    // The next call has found the new file, where the session is unknown.
    assert_eq!(a.acquire(&["y"]), Ok(Acquired::Expired));
}

#[test]
fn a_full_disk_loses_nothing_and_is_over_when_there_is_room() {
    let rig = Rig::new();
    let config = rig.config().max_pages(40);
    let a = Node::open(SqliteBackend::new(config).unwrap(), FOREVER).unwrap();
    let mut taken = 0_u32;
    let failure = loop {
        match a.acquire(&[&format!("lease-{taken}")]) {
            Ok(_) => taken += 1,
            Err(failure) => break failure,
        }
        assert!(taken < 10_000, "the file has no bound");
    };
    assert_eq!(failure.kind, FailureKind::Busy, "{failure}");
    assert!(failure.message.contains("disk is full"), "{failure}");
    assert!(taken > 10, "{taken}");
    assert_eq!(a.listed().1.len(), usize::try_from(taken).unwrap(), "what was granted is kept, and renewed");
    let roomy = rig.node(FOREVER);
    assert_eq!(roomy.take("another"), 1);
    assert_eq!(roomy.take("lease-0"), 0);
}

/// Closing any descriptor of a file drops every lock that the process holds on it. If that happened here, the next
/// process to leave would take this one for gone, and delete the log under it.
#[test]
fn the_locks_of_this_process_are_kept_whatever_else_it_does_with_the_file() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    let another = rig.node(FOREVER);
    assert_eq!(another.take("x"), 0);
    let inode = format!(":{} ", fs::metadata(rig.path()).unwrap().ino());
    let process = format!(" {} ", std::process::id());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    assert!(
        locks.lines().any(|line| line.contains(&inode) && line.contains(&process)),
        "this process has lost its lock on the database: {locks}"
    );
}
