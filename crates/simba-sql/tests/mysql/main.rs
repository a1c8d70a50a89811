//! MariaDB as it is met: servers that fail, races at the instant of expiry, fenced writers, users with few rights.

mod faults;
mod fencing;
mod race;
mod rights;

use std::sync::Arc;

use simba_backend::DynBackend;
use simba_sql::mysql::{
    MysqlBackend, MysqlConfig,
    mysql_async::{Conn, Opts},
};
use simba_tck::rig::{Node, wait};

fn config(url: &str) -> MysqlConfig {
    MysqlConfig::from_url(url).expect("a URL")
}

fn store(url: &str) -> Arc<dyn DynBackend> {
    Arc::new(MysqlBackend::new(config(url)).expect("a configuration that fits"))
}

fn node(url: &str) -> Node {
    Node::open(store(url)).expect("a session")
}

/// A connection of a person's.
fn connect(url: &str) -> Conn {
    wait(Conn::new(Opts::from_url(url).expect("a URL"))).expect("the server")
}
