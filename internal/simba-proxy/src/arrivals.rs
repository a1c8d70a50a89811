//! The thread of a proxy: it takes connections, or does not.

use std::{
    io::Result,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, mpsc::Sender},
};

use tokio::{
    net::{TcpListener, TcpSocket},
    sync::mpsc::UnboundedReceiver,
};

use crate::{connection, faults::Shared};

/// What becomes of those who connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrivals {
    Welcome,
    Mute,
    Refuse,
}

/// What is to hold from now on, and whom to tell that it does.
pub(crate) type Order = (Arrivals, Sender<()>);

/// Runs until the orders end. All connections end with the runtime.
pub(crate) fn run(
    upstream: SocketAddr,
    shared: &Arc<Shared>,
    orders: UnboundedReceiver<Order>,
    started: &Sender<Result<SocketAddr>>,
) {
    let told = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(serve(upstream, shared, orders, started)),
        Err(error) => Err(error),
    };
    if let Err(error) = told {
        // Whoever asks for something later hears that the thread has ended.
        started.send(Err(error)).ok();
    }
}

/// The port: with somebody who listens, or held without one, so that it is refused there and nobody else takes it.
enum Port {
    Open(TcpListener),
    Shut(TcpSocket),
}

async fn serve(
    upstream: SocketAddr,
    shared: &Arc<Shared>,
    mut orders: UnboundedReceiver<Order>,
    started: &Sender<Result<SocketAddr>>,
) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let addr = listener.local_addr()?;
    started.send(Ok(addr)).ok();
    let mut port = Port::Open(listener);
    let mut arrivals = Arrivals::Welcome;
    loop {
        let arrival = async {
            match &port {
                Port::Open(listener) => listener.accept().await,
                Port::Shut(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = orders.recv() => {
                let Some((wanted, done)) = order else { return Ok(()) };
                port = turn(port, wanted == Arrivals::Refuse, addr)?;
                arrivals = wanted;
                // Whoever has stopped waiting need not know.
                done.send(()).ok();
            }
            arrival = arrival => {
                // One that is gone before it was taken is nobody's loss.
                let Ok((client, _)) = arrival else { continue };
                let number = shared.look(|faults| {
                    faults.counts.connections += 1;
                    faults.next_connection += 1;
                    faults.next_connection - 1
                });
                let to = (arrivals == Arrivals::Welcome).then_some(upstream);
                tokio::spawn(connection::carry(client, to, number, Arc::clone(shared)));
            }
        }
    }
}

fn turn(port: Port, shut: bool, addr: SocketAddr) -> Result<Port> {
    match (port, shut) {
        (Port::Open(listener), true) => {
            drop(listener);
            bind(addr).map(Port::Shut)
        }
        (Port::Shut(socket), false) => {
            drop(socket);
            bind(addr)?.listen(1_024).map(Port::Open)
        }
        (port @ Port::Open(_), false) | (port @ Port::Shut(_), true) => Ok(port),
    }
}

fn bind(addr: SocketAddr) -> Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Connections that have ended linger on the port.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}
