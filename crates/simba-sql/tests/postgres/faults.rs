//! One server: it restarts, stands still, cuts connections, is replaced by its standby.

use simba_backend::{Effect, FailureKind, Hint};
use simba_services::{PgBouncer, Postgres};
use simba_tck::rig::{Node, PLENTY, SHORT, Watcher, again, fails, grant, name, wait};

use crate::{connect, node, store};

#[test]
fn a_restart_that_keeps_everything_ends_no_term() {
    let mut server = Postgres::start();
    let node = node(&server.url("postgres"));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    server.kill();
    for _ in 0..3 {
        let failure = fails(SHORT, |limit| node.keep_alive(limit));
        assert_eq!(failure.kind, FailureKind::Unreachable, "{failure:?}");
    }
    let failure = fails(SHORT, |limit| node.take("b", limit));
    let failure =
        if failure.effect == Effect::Unknown { fails(SHORT, |limit| node.take("b", limit)) } else { failure };
    assert_eq!((failure.kind, failure.effect), (FailureKind::Unreachable, Effect::None), "{failure:?}");
    server.start_again();
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), Some(vec![grant("a", 1)]));
    node.release("a", 1, PLENTY).or_else(|_| node.release("a", 1, PLENTY)).expect("a release");
    assert_eq!(again("a take", |limit| node.take("a", limit)), 2, "tokens rise across the restart");
}

#[test]
fn b19_connections_that_the_server_ends_are_replaced() {
    let server = Postgres::start_with(&["fsync=off"]);
    let node = node(&server.url("postgres"));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    for _ in 0..5 {
        let ended = server.sql(
            "postgres",
            "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'simba'",
        );
        assert!(ended.parse::<u32>().expect("a number") > 0);
        let failed = [node.owned(PLENTY), node.owned(PLENTY)].into_iter().filter(Result::is_err).count();
        assert!(failed <= 1, "{failed} keep-alives in a row failed");
        let taken = [node.take("a", PLENTY), node.take("a", PLENTY)];
        assert_eq!(taken[1], Ok(1), "the same term: {taken:?}");
        assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", 1)])));
    }
}

#[test]
fn a_frozen_server_outlives_no_limit_and_loses_nothing() {
    let server = Postgres::start_with(&["fsync=off"]);
    let node = node(&server.url("postgres"));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    server.process().freeze();
    for _ in 0..3 {
        let failure = fails(SHORT, |limit| node.keep_alive(limit));
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure:?}");
        let failure = fails(SHORT, |limit| node.take("b", limit));
        assert_eq!(failure.kind, FailureKind::TimedOut, "{failure:?}");
    }
    server.process().thaw();
    let owned = again("a keep-alive", |limit| node.owned(limit)).expect("the session lives");
    assert!(owned.contains(&grant("a", 1)), "{owned:?}");
}

/// The database is put back to its beginning: nothing that is known of the session remains.
#[test]
fn a_server_that_lost_everything_ends_the_sessions_and_serves_new_ones() {
    let server = Postgres::start_with(&["fsync=off"]);
    let node = node(&server.url("postgres"));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    let emptied = "drop schema public cascade; create schema public";
    assert_eq!(server.sql("postgres", emptied), "");
    let failure = fails(PLENTY, |limit| node.keep_alive(limit));
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure:?}");
    assert!(failure.message.contains("simba schema apply"), "{failure}");
    let next = Node::open(node.store.clone()).expect("a session in new tables");
    assert_eq!(next.take("a", PLENTY), Ok(1));
    assert_eq!(node.owned(PLENTY), Ok(None), "the old session is over");
    assert_eq!(node.take("b", PLENTY), Ok(0));
}

#[test]
fn a_promoted_standby_serves_the_same_session() {
    let primary = Postgres::start();
    let standby = primary.standby();
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        primary.port(),
        standby.server().port()
    );
    let node = node(&url);
    assert_eq!(node.take("a", PLENTY), Ok(1));
    // A standby alone takes no writes, and that passes.
    let failure = Node::open(store(&standby.server().url("postgres"))).expect_err("a standby");
    assert_eq!(failure.kind, FailureKind::Busy, "{failure:?}");
    simba_services::wait_until("the standby has the lease", || {
        standby.server().sql("postgres", "select count(*) from simba_lease where session is not null") == "1"
    });
    primary.kill();
    let failure = fails(PLENTY, |limit| node.keep_alive(limit));
    assert!(matches!(failure.kind, FailureKind::Unreachable | FailureKind::Busy), "{failure:?}");
    let _promoted = standby.promote();
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), Some(vec![grant("a", 1)]));
    node.release("a", 1, PLENTY).or_else(|_| node.release("a", 1, PLENTY)).expect("a release");
    assert_eq!(again("a take", |limit| node.take("a", limit)), 2);
}

/// Somebody keeps a transaction open on the rows. Nobody waits for a lease, and a wait for the own session ends in time.
#[test]
fn b08_rows_that_somebody_has_locked_hold_nobody_up() {
    let server = Postgres::start_with(&["fsync=off"]);
    let url = server.url("postgres");
    let (a, b) = (node(&url), node(&url));
    assert_eq!(a.take("a", PLENTY), Ok(1));
    a.release("a", 1, PLENTY).expect("a release");
    let person = connect(&url);
    wait(person.batch_execute("begin; select from simba_lease where name = 'a' for update")).expect("a lock");
    assert_eq!(b.take("a", PLENTY), Ok(0), "it counts as held");
    assert_eq!(b.take("b", PLENTY), Ok(1));
    let lock = format!("select from simba_session where id = '{}' for update", a.session);
    wait(person.batch_execute(&lock)).expect("a lock");
    let failure = fails(SHORT, |limit| a.keep_alive(limit));
    assert!(matches!(failure.kind, FailureKind::Busy | FailureKind::TimedOut), "{failure:?}");
    assert_eq!(b.owned(PLENTY), Ok(Some(vec![grant("b", 1)])), "others go on");
    // The lost call waits no longer than its limit was.
    simba_services::wait_until("the lost call is over", || {
        server.sql("postgres", "select count(*) from pg_locks where not granted") == "0"
    });
    wait(person.batch_execute("commit")).expect("a commit");
    assert_eq!(b.take("a", PLENTY), Ok(2));
    assert_eq!(a.owned(PLENTY), Ok(Some(Vec::new())));
}

#[test]
fn releases_are_heard_and_a_lost_connection_is_begun_anew() {
    let server = Postgres::start_with(&["fsync=off"]);
    let node = node(&server.url("postgres"));
    let watcher = Watcher::start(node.store.clone());
    watcher.waits_for(&Hint::Missed, "at its beginning");
    assert_eq!(node.take("a", PLENTY), Ok(1));
    node.release("a", 1, PLENTY).expect("a release");
    watcher.waits_for(&Hint::Freed(name("a")), "after a release");
    watcher.forget();
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen%'";
    assert_eq!(server.sql("postgres", cut), "t");
    watcher.waits_for(&Hint::Missed, "after its connection was cut");
    let token = again("a take", |limit| node.take("a", limit));
    node.release("a", token, PLENTY).expect("a release");
    watcher.waits_for(&Hint::Freed(name("a")), "on its new connection");
}

#[test]
fn behind_a_pooler_a_watch_says_that_it_hears_nothing() {
    let server = Postgres::start_with(&["fsync=off"]);
    let pooler = PgBouncer::start(&server);
    let node = node(&pooler.url("postgres"));
    let failure = wait(node.store.watch(simba_backend::HintSink::new(drop)));
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure:?}");
    assert!(failure.message.contains("broadcast=off"), "{failure}");
    let examined = format!("{:?}", wait(node.store.examine(PLENTY)));
    assert!(examined.contains("there is a pooler"), "{examined}");
}

#[test]
fn a_pooler_that_is_restarted_ends_no_term() {
    let server = Postgres::start_with(&["fsync=off"]);
    let pooler = PgBouncer::start(&server);
    let node = node(&format!("{}?broadcast=off", pooler.url("postgres")));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
               where pid <> pg_backend_pid() and backend_type = 'client backend'";
    assert_ne!(server.sql("postgres", cut), "0");
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), Some(vec![grant("a", 1)]));
}
