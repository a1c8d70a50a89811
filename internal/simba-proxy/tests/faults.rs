//! Each fault, as both ends see it.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use simba_proxy::{Direction, Echo, Proxy, Reply};

/// Long enough for bytes that are to pass, on a machine that is busy.
const LONG: Duration = Duration::from_secs(30);
/// Bytes that have not come after this time do not come.
const SHORT: Duration = Duration::from_millis(200);

fn connect(proxy: &Proxy) -> TcpStream {
    let client = TcpStream::connect(proxy.addr()).unwrap();
    client.set_read_timeout(Some(LONG)).unwrap();
    client
}

fn stage() -> (Echo, Proxy, TcpStream) {
    let server = Echo::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let mut client = connect(&proxy);
    call(&mut client, b"hello");
    (server, proxy, client)
}

fn call(client: &mut TcpStream, text: &[u8]) {
    client.write_all(text).unwrap();
    hear(client, text);
}

fn hear(client: &mut TcpStream, text: &[u8]) {
    let mut heard = vec![0; text.len()];
    client.read_exact(&mut heard).unwrap();
    assert_eq!(heard, text);
}

/// Nothing comes, not even an end.
fn is_silent(client: &mut TcpStream) {
    client.set_read_timeout(Some(SHORT)).unwrap();
    let error = client.read(&mut [0; 64]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    client.set_read_timeout(Some(LONG)).unwrap();
}

fn is_reset(client: &mut TcpStream) {
    assert_eq!(client.read(&mut [0; 64]).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..3_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("never: {what}");
}

/// Takes one connection, and answers it together with the address.
fn listen() -> (SocketAddr, thread::JoinHandle<TcpStream>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    (listener.local_addr().unwrap(), thread::spawn(move || listener.accept().unwrap().0))
}

#[test]
fn without_a_fault_everything_passes_in_order_and_is_counted() {
    let (_server, proxy, client) = stage();
    let before = proxy.counts();
    let data: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let mut writer = client.try_clone().unwrap();
    let sent = data.clone();
    let sending = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut heard = Vec::new();
    (&client).read_to_end(&mut heard).unwrap();
    sending.join().unwrap();
    assert!(heard == data, "{} bytes of {}", heard.len(), data.len());
    let passed = proxy.counts().since(&before);
    assert_eq!((passed.to_server, passed.to_client), (data.len() as u64, data.len() as u64));
    assert!(format!("{proxy:?}").contains("calls"));
}

#[test]
fn calls_are_counted_one_by_one_over_all_connections() {
    let (_server, proxy, mut one) = stage();
    let mut other = connect(&proxy);
    for _ in 0..5 {
        call(&mut one, b"a");
        call(&mut other, b"bc");
    }
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.calls, counts.to_server), (2, 11, 20));
}

#[test]
fn a_delay_keeps_the_order_and_does_not_add_up() {
    let (_server, proxy, mut client) = stage();
    // Each byte alone would be a hundred seconds in all, which is more than a read waits.
    proxy.delay(Direction::ToServer, Duration::from_secs(1));
    for byte in 0..100 {
        client.write_all(&[byte]).unwrap();
    }
    is_silent(&mut client);
    hear(&mut client, &(0..100).collect::<Vec<_>>());
}

#[test]
fn what_is_held_comes_later_and_what_is_dropped_never() {
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (_server, proxy, mut client) = stage();
        proxy.hold(direction);
        client.write_all(b"one").unwrap();
        is_silent(&mut client);
        proxy.pass(direction);
        hear(&mut client, b"one");
        proxy.drop_silently(direction);
        client.write_all(b"two").unwrap();
        is_silent(&mut client);
        proxy.pass(direction);
        is_silent(&mut client);
        call(&mut client, b"three");
    }
}

#[test]
fn a_silent_drop_hides_the_end_of_a_connection() {
    let (addr, server) = listen();
    let proxy = Proxy::start(addr).unwrap();
    let mut client = connect(&proxy);
    let mut server = server.join().unwrap();
    client.write_all(b"x").unwrap();
    server.read_exact(&mut [0]).unwrap();
    proxy.drop_silently(Direction::ToServer);
    drop(client);
    is_silent(&mut server);
}

#[test]
fn frozen_connections_know_nothing_while_new_ones_work() {
    let (server, proxy, mut old) = stage();
    proxy.freeze();
    old.write_all(b"one").unwrap();
    is_silent(&mut old);
    call(&mut connect(&proxy), b"new");
    proxy.freeze();
    proxy.thaw();
    hear(&mut old, b"one");
    proxy.freeze();
    // The server does not learn that the client has gone.
    drop(old);
    thread::sleep(SHORT);
    assert_eq!(server.ended_by_reset(), 0);
    call(&mut connect(&proxy), b"newer");
}

#[test]
fn a_reset_reaches_both_ends_also_on_what_is_frozen_or_mute() {
    let (server, proxy, mut client) = stage();
    let mut frozen = connect(&proxy);
    call(&mut frozen, b"x");
    proxy.freeze();
    proxy.mute();
    let mut mute = connect(&proxy);
    until("the mute one is taken", || proxy.counts().connections == 3);
    proxy.reset();
    for client in [&mut client, &mut frozen, &mut mute] {
        is_reset(client);
    }
    until("the server has noticed", || server.ended_by_reset() == 2);
    proxy.welcome();
    call(&mut connect(&proxy), b"new");
}

#[test]
fn who_is_mute_stays_so_and_others_work() {
    let (_server, proxy, mut client) = stage();
    proxy.mute();
    let mut mute = connect(&proxy);
    mute.write_all(b"one").unwrap();
    is_silent(&mut mute);
    call(&mut client, b"present ones work");
    proxy.welcome();
    is_silent(&mut mute);
    call(&mut connect(&proxy), b"new");
}

#[test]
fn a_refusal_is_one_and_the_port_is_kept() {
    let (_server, proxy, mut client) = stage();
    for _ in 0..3 {
        proxy.refuse();
        proxy.refuse();
        let error = TcpStream::connect(proxy.addr()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        call(&mut client, b"present ones work");
        proxy.welcome();
        call(&mut connect(&proxy), b"new");
    }
}

#[test]
fn a_server_that_is_away_resets() {
    let (addr, server) = listen();
    let proxy = Proxy::start(addr).unwrap();
    drop(TcpStream::connect(addr).unwrap());
    drop(server.join().unwrap());
    is_reset(&mut connect(&proxy));
}

#[test]
fn the_reply_of_the_next_call_alone_is_lost() {
    let (_server, proxy, mut client) = stage();
    for _ in 0..3 {
        proxy.lose_reply(Reply::Drop);
        let mut other = connect(&proxy);
        client.write_all(b"one").unwrap();
        is_silent(&mut client);
        assert!(!proxy.is_waiting_for_a_call());
        call(&mut other, b"another connection");
        call(&mut client, b"two");
    }
    proxy.lose_reply(Reply::Hold);
    client.write_all(b"three").unwrap();
    is_silent(&mut client);
    client.write_all(b"four").unwrap();
    is_silent(&mut client);
    proxy.release_replies();
    hear(&mut client, b"threefour");
    proxy.lose_reply(Reply::Reset);
    let before = proxy.counts();
    client.write_all(b"five").unwrap();
    is_reset(&mut client);
    let passed = proxy.counts().since(&before);
    assert_eq!((passed.calls, passed.to_server, passed.to_client), (1, 4, 0), "the server has done it");
}

/// A call that comes in pieces is one call.
#[test]
fn a_reply_is_lost_whole_however_the_call_was_cut_up() {
    let (addr, server) = listen();
    let proxy = Proxy::start(addr).unwrap();
    let mut client = connect(&proxy);
    let mut server = server.join().unwrap();
    proxy.lose_reply(Reply::Drop);
    for text in [b"on", b"e\n"] {
        client.write_all(text).unwrap();
        server.read_exact(&mut [0; 2]).unwrap();
    }
    for text in [b"an", b"sw", b"er"] {
        server.write_all(text).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    is_silent(&mut client);
    client.write_all(b"two").unwrap();
    server.read_exact(&mut [0; 3]).unwrap();
    server.write_all(b"2").unwrap();
    hear(&mut client, b"2");
    assert_eq!(proxy.counts().calls, 2);
}

#[test]
fn a_cut_comes_after_exactly_so_many_bytes() {
    let (addr, server) = listen();
    let proxy = Proxy::start(addr).unwrap();
    let mut client = connect(&proxy);
    let mut server = server.join().unwrap();
    proxy.cut_after(Direction::ToServer, 1_000);
    for _ in 0..3 {
        // The end may have come back already.
        client.write_all(&[7; 400]).ok();
    }
    let mut heard = Vec::new();
    server.read_to_end(&mut heard).unwrap();
    assert_eq!(heard.len(), 1_000);
    assert_eq!(proxy.counts().to_server, 1_000);
    let mut rest = Vec::new();
    // In order or broken: bytes that nobody reads any more make it a reset.
    client.read_to_end(&mut rest).ok();
    assert!(rest.is_empty());
}

#[test]
fn dropping_it_ends_everything() {
    let (server, proxy, mut client) = stage();
    proxy.mute();
    let mut mute = connect(&proxy);
    let addr = proxy.addr();
    drop(proxy);
    assert!(matches!(client.read(&mut [0]), Ok(0)));
    assert!(matches!(mute.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(TcpStream::connect(addr).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    drop(server);
}
