//! One connection through the proxy.
//!
//! Each direction is a reader, a queue and a writer. The reader notes when something came and, from the server, whether it
//! belongs to a reply that is to be lost; the writer asks the faults, for each piece, whether it may pass. So bytes stay in
//! order whatever happens, and a fault that is set now meets what was read before and has not passed.

use std::{
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::mpsc::{Receiver, Sender, channel},
    time::{Sleep, sleep},
};

use crate::faults::{Direction, Flow, Reply, Shared};

/// Pieces that wait in a direction; then the reader waits, as a network's buffers are finite too.
const QUEUE: usize = 64;

/// The end of a connection before both sides have said all they had to.
enum Break {
    /// It is closed in order.
    Cut,
    Reset,
}

struct Piece {
    due: Pin<Box<Sleep>>,
    body: Body,
    /// What is to become of it as a part of a reply, and how often replies had been let go when it came.
    reply: Option<(Reply, u64)>,
}

enum Body {
    Bytes(Vec<u8>),
    /// The sender says no more.
    End,
    /// The sender is gone.
    Broken,
}

/// Where a connection stands in its conversation.
#[derive(Default)]
struct Talk {
    /// The client has said something that the server has not answered.
    asked: bool,
    lost: Option<Lost>,
}

/// A reply that is being lost.
#[derive(Clone, Copy)]
struct Lost {
    how: Reply,
    /// The server has begun to send it: the client's next bytes are another call.
    begun: bool,
}

struct Connection {
    number: u64,
    shared: Arc<Shared>,
    talk: Mutex<Talk>,
}

/// Carries bytes between a client and the server, until both are done or a fault ends it. Without a server, nothing.
pub(crate) async fn carry(
    mut client: TcpStream,
    upstream: Option<SocketAddr>,
    number: u64,
    shared: Arc<Shared>,
) {
    let connection = Connection { number, shared, talk: Mutex::default() };
    let mut server = None;
    let broken = tokio::select! {
        biased;
        () = connection.is_reset() => Err(Break::Reset),
        broken = connection.pass(&mut client, upstream, &mut server) => broken,
    };
    if let Err(Break::Reset) = broken {
        for socket in [Some(client), server].into_iter().flatten() {
            // An end that is gone already needs no reset.
            socket.set_zero_linger().ok();
        }
    }
}

impl Connection {
    async fn is_reset(&self) {
        self.shared.until(|faults| (self.number < faults.reset_below).then_some(())).await;
    }

    async fn pass(
        &self,
        client: &mut TcpStream,
        upstream: Option<SocketAddr>,
        server: &mut Option<TcpStream>,
    ) -> Result<(), Break> {
        let Some(upstream) = upstream else { return std::future::pending().await };
        let connected = TcpStream::connect(upstream).await.map_err(|_| Break::Reset)?;
        let server = server.insert(connected);
        for socket in [&*client, &*server] {
            // What has come whole is passed on whole. A socket that is gone says so when it is read.
            socket.set_nodelay(true).ok();
        }
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let (ask, asked) = channel(QUEUE);
        let (answer, answered) = channel(QUEUE);
        tokio::try_join!(
            self.read(from_client, ask, Direction::ToServer),
            self.write(asked, to_server, Direction::ToServer),
            self.read(from_server, answer, Direction::ToClient),
            self.write(answered, to_client, Direction::ToClient),
        )
        .map(|_| ())
    }

    async fn read(
        &self,
        mut from: ReadHalf<'_>,
        queue: Sender<Piece>,
        direction: Direction,
    ) -> Result<(), Break> {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let body = match from.read(&mut buffer).await {
                Ok(0) => Body::End,
                Ok(length) => Body::Bytes(buffer[..length].to_vec()),
                Err(_) => Body::Broken,
            };
            let last = !matches!(body, Body::Bytes(_));
            let reply = if direction == Direction::ToClient && !last { self.heard()? } else { None };
            let delay = self.shared.look(|faults| faults.way(direction).delay);
            let piece = Piece { due: Box::pin(sleep(delay)), body, reply };
            if queue.send(piece).await.is_err() || last {
                return Ok(());
            }
        }
    }

    /// The server has sent something.
    fn heard(&self) -> Result<Option<(Reply, u64)>, Break> {
        let mut talk = self.talk();
        let answered = std::mem::take(&mut talk.asked);
        let released = self.shared.look(|faults| {
            faults.counts.calls += u64::from(answered);
            faults.released
        });
        let Some(lost) = &mut talk.lost else { return Ok(None) };
        lost.begun = true;
        match lost.how {
            Reply::Reset => Err(Break::Reset),
            how @ (Reply::Drop | Reply::Hold) => Ok(Some((how, released))),
        }
    }

    /// Something goes to the server now.
    fn says(&self) {
        let mut talk = self.talk();
        talk.asked = true;
        if talk.lost.is_none_or(|lost| lost.begun) {
            let how = self.shared.look(|faults| faults.next_reply.take());
            talk.lost = how.map(|how| Lost { how, begun: false });
        }
    }

    async fn write(
        &self,
        mut queue: Receiver<Piece>,
        mut to: WriteHalf<'_>,
        direction: Direction,
    ) -> Result<(), Break> {
        while let Some(piece) = queue.recv().await {
            piece.due.await;
            if !self.may_pass(direction, piece.reply).await {
                continue;
            }
            let bytes = match piece.body {
                Body::Bytes(bytes) => bytes,
                Body::End => {
                    // If the other side is gone as well, its reader sees it.
                    to.shutdown().await.ok();
                    continue;
                }
                Body::Broken => return Err(Break::Reset),
            };
            if direction == Direction::ToServer {
                self.says();
            }
            let (length, cut) = self.measure(direction, bytes.len());
            let written: io::Result<()> = to.write_all(&bytes[..length]).await;
            if cut {
                return Err(Break::Cut);
            }
            written.map_err(|_| Break::Reset)?;
        }
        Ok(())
    }

    /// Waits until a piece may pass; false if it never may.
    async fn may_pass(&self, direction: Direction, reply: Option<(Reply, u64)>) -> bool {
        self.shared
            .until(|faults| {
                let held = matches!(reply, Some((Reply::Hold, then)) if then == faults.released);
                if held || self.number < faults.frozen_below {
                    return None;
                }
                let dropped = matches!(reply, Some((Reply::Drop, _)));
                match faults.way(direction).flow {
                    Flow::Hold => None,
                    Flow::Drop => Some(false),
                    Flow::Pass => Some(!dropped),
                }
            })
            .await
    }

    /// How much of a piece passes, counted as passed, and whether the connection is cut after it.
    fn measure(&self, direction: Direction, length: usize) -> (usize, bool) {
        self.shared.look(|faults| {
            let way = faults.way(direction);
            let (passes, cut) = match way.cut.map(|left| (left, usize::try_from(left).unwrap_or(usize::MAX)))
            {
                Some((_, left)) if left <= length => {
                    way.cut = None;
                    (left, true)
                }
                Some((left, _)) => {
                    way.cut = Some(left - length as u64);
                    (length, false)
                }
                None => (length, false),
            };
            *faults.count(direction) += passes as u64;
            (passes, cut)
        })
    }

    fn talk(&self) -> std::sync::MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
