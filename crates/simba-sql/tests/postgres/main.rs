//! PostgreSQL as it is met: servers that fail, races at the instant of expiry, fenced writers, users with few rights.

mod faults;
mod fencing;
mod race;
mod rights;

use std::sync::Arc;

use simba_backend::DynBackend;
use simba_sql::postgres::{PostgresBackend, PostgresConfig, tokio_postgres};
use simba_tck::rig::{Node, wait};

fn config(url: &str) -> PostgresConfig {
    PostgresConfig::from_url(url).expect("a URL")
}

fn store(url: &str) -> Arc<dyn DynBackend> {
    Arc::new(PostgresBackend::new(config(url)).expect("a configuration that fits"))
}

fn node(url: &str) -> Node {
    Node::open(store(url)).expect("a session")
}

/// A connection of a person's.
fn connect(url: &str) -> tokio_postgres::Client {
    wait(async {
        let (client, wire) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server");
        tokio::spawn(wire);
        client
    })
}
