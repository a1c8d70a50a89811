//! Ports that nobody uses.

use std::{
    collections::hash_map::RandomState,
    hash::BuildHasher,
    net::{Ipv4Addr, TcpListener},
};

/// A loopback port that is free now. It lies below those that the kernel gives to outgoing connections, so that
/// nobody is given it by chance before the server has bound it.
///
/// # Panics
/// If a thousand ports in a row are taken.
#[must_use]
pub fn free_port() -> u16 {
    for attempt in 0..1_000_u64 {
        let random = RandomState::new().hash_one(attempt);
        let port = 16_000 + u16::try_from(random % 16_000).unwrap_or_default();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port from 16000 to 31999 is free")
}
