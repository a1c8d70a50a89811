//! Users with few rights, wrong passwords, other isolation, other versions, TLS.

use simba_backend::{FailureKind, Level, SchemaState, Survives};
use simba_services::{Certificates, PgBouncer, Postgres};
use simba_tck::rig::{Node, PLENTY, wait};

use crate::{config, node, store};

fn as_user(server: &Postgres, user: &str) -> String {
    server.url("postgres").replace("postgres@", &format!("{user}@"))
}

#[test]
fn the_printed_grants_are_enough_and_not_too_much() {
    let server = Postgres::start_with(&["fsync=off"]);
    let owner = store(&server.url("postgres"));
    assert_eq!(wait(owner.check_schema(PLENTY)), Ok(SchemaState::Missing));
    wait(owner.apply_schema(PLENTY)).expect("tables");
    wait(owner.apply_schema(PLENTY)).expect("the same tables");
    assert_eq!(wait(owner.check_schema(PLENTY)), Ok(SchemaState::Present));
    assert_eq!(
        server.sql(
            "postgres",
            "create role bare login; revoke execute on all functions in schema public from public"
        ),
        ""
    );
    let grants = owner.schema().expect("tables").grants.expect("rights");
    assert_eq!(server.sql("postgres", &grants), "");

    let node = node(&as_user(&server, "simba"));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    node.release("a", 1, PLENTY).expect("a release");
    assert_eq!(node.take("a", PLENTY), Ok(2));
    assert_eq!(node.owned(PLENTY).map(|owned| owned.map(|list| list.len())), Ok(Some(1)));
    let examined = wait(node.store.examine(PLENTY));
    assert!(examined.findings.iter().all(|finding| finding.level < Level::Fail), "{examined:#?}");
    wait(node.store.close(node.session, PLENTY)).expect("an end");
    for wrong in ["delete from simba_lease", "drop table simba_lease", "update simba_meta set value = '9'"] {
        let denied = std::panic::catch_unwind(|| server.sql("postgres", &format!("set role simba; {wrong}")));
        assert!(denied.is_err(), "{wrong}");
    }

    let failure = Node::open(store(&as_user(&server, "bare"))).expect_err("no rights");
    assert_eq!(failure.kind, FailureKind::Denied, "{failure}");
    assert!(failure.message.contains("simba schema grants"), "{failure}");
}

#[test]
fn whoever_cannot_enter_is_told_why_without_the_password() {
    let server = Postgres::start_with(&["fsync=off"]);
    for (url, kind, word) in [
        (server.url("postgres").replace("postgres@", "nobody:hunter2@"), FailureKind::Denied, "nobody"),
        (server.url("missing").replace("postgres@", "postgres:hunter2@"), FailureKind::Denied, "missing"),
        (
            format!("postgres://a:hunter2@127.0.0.1:{}/x", simba_services::free_port()),
            FailureKind::Unreachable,
            "running",
        ),
        (
            format!(
                "{}?sslmode=verify-full",
                server.url("postgres").replace("postgres@", "postgres:hunter2@")
            ),
            FailureKind::Unreachable,
            "sslmode",
        ),
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
fn other_isolation_is_made_right_where_that_is_possible_and_refused_where_not() {
    let server = Postgres::start_with(&["fsync=off", "default_transaction_isolation=serializable"]);
    let direct = node(&server.url("postgres"));
    assert_eq!(direct.take("a", PLENTY), Ok(1));
    // A pooler takes no settings of a connection.
    let pooler = PgBouncer::start(&server);
    let url = format!("{}?broadcast=off", pooler.url("postgres"));
    let failure = Node::open(store(&url)).expect_err("serializable");
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure}");
    assert!(failure.message.contains("default_transaction_isolation"), "{failure}");
    assert_eq!(
        server.sql("postgres", "alter role postgres set default_transaction_isolation = 'read committed'"),
        ""
    );
    pooler.process().kill();
    let pooler = PgBouncer::start(&server);
    assert_eq!(node(&format!("{}?broadcast=off", pooler.url("postgres"))).take("b", PLENTY), Ok(1));
}

#[test]
fn tables_of_another_version_are_refused() {
    let server = Postgres::start_with(&["fsync=off"]);
    let owner = store(&server.url("postgres"));
    wait(owner.apply_schema(PLENTY)).expect("tables");
    let newer = "create or replace function simba_version() returns int language sql immutable as 'select 7'";
    assert_eq!(server.sql("postgres", newer), "");
    assert_eq!(wait(owner.check_schema(PLENTY)), Ok(SchemaState::Other("7".into())));
    let failure = Node::open(store(&server.url("postgres"))).expect_err("another version");
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure}");
    assert!(failure.message.contains("version 7"), "{failure}");
}

#[test]
fn missing_tables_are_not_made_where_that_is_not_wanted() {
    let server = Postgres::start_with(&["fsync=off"]);
    let store = std::sync::Arc::new(
        simba_sql::postgres::PostgresBackend::new(config(&server.url("postgres")).create(false))
            .expect("a store"),
    );
    let failure = Node::open(store).expect_err("no tables");
    assert!(failure.message.contains("simba schema apply"), "{failure}");
}

/// Eight nodes that all find no tables.
#[test]
fn many_make_the_tables_at_once() {
    let server = Postgres::start_with(&["fsync=off"]);
    let url = server.url("postgres");
    let opened: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| Node::open(store(&url)).map(|node| node.session))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(opened.iter().all(Result::is_ok), "{opened:?}");
}

#[test]
fn tls_is_checked_against_the_named_authority() {
    let certificates = Certificates::new();
    let server = Postgres::start_with_tls(&certificates);
    let url = server.url("postgres");
    let ca = certificates.ca().display().to_string();
    let good = format!("{url}?sslmode=verify-full&sslrootcert={ca}").replace("127.0.0.1", "localhost");
    let node = node(&good);
    assert_eq!(node.take("a", PLENTY), Ok(1));
    let with_tls = server.sql("postgres", "select count(*) > 0 from pg_stat_ssl join pg_stat_activity using (pid) where ssl and application_name = 'simba'");
    assert_eq!(with_tls, "t");
    let failure = Node::open(store(&format!("{url}?sslmode=require"))).expect_err("an unknown authority");
    assert_eq!(failure.kind, FailureKind::Unreachable, "{failure}");
}

#[test]
fn the_doctor_says_what_weakens_the_promises() {
    let server = Postgres::start_with(&["synchronous_commit=off"]);
    let url = server.url("postgres");
    let missing = wait(store(&url).examine(PLENTY));
    assert!(format!("{missing:?}").contains("simba schema apply"), "{missing:#?}");
    let node = node(&url);
    let text = format!("{:#?}", wait(node.store.examine(PLENTY)));
    for word in
        ["reachable", "tables of version 1", "read committed", "clock is", "not encrypted", "triggers"]
    {
        assert!(text.contains(word), "{word}: {text}");
    }
    let promise = wait(node.store.examine(PLENTY)).tokens.expect("a grade");
    assert_eq!(promise.survives, Survives::Crash, "a token waits for the disk all the same: {promise:?}");
    assert_eq!(server.sql("postgres", "alter table simba_lease disable trigger all"), "");
    assert_eq!(wait(node.store.examine(PLENTY)).worst(), Level::Fail);
    let unsafe_server = Postgres::start_with(&["fsync=off"]);
    let other = Node::open(store(&unsafe_server.url("postgres"))).expect("a session");
    let promise = wait(other.store.examine(PLENTY)).tokens.expect("a grade");
    assert_eq!(promise.survives, Survives::WhileItRuns);
}
