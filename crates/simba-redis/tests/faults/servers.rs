//! One server: it forgets, restarts, stands still, is full, is busy.

use std::{collections::BTreeSet, thread};

use simba_backend::{Effect, FailureKind, FencingToken, Forced, Hint, InspectQuery, KeepAlive};
use simba_redis::{RedisBackend, RedisConfig, Tokens};
use simba_services::Redis;

use crate::rig::{
    LEASE, Node, PLENTY, Proxy, SHORT, Watcher, again, eventually, fails, grant, name, open, owner, wait,
};

/// The ids of the connections, but for the prompt's own.
fn connections(server: &Redis) -> BTreeSet<String> {
    let list = server.cli(&["client", "list"]);
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    others
        .filter_map(|line| line.split_whitespace().find_map(|f| f.strip_prefix("id=")))
        .map(str::to_owned)
        .collect()
}

#[test]
fn b26_scripts_that_the_server_forgets_are_sent_again() {
    let server = Redis::start();
    let node = open(&server.url());
    // No call fails, not even the first one, and none is done twice: the tokens are consecutive.
    for token in 1..=5 {
        assert_eq!(server.cli(&["script", "flush"]), "OK");
        assert_eq!(node.take("a", PLENTY), Ok(token));
        assert_eq!(server.cli(&["script", "flush"]), "OK");
        assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", token)])));
        assert_eq!(server.cli(&["script", "flush"]), "OK");
        node.release("a", token, PLENTY).unwrap();
        assert_eq!(node.owned(PLENTY), Ok(Some(Vec::new())));
    }
    assert_eq!(server.cli(&["script", "flush"]), "OK");
    wait(node.store.close(node.session, PLENTY)).unwrap();
    assert_eq!(server.cli(&["script", "flush"]), "OK");
    let query = InspectQuery { prefix: String::new(), after: None, limit: 10 };
    assert_eq!(wait(node.store.inspect(&query, PLENTY)).unwrap().leases.len(), 1);
}

#[test]
fn a_server_that_was_emptied_ends_the_sessions_and_serves_new_ones() {
    let server = Redis::start();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    assert_eq!(server.cli(&["flushall"]), "OK");
    assert_eq!(node.keep_alive(PLENTY), Ok(KeepAlive::Expired));
    assert_eq!(node.take("a", PLENTY), Ok(0), "a session that is over gets nothing");
    assert_eq!(node.release("a", 1, PLENTY).unwrap().step, None);
    let next = Node::open(node.store.clone()).unwrap();
    assert_eq!(next.take("a", PLENTY), Ok(1));
}

#[test]
fn tokens_of_the_clock_rise_where_the_server_has_lost_everything() {
    let mut server = Redis::start();
    let url = format!("{}?tokens=clock", server.url());
    let node = open(&url);
    let first = node.take("a", PLENTY).unwrap();
    assert_eq!(server.cli(&["flushall"]), "OK");
    let node = Node::open(node.store.clone()).unwrap();
    let second = node.take("a", PLENTY).unwrap();
    assert!(second > first, "{second} is not above {first}");
    server.kill();
    server.start_again();
    let node = again("a new session", |_| Node::open(node.store.clone()));
    let third = again("a new term", |limit| node.take("a", limit));
    assert!(third > second, "{third} is not above {second}");
}

#[test]
fn b19_connections_that_the_server_cuts_are_replaced() {
    let server = Redis::start();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    for _ in 0..5 {
        server.cli(&["client", "kill", "type", "normal", "skipme", "yes"]).parse::<u32>().unwrap();
        // The first call may have been on its way; the second one finds a new connection.
        let failed = [node.owned(PLENTY), node.owned(PLENTY)].into_iter().filter(Result::is_err).count();
        assert!(failed <= 1, "{failed} keep-alives in a row failed");
        let failed = [node.take("a", PLENTY), node.take("a", PLENTY)];
        assert_eq!(failed[1], Ok(1), "the same term: {failed:?}");
        assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", 1)])));
    }
}

#[test]
fn b19_an_idle_connection_that_the_server_closed_is_replaced() {
    let server = Redis::start_with(&["--save", "", "--appendonly", "no", "--timeout", "1"]);
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    eventually("the server has closed the idle connections", || connections(&server).is_empty());
    let tries = [node.owned(PLENTY), node.owned(PLENTY)];
    assert_eq!(tries[1], Ok(Some(vec![grant("a", 1)])), "{tries:?}");
}

#[test]
fn a_restart_that_keeps_everything_ends_no_term() {
    let mut server = Redis::start_durable();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    server.kill();
    for _ in 0..3 {
        let failure = fails(SHORT, |limit| node.keep_alive(limit));
        assert_eq!(failure.kind, FailureKind::Unreachable, "{failure:?}");
    }
    // Nothing was sent, as there was nobody to send it to.
    let failure = fails(SHORT, |limit| node.take("b", limit));
    let failure =
        if failure.effect == Effect::Unknown { fails(SHORT, |limit| node.take("b", limit)) } else { failure };
    assert_eq!((failure.kind, failure.effect), (FailureKind::Unreachable, Effect::None), "{failure:?}");
    server.start_again();
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), Some(vec![grant("a", 1)]));
    node.release("a", 1, PLENTY).or_else(|_| node.release("a", 1, PLENTY)).unwrap();
    assert_eq!(node.take("a", PLENTY), Ok(2), "tokens rise across the restart");
}

#[test]
fn a_restart_that_keeps_nothing_ends_the_session() {
    let mut server = Redis::start();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    server.kill();
    server.start_again();
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), None);
    let next = Node::open(node.store.clone()).unwrap();
    assert_eq!(again("an acquire", |limit| next.take("a", limit)), 1);
}

/// A frozen process answers nothing, and its kernel takes every connection and every byte: the hardest kind of silence.
#[test]
fn no_call_to_a_frozen_server_outlives_its_limit_and_the_connections_are_replaced() {
    let server = Redis::start();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", 1)])));
    // What is asked for it below may be done as soon as the server wakes.
    let other = Node::open(node.store.clone()).unwrap();
    assert_eq!(other.take("o", PLENTY), Ok(1));
    let old = connections(&server);
    assert!(!old.is_empty());
    server.process().freeze();
    // The first calls are on connections that were good: nobody knows what becomes of them.
    for failure in [fails(SHORT, |limit| node.keep_alive(limit)), fails(SHORT, |limit| node.take("b", limit))]
    {
        assert_eq!((failure.kind, failure.effect), (FailureKind::TimedOut, Effect::Unknown), "{failure:?}");
    }
    // The others find no connection that answers, and so send nothing.
    let stranger = crate::rig::store(&server.url());
    let query = InspectQuery { prefix: String::new(), after: None, limit: 10 };
    for failure in [
        fails(SHORT, |limit| node.keep_alive(limit)),
        fails(SHORT, |limit| node.take("c", limit)),
        fails(SHORT, |limit| other.release("o", 1, limit)),
        fails(SHORT, |limit| wait(node.store.inspect(&query, limit))),
        fails(SHORT, |limit| wait(node.store.evict(other.session, limit))),
        fails(SHORT, |limit| wait(stranger.open(LEASE, &owner(), limit))),
        fails(SHORT, |limit| wait(other.store.close(other.session, limit))),
    ] {
        assert_eq!((failure.kind, failure.effect), (FailureKind::TimedOut, Effect::None), "{failure:?}");
    }
    server.process().thaw();
    // The answers are those of the calls that ask for them, and the late acquire counts once.
    let owned = again("a keep-alive", |limit| node.owned(limit)).expect("nobody ended the session");
    assert!(owned.contains(&grant("a", 1)), "{owned:?}");
    assert_eq!(again("an acquire", |limit| node.take("b", limit)), 1);
    eventually("the old connections are gone", || connections(&server).is_disjoint(&old));
}

/// The client's network has forgotten its connections, and tells nobody.
#[test]
fn b19_connections_that_fell_silent_are_replaced_after_one_call() {
    let server = Redis::start();
    let proxy = Proxy::before(server.port());
    let node = open(&proxy.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    for _ in 0..3 {
        proxy.silence();
        let failure = fails(SHORT, |limit| node.keep_alive(limit));
        assert_eq!((failure.kind, failure.effect), (FailureKind::TimedOut, Effect::Unknown), "{failure:?}");
        assert_eq!(node.owned(PLENTY), Ok(Some(vec![grant("a", 1)])), "the next one goes through");
        fails(SHORT, |limit| node.take("a", limit));
        assert_eq!(node.take("a", PLENTY), Ok(1));
    }
}

/// Who waits hears of a release again after whatever cut the watch, and is told that it missed news.
#[test]
fn b13_the_watch_comes_back_after_a_cut_a_silence_and_a_restart() {
    let mut server = Redis::start();
    let proxy = Proxy::before(server.port());
    let watcher = Watcher::start(crate::rig::store(&proxy.url()));
    let hears = |server: &Redis, what: &str| {
        watcher.waits_for(&Hint::Missed, what);
        let node = open(&server.url());
        let token = node.take("w", PLENTY).unwrap();
        node.release("w", token, PLENTY).unwrap();
        watcher.waits_for(&Hint::Freed(name("w")), what);
        wait(node.store.close(node.session, PLENTY)).unwrap();
        watcher.forget();
    };
    hears(&server, "at first");
    server.cli(&["client", "kill", "type", "pubsub"]).parse::<u32>().unwrap();
    hears(&server, "after a cut");
    proxy.silence();
    hears(&server, "after a silence");
    server.kill();
    server.start_again();
    hears(&server, "after a restart");
}

#[test]
fn a_full_server_is_busy_until_it_has_room() {
    let server = Redis::start();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    assert_eq!(server.cli(&["config", "set", "maxmemory", "1"]), "OK");
    let failure = node.take("b", PLENTY).unwrap_err();
    assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None), "{failure:?}");
    assert_eq!(server.cli(&["config", "set", "maxmemory", "0"]), "OK");
    assert_eq!(node.take("b", PLENTY), Ok(1));
    assert_eq!(node.owned(PLENTY).unwrap().map(|leases| leases.len()), Some(2));
}

/// A person in an incident gets what was asked for, or nothing: a lease that was freed without a raised token would hand
/// out the same token a second time.
#[test]
fn a_full_server_frees_no_lease_by_force_without_raising_its_token() {
    let server = Redis::start();
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    let one = FencingToken::new(1).unwrap();
    assert_eq!(server.cli(&["config", "set", "maxmemory", "1"]), "OK");
    let answer = wait(node.store.force_release(&name("a"), one, PLENTY));
    assert_eq!(
        answer.map_err(|failure| (failure.kind, failure.effect)),
        Err((FailureKind::Busy, Effect::None))
    );
    assert_eq!(server.cli(&["config", "set", "maxmemory", "0"]), "OK");
    assert_eq!(node.take("a", PLENTY), Ok(1), "it is held as before");
    let two = FencingToken::new(2).unwrap();
    assert_eq!(wait(node.store.force_release(&name("a"), one, PLENTY)), Ok(Forced::Freed { token: two }));
    assert_eq!(node.take("a", PLENTY), Ok(3));
}

#[test]
fn a_server_without_the_replicas_that_it_needs_is_busy() {
    let server = Redis::start();
    let node = open(&server.url());
    assert_eq!(server.cli(&["config", "set", "min-replicas-to-write", "1"]), "OK");
    let failure = node.take("a", PLENTY).unwrap_err();
    assert_eq!((failure.kind, failure.effect), (FailureKind::Busy, Effect::None), "{failure:?}");
    assert_eq!(server.cli(&["config", "set", "min-replicas-to-write", "0"]), "OK");
    assert_eq!(node.take("a", PLENTY), Ok(1));
}

#[test]
fn somebody_elses_endless_script_makes_the_server_busy() {
    let server = Redis::start_with(&["--save", "", "--busy-reply-threshold", "50"]);
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    thread::scope(|scope| {
        // It ends with an error, as it is killed.
        scope.spawn(|| server.cli(&["eval", "while true do end", "0"]));
        eventually("the script runs", || match node.keep_alive(SHORT) {
            Ok(_) => false,
            Err(failure) => {
                assert!(matches!(failure.kind, FailureKind::Busy | FailureKind::TimedOut), "{failure:?}");
                failure.kind == FailureKind::Busy && failure.effect == Effect::None
            }
        });
        assert_eq!(server.cli(&["script", "kill"]), "OK");
    });
    assert_eq!(again("a keep-alive", |limit| node.owned(limit)), Some(vec![grant("a", 1)]));
}

#[test]
fn b28_keys_of_others_are_left_as_they_are() {
    let server = Redis::start();
    let before = [("a", "plain"), ("lease:a", "x"), ("simbaa", "y")];
    for (key, value) in before {
        assert_eq!(server.cli(&["set", key, value]), "OK");
    }
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    node.release("a", 1, PLENTY).unwrap();
    wait(node.store.close(node.session, PLENTY)).unwrap();
    for (key, value) in before {
        assert_eq!(server.cli(&["get", key]), value);
    }
}

/// Keys of a session that is over and that nobody asks for go by themselves, a minute after its end at the latest.
#[test]
fn what_a_crashed_node_leaves_is_cleared_away() {
    let server = Redis::start();
    let lease = std::time::Duration::from_secs(20);
    let store = crate::rig::store(&server.url());
    let session = wait(store.open(lease, &owner(), PLENTY)).unwrap().session;
    let node = Node { store, session };
    for _ in 0..2 {
        node.take("a", PLENTY).unwrap();
        node.keep_alive(PLENTY).unwrap();
        let keys = server.cli(&["keys", &format!("*{session}")]);
        assert_eq!(keys.lines().count(), 2, "the session and what it owns: {keys}");
        for key in keys.lines() {
            let left: i64 = server.cli(&["ttl", key]).parse().unwrap();
            assert!(
                (lease.as_secs()..=lease.as_secs() + 60).contains(&left.unsigned_abs()),
                "{key}: {left} s"
            );
        }
    }
    let lease = server.cli(&["ttl", "simba:l:a"]);
    assert_eq!(lease, "-1", "the record with the token stays");
}

/// What goes wrong with a counter from here, and the right answer.
fn tokens_above_lua_numbers(adjust: impl Fn(RedisConfig) -> RedisConfig) -> Result<(), String> {
    let server = Redis::start();
    let config = adjust(RedisConfig::from_url(&server.url()).unwrap());
    let node = Node::open(std::sync::Arc::new(RedisBackend::new(config).unwrap())).unwrap();
    for start in
        [(1_u64 << 53) - 2, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 62) + 1, i64::MAX.unsigned_abs() - 4]
    {
        server.cli(&["hset", "simba:l:a", "tok", &start.to_string()]).parse::<u32>().unwrap();
        for token in start + 1..=start + 3 {
            let steps = [node.take("a", PLENTY), node.take("a", PLENTY)];
            if steps != [Ok(token), Ok(token)] {
                return Err(format!("{token} is given as {steps:?}"));
            }
            if node.owned(PLENTY) != Ok(Some(vec![grant("a", token)])) {
                return Err(format!("{token} is listed as another"));
            }
            node.release("a", token + 1, PLENTY).unwrap();
            node.release("a", token - 1, PLENTY).unwrap();
            if node.owned(PLENTY) != Ok(Some(vec![grant("a", token)])) {
                return Err(format!("a neighbour of {token} freed it"));
            }
            node.release("a", token, PLENTY).unwrap();
            if node.owned(PLENTY) != Ok(Some(Vec::new())) {
                return Err(format!("{token} freed nothing"));
            }
        }
    }
    // The very last one is given; then the lease stays free for ever, and nothing wraps round.
    assert_eq!(node.take("a", PLENTY), Ok(i64::MAX.unsigned_abs()));
    node.release("a", i64::MAX.unsigned_abs(), PLENTY).unwrap();
    assert_eq!(node.take("a", PLENTY), Ok(0));
    Ok(())
}

#[test]
fn b09_tokens_above_the_exact_numbers_of_lua_are_exact() {
    tokens_above_lua_numbers(|config| config).unwrap();
    // The clock is below such a token, and so counts on from it.
    tokens_above_lua_numbers(|config| config.tokens(Tokens::Clock)).unwrap();
}

#[cfg(feature = "planted")]
#[test]
fn b09_tokens_as_numbers_are_caught() {
    let found = tokens_above_lua_numbers(|config| config.plant(simba_redis::Planted::TokensAsNumbers));
    assert!(found.is_err(), "the planted bug was not seen");
}
