//! What people see: the tables, `doctor`, and what the calls for them answer.

use std::{fs, os::unix::fs::PermissionsExt};

use simba_backend::{Backend, InspectQuery, Level, SchemaState, Survives};
use simba_sql::sqlite::{SqliteBackend, SqliteConfig, rusqlite::Connection, schema};

use crate::rig::{FOREVER, LEASE, PLENTY, Rig, name, wait};

#[test]
fn the_tables_are_printed_applied_and_checked() {
    let rig = Rig::new();
    let store = rig.store();
    assert_eq!(wait(store.check_schema(PLENTY)), Ok(SchemaState::Missing));
    assert!(!rig.path().exists(), "a check makes nothing");
    wait(store.apply_schema(PLENTY)).unwrap();
    assert_eq!(wait(store.check_schema(PLENTY)), Ok(SchemaState::Present));
    wait(store.apply_schema(PLENTY)).unwrap();
    rig.prompt().execute_batch("update simba_meta set value = '2'").unwrap();
    assert_eq!(wait(store.check_schema(PLENTY)), Ok(SchemaState::Other("2".to_owned())));

    // What is printed is what is applied.
    let by_hand = Rig::new();
    Connection::open(by_hand.path()).unwrap().execute_batch(schema::sql()).unwrap();
    let store = SqliteBackend::new(by_hand.config().create(false)).unwrap();
    assert_eq!(crate::rig::Node::open(store, LEASE).unwrap().take("x"), 1);
}

#[test]
fn a_sound_store_has_no_warnings_from_the_doctor() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    let (version, _) = a.listed();
    let examined = wait(a.store.examine(PLENTY));
    let findings = &examined.findings;
    assert!(findings.len() >= 5, "{findings:?}");
    for finding in findings {
        assert!(finding.level <= Level::Note, "{finding:?}");
    }
    // The folder of temporary files may lie in memory, which is another test's matter.
    let tokens = examined.tokens.as_ref().expect("they are graded");
    assert!(tokens.survives == Survives::Crash || tokens.reason.contains("begin anew"), "{tokens:?}");
    let text: Vec<&str> = findings.iter().map(|f| f.text.as_str()).collect();
    let all = text.join("\n");
    for word in ["reachable", "version 1", "1 live sessions", "MiB free", "this host only"] {
        assert!(all.contains(word), "{word:?} is missing in: {all}");
    }
    assert_eq!(a.listed().0, version, "an examination changes no lease");
}

#[test]
fn the_doctor_warns_of_what_weakens_the_promises() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = folder.path().join("leases.db");
    let store = SqliteBackend::new(SqliteConfig::new(&path)).unwrap();
    wait(store.apply_schema(PLENTY)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let log = fs::OpenOptions::new().append(true).open(folder.path().join("leases.db-wal")).unwrap();
    log.set_len(65 << 20).unwrap();
    let examined = wait(store.examine(PLENTY));
    let tokens = examined.tokens.expect("they are graded");
    assert!(
        tokens.survives == Survives::WhileItRuns && tokens.reason.contains("lies in memory"),
        "{tokens:?}"
    );
    let findings = examined.findings;
    for word in ["every user of this host may write", "log has grown to 65 MiB"] {
        let found =
            findings.iter().find(|f| f.text.contains(word)).unwrap_or_else(|| panic!("{word}: {findings:?}"));
        assert!(found.level == Level::Warn && !found.advice.is_empty(), "{found:?}");
    }
}

#[test]
fn the_doctor_says_what_is_wrong() {
    for (break_it, word) in
        [("update simba_meta set value = '9'", "version 9"), ("drop table simba_meta", "no tables")]
    {
        let rig = Rig::new();
        rig.node(LEASE).close();
        rig.prompt().execute_batch(break_it).unwrap();
        let findings = wait(rig.store().examine(PLENTY)).findings;
        let fault = findings.iter().find(|f| f.level == Level::Fail).expect("a fault is found");
        assert!(fault.text.contains(word), "{fault:?}");
    }
    let rig = Rig::new();
    let findings = wait(rig.store().examine(PLENTY)).findings;
    assert!(
        findings.iter().any(|f| f.level == Level::Fail && f.text.contains("does not exist")),
        "{findings:?}"
    );
    assert!(!rig.path().exists(), "an examination makes nothing");
    let store = rig.store();
    fs::write(rig.path(), b"Dear Sir,").unwrap();
    let findings = wait(store.examine(PLENTY)).findings;
    assert!(findings.iter().any(|f| f.level == Level::Fail), "{findings:?}");
    assert_eq!(fs::read(rig.path()).unwrap(), b"Dear Sir,");
}

#[test]
fn leases_are_listed_in_pages_in_the_order_of_their_names() {
    let rig = Rig::new();
    let (a, gone) = (rig.node(FOREVER), rig.node(LEASE));
    let names: Vec<String> = (0..25).map(|i| format!("job.{i:02}")).collect();
    a.acquire(&names.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    a.acquire(&["other", "job", "job-x", "joc"]).unwrap();
    gone.take("job.gone");
    rig.clock.advance(LEASE);
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let query = InspectQuery { prefix: "job.".to_owned(), after, limit: 10 };
        let page = wait(a.store.inspect(&query, PLENTY)).unwrap();
        assert!(page.leases.len() <= 10);
        after = page.leases.last().map(|record| record.name.clone());
        seen.extend(page.leases);
        if !page.more {
            break;
        }
    }
    assert_eq!(seen.len(), 26);
    assert!(seen.is_sorted_by(|l, r| l.name < r.name));
    for record in &seen {
        let held = record.held.as_ref().map(|held| held.session);
        let expected = (record.name != name("job.gone")).then_some(a.session);
        assert_eq!(held, expected, "{}", record.name);
    }
    let held = seen[0].held.as_ref().unwrap();
    assert_eq!((held.held_for, held.remaining), (LEASE, FOREVER - LEASE));
}
