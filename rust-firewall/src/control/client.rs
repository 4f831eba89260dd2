// SPDX-License-Identifier: GPL-2.0-or-later
//! One client of the control socket: its buffer of requests and the answer to send. Nothing here
//! blocks, and its memory is bounded whatever the client does.
// seccomp: close recvfrom sendto

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::uid_t;
use nix::poll::PollFlags;
use nix::sys::socket::{recv, send, MsgFlags};

use crate::control::proof::Proof;

/// Maximum length of a request with its line end, in bytes.
pub const LINE_BYTES: usize = 64 * 1024;
/// Time within which a client must read a part of its answer, in milliseconds.
pub const READ_MS: u64 = 10 * 1000;

/// A client of the control socket.
pub struct ControlClient {
    fd: OwnedFd,
    /// User of the client.
    pub uid: uid_t,
    /// Proof that the client must send before an upgrade: the client's PID, and the number of its connection to the
    /// control socket.
    pub proof: Proof,
    /// Buffer of LINE_BYTES for received bytes that are not served yet.
    bytes: Vec<u8>,
    /// Number of received bytes in `bytes`.
    filled: usize,
    /// Number of bytes at the start of `bytes` that were searched and hold no line end.
    looked: usize,
    /// True if the client has closed its sending side.
    pub ended: bool,
    /// Answer that is being sent; None if no answer is due.
    answer: Option<Vec<u8>>,
    /// Number of bytes of the answer that were sent.
    sent: usize,
    /// Time by which the client must have read more of the answer (monotonic, in milliseconds).
    due_ms: u64,
    /// True if the connection must be closed as soon as the answer is sent.
    pub closing: bool,
}

/// Result of the search for a line in a client's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// No complete line yet.
    None,
    /// A complete line, without its line end.
    Whole(Vec<u8>),
    /// The buffer is full and holds no line end.
    TooLong,
    /// The client closed its sending side within a line.
    Cut,
}

/// Creates a client from a non-blocking connection.
pub fn make(fd: OwnedFd, uid: uid_t, proof: Proof) -> ControlClient {
    ControlClient {
        fd,
        uid,
        proof,
        bytes: vec![0; LINE_BYTES],
        filled: 0,
        looked: 0,
        ended: false,
        answer: None,
        sent: 0,
        due_ms: 0,
        closing: false,
    }
}

/// Returns the client's connection.
pub fn fd(client: &ControlClient) -> BorrowedFd<'_> {
    client.fd.as_fd()
}

/// Returns true if a client has an answer that is not completely sent.
pub fn is_answered(client: &ControlClient) -> bool {
    client.answer.is_some()
}

/// Receives bytes into the buffer without blocking. Does nothing while an answer is due, if the
/// buffer is full, or if the client has closed its sending side. Fails if the connection is broken.
pub fn receive(client: &mut ControlClient) -> Result<(), Errno> {
    let Some(room) = client.bytes.get_mut(client.filled..) else {
        return Ok(());
    };
    if client.answer.is_some() || client.ended || room.is_empty() {
        return Ok(());
    }
    match recv(client.fd.as_raw_fd(), room, MsgFlags::MSG_DONTWAIT) {
        Ok(received) => {
            client.filled += received;
            client.ended = received == 0;
            Ok(())
        }
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the received bytes that were not searched for a line end.
fn rest(client: &ControlClient) -> &[u8] {
    let rest = client.bytes.get(client.looked..client.filled);
    rest.unwrap_or_default()
}

/// Removes the first line from the buffer and returns it, or returns the reason why there is no
/// complete line. Searched bytes are not searched again.
pub fn line(client: &mut ControlClient) -> ControlLine {
    let Some(end) = rest(client).iter().position(|byte| *byte == b'\n') else {
        client.looked = client.filled;
        return match client.filled {
            LINE_BYTES => ControlLine::TooLong,
            filled if client.ended && filled > 0 => ControlLine::Cut,
            _ => ControlLine::None,
        };
    };
    let end = client.looked + end;
    let line = client.bytes.get(..end).unwrap_or_default().to_vec();
    client.bytes.copy_within(end + 1..client.filled, 0);
    client.filled -= end + 1;
    client.looked = 0;
    ControlLine::Whole(line)
}

/// Sets the answer to send. No other answer may be due.
pub fn answer(client: &mut ControlClient, answer: String, now_ms: u64) {
    client.answer = Some(answer.into_bytes());
    client.sent = 0;
    client.due_ms = now_ms + READ_MS;
}

/// Sends as much of the answer as possible without blocking. Fails with ETIMEDOUT if the client has
/// not read for too long, or with the error of a broken connection.
pub fn send_answer(client: &mut ControlClient, now_ms: u64) -> Result<(), Errno> {
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let Some(answer) = &client.answer else {
        return Ok(());
    };
    while let Some(rest) = answer.get(client.sent..).filter(|rest| !rest.is_empty()) {
        match send(client.fd.as_raw_fd(), rest, flags) {
            Ok(sent) => {
                client.sent += sent;
                client.due_ms = now_ms + READ_MS;
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) if now_ms < client.due_ms => return Ok(()),
            Err(Errno::EAGAIN) => return Err(Errno::ETIMEDOUT),
            Err(error) => return Err(error),
        }
    }
    client.answer = None;
    Ok(())
}

/// Returns true if the buffer holds a complete line.
fn has_line(client: &ControlClient) -> bool {
    rest(client).contains(&b'\n')
}

/// Returns the events for which to poll the connection.
pub fn events(client: &ControlClient) -> PollFlags {
    if client.answer.is_some() {
        PollFlags::POLLOUT
    } else if client.ended || has_line(client) {
        PollFlags::empty()
    } else {
        PollFlags::POLLIN
    }
}

/// Returns the milliseconds after which the client must be served even without an event; None: no
/// limit.
pub fn timeout(client: &ControlClient, now_ms: u64) -> Option<u64> {
    if client.answer.is_some() {
        return Some(client.due_ms.saturating_sub(now_ms));
    }
    (client.ended || has_line(client)).then_some(0)
}
