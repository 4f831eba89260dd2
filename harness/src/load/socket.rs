// SPDX-License-Identifier: GPL-2.0-or-later
//! Socket options that the standard library lacks, and detection of time-outs.

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

/// Opens a listener whose accept times out after `look_up`, so that the caller can check for its end.
pub fn listen(address: SocketAddr, look_up: Duration) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    receive_timeout(&listener, look_up)?;
    Ok(listener)
}

/// Opens a non-blocking listener with the longest backlog that the namespace allows (net.core.somaxconn).
pub fn listen_at_length(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    // The standard library requests 128; a second listen(2) changes only the backlog.
    socket::listen(&listener, Backlog::MAXALLOWABLE).context("listen")?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Sets SO_RCVTIMEO, which bounds accept(2) too (socket(7)).
pub fn receive_timeout(socket: &impl AsFd, after: Duration) -> io::Result<()> {
    Ok(socket::setsockopt(
        socket,
        sockopt::ReceiveTimeout,
        &time_value(after),
    )?)
}

/// Requests a receive buffer above net.core.rmem_max, or up to that limit without CAP_NET_ADMIN.
pub fn receive_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    match socket::setsockopt(socket, sockopt::RcvBufForce, &bytes) {
        Err(Errno::EPERM) => Ok(socket::setsockopt(socket, sockopt::RcvBuf, &bytes)?),
        other => Ok(other?),
    }
}

/// Requests a send buffer above net.core.wmem_max, or up to that limit without CAP_NET_ADMIN.
pub fn send_buffer(socket: &impl AsFd, bytes: usize) -> io::Result<()> {
    match socket::setsockopt(socket, sockopt::SndBufForce, &bytes) {
        Err(Errno::EPERM) => Ok(socket::setsockopt(socket, sockopt::SndBuf, &bytes)?),
        other => Ok(other?),
    }
}

/// Makes close(2) abort the connection with a RST: no data remains to be sent, no port stays in TIME_WAIT.
pub fn abort_on_close(socket: &impl AsFd) -> io::Result<()> {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    Ok(socket::setsockopt(socket, sockopt::Linger, &linger)?)
}

/// Connects and bounds connect(2) and every send and receive by `at_most`, with as few system calls as possible.
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

/// Returns true if a call ended by its time-out or a signal, which is no error.
pub fn timed_out(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    // connect(2) under SO_SNDTIMEO ends with EINPROGRESS.
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
        || error.raw_os_error() == Some(libc::EINPROGRESS)
}

/// Converts to a TimeVal. Zero means "never" to the kernel, so it is raised to one microsecond.
fn time_value(duration: Duration) -> TimeVal {
    TimeVal::microseconds(duration.as_micros().clamp(1, i64::MAX as u128) as i64)
}
