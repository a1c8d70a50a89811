//! Stores by their URLs, and a proxy that lets connections fall silent.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use simba_backend::DynBackend;
use simba_redis::{RedisBackend, RedisConfig};
pub(crate) use simba_services::wait_until as eventually;
pub(crate) use simba_tck::rig::{
    LEASE, Node, PLENTY, SHORT, Watcher, again, fails, grant, name, owner, wait,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
};

pub(crate) fn store(url: &str) -> Arc<dyn DynBackend> {
    Arc::new(RedisBackend::new(RedisConfig::from_url(url).unwrap()).unwrap())
}

pub(crate) fn open(url: &str) -> Node {
    Node::open(store(url)).unwrap()
}

/// Passes bytes on to a server, until the connections that it has are made silent.
pub(crate) struct Proxy {
    port: u16,
    era: watch::Sender<u64>,
}

impl Proxy {
    pub(crate) fn before(server: u16) -> Self {
        let (era, now) = watch::channel(0);
        let listener = wait(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let passing = async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut now = now.clone();
                now.mark_unchanged();
                tokio::spawn(async move {
                    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
                    let mut server = TcpStream::connect(to).await.unwrap();
                    let silent = tokio::select! {
                        // However a connection ends, it has ended.
                        _ended = copy_bidirectional(&mut client, &mut server) => false,
                        changed = now.changed() => changed.is_ok(),
                    };
                    if silent {
                        // Both ends stay open, and nothing passes any more.
                        std::future::pending::<()>().await;
                    }
                });
            }
        };
        // It goes on for as long as the runtime does.
        wait(async { drop(tokio::spawn(passing)) });
        Self { port, era }
    }

    /// From now on nothing passes on the present connections. New ones are as good as ever.
    pub(crate) fn silence(&self) {
        self.era.send_modify(|era| *era += 1);
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}
