//! What only a PostgreSQL server can do to its nodes.

use crate::crowd::{AGAIN, Crowd};
use crate::machine::{on_an_idle_machine, within};
use crate::stage::{Postgres, Server, Stage};

/// The standby has all that was committed, and is promoted after the primary was lost. The URL names both.
#[test]
fn a_standby_that_is_promoted() {
    on_an_idle_machine(|| {
        let primary = Postgres::start();
        let standby = primary.0.standby();
        let url = format!(
            "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/leases",
            primary.port(),
            standby.server().port()
        );
        let crowd = Crowd::start(&url)?;
        crowd.settle()?;
        within(AGAIN, "the standby has all of it", || {
            let at = primary.0.sql("postgres", "select pg_current_wal_lsn()");
            let there = format!("select pg_last_wal_replay_lsn() >= '{at}'");
            standby.server().sql("postgres", &there) == "t"
        })?;
        primary.0.kill();
        let promoted = standby.promote();
        let recovered = crowd.recovers();
        drop(promoted);
        recovered
    });
}
