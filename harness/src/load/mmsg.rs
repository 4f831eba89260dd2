// SPDX-License-Identifier: GPL-2.0-or-later
//! Many datagrams or frames per system call: sendmmsg(2) and recvmmsg(2). The only unsafe code of the generator.

use std::ffi::CString;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// PACKET_QDISC_BYPASS (include/uapi/linux/if_packet.h).
const QDISC_BYPASS: libc::c_int = 20;
/// Index of the receive buffer's use in the result of SO_MEMINFO (SK_MEMINFO_RMEM_ALLOC).
const MEMINFO_RECEIVE: usize = 0;
/// Index of `sk_drops` in the result of SO_MEMINFO (include/uapi/linux/sock_diag.h, SK_MEMINFO_DROPS).
const MEMINFO_DROPS: usize = 8;
/// SK_MEMINFO_VARS of the same header: the number of values.
const MEMINFO_VARS: usize = 9;

/// Buffers for datagrams or frames, and the headers that point to them.
pub struct Batch {
    headers: Vec<libc::mmsghdr>,
    /// One vector per header; owned here because the headers point to it.
    _vectors: Vec<libc::iovec>,
    /// One slot per vector; owned here because the vectors point to them.
    _arena: Vec<u8>,
}

impl Batch {
    /// Allocates `count` slots. `slot_bytes` is the size of each datagram to send, or the space to receive each.
    pub fn new(count: usize, slot_bytes: usize) -> Batch {
        let slot = |slot: usize| {
            let bytes = slot * slot_bytes..(slot + 1) * slot_bytes;
            bytes.map(|at| b'0' + (at % 10) as u8).collect()
        };
        Batch::of((0..count).map(slot).collect())
    }

    /// Builds a batch of these contents, each in a slot of its own size.
    pub fn of(contents: Vec<Vec<u8>>) -> Batch {
        let mut arena = contents.concat();
        let mut left = arena.as_mut_slice();
        let mut vectors = Vec::new();
        for one in &contents {
            let (slot, rest) = left.split_at_mut(one.len());
            left = rest;
            vectors.push(libc::iovec {
                iov_base: slot.as_mut_ptr().cast(),
                iov_len: slot.len(),
            });
        }
        let headers = vectors.iter_mut().map(header).collect();
        Batch {
            headers,
            _vectors: vectors,
            _arena: arena,
        }
    }

    /// Sends all slots to the connected or bound destination of `socket`; returns the number that the kernel accepted.
    pub fn send(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        // SAFETY: the length is that of the vector, each header points to one vector and each vector to one
        // slot, all owned by self and never moved or resized, so they outlive the call.
        let sent = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                0,
            )
        };
        counted(sent)
    }

    /// Waits for one datagram and receives all datagrams that have arrived by then, up to the number of slots. Returns
    /// their number.
    pub fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        // SAFETY: as for sendmmsg; self is borrowed mutably, so no other code reads the slots meanwhile.
        let received = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                self.headers.len() as libc::c_uint,
                libc::MSG_WAITFORONE,
                std::ptr::null_mut(),
            )
        };
        counted(received)
    }

    /// Returns the number of datagrams of exactly `bytes` bytes among the first `received` datagrams of the last
    /// [`Batch::receive`].
    pub fn of_size(&self, received: usize, bytes: usize) -> usize {
        let sizes = self
            .headers
            .iter()
            .take(received)
            .map(|header| header.msg_len as usize);
        sizes.filter(|size| *size == bytes).count()
    }
}

/// Opens a socket that writes frames to an interface past its queueing discipline and receives nothing.
pub fn packet_socket(interface: &str) -> io::Result<OwnedFd> {
    let name = CString::new(interface)?;
    // SAFETY: the calls read a text that ends with NUL, an address and a number, each by its length, and all outlive
    // them; the descriptor is new and owned from here on.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let socket = OwnedFd::from_raw_fd(counted(libc::socket(libc::AF_PACKET, kind, 0))? as i32);
        let index = libc::if_nametoindex(name.as_ptr());
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let mut to: libc::sockaddr_ll = std::mem::zeroed();
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = index as i32;
        let bytes = std::mem::size_of_val(&to) as libc::socklen_t;
        counted(libc::bind(
            socket.as_raw_fd(),
            (&raw const to).cast(),
            bytes,
        ))?;
        let on: libc::c_int = 1;
        let bytes = std::mem::size_of_val(&on) as libc::socklen_t;
        let (level, option) = (libc::SOL_PACKET, QDISC_BYPASS);
        let value = (&raw const on).cast();
        counted(libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value,
            bytes,
        ))?;
        Ok(socket)
    }
}

/// Returns a message header without address or control data, for one vector.
fn header(vector: &mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: mmsghdr is plain data (numbers and pointers that may be null), for which all zeros is valid.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_iov = vector;
    header.msg_hdr.msg_iovlen = 1;
    header
}

fn counted(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Returns the number of datagrams that the kernel has dropped because this socket's receive buffer was full.
pub fn drops(socket: &UdpSocket) -> io::Result<u32> {
    Ok(memory_info(socket)?[MEMINFO_DROPS])
}

/// Returns true if no datagram waits in this socket's receive buffer.
pub fn is_empty(socket: &UdpSocket) -> io::Result<bool> {
    Ok(memory_info(socket)?[MEMINFO_RECEIVE] == 0)
}

fn memory_info(socket: &UdpSocket) -> io::Result<[u32; MEMINFO_VARS]> {
    let mut values = [0u32; MEMINFO_VARS];
    let mut bytes = std::mem::size_of_val(&values) as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, which is the size of `values`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    counted(result).map(|_| values)
}
