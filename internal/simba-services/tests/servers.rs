//! Each server comes up, does something, and is gone with its handle.

use simba_services::{Certificates, Cluster, MariaDb, PgBouncer, Postgres, Redis, Sentinels, missing};

fn gone(pid: i32) -> bool {
    !std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn postgres_with_a_standby_and_a_pooler() {
    let mut server = Postgres::start();
    server.create_database("simba");
    assert_eq!(server.sql("simba", "select 1"), "1");
    let standby = server.standby();
    assert_eq!(standby.server().sql("postgres", "select pg_is_in_recovery()"), "t");
    assert_eq!(standby.promote().sql("postgres", "select pg_is_in_recovery()"), "f");
    let pooler = PgBouncer::start(&server);
    assert!(pooler.process().is_running() && pooler.port() != server.port());
    server.kill();
    server.start_again();
    assert_eq!(server.sql("simba", "select 2"), "2");
    let pid = server.process().pid();
    drop(server);
    assert!(gone(pid));
}

#[test]
fn postgres_with_tls() {
    let server = Postgres::start_with_tls(&Certificates::new());
    assert_eq!(server.sql("postgres", "show ssl"), "on");
}

#[test]
fn mariadb() {
    let mut server = MariaDb::start();
    server.create_database("simba");
    server.stop();
    server.start_again();
    assert_eq!(server.sql("simba", "select 1"), "1");
    let pid = server.process().pid();
    drop(server);
    assert!(gone(pid));
}

#[test]
fn redis_alone_and_with_tls() {
    let server = Redis::start();
    assert_eq!(server.cli(&["set", "a", "b"]), "OK");
    let pid = server.process().pid();
    drop(server);
    assert!(gone(pid));
    let certificates = Certificates::new();
    let server = Redis::start_with_tls(&certificates);
    assert_eq!(server.cli(&["ping"]), "PONG");
}

#[test]
fn redis_with_sentinels() {
    let all = Sentinels::start();
    assert_eq!(all.master_port(), Some(all.servers()[0].port()));
}

#[test]
fn redis_as_a_cluster() {
    let all = Cluster::start();
    assert!(all.master_of("{simba}:x").is_some());
}

#[test]
fn nothing_is_missing_here() {
    assert_eq!(missing(), [] as [&str; 0]);
}
