//! A server that says what it hears.

use std::{
    io::{Read, Result, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

/// A server that answers with the bytes that it is sent: for the examples and tests of the proxy itself.
///
/// ```
/// # use std::{io::{Read, Write}, net::TcpStream};
/// let server = simba_proxy::Echo::start()?;
/// let mut client = TcpStream::connect(server.addr())?;
/// client.write_all(b"ping")?;
/// client.read_exact(&mut [0; 4])?;
/// assert_eq!(server.ended_by_reset(), 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Echo {
    addr: SocketAddr,
    over: Arc<AtomicBool>,
    resets: Arc<AtomicU64>,
}

impl Echo {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// What the operating system says if there is no port or no thread.
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let (over, resets) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (Arc::clone(&over), Arc::clone(&resets));
        thread::Builder::new().name("echo".into()).spawn(move || {
            for client in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let counts = Arc::clone(&counts);
                thread::spawn(move || {
                    if echo(client).is_err() {
                        counts.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        })?;
        Ok(Self { addr, over, resets })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How many connections broke, instead of being closed.
    #[must_use]
    pub fn ended_by_reset(&self) -> u64 {
        self.resets.load(Ordering::SeqCst)
    }
}

fn echo(mut client: TcpStream) -> Result<()> {
    let mut buffer = [0; 4 << 10];
    loop {
        match client.read(&mut buffer)? {
            0 => return Ok(()),
            length => client.write_all(&buffer[..length])?,
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Its thread wakes for this one, and ends.
        drop(TcpStream::connect(self.addr));
    }
}
