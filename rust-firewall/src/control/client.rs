// SPDX-License-Identifier: GPL-2.0-or-later
//! One client of the control socket: the lines that it sends, the answer that it is to read. Nothing
//! here waits, and nothing grows with what a client does.
// seccomp: close recvfrom sendto

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::uid_t;
use nix::poll::PollFlags;
use nix::sys::socket::{recv, send, MsgFlags};

use crate::control::proof::Proof;

/// Bytes of a request with its line end.
pub const LINE_BYTES: usize = 64 * 1024;
/// The time within which a client reads some of its answer.
pub const READ_MS: u64 = 10 * 1000;

pub struct ControlClient {
    fd: OwnedFd,
    /// Identity of the peer.
    pub uid: uid_t,
    /// The proof of the connection, and of the process that made it.
    pub proof: Proof,
    /// LINE_BYTES of them: what it sent and was not served yet.
    bytes: Vec<u8>,
    filled: usize,
    /// Bytes at the beginning of `bytes` that hold no line end.
    looked: usize,
    /// It sends no more.
    pub ended: bool,
    /// None: no answer is due.
    answer: Option<Vec<u8>>,
    /// Bytes of the answer that are sent.
    sent: usize,
    /// Deadline for reading more of the answer (monotonic time).
    due_ms: u64,
    /// Close the connection once the answer is sent.
    pub closing: bool,
}

/// Contents of a client's buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlLine {
    /// No line yet.
    None,
    /// A line, without its line end.
    Whole(Vec<u8>),
    /// More than fits, without a line end.
    TooLong,
    /// The client ended within a line.
    Cut,
}

/// Makes a client of a connection, which does not block.
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

/// The connection.
pub fn fd(client: &ControlClient) -> BorrowedFd<'_> {
    client.fd.as_fd()
}

/// Whether some of an answer is still to be sent.
pub fn is_answered(client: &ControlClient) -> bool {
    client.answer.is_some()
}

/// Reads what has arrived, as far as there is room. Does nothing while an answer is due. Fails if the
/// connection is broken.
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

/// The bytes that were not looked at.
fn rest(client: &ControlClient) -> &[u8] {
    let rest = client.bytes.get(client.looked..client.filled);
    rest.unwrap_or_default()
}

/// Returns the first line, if it is whole. What has been searched is not searched again.
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

/// Has an answer sent. None is due yet.
pub fn answer(client: &mut ControlClient, answer: String, now_ms: u64) {
    client.answer = Some(answer.into_bytes());
    client.sent = 0;
    client.due_ms = now_ms + READ_MS;
}

/// Sends what can be sent of the answer. Fails with ETIMEDOUT if the client has not read for too long,
/// or if the connection is broken.
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

/// Whether a whole line waits to be served.
fn has_line(client: &ControlClient) -> bool {
    rest(client).contains(&b'\n')
}

/// Events to poll the connection for.
pub fn events(client: &ControlClient) -> PollFlags {
    if client.answer.is_some() {
        PollFlags::POLLOUT
    } else if client.ended || has_line(client) {
        PollFlags::empty()
    } else {
        PollFlags::POLLIN
    }
}

/// The milliseconds until there is something to do without any event, if ever.
pub fn timeout(client: &ControlClient, now_ms: u64) -> Option<u64> {
    if client.answer.is_some() {
        return Some(client.due_ms.saturating_sub(now_ms));
    }
    (client.ended || has_line(client)).then_some(0)
}
