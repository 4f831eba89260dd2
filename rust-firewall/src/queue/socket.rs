// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: recvmmsg recvfrom
//! Netlink socket with its receive arena (a buffer with one slot per message): receiving, and the size of the kernel's
//! receive buffer. All three backends use it.

use std::alloc::{alloc_zeroed, Layout};
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, recv, setsockopt, sockopt, MsgFlags};
use nix::sys::time::{TimeVal, TimeValLike};

/// Size of the space in a receive slot for headers and all attributes except payload and NFQA_CT, in bytes.
pub const OVERHEAD_BYTES: u64 = 512;
/// Number of bytes of which a slot's size is a multiple: the size of a cache line.
pub const SLOT_ALIGN: u64 = 64;
/// Time limit for the answer to a configuration request (SO_RCVTIMEO), in seconds.
pub const ACK_SECONDS: i64 = 1;

/// Message in its receive slot. It is valid until the next receive call.
#[derive(Clone, Copy, Debug)]
pub struct QueueMessage<'a> {
    /// Part of the message that fitted into the slot.
    pub bytes: &'a [u8],
    /// True if the message was longer than its slot (MSG_TRUNC); always false if batch is 1.
    pub truncated: bool,
}

/// Netlink socket, receive slots (the arena), and the headers for recvmmsg that point into them.
pub struct QueueSocket {
    /// Descriptor of the socket, which the backend closes; -1 = none.
    fd: RawFd,
    slot_bytes: usize,
    /// Buffer of batch * slot_bytes, lazily allocated zero pages. Never resized, because the vectors point into it.
    arena: Vec<u8>,
    /// Headers for recvmmsg, one per slot; empty if batch is 1.
    headers: Vec<libc::mmsghdr>,
    /// Vectors, one per slot, to which the headers point; empty if batch is 1.
    _vectors: Vec<libc::iovec>,
    /// Number of bytes that recv received, if batch is 1.
    single_received: usize,
}

// SAFETY: the raw pointers in headers and vectors point into the heap memory of arena and vectors,
// which belongs to the same QueueSocket and moves between threads with it; make_headers makes them
// and nothing changes them.
unsafe impl Send for QueueSocket {}

/// Returns the slot size in bytes for a copy range: copy_bytes + OVERHEAD_BYTES, rounded up to a multiple of
/// SLOT_ALIGN.
pub fn slot_bytes(copy_bytes: u32) -> u64 {
    let needed = u64::from(copy_bytes) + OVERHEAD_BYTES;
    needed.div_ceil(SLOT_ALIGN) * SLOT_ALIGN
}

/// Creates the headers for recvmmsg; each header points to its slot. The arena has batch * slot_bytes bytes.
fn make_headers(
    arena: &mut Vec<u8>,
    batch: u32,
    slot_bytes: usize,
) -> (Vec<libc::mmsghdr>, Vec<libc::iovec>) {
    let base = arena.as_mut_ptr();
    let mut vectors: Vec<libc::iovec> = (0..batch as usize)
        .map(|index| libc::iovec {
            // A slot begins within the arena, so the pointer can't wrap.
            iov_base: base.wrapping_add(index * slot_bytes).cast(),
            iov_len: slot_bytes,
        })
        .collect();
    let first = vectors.as_mut_ptr();
    let headers = (0..batch as usize)
        .map(|index| {
            // SAFETY: mmsghdr is made of integers and pointers only, for all of which 0 is valid.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_iov = first.wrapping_add(index);
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    (headers, vectors)
}

/// Allocates the arena. The kernel provides a zeroed page at the first write to it. Fails with ENOMEM; `vec!` would end
/// the process.
/// - bytes: size of the arena, at least 1.
fn make_arena(bytes: usize) -> Result<Vec<u8>, Errno> {
    let layout = Layout::array::<u8>(bytes).map_err(|_| Errno::ENOMEM)?;
    // SAFETY: a slot has room for a message's headers, so the layout's size is not 0.
    let first = unsafe { alloc_zeroed(layout) };
    if first.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: the global allocator has just given these bytes with the layout of a Vec<u8> of that capacity; all are 0.
    Ok(unsafe { Vec::from_raw_parts(first, bytes, bytes) })
}

/// Creates the arena and the headers for recvmmsg. fd stays -1 until the backend sets it. Fails with ENOMEM if there is
/// no memory for the arena.
pub fn init(batch: u32, slot_bytes: u64) -> Result<QueueSocket, Errno> {
    let slot_bytes = usize::try_from(slot_bytes).map_err(|_| Errno::ENOMEM)?;
    let arena_bytes = slot_bytes
        .checked_mul(batch as usize)
        .ok_or(Errno::ENOMEM)?;
    let mut arena = make_arena(arena_bytes)?;
    let (headers, vectors) = match batch {
        1 => Default::default(),
        _ => make_headers(&mut arena, batch, slot_bytes),
    };
    Ok(QueueSocket {
        fd: -1,
        slot_bytes,
        arena,
        headers,
        _vectors: vectors,
        single_received: 0,
    })
}

/// Sets the socket's file descriptor.
///
/// # Safety
/// The descriptor stays open until `forget_fd` or until the socket is dropped.
pub unsafe fn set_fd(socket: &mut QueueSocket, fd: RawFd) {
    socket.fd = fd;
}

/// Forgets the file descriptor without closing it; `fd` then fails with EBADF. Must be called before the descriptor is
/// closed.
pub fn forget_fd(socket: &mut QueueSocket) {
    socket.fd = -1;
}

/// Returns the file descriptor. Fails with EBADF if there is none.
pub fn fd(socket: &QueueSocket) -> Result<BorrowedFd<'_>, Errno> {
    if socket.fd < 0 {
        return Err(Errno::EBADF);
    }
    // SAFETY: it is not -1 (checked above), and open by what set_fd asks of its caller.
    Ok(unsafe { BorrowedFd::borrow_raw(socket.fd) })
}

/// Limits the duration of blocking receive calls to ACK_SECONDS (SO_RCVTIMEO); the packet path never blocks.
pub fn bound_wait(socket: &QueueSocket) -> Result<(), Errno> {
    setsockopt(
        &fd(socket)?,
        sockopt::ReceiveTimeout,
        &TimeVal::seconds(ACK_SECONDS),
    )
}

/// Sets the size of the receive buffer by SO_RCVBUFFORCE, which needs CAP_NET_ADMIN in the initial user namespace. If
/// that fails, sets it by SO_RCVBUF, which net.core.rmem_max limits.
/// - wanted_bytes: value for setsockopt; 0 = unchanged.
/// - Returns the size that the kernel gives, which may be smaller, in the unit of setsockopt: half of getsockopt's
///   value, because the kernel doubles the value.
pub fn set_buffer(socket: &QueueSocket, wanted_bytes: u32) -> Result<u32, Errno> {
    let fd = fd(socket)?;
    let wanted = wanted_bytes as usize;
    if wanted > 0 && setsockopt(&fd, sockopt::RcvBufForce, &wanted).is_err() {
        setsockopt(&fd, sockopt::RcvBuf, &wanted)?;
    }
    let doubled = getsockopt(&fd, sockopt::RcvBuf)?;
    Ok(u32::try_from(doubled / 2).unwrap_or(u32::MAX))
}

fn receive_single(socket: &mut QueueSocket, blocking: bool) -> Result<u32, Errno> {
    let flags = if blocking {
        MsgFlags::empty()
    } else {
        MsgFlags::MSG_DONTWAIT
    };
    socket.single_received = recv(socket.fd, &mut socket.arena, flags)?;
    Ok(1)
}

fn receive_many(socket: &mut QueueSocket, blocking: bool) -> Result<u32, Errno> {
    let flags = if blocking {
        libc::MSG_WAITFORONE
    } else {
        libc::MSG_DONTWAIT
    };
    // SAFETY: headers.len() headers are given, each with one vector that spans its own slot of the
    // arena (make_headers), and &mut says that no slot is borrowed. The timeout may be null.
    let count = unsafe {
        libc::recvmmsg(
            socket.fd,
            socket.headers.as_mut_ptr(),
            socket.headers.len() as libc::c_uint,
            flags,
            ptr::null_mut(),
        )
    };
    Errno::result(count).map(|count| count as u32)
}

/// Receives up to batch messages into the arena: by recvmmsg, or by recv if batch is 1. Returns the number of messages;
/// 0 if the socket is empty. Fails with ENOBUFS if the kernel had to drop messages, or with another errno. Retries
/// after EINTR.
/// - blocking: false on the packet path (MSG_DONTWAIT). True during configuration: waits for the first message
///   (MSG_WAITFORONE with recvmmsg), at most for the time of `bound_wait`.
pub fn receive(socket: &mut QueueSocket, blocking: bool) -> Result<u32, Errno> {
    loop {
        let count = if socket.headers.is_empty() {
            receive_single(socket, blocking)
        } else {
            receive_many(socket, blocking)
        };
        match count {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return Ok(0),
            count => return count,
        }
    }
}

/// Stores a message in the first slot as if it had been received there. Cuts a message that is longer than the slot.
pub fn keep(socket: &mut QueueSocket, bytes: &[u8]) {
    let kept = bytes.len().min(socket.slot_bytes);
    for (to, from) in socket.arena.iter_mut().zip(bytes).take(kept) {
        *to = *from;
    }
    match socket.headers.first_mut() {
        None => socket.single_received = kept,
        Some(header) => {
            header.msg_len = kept as libc::c_uint;
            header.msg_hdr.msg_flags = 0;
        }
    }
}

/// Returns the message of a slot.
/// - index: less than the result of `receive`.
pub fn message(socket: &QueueSocket, index: u32) -> QueueMessage<'_> {
    let (received, truncated) = match socket.headers.get(index as usize) {
        None => (socket.single_received, false),
        Some(header) => (
            header.msg_len as usize,
            header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
        ),
    };
    let slot = socket
        .arena
        .get(slot_offset(socket, index)..)
        .unwrap_or_default();
    QueueMessage {
        bytes: slot.get(..received).unwrap_or_default(),
        truncated,
    }
}

/// Returns the offset of a slot in the arena.
pub fn slot_offset(socket: &QueueSocket, index: u32) -> usize {
    index as usize * socket.slot_bytes
}

/// Returns bytes of the arena from an offset on; empty if they exceed the arena.
pub fn arena(socket: &QueueSocket, offset: usize, bytes: u32) -> &[u8] {
    let rest = socket.arena.get(offset..).unwrap_or_default();
    rest.get(..bytes as usize).unwrap_or_default()
}

/// Returns the name of the system call that `receive` makes: "recvmmsg" or "recv".
pub fn receive_call(socket: &QueueSocket) -> &'static str {
    if socket.headers.is_empty() {
        "recv"
    } else {
        "recvmmsg"
    }
}
