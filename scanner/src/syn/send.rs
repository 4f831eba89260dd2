// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends SYNs through raw sockets, many in one system call.

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use super::segment::{self, LONGEST};
use crate::counts::add;
use crate::engine::sockaddr::Sockaddr;
use crate::targets::{Address, Family};

/// Maximum SYNs per system call.
const BATCH: usize = 128;
const SEND_BUFFER: libc::c_int = 4 << 20;

pub struct Sender {
    raw: [Option<OwnedFd>; 2],
    port: u16,
    /// Socket that reserves the port; it never listens.
    _reserved: OwnedFd,
    waiting: Vec<Waiting>,
    /// Number of waiting packets that were sent or given up.
    done: usize,
}

struct Waiting {
    index: u64,
    to: Sockaddr,
    bytes: [u8; LONGEST],
    len: usize,
}

fn checked(value: i32) -> io::Result<i32> {
    match value {
        0.. => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn raw(family: Family) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) touches no memory; the descriptor is new and owned from here on; setsockopt(2) reads an int.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = checked(libc::socket(family.domain(), kind, libc::IPPROTO_RAW))?;
        let size = SEND_BUFFER;
        let (at, len) = ((&raw const size).cast(), size_of::<libc::c_int>() as u32);
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, at, len);
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Reserves a port while the socket lives. The socket does not listen. It is bound to `::`, which includes IPv4 unless
/// net.ipv6.bindv6only is set, or to 0.0.0.0 if there is no IPv6.
fn reserve() -> io::Result<(OwnedFd, u16)> {
    for family in [Family::V6, Family::V4] {
        // SAFETY: socket(2) and bind(2) read the address, whose length is its own; the descriptor is owned at once.
        let bound = unsafe {
            let Ok(fd) = checked(libc::socket(
                family.domain(),
                libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
                0,
            )) else {
                continue;
            };
            let fd = OwnedFd::from_raw_fd(fd);
            let any: IpAddr = match family {
                Family::V4 => [0; 4].into(),
                Family::V6 => [0; 16].into(),
            };
            let any = Sockaddr::new(Address { ip: any, scope: 0 }, 0);
            checked(libc::bind(fd.as_raw_fd(), any.as_ptr(), any.len())).map(|_| fd)
        };
        let Ok(fd) = bound else { continue };
        // Converted to a listener only to read its local address.
        let named = TcpListener::from(fd);
        let port = named.local_addr()?.port();
        return Ok((named.into(), port));
    }
    Err(io::Error::last_os_error())
}

impl Sender {
    pub fn new() -> io::Result<Sender> {
        let (reserved, port) = reserve()?;
        Ok(Sender {
            // A machine may lack IPv6.
            raw: [Some(raw(Family::V4)?), raw(Family::V6).ok()],
            port,
            _reserved: reserved,
            waiting: Vec::with_capacity(BATCH),
            done: 0,
        })
    }

    /// Returns the source port of the SYNs.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn is_full(&self) -> bool {
        self.waiting.len() == BATCH
    }

    pub fn add(&mut self, index: u64, from: IpAddr, to: Address, port: u16, sequence: u32) {
        let mut bytes = [0; LONGEST];
        let len = segment::syn(&mut bytes, (from, self.port), (to.ip, port), sequence);
        self.waiting.push(Waiting {
            index,
            // Raw IPv6 sockets require port 0.
            to: Sockaddr::new(to, 0),
            bytes,
            len,
        });
    }

    /// Drops the packet that `flush` reported as refused.
    pub fn skip(&mut self) {
        self.done += 1;
    }

    /// Sends the waiting packets; returns None if all were sent. If the kernel refuses a packet, returns its target's
    /// index and the errno; this packet and later packets stay queued.
    /// - calls: counter of system calls.
    pub fn flush(&mut self, calls: &AtomicU64) -> Option<(u64, i32)> {
        while self.done < self.waiting.len() {
            let run = &self.waiting[self.done..];
            let family = run[0].to.family();
            let same = run
                .iter()
                .take_while(|one| one.to.family() == family)
                .count();
            let Some(socket) = &self.raw[usize::from(family == Family::V6)] else {
                return Some((run[0].index, libc::ENETUNREACH));
            };
            add(calls, 1);
            match send(socket, &run[..same]) {
                Ok(sent) => self.done += sent,
                Err(error) => {
                    return Some((run[0].index, error.raw_os_error().unwrap_or(libc::EIO)))
                }
            }
        }
        self.waiting.clear();
        self.done = 0;
        None
    }
}

/// Sends packets of one family; returns the number sent.
fn send(socket: &OwnedFd, packets: &[Waiting]) -> io::Result<usize> {
    // SAFETY: iovec and mmsghdr are plain data for which all zeros is valid.
    let mut vectors: [libc::iovec; BATCH] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
    for ((packet, vector), message) in packets.iter().zip(&mut vectors).zip(&mut messages) {
        vector.iov_base = packet.bytes.as_ptr().cast_mut().cast();
        vector.iov_len = packet.len;
        message.msg_hdr.msg_name = packet.to.as_ptr().cast_mut().cast();
        message.msg_hdr.msg_namelen = packet.to.len();
        message.msg_hdr.msg_iov = vector;
        message.msg_hdr.msg_iovlen = 1;
    }
    let count = packets.len().min(BATCH) as u32;
    // SAFETY: `count` messages are filled in, and all that they point to outlives the call, which only reads it.
    checked(unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, 0) })
        .map(|sent| sent as usize)
}
