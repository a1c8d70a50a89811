//! F4: a renewal that was sent in time waits for a lock that a takeover holds.
//!
//! Each round is the worst case by construction: the taker's transaction locks the session's row; the owner's keep-alive
//! is sent, and waits; the session runs out; the taker takes the lease and commits. The taker is a person's
//! transaction here, since a procedure cannot be stopped in its middle; it does what the procedures do.

use std::time::Duration;

use simba_backend::KeepAlive;
use simba_services::MariaDb;
use simba_sql::mysql::{mysql_async::prelude::Queryable, schema};
use simba_tck::rig::{PLENTY, name, owner, wait};

use crate::{connect, store};

const ROUNDS: u32 = 1_000;
const LEASE: Duration = Duration::from_millis(15);

/// What the rounds have shown.
#[derive(Debug, Default)]
struct Seen {
    /// Rounds that were begun too late, on a machine that is busy, and prove nothing.
    void: u32,
    /// Rounds in which the lease went to the taker after the keep-alive had been sent in time.
    taken: u32,
    /// And the keep-alive was answered as if the session lived.
    revived: u32,
}

/// `end` is what the taker does with the row of a session that it found over.
fn race(url: &str, rounds: u32, end: &str) -> Seen {
    let mut taker = connect(url);
    let store = store(url);
    let mut seen = Seen::default();
    for round in 0.. {
        if seen.taken == rounds {
            break;
        }
        assert!(seen.void < rounds * 5, "this machine is too busy for the race: {seen:?}");
        let job = format!("job-{round}");
        wait(async {
            let other = store.open(PLENTY, &owner(), PLENTY).await.expect("a session").session;
            let session = store.open(LEASE, &owner(), PLENTY).await.expect("a session").session;
            if store.acquire(session, &[name(&job)], PLENTY).await.is_err() {
                seen.void += 1;
                return;
            }
            let lock =
                format!("start transaction; select 1 from simba_session where id = x'{session}' for update");
            taker.query_drop(lock).await.expect("a lock");

            let sent = std::sync::Arc::clone(&store);
            let renewal = tokio::spawn(async move { sent.keep_alive(session, None, PLENTY).await });
            // It was sent, and is not answered while the row is locked, until the session has run out.
            tokio::time::sleep(LEASE).await;
            if renewal.is_finished() {
                taker.query_drop("rollback").await.expect("an end");
                seen.void += 1;
                return;
            }
            let take = format!(
                "update simba_lease set token = token + 1, session = x'{other}' where name = '{job}'; \
                 {}; commit",
                end.replace("SESSION", &session.to_string())
            );
            taker.query_drop(take).await.expect("a takeover");

            let renewed = renewal.await.expect("no panic").expect("an answer");
            seen.taken += 1;
            seen.revived += u32::from(matches!(renewed, KeepAlive::Alive { .. }));
            store.close(other, PLENTY).await.expect("an end");
        });
    }
    seen
}

fn server(sql: &str) -> (MariaDb, String) {
    let server = MariaDb::start_with(&["--innodb-flush-log-at-trx-commit=0"]);
    server.create_database("race");
    assert_eq!(server.sql("race", sql), "");
    let url = server.url("race");
    (server, url)
}

/// The two halves of the mend, each alone: the taker leaves the row as it was, and the clock is read after the lock; and
/// with both.
#[test]
fn f4_no_session_is_revived_in_a_thousand_races() {
    let (_server, url) = server(schema::sql());
    let seen = race(&url, ROUNDS, "delete from simba_session where id = x'SESSION'");
    eprintln!("F4, {ROUNDS} rounds: {seen:?}");
    assert_eq!((seen.taken, seen.revived), (ROUNDS, 0));
    let seen = race(&url, 50, "do 1");
    eprintln!("F4, 50 rounds in which the taker keeps the row: {seen:?}");
    assert_eq!((seen.taken, seen.revived), (50, 0));
}

/// The same with the mend off: the clock is that of the statement's begin, and the taker leaves the row as it was.
#[test]
fn f4_the_same_race_catches_a_clock_that_was_read_before_the_lock() {
    let right = "    if p_expires_us <= cast(unix_timestamp(sysdate(6)) * 1000000 as signed) then";
    let wrong = "    if p_expires_us <= v_begun then";
    let begin = "    set p_version = null, p_lease_us = null, p_expires_us = null;\n";
    let early = "    set v_begun = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);\n";
    let declared = "    declare continue handler for not found begin end;\n    set p_version";
    let sql = schema::sql();
    assert!([right, begin, declared].iter().all(|text| sql.contains(text)));
    let bent = sql.replacen(right, wrong, 1).replacen(begin, &format!("{begin}{early}"), 1).replacen(
        declared,
        &format!("    declare v_begun bigint;\n{declared}"),
        1,
    );
    let (_server, url) = server(&bent);
    let seen = race(&url, 50, "do 1");
    eprintln!("F4 with the mend off, 50 rounds: {seen:?}");
    assert!(seen.revived > 0, "a bug that must be seen is not: {seen:?}");
}
