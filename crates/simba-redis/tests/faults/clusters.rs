//! More than one server: a failover by Sentinels, a failover of a Cluster.

use simba_backend::{Effect, FailureKind};
use simba_redis::{RedisBackend, RedisConfig};
use simba_services::{Cluster, Redis, Sentinels};

use crate::rig::{LEASE, Node, PLENTY, again, eventually, grant, open, owner, store, wait};

/// A number of `info replication`.
fn offset(server: &Redis, field: &str) -> u64 {
    let info = server.cli(&["info", "replication"]);
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// Waits until the replica has all that the master had when it was asked.
fn replicated(master: &Redis, replica: &Redis) {
    let all = offset(master, "master_repl_offset");
    eventually("the replica has it all", || {
        replica.cli(&["info", "replication"]).contains("master_link_status:up")
            && offset(replica, "slave_repl_offset") >= all
    });
}

/// What the replica had is there after the failover: the session, its lease, the token.
fn goes_on(what: &str, node: &Node, held: u64) -> u64 {
    let owned = again(what, |limit| node.owned(limit));
    assert_eq!(owned, Some(vec![grant("a", held)]), "{what}");
    assert_eq!(again(what, |limit| node.take("a", limit)), held, "{what}: the same term");
    // Nothing is released twice: a release that took effect and lost its answer changes nothing when repeated.
    again(what, |limit| node.release("a", held, limit));
    let next = again(what, |limit| node.take("a", limit));
    assert!(next > held, "{what}: {next} is not above {held}");
    next
}

#[test]
fn sentinels_that_appoint_another_master_are_followed() {
    let all = Sentinels::start();
    let [first, second] = all.servers();
    let node = open(&all.url());
    let token = node.take("a", PLENTY).unwrap();
    assert_eq!(token, 1);
    replicated(first, second);

    // A person's order, while everything is well. The old master goes on as a replica, on the same port.
    let sentinel = all.ports()[0].to_string();
    assert_eq!(first.cli(&["-p", &sentinel, "sentinel", "failover", "main"]), "OK");
    eventually("the Sentinels name the other", || all.master_port() == Some(second.port()));
    eventually("the old master follows", || {
        first.cli(&["info", "replication"]).contains("master_link_status:up")
    });
    let token = goes_on("after an ordered failover", &node, token);
    replicated(second, first);

    // A loss of power.
    second.kill();
    let token = goes_on("after the master's end", &node, token);
    assert_eq!(all.master_port(), Some(first.port()));
    let newcomer = open(&all.url());
    assert_eq!(newcomer.take("a", PLENTY), Ok(0), "{token} is held");
}

#[test]
fn a_replica_is_refused() {
    let master = Redis::start();
    let port = master.port().to_string();
    let replica = Redis::start_with(&["--save", "", "--replicaof", "127.0.0.1", &port]);
    replicated(&master, &replica);
    let failure = wait(store(&replica.url()).open(LEASE, &owner(), PLENTY)).unwrap_err();
    assert_eq!(failure.effect, Effect::None, "{failure:?}");
    assert!(failure.message.contains("replica"), "{failure:?}");
}

#[test]
fn a_server_that_becomes_a_replica_is_refused_and_serves_again_when_it_is_master() {
    let (server, other) = (Redis::start(), Redis::start());
    let node = open(&server.url());
    assert_eq!(node.take("a", PLENTY), Ok(1));
    assert_eq!(server.cli(&["replicaof", "127.0.0.1", &other.port().to_string()]), "OK");
    for _ in 0..3 {
        let failure = node.take("b", PLENTY).unwrap_err();
        // Loading the other's data, it is busy for a moment.
        assert!(matches!(failure.kind, FailureKind::Denied | FailureKind::Busy), "{failure:?}");
        assert_eq!(failure.effect, Effect::None, "{failure:?}");
    }
    assert_eq!(server.cli(&["replicaof", "no", "one"]), "OK");
    // Whatever the other one had, and it had nothing.
    let owned = again("a keep-alive", |limit| node.owned(limit));
    assert!(owned.is_none() || owned == Some(vec![grant("a", 1)]), "{owned:?}");
}

fn cluster_url(cluster: &Cluster) -> String {
    format!("{}?prefix={{simba}}:", cluster.url())
}

/// The server that follows `master`.
fn follower<'a>(cluster: &'a Cluster, master: &Redis) -> &'a Redis {
    let id = master.cli(&["cluster", "myid"]);
    let follows = |server: &&Redis| {
        let nodes = server.cli(&["cluster", "nodes"]);
        nodes.lines().any(|line| line.contains("myself,slave") && line.contains(&id))
    };
    cluster.servers().iter().filter(|server| server.process().is_running()).find(follows).expect("a replica")
}

#[test]
fn a_cluster_that_fails_over_is_followed() {
    let cluster = Cluster::start();
    let node = open(&cluster_url(&cluster));
    let token = node.take("a", PLENTY).unwrap();
    assert_eq!(token, 1);

    // A person's order, which loses nothing. The old master lives on, and says who owns the slot now.
    let old = cluster.master_of("{simba}:").expect("a master");
    let new = follower(&cluster, old);
    replicated(old, new);
    assert_eq!(new.cli(&["cluster", "failover"]), "OK");
    eventually("the replica is master", || {
        cluster.master_of("{simba}:").is_some_and(|master| master.port() == new.port())
    });
    let token = goes_on("after an ordered failover", &node, token);

    // A loss of power: the old one takes over.
    eventually("the old master follows", || {
        old.cli(&["info", "replication"]).contains("master_link_status:up")
    });
    replicated(new, old);
    new.kill();
    let token = goes_on("after the master's end", &node, token);
    let newcomer = open(&cluster_url(&cluster));
    assert_eq!(newcomer.take("a", PLENTY), Ok(0), "{token} is held");
}

#[test]
fn every_server_of_a_cluster_leads_to_the_right_one() {
    let cluster = Cluster::start();
    let node = open(&cluster_url(&cluster));
    assert_eq!(node.take("a", PLENTY), Ok(1));
    for server in cluster.servers() {
        let one = format!("redis+cluster://127.0.0.1:{}?prefix={{simba}}:", server.port());
        let other = open(&one);
        assert_eq!(other.take("a", PLENTY), Ok(0), "by {one}");
    }
}

#[test]
fn a_prefix_that_would_spread_over_slots_is_refused_for_a_cluster() {
    let url = "redis+cluster://127.0.0.1:1";
    for prefix in ["simba:", "{}:", "{simba", "simba}:"] {
        let given = RedisConfig::from_url(&format!("{url}?prefix={prefix}"));
        let error = match given {
            Err(error) => error.to_string(),
            Ok(config) => RedisBackend::new(config).expect_err(prefix).to_string(),
        };
        assert!(error.contains('{') && error.contains("slot"), "{error}");
    }
}
