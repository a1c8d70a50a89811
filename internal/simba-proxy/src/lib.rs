//! A TCP proxy that misbehaves on demand, for tests: between a client and a real server on this host, without a word of
//! what they say to each other.
//!
//! ```
//! use simba_proxy::{Direction, Echo, Proxy};
//! use std::{io::{Read, Write}, net::TcpStream};
//!
//! let server = Echo::start()?; // a real server, in a test of a store
//! let proxy = Proxy::start(server.addr())?;
//! let mut client = TcpStream::connect(proxy.addr())?;
//! client.write_all(b"one")?;
//! client.read_exact(&mut [0; 3])?;
//! assert_eq!(proxy.counts().calls, 1);
//!
//! proxy.hold(Direction::ToServer); // from here on the server hears nothing
//! client.write_all(b"two")?;
//! assert_eq!(proxy.counts().calls, 1);
//! proxy.heal(); // and now it does
//! client.read_exact(&mut [0; 3])?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # What a fault applies to
//! [`delay`](Proxy::delay), [`hold`](Proxy::hold) and [`drop_silently`](Proxy::drop_silently) are states of a direction,
//! for all connections, present and later. [`freeze`](Proxy::freeze) and [`reset`](Proxy::reset) hit the connections that
//! there are. [`mute`](Proxy::mute) and [`refuse`](Proxy::refuse) are for those that come.
//! [`lose_reply`](Proxy::lose_reply) and [`cut_after`](Proxy::cut_after) happen once. [`heal`](Proxy::heal) ends every
//! state.
//!
//! A fault holds from when the method returns: what the proxy reads after that is judged by it, and so is what it had read
//! and not yet passed on. What was written to a socket before is on its way and arrives.

mod arrivals;
mod connection;
mod echo;
mod faults;

use std::{
    fmt,
    io::{Error, Result},
    net::SocketAddr,
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::mpsc::UnboundedSender;

pub use echo::Echo;
pub use faults::{Counts, Direction, Reply};

use arrivals::{Arrivals, Order};
use faults::{Flow, Shared};

/// The proxy. Dropping it ends its connections, its listener and its thread.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Gone when the proxy is dropped, which ends the thread.
    orders: Option<UnboundedSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts one before a server, on a free port of 127.0.0.1. The server need not run yet: who connects meanwhile is
    /// reset.
    ///
    /// # Errors
    /// What the operating system says if there is no port or no thread.
    ///
    /// ```
    /// let server = simba_proxy::Echo::start()?;
    /// let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// assert_ne!(proxy.addr(), server.addr());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start(upstream: SocketAddr) -> Result<Self> {
        let shared = Arc::new(Shared::new());
        let (orders, received) = tokio::sync::mpsc::unbounded_channel();
        let (send, started) = mpsc::channel();
        let state = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("proxy".into())
            .spawn(move || arrivals::run(upstream, &state, received, &send))?;
        let addr = started.recv().map_err(|_| Error::other("the proxy's thread ended at once"))??;
        Ok(Self { addr, shared, orders: Some(orders), thread: Some(thread) })
    }

    /// Where clients find it, for as long as it lives.
    ///
    /// ```
    /// # let server = simba_proxy::Echo::start()?;
    /// let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// assert!(proxy.addr().ip().is_loopback());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What has passed since the start.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream};
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// let mut client = TcpStream::connect(proxy.addr())?;
    /// let before = proxy.counts();
    /// client.write_all(b"ping")?;
    /// client.read_exact(&mut [0; 4])?;
    /// let passed = proxy.counts().since(&before);
    /// assert_eq!((passed.calls, passed.to_server, passed.to_client), (1, 4, 4));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.look(|faults| faults.counts)
    }

    /// Everything that is read from now on is passed on this much later, in order. Zero ends it.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream, time::Duration};
    /// use simba_proxy::Direction;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// proxy.delay(Direction::ToServer, Duration::from_millis(100));
    /// proxy.delay(Direction::ToClient, Duration::from_millis(50));
    /// client.write_all(b"ping")?;
    /// client.set_read_timeout(Some(Duration::from_millis(120)))?;
    /// assert!(client.read_exact(&mut [0; 4]).is_err(), "150 ms there and back");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn delay(&self, direction: Direction, by: Duration) {
        self.shared.change(|faults| faults.way(direction).delay = by);
    }

    /// Passes nothing on in this direction, and keeps it for later; the connections stay.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream};
    /// use simba_proxy::Direction;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// proxy.hold(Direction::ToServer);
    /// client.write_all(b"ping")?;
    /// assert_eq!(proxy.counts().to_server, 0);
    /// proxy.pass(Direction::ToServer);
    /// client.read_exact(&mut [0; 4])?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn hold(&self, direction: Direction) {
        self.shared.change(|faults| faults.way(direction).flow = Flow::Hold);
    }

    /// Throws away what comes in this direction, ends of connections too, as a firewall does.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream, time::Duration};
    /// use simba_proxy::Direction;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// proxy.drop_silently(Direction::ToClient);
    /// client.write_all(b"ping")?;
    /// client.set_read_timeout(Some(Duration::from_millis(100)))?;
    /// assert!(client.read(&mut [0; 4]).is_err());
    /// assert_eq!(proxy.counts().to_server, 4);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn drop_silently(&self, direction: Direction) {
        self.shared.change(|faults| faults.way(direction).flow = Flow::Drop);
    }

    /// Ends [`hold`](Self::hold) and [`drop_silently`](Self::drop_silently); what was held goes on.
    ///
    /// ```
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # use simba_proxy::Direction;
    /// proxy.hold(Direction::ToClient);
    /// proxy.pass(Direction::ToClient);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn pass(&self, direction: Direction) {
        self.shared.change(|faults| faults.way(direction).flow = Flow::Pass);
    }

    /// Passes nothing on, in both directions, on the connections that there are, while new ones work: they are half
    /// open.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream, time::Duration};
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// let mut old = TcpStream::connect(proxy.addr())?;
    /// # old.write_all(b"ping")?;
    /// # old.read_exact(&mut [0; 4])?;
    /// proxy.freeze();
    /// old.write_all(b"ping")?;
    /// old.set_read_timeout(Some(Duration::from_millis(100)))?;
    /// assert!(old.read(&mut [0; 4]).is_err());
    /// let mut new = TcpStream::connect(proxy.addr())?;
    /// new.write_all(b"ping")?;
    /// new.read_exact(&mut [0; 4])?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn freeze(&self) {
        self.shared.change(|faults| faults.frozen_below = faults.next_connection);
    }

    /// Ends [`freeze`](Self::freeze): the frozen connections go on where they stood.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream};
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// # client.write_all(b"ping")?;
    /// # client.read_exact(&mut [0; 4])?;
    /// proxy.freeze();
    /// client.write_all(b"ping")?;
    /// proxy.thaw();
    /// client.read_exact(&mut [0; 4])?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn thaw(&self) {
        self.shared.change(|faults| faults.frozen_below = 0);
    }

    /// Resets the connections that there are, towards both ends; new ones work.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream};
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// # client.write_all(b"ping")?;
    /// # client.read_exact(&mut [0; 4])?;
    /// proxy.reset();
    /// let error = client.read(&mut [0; 4]).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reset(&self) {
        self.shared.change(|faults| faults.reset_below = faults.next_connection);
    }

    /// Takes new connections and never answers on them, not even when this is over; present ones work.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream, time::Duration};
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// proxy.mute();
    /// let mut client = TcpStream::connect(proxy.addr())?;
    /// client.write_all(b"ping")?;
    /// client.set_read_timeout(Some(Duration::from_millis(100)))?;
    /// assert!(client.read(&mut [0; 4]).is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn mute(&self) {
        self.order(Arrivals::Mute);
    }

    /// Refuses new connections, as a host without the server does; present ones work.
    ///
    /// ```
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// proxy.refuse();
    /// let error = std::net::TcpStream::connect(proxy.addr()).unwrap_err();
    /// assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn refuse(&self) {
        self.order(Arrivals::Refuse);
    }

    /// Takes new connections and connects them to the server, as at the start: ends [`mute`](Self::mute) and
    /// [`refuse`](Self::refuse).
    ///
    /// ```
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// proxy.refuse();
    /// proxy.welcome();
    /// std::net::TcpStream::connect(proxy.addr())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn welcome(&self) {
        self.order(Arrivals::Welcome);
    }

    /// Loses the reply of the next call, on whatever connection that is: what the server sends after the client's next
    /// bytes, and before the client's next ones after that. The server has done what it was asked.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream};
    /// use simba_proxy::Reply;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// proxy.lose_reply(Reply::Hold);
    /// client.write_all(b"ping")?;
    /// # while proxy.counts().calls == 0 { std::thread::yield_now() }
    /// assert_eq!((proxy.counts().calls, proxy.counts().to_client), (1, 0));
    /// proxy.release_replies();
    /// client.read_exact(&mut [0; 4])?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn lose_reply(&self, how: Reply) {
        self.shared.change(|faults| faults.next_reply = Some(how));
    }

    /// Whether the call whose reply is to be lost is still to come.
    ///
    /// ```
    /// # use simba_proxy::Reply;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// proxy.lose_reply(Reply::Drop);
    /// assert!(proxy.is_waiting_for_a_call());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn is_waiting_for_a_call(&self) -> bool {
        self.shared.look(|faults| faults.next_reply.is_some())
    }

    /// Lets the replies go on that [`Reply::Hold`] has kept.
    ///
    /// ```
    /// # use simba_proxy::Reply;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// proxy.lose_reply(Reply::Hold);
    /// proxy.release_replies(); // There was none yet: the next one is still held.
    /// assert!(proxy.is_waiting_for_a_call());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn release_replies(&self) {
        self.shared.change(|faults| faults.released += 1);
    }

    /// Passes so many bytes on in this direction, over all connections, and then ends the connection that carried the
    /// last of them, towards both ends.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream};
    /// use simba_proxy::Direction;
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// # let mut client = TcpStream::connect(proxy.addr())?;
    /// proxy.cut_after(Direction::ToClient, 3);
    /// client.write_all(b"answer")?;
    /// let mut heard = Vec::new();
    /// client.read_to_end(&mut heard)?;
    /// assert_eq!(heard, b"ans");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.shared.change(|faults| faults.way(direction).cut = Some(bytes));
    }

    /// Ends every state of the above, and what is still to come of the others. Connections that are gone, muted, or have
    /// lost bytes stay as they are.
    ///
    /// ```
    /// # use std::{io::{Read, Write}, net::TcpStream, time::Duration};
    /// use simba_proxy::{Direction, Reply};
    /// # let server = simba_proxy::Echo::start()?;
    /// # let proxy = simba_proxy::Proxy::start(server.addr())?;
    /// proxy.delay(Direction::ToServer, Duration::from_secs(60));
    /// proxy.hold(Direction::ToClient);
    /// proxy.lose_reply(Reply::Drop);
    /// proxy.cut_after(Direction::ToServer, 1);
    /// proxy.refuse();
    /// proxy.heal();
    /// let mut client = TcpStream::connect(proxy.addr())?;
    /// client.write_all(b"ping")?;
    /// client.read_exact(&mut [0; 4])?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn heal(&self) {
        self.shared.change(|faults| faults.heal());
        self.welcome();
    }

    /// Tells the thread, and waits until it is so.
    fn order(&self, arrivals: Arrivals) {
        let (done, is_done) = mpsc::channel();
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send((arrivals, done)).is_ok());
        assert!(
            sent && is_done.recv().is_ok(),
            "the proxy's thread has ended: its port was taken by another"
        );
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.orders.take());
        if let Some(thread) = self.thread.take() {
            // A panic of it has been printed.
            drop(thread.join());
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}, {:?})", self.addr, self.counts())
    }
}
