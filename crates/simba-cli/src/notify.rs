//! News for a service manager: the datagram protocol of `sd_notify`, where `NOTIFY_SOCKET` names a socket.

use std::{
    env,
    ffi::OsStr,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
};

/// The variable that names the socket; a command that is run does not get to see it.
pub(crate) const SOCKET: &str = "NOTIFY_SOCKET";

/// Sends a message, such as `READY=1`. Without a service manager nobody listens, and that is no fault.
pub(crate) fn notify(message: &str) {
    let Some(name) = env::var_os(SOCKET) else { return };
    let sent = address(&name).and_then(|to| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &to));
    if let Err(error) = sent {
        crate::output::hint(format!("the service manager cannot be told ({error})"));
    }
}

/// A path, or an abstract name behind `@`.
fn address(name: &OsStr) -> std::io::Result<SocketAddr> {
    match name.as_bytes().split_first() {
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest),
        _ => SocketAddr::from_pathname(name),
    }
}
