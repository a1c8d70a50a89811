//! What only a Redis server can do to its nodes.

use crate::crowd::{AGAIN, Crowd, LEASE};
use crate::machine::{now, on_an_idle_machine, within};
use crate::stage::{Cluster, Redis, Sentinels, Stage};
use crate::support::millis;
use simba::RevokeReason;
use std::thread;

#[test]
fn scripts_that_are_flushed_end_no_term() {
    on_an_idle_machine(|| {
        let server = Redis::start();
        let crowd = Crowd::start(&server.url())?;
        let from = now();
        for _ in 0..20 {
            assert_eq!(server.0.cli(&["script", "flush"]), "OK");
            thread::sleep(millis(100));
        }
        crowd.stays(from)
    });
}

/// Who held a lease learns of it with its next keep-alive; until then another may hold it too, and only the fence helps.
#[test]
fn a_server_that_is_emptied_ends_every_session_and_serves_new_ones() {
    on_an_idle_machine(|| {
        let server = Redis::start();
        let crowd = Crowd::start(&server.url())?;
        crowd.witness.loss();
        crowd.witness.overlap(true);
        let from = now();
        assert_eq!(server.0.cli(&["flushall"]), "OK");
        within(LEASE, "every old term has ended", || {
            crowd.nodes.iter().map(|node| node.ends(from).len()).sum::<usize>() >= 4
        })?;
        crowd.witness.overlap(false);
        let ends: Vec<_> = crowd.nodes.iter().flat_map(|node| node.ends(from)).collect();
        assert!(ends.iter().all(|end| *end == RevokeReason::SessionExpired), "{ends:?}");
        crowd.recovers()
    });
}

#[test]
fn a_failover_by_sentinels() {
    on_an_idle_machine(|| {
        let Sentinels(servers) = Sentinels::start();
        let crowd = Crowd::start(&servers.url())?;
        let [master, replica] = servers.servers();
        crowd.settle()?;
        master.kill();
        within(AGAIN * 4, "the replica is the master", || {
            replica.cli(&["role"]).starts_with("master") && servers.master_port() == Some(replica.port())
        })?;
        crowd.recovers()
    });
}

/// The master is only frozen, and wakes as one that believes in itself.
#[test]
fn a_failover_by_sentinels_from_a_master_that_comes_back() {
    on_an_idle_machine(|| {
        let Sentinels(servers) = Sentinels::start();
        let crowd = Crowd::start(&servers.url())?;
        let [master, replica] = servers.servers();
        crowd.settle()?;
        master.process().freeze();
        let failed_over = within(AGAIN * 4, "the replica is the master", || {
            replica.cli(&["role"]).starts_with("master") && servers.master_port() == Some(replica.port())
        });
        master.process().thaw();
        failed_over?;
        crowd.recovers()
    });
}

#[test]
fn a_failover_of_a_cluster() {
    on_an_idle_machine(|| {
        let Cluster(servers) = Cluster::start();
        let crowd = Crowd::start(&servers.url())?;
        let key = "{simba}:s:";
        let master = servers.master_of(key).ok_or("no master")?;
        crowd.settle()?;
        master.kill();
        within(AGAIN * 4, "the slot has a master", || {
            servers.master_of(key).is_some_and(|server| {
                server.port() != master.port()
                    && server.cli(&["cluster", "info"]).contains("cluster_state:ok")
            })
        })?;
        crowd.recovers()
    });
}
