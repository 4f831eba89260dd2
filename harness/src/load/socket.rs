// SPDX-License-Identifier: GPL-2.0-or-later
//! Socket options that the standard library does not have, and how time-outs look.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::Context;
use nix::errno::Errno;
use nix::sys::socket::{
    self, sockopt, AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage,
};
use nix::sys::time::{TimeVal, TimeValLike};

/// A listener whose accept gives up after `look_up` with a time-out, for the caller to look around.
pub fn listen(address: SocketAddr, look_up: Duration) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    receive_timeout(&listener, look_up)?;
    Ok(listener)
}

/// A listener that does not block, with as long a backlog as the namespace allows (net.core.somaxconn).
pub fn listen_at_length(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    // The standard library asks for 128; a second listen(2) only changes that.
    socket::listen(&listener, Backlog::MAXALLOWABLE).context("listen")?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// SO_RCVTIMEO; it bounds accept(2) too (socket(7)).
pub fn receive_timeout(socket: &impl AsFd, after: Duration) -> io::Result<()> {
    Ok(socket::setsockopt(
        socket,
        sockopt::ReceiveTimeout,
        &time_value(after),
    )?)
}

/// Asks for a receive buffer past net.core.rmem_max, or for as much as that allows without CAP_NET_ADMIN.
pub fn receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    match socket::setsockopt(socket, sockopt::RcvBufForce, &bytes) {
        Err(Errno::EPERM) => Ok(socket::setsockopt(socket, sockopt::RcvBuf, &bytes)?),
        other => Ok(other?),
    }
}

/// The same for sending.
pub fn send_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    match socket::setsockopt(socket, sockopt::SndBufForce, &bytes) {
        Err(Errno::EPERM) => Ok(socket::setsockopt(socket, sockopt::SndBuf, &bytes)?),
        other => Ok(other?),
    }
}

/// Makes close(2) abort the connection with a RST: no data is left to send, no port rests in TIME_WAIT.
pub fn abort_on_close(socket: &impl AsFd) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    Ok(socket::setsockopt(socket, sockopt::Linger, &linger)?)
}

/// Connects and bounds connect(2) and every receive by `at_most`, with as few system calls as that takes.
pub fn connect(address: SocketAddr, at_most: Duration) -> io::Result<TcpStream> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let socket = socket::socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    socket::setsockopt(&socket, sockopt::SendTimeout, &time_value(at_most))?;
    receive_timeout(&socket, at_most)?;
    socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(TcpStream::from(socket))
}

/// Whether a call ended because its time-out was over, or a signal came: nothing went wrong.
pub fn timed_out(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    // connect(2) under SO_SNDTIMEO ends with EINPROGRESS.
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
        || error.raw_os_error() == Some(libc::EINPROGRESS)
}

/// Zero means "never" to the kernel, so it is raised to one microsecond.
fn time_value(duration: Duration) -> TimeVal {
    TimeVal::microseconds(duration.as_micros().clamp(1, i64::MAX as u128) as i64)
}
