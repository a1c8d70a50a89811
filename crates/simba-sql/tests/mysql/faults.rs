//! One server: it restarts, stands still, cuts connections, loses everything.

use simba_backend::{Effect, FailureKind};
use simba_services::MariaDb;
use simba_sql::mysql::mysql_async::prelude::Queryable;
use simba_tck::rig::{Node, PLENTY, SHORT, again, fails, grant, wait};

use crate::{connect, node, store};

fn server(settings: &[&str]) -> (MariaDb, String) {
    let server = MariaDb::start_with(settings);
    server.create_database("leases");
    let url = server.url("leases");
    (server, url)
}

#[test]
fn a_restart_that_keeps_everything_ends_no_term() {
    let (mut server, url) = server(&[]);
    let node = node(&url);
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
    let (server, url) = server(&[]);
    let node = node(&url);
    assert_eq!(node.take("a", PLENTY), Ok(1));
    for _ in 0..5 {
        let ids = server.sql("leases", "select id from information_schema.processlist where user = 'simba'");
        assert!(!ids.is_empty());
        for id in ids.lines() {
            assert_eq!(server.sql("leases", &format!("kill {id}")), "");
        }
        let failed = [node.owned(PLENTY), node.owned(PLENTY)].into_iter().filter(Result::is_err).count();
        assert!(failed <= 1, "{failed} keep-alives in a row failed");
        let taken = [node.take("a", PLENTY), node.take("a", PLENTY)];
        assert_eq!(taken[1], Ok(1), "the same term: {taken:?}");
        assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", 1)])));
    }
}

#[test]
fn a_frozen_server_outlives_no_limit_and_loses_nothing() {
    let (server, url) = server(&[]);
    let node = node(&url);
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

#[test]
fn a_server_that_lost_everything_ends_the_sessions_and_serves_new_ones() {
    let (server, url) = server(&[]);
    let node = node(&url);
    assert_eq!(node.take("a", PLENTY), Ok(1));
    assert_eq!(server.sql("mysql", "drop database leases; create database leases"), "");
    let failure = fails(PLENTY, |limit| node.keep_alive(limit));
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure:?}");
    let next = Node::open(node.store.clone()).expect("a session in new tables");
    assert_eq!(again("a take", |limit| next.take("a", limit)), 1);
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), None, "the old session is over");
    assert_eq!(node.take("b", PLENTY), Ok(0));
}

/// Somebody keeps a transaction open on the rows. Nobody waits for a lease, and a wait for the own session ends in time.
#[test]
fn b08_rows_that_somebody_has_locked_hold_nobody_up() {
    let (_server, url) = server(&[]);
    let (a, b) = (node(&url), node(&url));
    assert_eq!(a.take("a", PLENTY), Ok(1));
    a.release("a", 1, PLENTY).expect("a release");
    let mut person = connect(&url);
    let lock = "start transaction; select * from simba_lease where name = 'a' for update";
    wait(person.query_drop(lock)).expect("a lock");
    assert_eq!(b.take("a", PLENTY), Ok(0), "it counts as held");
    assert_eq!(b.take("b", PLENTY), Ok(1));
    let lock = format!("select * from simba_session where id = x'{}' for update", a.session);
    wait(person.query_drop(lock)).expect("a lock");
    let failure = fails(SHORT, |limit| a.keep_alive(limit));
    assert!(matches!(failure.kind, FailureKind::Busy | FailureKind::TimedOut), "{failure:?}");
    assert_eq!(b.owned(PLENTY), Ok(Some(vec![grant("b", 1)])), "others go on");
    wait(person.query_drop("commit")).expect("a commit");
    assert_eq!(again("a take", |limit| b.take("a", limit)), 2);
    assert_eq!(again("a keep-alive", |limit| a.owned(limit)), Some(Vec::new()));
}

/// An error of a later statement of a text is an error of the call, and what went before it is undone.
#[test]
fn an_error_within_a_call_is_told_and_undoes_it() {
    let (server, url) = server(&[]);
    let node = node(&url);
    assert_eq!(node.take("a", PLENTY), Ok(1));
    let trigger = "create trigger no before update on simba_session for each row \
                   signal sqlstate '45000' set message_text = 'not today'";
    assert_eq!(server.sql("leases", trigger), "");
    for failure in
        [fails(PLENTY, |limit| node.take("b", limit)), fails(PLENTY, |limit| node.keep_alive(limit))]
    {
        assert!(failure.message.contains("not today"), "{failure}");
    }
    assert_eq!(server.sql("leases", "drop trigger no"), "");
    assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", 1)])), "nothing is half done");
    assert_eq!(node.take("b", PLENTY), Ok(1));
}

#[test]
fn a_server_whose_sysdate_is_now_is_refused() {
    let (_server, url) = server(&["--sysdate-is-now"]);
    let failure = Node::open(store(&url)).expect_err("an unfit clock");
    assert_eq!(failure.kind, FailureKind::Unsuitable, "{failure}");
    assert!(failure.message.contains("--sysdate-is-now"), "{failure}");
    let examined = wait(store(&url).examine(PLENTY));
    assert!(format!("{examined:?}").contains("--sysdate-is-now"), "{examined:?}");
}
