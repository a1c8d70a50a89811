//! Users with few rights, wrong passwords, other versions, servers that weaken the promises.

use simba_backend::{FailureKind, Level, SchemaState, Survives};
use simba_services::{MariaDb, free_port};
use simba_tck::rig::{Node, PLENTY, wait};

use crate::{config, node, store};

fn server(settings: &[&str]) -> (MariaDb, String) {
    let server = MariaDb::start_with(settings);
    server.create_database("leases");
    let url = server.url("leases");
    (server, url)
}

#[test]
fn the_printed_grants_are_enough_and_not_too_much() {
    let (server, url) = server(&[]);
    let owner = store(&url);
    assert_eq!(wait(owner.check_schema(PLENTY)), Ok(SchemaState::Missing));
    wait(owner.apply_schema(PLENTY)).expect("tables");
    wait(owner.apply_schema(PLENTY)).expect("the same tables");
    assert_eq!(wait(owner.check_schema(PLENTY)), Ok(SchemaState::Present));
    let grants = owner.schema().expect("tables").grants.expect("rights");
    let grants = grants.replace("simba", "few").replace("few_", "simba_");
    assert_eq!(server.sql("leases", &grants), "");
    assert_eq!(
        server.sql("leases", "create user bare identified by 'x'; grant select on simba_meta to bare"),
        ""
    );

    let node = node(&url.replace("simba:simba@", "few:choose%20the%20password%20yourself@"));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    node.release("a", 1, PLENTY).expect("a release");
    assert_eq!(node.take("a", PLENTY), Ok(2));
    assert_eq!(node.owned(PLENTY).map(|owned| owned.map(|list| list.len())), Ok(Some(1)));
    let examined = wait(node.store.examine(PLENTY));
    assert!(examined.findings.iter().all(|finding| finding.level < Level::Fail), "{examined:#?}");
    wait(node.store.close(node.session, PLENTY)).expect("an end");

    let failure = Node::open(store(&url.replace("simba:simba@", "bare:x@"))).expect_err("no rights");
    assert_eq!(failure.kind, FailureKind::Denied, "{failure}");
    assert!(failure.message.contains("simba schema grants"), "{failure}");
}

#[test]
fn whoever_cannot_enter_is_told_why_without_the_password() {
    let (_server, url) = server(&[]);
    for (url, kind, word) in [
        (url.replace("simba:simba@", "nobody:hunter2@"), FailureKind::Denied, "nobody"),
        (url.replace("simba:simba@", "simba:hunter2@"), FailureKind::Denied, "simba"),
        (url.replace("/leases", "/missing"), FailureKind::Denied, "missing"),
        (format!("mysql://a:hunter2@127.0.0.1:{}/x", free_port()), FailureKind::Unreachable, "running"),
    ] {
        let failure = Node::open(store(&url)).expect_err("nobody may enter");
        assert_eq!(failure.kind, kind, "{failure}");
        assert!(failure.message.contains(word), "{failure}");
        assert!(
            !format!("{failure:?} {:?} {:?}", store(&url), config(&url)).contains("hunter2"),
            "{failure}"
        );
    }
}

#[test]
fn tables_of_another_version_are_refused() {
    let (server, url) = server(&[]);
    wait(store(&url).apply_schema(PLENTY)).expect("tables");
    assert_eq!(server.sql("leases", "update simba_meta set value = '7'"), "");
    assert_eq!(wait(store(&url).check_schema(PLENTY)), Ok(SchemaState::Other("7".into())));
    let failure = Node::open(store(&url)).expect_err("another version");
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure}");
    assert!(failure.message.contains("version 7"), "{failure}");
}

/// Eight nodes that all find no tables.
#[test]
fn many_make_the_tables_at_once() {
    let (_server, url) = server(&[]);
    let opened: Vec<_> = std::thread::scope(|scope| {
        let open = || Node::open(store(&url)).map(|node| node.session);
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
}

#[test]
fn the_doctor_says_what_weakens_the_promises() {
    let (_server, url) = server(&["--innodb-flush-log-at-trx-commit=2"]);
    let missing = wait(store(&url).examine(PLENTY));
    assert!(format!("{missing:?}").contains("simba schema apply"), "{missing:#?}");
    let node = node(&url);
    let text = format!("{:#?}", wait(node.store.examine(PLENTY)));
    for word in ["reachable", "tables of version 1", "read committed", "clock is", "not encrypted", "polling"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let promise = wait(node.store.examine(PLENTY)).tokens.expect("a grade");
    assert_eq!(promise.survives, Survives::WhileItRuns, "{promise:?}");
    let (_server, url) = server(&[]);
    let node = Node::open(store(&url)).expect("a session");
    let promise = wait(node.store.examine(PLENTY)).tokens.expect("a grade");
    assert_eq!(promise.survives, Survives::Crash, "{promise:?}");
}
