//! Locks, limits and calls that nobody waits for any more.

use std::{pin::pin, thread, time::Duration};

use simba_backend::{Acquired, Backend, Effect, FailureKind, KeepAlive, LeaseName, Owned};

use crate::{
    rig::{FOREVER, PLENTY, Rig, name, now, record, wait},
    watching::report,
};

const SHORT: Duration = Duration::from_millis(150);
/// A machine that is busy with other tests may be this late.
const LATE: Duration = Duration::from_secs(3);

#[test]
fn c11_a_locked_database_answers_within_the_limit_and_recovers() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    for lock in ["begin immediate", "begin exclusive"] {
        let other = rig.prompt();
        other.execute_batch(lock).unwrap();
        let start = now();
        let failure = wait(a.store.keep_alive(a.session, None, SHORT)).unwrap_err();
        let took = start.elapsed();
        assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None), "{failure}");
        assert!(failure.message.contains("locked by another process"), "{failure}");
        assert!(took >= SHORT && took < SHORT + LATE, "{lock}: answered after {took:?}");
        let failure = wait(a.store.acquire(a.session, &[name("y")], SHORT)).unwrap_err();
        assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None), "{failure}");
        assert!(record(&a.store, "x").is_some(), "people can look while others write");
        other.execute_batch("commit").unwrap();
        assert!(a.is_alive());
    }
    assert!(record(&a.store, "y").is_none());
    assert_eq!(a.take("y"), 1);
}

/// A write lock that others hold for moments costs moments: the wait is not rounded up to a long back-off.
#[test]
fn a_short_lock_costs_little_more_than_itself() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    let other = rig.prompt();
    let mut waits = Vec::new();
    for _ in 0..20 {
        other.execute_batch("begin immediate").unwrap();
        let late = thread::scope(|scope| {
            let call = scope.spawn(|| {
                assert!(a.is_alive());
                now()
            });
            thread::sleep(Duration::from_millis(15));
            let freed = now();
            other.execute_batch("rollback").unwrap();
            call.join().unwrap().saturating_duration_since(freed)
        });
        waits.push(late);
    }
    waits.sort_unstable();
    report(&format!("after a lock is let go, a waiting call is done within {:?} (median)", waits[10]));
    assert!(waits[10] < Duration::from_millis(20), "{waits:?}");
}

#[test]
fn a_keep_alive_does_not_queue_behind_an_acquire() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("w");
    let other = rig.prompt();
    other.execute_batch("begin immediate").unwrap();
    wait(async {
        let names = [name("x")];
        let mut acquire = pin!(a.store.acquire(a.session, &names, PLENTY));
        assert!(tokio::time::timeout(Duration::from_millis(1), &mut acquire).await.is_err());
        // It meets the same lock, but its own limit counts: the acquire would wait far longer.
        let start = now();
        a.store.keep_alive(a.session, None, SHORT).await.unwrap_err();
        assert!(start.elapsed() < SHORT + LATE);
        other.execute_batch("rollback").unwrap();
        assert!(matches!(acquire.await, Ok(Acquired::Judged { .. })));
    });
}

/// B14: an acquire whose caller gave up leaves no record, and the next call finds a clean connection.
#[test]
fn a_call_that_is_dropped_before_its_turn_is_not_executed() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    let other = rig.prompt();
    other.execute_batch("begin immediate").unwrap();
    wait(async {
        let moment = Duration::from_millis(1);
        let (first, second) = ([name("first")], [name("second")]);
        let mut first = pin!(a.store.acquire(a.session, &first, PLENTY));
        assert!(tokio::time::timeout(moment, &mut first).await.is_err());
        let second = a.store.acquire(a.session, &second, PLENTY);
        assert!(tokio::time::timeout(moment, second).await.is_err(), "dropped in the queue behind the first");
        other.execute_batch("rollback").unwrap();
        first.await.unwrap();
    });
    assert_eq!(a.take("third"), 1);
    assert_eq!(record(&a.store, "first").map(|r| r.token.get()), Some(1));
    assert!(record(&a.store, "second").is_none());
}

#[test]
fn two_thousand_dropped_calls_leave_the_connection_clean() {
    let rig = Rig::new();
    let (x, y) = (rig.node(FOREVER), rig.node(FOREVER));
    let mut rng = crate::rig::Rng::new(14);
    wait(async {
        for round in 0..2_000 {
            let names = [name("x"), LeaseName::new(&format!("n{}", round % 50)).unwrap()];
            let call = x.store.acquire(x.session, &names, PLENTY);
            let dropped = tokio::time::timeout(Duration::from_micros(rng.below(400)), call).await;
            drop(dropped);
        }
    });
    // Whatever won after its caller was gone belongs to a living session, and a release frees it.
    let (_, leases) = x.listed();
    for grant in leases {
        x.release(grant.name.as_str(), grant.token.get());
    }
    assert!(y.take("x") >= 1);
    let open: u32 = rig
        .prompt()
        .query_row("select count(*) from simba_lease where session is not null", [], |r| r.get(0))
        .unwrap();
    assert_eq!(open, 1, "y's lease alone is held");
}

/// A batch that does not finish in time is broken off and leaves nothing behind.
#[test]
fn a_batch_beyond_its_limit_is_broken_off_whole() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    a.take("x");
    let names: Vec<LeaseName> =
        (0..200_000).map(|i| LeaseName::new(&format!("batch.{i}")).unwrap()).collect();
    let start = now();
    let failure = wait(a.store.acquire(a.session, &names, Duration::from_millis(30))).unwrap_err();
    assert_eq!((failure.kind, failure.effect), (FailureKind::TimedOut, Effect::None), "{failure}");
    assert!(start.elapsed() < LATE, "{:?}", start.elapsed());
    assert_eq!(a.listed().1.len(), 1);
    assert_eq!(a.take("batch.0"), 1);
}

#[test]
fn a_limit_of_nothing_does_nothing() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    let failure = wait(a.store.acquire(a.session, &[name("x")], Duration::ZERO)).unwrap_err();
    assert_eq!((failure.kind, failure.effect), (FailureKind::TimedOut, Effect::None), "{failure}");
    assert!(record(&a.store, "x").is_none());
}

/// A person's report that reads for minutes keeps nobody from leading.
#[test]
fn a_long_reader_holds_nobody_up() {
    let rig = Rig::new();
    let (a, b) = (rig.node(FOREVER), rig.node(FOREVER));
    a.take("x");
    let reader = rig.prompt();
    reader.execute_batch("begin").unwrap();
    let count =
        || -> u32 { reader.query_row("select max(token) from simba_lease", [], |row| row.get(0)).unwrap() };
    assert_eq!(count(), 1);
    let mut token = 1;
    for _ in 0..200 {
        a.release("x", token);
        let next = b.take("x");
        b.release("x", next);
        token = a.take("x");
        assert_eq!(token, next + 1);
        assert!(a.is_alive() && b.is_alive());
    }
    assert_eq!(count(), 1, "the reader sees its own moment all along");
}

/// C8 and the keep-alive's cost: the same with one lease and with a hundred thousand.
#[test]
fn a_keep_alive_costs_the_same_with_a_hundred_thousand_leases() {
    let rig = Rig::new();
    let median = |leases: u32| {
        let a = rig.node(FOREVER);
        let names: Vec<LeaseName> =
            (0..leases).map(|i| LeaseName::new(&format!("flat.{leases}.{i}")).unwrap()).collect();
        let start = now();
        wait(a.store.acquire(a.session, &names, PLENTY * 10)).unwrap();
        let acquired = start.elapsed();
        let (version, listed) = a.listed();
        assert_eq!(listed.len(), names.len());
        let mut times: Vec<Duration> = (0..300)
            .map(|_| {
                let start = now();
                let answer = a.keep_alive(Some(version)).unwrap();
                assert!(matches!(answer, KeepAlive::Alive { owned: Owned::Unchanged, .. }));
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        report(&format!("{leases} leases: acquired in {acquired:?}, keep-alive {:?} (median)", times[150]));
        times[150]
    };
    let (one, many) = (median(1), median(100_000));
    assert!(many < one * 3 + Duration::from_micros(200), "one lease {one:?}, a hundred thousand {many:?}");
}
