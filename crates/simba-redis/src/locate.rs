//! Where the server is that takes writes now.
//!
//! Asked anew for each connection: after a failover the old one is of no use, and what was known before is wrong. A
//! Sentinel may be behind, so the server that it names is asked for its role; a Cluster node tells of every slot, and
//! all keys of ours lie in one.

use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, RedisError,
    TlsCertificates, Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use simba_backend::{Effect, Failure, FailureKind};
use std::time::Duration;

use crate::{
    config::{Address, RedisConfig, Topology},
    failure::{before, timed_out},
};

/// A client of one server.
pub(crate) fn client(config: &RedisConfig, at: &Address, full: bool) -> Result<Client, Failure> {
    let (host, port) = (at.host.clone(), at.port);
    let addr = if config.tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    let mut who = RedisConnectionInfo::default().set_skip_set_lib_name();
    // A Sentinel has neither databases nor, as a rule, the servers' users.
    if full {
        who = who.set_db(config.db);
        if let Some(user) = &config.user {
            who = who.set_username(user);
        }
        if let Some(password) = &config.password {
            who = who.set_password(password);
        }
    }
    let info: ConnectionInfo = addr.into_connection_info().map_err(|error| before(config, &error))?;
    let info = info.set_tcp_settings(TcpSettings::default().set_nodelay(true)).set_redis_settings(who);
    let client = if config.tls {
        // Two providers in one program panic at the first connection; the first one that is set wins.
        drop(rustls::crypto::ring::default_provider().install_default());
        let root_cert = match &config.ca {
            Some(path) => Some(std::fs::read(path).map_err(|error| {
                let text = format!("the file of authorities {} cannot be read: {error}", path.display());
                Failure::new(FailureKind::Unsuitable, Effect::None, text)
            })?),
            None => None,
        };
        Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
    } else {
        Client::open(info)
    };
    client.map_err(|error| before(config, &error))
}

/// A connection to one server, within `limit`.
pub(crate) async fn connect(
    config: &RedisConfig,
    at: &Address,
    full: bool,
    limit: Duration,
) -> Result<MultiplexedConnection, Failure> {
    let client = client(config, at, full)?;
    // The whole is bounded by the caller; the library's own limits would only cut it short.
    let settings =
        redis::AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    match tokio::time::timeout(limit, client.get_multiplexed_async_connection_with_config(&settings)).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(before(config, &error)),
        Err(_) => Err(timed_out(config, Effect::None)),
    }
}

/// The address of the server that takes writes.
pub(crate) async fn master(config: &RedisConfig, limit: Duration) -> Result<Address, Failure> {
    let mut last = timed_out(config, Effect::None);
    if config.topology == Topology::Alone
        && let Some(at) = config.addresses.first()
    {
        return Ok(at.clone());
    }
    // Each host gets an equal part of the time, so that one that hangs does not use up all of it.
    let part = limit / u32::try_from(config.addresses.len().max(1)).unwrap_or(1);
    for at in &config.addresses {
        match tokio::time::timeout(part, ask(config, at, part)).await {
            Ok(Ok(Some(found))) => return Ok(found),
            Ok(Ok(None)) => {
                let text = format!("{}: {at} knows of no master now; it is tried again", config.shown());
                last = Failure::new(FailureKind::Busy, Effect::None, text);
            }
            Ok(Err(failure)) => last = failure,
            Err(_) => last = timed_out(config, Effect::None),
        }
    }
    Err(last)
}

async fn ask(config: &RedisConfig, at: &Address, limit: Duration) -> Result<Option<Address>, Failure> {
    let sentinel = matches!(config.topology, Topology::Sentinel(_));
    let mut connection = connect(config, at, !sentinel, limit).await?;
    let failed = |error: RedisError| before(config, &error);
    match &config.topology {
        Topology::Alone => Ok(Some(at.clone())),
        Topology::Sentinel(master) => {
            let answer: Option<(String, u16)> = redis::cmd("SENTINEL")
                .arg("get-master-addr-by-name")
                .arg(master)
                .query_async(&mut connection)
                .await
                .map_err(failed)?;
            let Some((host, port)) = answer else {
                let text = format!(
                    "{}: no such master; `redis-cli -p PORT sentinel masters` lists them",
                    config.shown()
                );
                return Err(Failure::new(FailureKind::Unsuitable, Effect::None, text));
            };
            Ok(Some(Address { host, port }))
        }
        Topology::Cluster => {
            let key = format!("{}s:", config.prefix());
            let slot: i64 = redis::cmd("CLUSTER")
                .arg("KEYSLOT")
                .arg(key)
                .query_async(&mut connection)
                .await
                .map_err(failed)?;
            let slots: Value =
                redis::cmd("CLUSTER").arg("SLOTS").query_async(&mut connection).await.map_err(failed)?;
            Ok(owner_of(&slots, slot, at))
        }
    }
}

/// The master of a slot, in the answer of `CLUSTER SLOTS`: ranges of slots, each with its master first.
fn owner_of(slots: &Value, slot: i64, asked: &Address) -> Option<Address> {
    let Value::Array(ranges) = slots else { return None };
    ranges.iter().find_map(|range| {
        let Value::Array(parts) = range else { return None };
        let [Value::Int(from), Value::Int(to), Value::Array(node), ..] = parts.as_slice() else {
            return None;
        };
        let [Value::BulkString(host), Value::Int(port), ..] = node.as_slice() else { return None };
        if !(*from..=*to).contains(&slot) {
            return None;
        }
        let host = String::from_utf8_lossy(host).into_owned();
        // An empty host stands for the one that was asked.
        let host = if host.is_empty() { asked.host.clone() } else { host };
        Some(Address { host, port: u16::try_from(*port).ok()? })
    })
}
