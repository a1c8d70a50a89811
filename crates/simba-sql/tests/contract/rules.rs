//! The rules that the planted bugs of this store break. Each rule holds for the sound store, and fails for each of
//! the bugs that it is there to catch.

use std::{sync::Barrier, thread, time::Duration};

use simba_backend::{Acquired, KeepAlive, Owned};

use crate::rig::{FOREVER, LEASE, Node, Plant, Rig, Rng, ensure, holder, record, sound};

type Verdict = Result<(), String>;

/// A takeover and a keep-alive meet at the very nanosecond of expiry, while the clock steps back: the session is
/// either renewed or dead, and a dead one stays dead.
fn the_dead_stay_dead(plant: Plant) -> Verdict {
    const SEED: u64 = 20_261_201;
    let rig = Rig::with(plant);
    let (left, right) = (rig.store(), rig.store());
    let taker = Node::open(right, FOREVER).map_err(|e| e.to_string())?;
    let mut rng = Rng::new(SEED);
    let (mut renewed, mut taken) = (0, 0);
    for round in 0..1_000 {
        let victim = Node::open(left.clone(), LEASE).map_err(|e| e.to_string())?;
        let lease = format!("race-{round}");
        victim.take(&lease);
        // One nanosecond before expiry, at it, or after it.
        let edge = rig.clock.now() + u64::try_from(LEASE.as_nanos()).unwrap() - 1 + rng.below(3);
        let spins = [rng.below(2_000), rng.below(2_000), rng.below(4_000)];
        rig.clock.set(edge);
        let start = Barrier::new(3);
        let begin = |spin: u64| {
            start.wait();
            (0..spin).for_each(|_| std::hint::spin_loop());
        };
        let (kept, token) = thread::scope(|scope| {
            let kept = scope.spawn(|| {
                begin(spins[0]);
                victim.is_alive()
            });
            let token = scope.spawn(|| {
                begin(spins[1]);
                taker.take(&lease)
            });
            begin(spins[2]);
            rig.clock.set(edge - 500_000_000);
            (kept.join().unwrap(), token.join().unwrap())
        });
        let alive_after = victim.is_alive();
        let context =
            format!("seed {SEED}, round {round}: kept {kept}, token {token}, alive after {alive_after}");
        ensure!(!(kept && token != 0), "renewed and taken over at once; {context}");
        ensure!(!(token != 0 && alive_after), "a session whose lease was taken over lives again; {context}");
        ensure!(kept || !alive_after, "a session that was answered Expired lives again; {context}");
        ensure!(
            token == 0 || holder(&taker.store, &lease) == Some(taker.session),
            "the lease is not recorded; {context}"
        );
        renewed += u32::from(kept);
        taken += u32::from(token != 0);
        rig.clock.set(edge + 20_000_000_000);
        victim.close();
    }
    ensure!(renewed > 100 && taken > 100, "the race was one-sided: {renewed} renewed, {taken} taken over");
    Ok(())
}

#[test]
fn i14_the_dead_stay_dead_in_a_thousand_races() {
    the_dead_stay_dead(sound).unwrap();
}

/// Through release, close, expiry and reopening the token rises by one, and within a term it stays.
fn tokens_rise(plant: Plant) -> Verdict {
    let rig = Rig::with(plant);
    let (a, b) = (rig.node(LEASE), rig.node(FOREVER));
    ensure!(a.take("x") == 1, "the first token is 1");
    let (version, _) = a.listed();
    ensure!(a.take("x") == 1, "a repeated acquire answers the same token");
    ensure!(a.listed().0 == version, "a repeated acquire changes nothing");
    a.release("x", 1);
    ensure!(a.take("x") == 2, "a release keeps the token");
    a.close();
    ensure!(b.take("x") == 3, "a close keeps the token");
    b.release("x", 3);
    let c = rig.node(LEASE);
    ensure!(c.take("x") == 4, "it rises from session to session");
    rig.clock.advance(LEASE);
    ensure!(b.take("x") == 5, "a takeover of a dead session's lease raises it");
    b.close();
    drop((a, b, c));
    ensure!(rig.node(LEASE).take("x") == 6, "reopening the file keeps it");
    Ok(())
}

#[test]
fn i5_tokens_rise_through_release_close_expiry_and_reopening() {
    tokens_rise(sound).unwrap();
}

/// An expired session gets nothing, and nothing is written for it.
fn the_expired_get_nothing(plant: Plant) -> Verdict {
    let rig = Rig::with(plant);
    let a = rig.node(LEASE);
    a.take("x");
    rig.clock.advance(LEASE);
    ensure!(
        a.acquire(&["y"]) == Ok(Acquired::Expired),
        "an acquire of an expired session is answered Expired"
    );
    ensure!(record(&a.store, "y").is_none(), "and writes nothing");
    ensure!(a.keep_alive(None) == Ok(KeepAlive::Expired), "its keep-alive is answered Expired");
    Ok(())
}

#[test]
fn i15_an_expired_session_gets_nothing() {
    the_expired_get_nothing(sound).unwrap();
}

/// A release frees only what its session owns with that very token.
fn releases_are_conditional(plant: Plant) -> Verdict {
    let rig = Rig::with(plant);
    let (a, b) = (rig.node(LEASE), rig.node(FOREVER));
    a.take("x");
    a.release("x", 1);
    a.take("x");
    a.release("x", 1);
    ensure!(
        holder(&a.store, "x") == Some(a.session),
        "a late release of an earlier term ended the later one"
    );
    b.release("x", 2);
    ensure!(holder(&a.store, "x") == Some(a.session), "another session released the lease");
    rig.clock.advance(LEASE);
    ensure!(b.take("x") == 3, "the lease of the dead session is free");
    ensure!(a.release("x", 3).step.is_none(), "the releasing session is over");
    ensure!(holder(&b.store, "x") == Some(b.session), "a dead session released its successor's lease");
    Ok(())
}

#[test]
fn i28_a_release_changes_nothing_unless_session_and_token_match() {
    releases_are_conditional(sound).unwrap();
}

/// Names are compared byte for byte.
fn names_are_bytes(plant: Plant) -> Verdict {
    let long = "n".repeat(128);
    for (mine, theirs) in [
        ("report", "Report"),
        ("a", "a.b"),
        ("a", "a:token"),
        ("x", "x-1"),
        (&*long, &long[..127]),
        ("1", "01"),
        ("1", "1.0"),
    ] {
        let rig = Rig::with(plant);
        let (a, b) = (rig.node(FOREVER), rig.node(FOREVER));
        ensure!(a.take(mine) == 1, "{mine:?} is taken");
        ensure!(b.take(theirs) == 1, "{theirs:?} is another lease than {mine:?}");
        ensure!(holder(&a.store, mine) == Some(a.session), "{mine:?} stays with its owner");
    }
    Ok(())
}

#[test]
fn i47_names_are_compared_byte_for_byte() {
    names_are_bytes(sound).unwrap();
}

/// Whatever is changed at the database's own prompt, the owner's next keep-alive lists its leases anew.
fn the_prompt_is_seen(plant: Plant) -> Verdict {
    for (sql, left) in [
        ("update simba_lease set session = null where name = 'x'", vec![]),
        ("update simba_lease set session = :other where name = 'x'", vec![]),
        ("update simba_lease set token = 7 where name = 'x'", vec![("x", 7)]),
        ("update simba_lease set name = 'z' where name = 'x'", vec![("z", 1)]),
        ("delete from simba_lease where name = 'x'", vec![]),
        ("insert into simba_lease values ('y', 5, :mine, 0)", vec![("x", 1), ("y", 5)]),
        ("insert or replace into simba_lease values ('x', 8, null, 0)", vec![]),
        ("insert or replace into simba_lease values ('x', 8, :other, 0)", vec![]),
    ] {
        let rig = Rig::with(plant);
        let (a, b) = (rig.node(FOREVER), rig.node(FOREVER));
        a.take("x");
        let (version, _) = a.listed();
        let sql =
            sql.replace(":other", &format!("'{}'", b.session)).replace(":mine", &format!("'{}'", a.session));
        rig.prompt().execute_batch(&sql).unwrap();
        let answer = a.keep_alive(Some(version)).map_err(|e| e.to_string())?;
        let KeepAlive::Alive { owned: Owned::Listed { leases, .. }, .. } = answer else {
            return Err(format!("{sql}: the owner was answered {answer:?}"));
        };
        let mut found: Vec<(&str, u64)> = leases.iter().map(|g| (g.name.as_str(), g.token.get())).collect();
        found.sort_unstable();
        ensure!(found == left, "{sql}: {found:?}");
    }
    Ok(())
}

#[test]
fn i31_a_change_at_the_prompt_is_seen_by_the_owner() {
    the_prompt_is_seen(sound).unwrap();
}

#[test]
fn c8_the_version_counts_each_lease_once() {
    let rig = Rig::new();
    let a = rig.node(FOREVER);
    let version = || a.listed().0.0;
    assert_eq!(version(), 0);
    a.acquire(&["a", "b", "c"]).unwrap();
    assert_eq!(version(), 3);
    a.acquire(&["a", "d"]).unwrap();
    assert_eq!(version(), 4);
    a.release("a", 1);
    a.release("a", 1);
    assert_eq!(version(), 5);
    let known = a.listed().0;
    let answer = a.keep_alive(Some(known)).unwrap();
    assert_eq!(answer, KeepAlive::Alive { remaining: FOREVER, owned: Owned::Unchanged });
}

#[test]
fn sessions_of_an_earlier_boot_are_over() {
    let rig = Rig::new();
    let before = rig.node(FOREVER);
    before.take("x");
    // The machine was booted again: the clock begins anew, far below the old session's expiry.
    let later = crate::rig::TestClock::new();
    later.set(5_000_000_000);
    let config = rig.config().clock(later.store_clock("boot-2"));
    let after = Node::open(simba_sql::sqlite::SqliteBackend::new(config).unwrap(), LEASE).unwrap();
    assert_eq!(after.take("x"), 2);
    assert!(!before.is_alive());
}

#[test]
fn expired_sessions_do_not_pile_up() {
    let rig = Rig::new();
    let store = rig.store();
    for _ in 0..100 {
        Node::open(store.clone(), LEASE).unwrap();
    }
    let count = || -> u32 {
        rig.prompt().query_row("select count(*) from simba_session", [], |row| row.get(0)).unwrap()
    };
    assert_eq!(count(), 100);
    rig.clock.advance(LEASE);
    let survivor = Node::open(store, FOREVER).unwrap();
    assert!((2..=90).contains(&count()), "one call clears away some, and not all: {}", count());
    for _ in 0..10 {
        assert!(survivor.is_alive());
    }
    assert_eq!(count(), 1);
}

#[test]
fn namespaces_never_meet() {
    let rig = Rig::new();
    let nodes: Vec<Node> = [None, Some("prod"), Some("prod2"), Some("a:b"), Some("a")]
        .into_iter()
        .map(|space| {
            let config = rig.config();
            let config = match space {
                Some(space) => config.namespace(space.parse().unwrap()),
                None => config,
            };
            Node::open(simba_sql::sqlite::SqliteBackend::new(config).unwrap(), FOREVER).unwrap()
        })
        .collect();
    for lease in ["c", "b:c", "prod", "2"] {
        for node in &nodes {
            assert_eq!(node.take(lease), 1, "{lease}");
        }
    }
    for node in &nodes {
        assert_eq!(node.listed().1.len(), 4);
        assert_eq!(holder(&node.store, "c"), Some(node.session));
    }
}

/// The clock steps back: what was renewed lives on, and nobody is told a longer time than the lease.
#[test]
fn a_clock_that_steps_back_prolongs_nothing_beyond_the_lease() {
    let rig = Rig::new();
    let (a, b) = (rig.node(LEASE), rig.node(FOREVER));
    a.take("x");
    rig.clock.set(rig.clock.now() - 100_000_000_000);
    let Acquired::Judged { outcomes, .. } = b.acquire(&["x"]).unwrap() else { panic!("b lives") };
    let simba_backend::Outcome::Held(held) = &outcomes[0] else { panic!("a holds it") };
    assert!(held.remaining.is_some_and(|left| left <= LEASE && left > Duration::ZERO), "{held:?}");
    let KeepAlive::Alive { remaining, .. } = a.keep_alive(None).unwrap() else { panic!("a lives") };
    assert_eq!(remaining, LEASE);
}

#[cfg(feature = "planted")]
#[test]
fn every_planted_bug_is_caught_by_its_rule() {
    use simba_sql::sqlite::Planted;

    type Rule = fn(Plant) -> Verdict;
    let rules: &[(Planted, Plant, Rule)] = &[
        (Planted::M12RenewsExpired, |c| c.plant(Planted::M12RenewsExpired), the_expired_get_nothing),
        (Planted::M13DeadRowKept, |c| c.plant(Planted::M13DeadRowKept), the_dead_stay_dead),
        (Planted::M16ExpiredAcquires, |c| c.plant(Planted::M16ExpiredAcquires), the_expired_get_nothing),
        (
            Planted::M23ReleaseWithoutToken,
            |c| c.plant(Planted::M23ReleaseWithoutToken),
            releases_are_conditional,
        ),
        (
            Planted::M24ReleaseWithoutSession,
            |c| c.plant(Planted::M24ReleaseWithoutSession),
            releases_are_conditional,
        ),
        (Planted::M26TokenNotBumped, |c| c.plant(Planted::M26TokenNotBumped), tokens_rise),
        (Planted::M27TokenReset, |c| c.plant(Planted::M27TokenReset), tokens_rise),
        (Planted::M28TokenBumpedOnRepeat, |c| c.plant(Planted::M28TokenBumpedOnRepeat), tokens_rise),
        (Planted::M30NoTriggers, |c| c.plant(Planted::M30NoTriggers), the_prompt_is_seen),
        (Planted::M55NamesFolded, |c| c.plant(Planted::M55NamesFolded), names_are_bytes),
        (Planted::NoWake, |c| c.plant(Planted::NoWake), crate::watching::releases_wake),
    ];
    for bug in Planted::ALL {
        let (_, plant, rule) = rules.iter().find(|(of, ..)| of == bug).expect("every bug has a rule");
        let fault = rule(*plant).expect_err(&format!("{bug:?} was not caught"));
        assert!(!fault.is_empty());
    }
}
