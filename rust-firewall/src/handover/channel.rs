// SPDX-License-Identifier: GPL-2.0-or-later
//! Channel of an upgrade: lines and descriptors over a Unix stream socket, with a deadline.
// seccomp: poll sendmsg recvmsg shutdown close

use std::collections::VecDeque;
use std::env;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    getsockopt, recvmsg, sendmsg, shutdown, sockopt, ControlMessage, ControlMessageOwned, MsgFlags,
    Shutdown,
};

use crate::base::log::{failure_set, failure_set_start, Failure, LogExit};
use crate::worker::wait;

/// Length in bytes up to which a line with its end is always accepted; a longer line may fail.
pub const LINE_BYTES: usize = 256 * 1024;
/// Maximum number of received descriptors that were not returned by `claim` yet.
pub const FDS_MAX: usize = 320;

const NS_PER_MS: u64 = 1_000_000;
/// Minimum growth of the receive buffer, in bytes.
const ROOM_STEP_BYTES: usize = 65536;

/// Environment variable with the number of an inherited descriptor: a socket that is connected to the old firewall.
/// fwctl has connected it in this process, and has then started this program by exec.
pub const GIVEN: &str = "TWINWALL_TAKE_OVER_FD";

/// A connection to the other firewall of an upgrade (the old or the new one); closed when dropped.
pub struct HandoverChannel {
    fd: OwnedFd,
    /// Name of the firewall at the other end in messages: "old" or "new".
    whose: &'static str,
    /// Deadline for sending and receiving (wait::clock).
    due_ns: u64,
    /// Receive buffer; its first `filled` bytes are received.
    bytes: Vec<u8>,
    filled: usize,
    /// Offset of the first unread byte in `bytes`.
    begin: usize,
    fds: VecDeque<OwnedFd>,
}

/// Returns the inherited connection to the old firewall, from the environment variable GIVEN; None if the variable is
/// not set or names no socket. Must be called only once.
pub fn inherited() -> Option<OwnedFd> {
    let number = env::var(GIVEN).ok()?.parse::<RawFd>().ok();
    let number = number.filter(|number| *number >= 0)?;
    // SAFETY: the descriptor is only queried, which fails for a number that is not open.
    let named = unsafe { BorrowedFd::borrow_raw(number) };
    getsockopt(&named, sockopt::PeerCredentials).ok()?;
    // The guard, which this process starts later, must not inherit the descriptor.
    fcntl(named, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    // SAFETY: getsockopt found it open, and the variable gives it to this function alone, which runs once.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Creates a channel from a connected socket.
/// - whose: name of the firewall at the other end in messages: "old" or "new".
/// - timeout_ms: time until the deadline, in milliseconds.
pub fn open(fd: OwnedFd, whose: &'static str, timeout_ms: u32) -> HandoverChannel {
    HandoverChannel {
        fd,
        whose,
        due_ns: wait::clock() + u64::from(timeout_ms) * NS_PER_MS,
        bytes: Vec::new(),
        filled: 0,
        begin: 0,
        fds: VecDeque::new(),
    }
}

/// Sets the deadline to `timeout_ms` milliseconds from now.
pub fn extend(channel: &mut HandoverChannel, timeout_ms: u32) {
    channel.due_ns = wait::clock() + u64::from(timeout_ms) * NS_PER_MS;
}

/// Sets the deadline (wait::clock).
pub fn until(channel: &mut HandoverChannel, due_ns: u64) {
    channel.due_ns = due_ns;
}

/// Returns the deadline (wait::clock).
pub fn due_ns(channel: &HandoverChannel) -> u64 {
    channel.due_ns
}

/// Returns the descriptor to poll.
pub fn fd(channel: &HandoverChannel) -> BorrowedFd<'_> {
    channel.fd.as_fd()
}

/// Returns the failure for an error of sending or receiving.
fn fail(channel: &HandoverChannel, error: Errno) -> Failure {
    let whose = channel.whose;
    match error {
        Errno::ETIMEDOUT => failure_set(
            LogExit::Call,
            format_args!(
                "the {whose} firewall does not continue the upgrade: see its log, and try again"
            ),
        ),
        Errno::EPIPE | Errno::ECONNRESET => failure_set(
            LogExit::Call,
            format_args!("the {whose} firewall ended the upgrade: see its log, and try again"),
        ),
        Errno::EMSGSIZE | Errno::EPROTO => failure_set(
            LogExit::Call,
            format_args!(
                "the {whose} firewall sent an unexpected message: check that it is a Twinwall firewall"
            ),
        ),
        _ => failure_set_start("the connection of the upgrade", error),
    }
}

/// Waits until the socket can be read (`events` POLLIN) or written (POLLOUT). Fails with ETIMEDOUT at the deadline.
fn wait_for(channel: &HandoverChannel, events: PollFlags) -> Result<(), Errno> {
    loop {
        let left_ns = channel.due_ns.saturating_sub(wait::clock());
        if left_ns == 0 {
            return Err(Errno::ETIMEDOUT);
        }
        let timeout = PollTimeout::try_from(left_ns / NS_PER_MS + 1).unwrap_or(PollTimeout::MAX);
        match poll(&mut [PollFd::new(channel.fd.as_fd(), events)], timeout) {
            Ok(0) | Err(Errno::EINTR) => {}
            result => return result.map(drop),
        }
    }
}

/// Sends as many bytes as possible without blocking, with the descriptor if there is one. Returns the number of sent
/// bytes.
fn send_some(
    channel: &HandoverChannel,
    bytes: &[u8],
    fd: Option<BorrowedFd>,
) -> Result<usize, Errno> {
    let fds: Vec<_> = fd.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let control = if fd.is_some() { &rights[..] } else { &[] };
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let socket = channel.fd.as_raw_fd();
    sendmsg::<()>(socket, &[IoSlice::new(bytes)], control, flags, None)
}

/// Sends the whole text. Sends a descriptor, if there is one, with the first byte.
pub fn send(
    channel: &HandoverChannel,
    text: &str,
    mut fd: Option<BorrowedFd>,
) -> Result<(), Failure> {
    let mut bytes = text.as_bytes();
    while !bytes.is_empty() {
        let result = match send_some(channel, bytes, fd) {
            Ok(sent) => {
                bytes = bytes.get(sent..).unwrap_or_default();
                fd = None; // the descriptor is sent only with the first byte
                Ok(())
            }
            Err(Errno::EAGAIN) => wait_for(channel, PollFlags::POLLOUT),
            Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error),
        };
        result.map_err(|error| fail(channel, error))?;
    }
    Ok(())
}

/// Moves the unread bytes to the start of the buffer and grows it if little room is left. Fails with EMSGSIZE if the
/// buffer must grow, but already contains LINE_BYTES unread bytes.
fn make_room(channel: &mut HandoverChannel) -> Result<(), Errno> {
    let left = channel.filled - channel.begin;
    channel.bytes.copy_within(channel.begin..channel.filled, 0);
    channel.begin = 0;
    channel.filled = left;
    if channel.bytes.len() - left >= ROOM_STEP_BYTES {
        return Ok(());
    }
    if left >= LINE_BYTES {
        return Err(Errno::EMSGSIZE);
    }
    let room = 2 * channel.bytes.len() + ROOM_STEP_BYTES;
    channel.bytes.resize(room, 0);
    Ok(())
}

/// Receives available bytes, and stores the descriptor that came with them, if any. Fails with ECONNRESET if the other
/// end has closed the connection. Fails with EPROTO if control data other than one descriptor came, or if too many
/// descriptors are stored.
fn receive_some(channel: &mut HandoverChannel) -> Result<(), Errno> {
    let mut control = cmsg_space!([i32; 1]);
    let room = channel.bytes.get_mut(channel.filled..).unwrap_or_default();
    let mut vectors = [IoSliceMut::new(room)];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let socket = channel.fd.as_raw_fd();
    let message = recvmsg::<()>(socket, &mut vectors, Some(&mut control), flags)?;
    let mut is_good = !message.flags.contains(MsgFlags::MSG_CTRUNC);
    for control in message.cmsgs()? {
        let ControlMessageOwned::ScmRights(fds) = control else {
            is_good = false;
            continue;
        };
        is_good = is_good && fds.len() == 1;
        // SAFETY: the kernel has just opened them for this message; nothing else in the process has their numbers.
        let fds = fds
            .into_iter()
            .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        channel.fds.extend(fds);
    }
    if !is_good || channel.fds.len() > FDS_MAX {
        return Err(Errno::EPROTO);
    }
    channel.filled += message.bytes;
    match message.bytes {
        0 => Err(Errno::ECONNRESET),
        _ => Ok(()),
    }
}

/// Removes the first line from the buffer. Returns the offsets of its start and of its line end; None if no line is
/// complete.
/// - looked: in/out: number of unread bytes that are known to contain no line end.
fn extract_line(channel: &mut HandoverChannel, looked: &mut usize) -> Option<(usize, usize)> {
    let begin = channel.begin;
    let left = channel.bytes.get(begin..channel.filled)?;
    let new = left.get(*looked..)?;
    let end = new.iter().position(|byte| *byte == b'\n');
    let end = end.map(|end| begin + *looked + end);
    *looked = left.len();
    let end = end?;
    channel.begin = end + 1;
    Some((begin, end))
}

/// Waits for a line, at most until the deadline. Returns the offsets of its start and of its line end.
fn wait_for_line(channel: &mut HandoverChannel) -> Result<(usize, usize), Errno> {
    let mut looked = 0;
    loop {
        if let Some(line) = extract_line(channel, &mut looked) {
            return Ok(line);
        }
        match make_room(channel).and_then(|()| receive_some(channel)) {
            Err(Errno::EAGAIN) => wait_for(channel, PollFlags::POLLIN)?,
            Err(Errno::EINTR) => {}
            result => result?,
        }
    }
}

/// Waits for a line, at most until the deadline, and returns it without its line end.
pub fn line(channel: &mut HandoverChannel) -> Result<&[u8], Failure> {
    match wait_for_line(channel) {
        Ok((begin, end)) => Ok(channel.bytes.get(begin..end).unwrap_or_default()),
        Err(error) => Err(fail(channel, error)),
    }
}

/// Waits for a line like `line`. If it times out, the other end can't send any more: its `send` fails. So the line is
/// either received or not sent.
pub fn last_line(channel: &mut HandoverChannel) -> Result<&[u8], Failure> {
    let mut result = wait_for_line(channel);
    if result == Err(Errno::ETIMEDOUT) {
        // From now on the other end can't send. The line may have arrived since the deadline.
        let _ = shutdown(channel.fd.as_raw_fd(), Shutdown::Read);
        result = wait_for_line(channel).map_err(|_| Errno::ETIMEDOUT);
    }
    match result {
        Ok((begin, end)) => Ok(channel.bytes.get(begin..end).unwrap_or_default()),
        Err(error) => Err(fail(channel, error)),
    }
}

/// Receives available bytes without blocking, and returns the first line without its line end if it is complete.
/// Without a complete line, fails after the deadline.
pub fn line_if_any(channel: &mut HandoverChannel) -> Result<Option<&[u8]>, Failure> {
    let received = make_room(channel).and_then(|()| receive_some(channel));
    if let Some((begin, end)) = extract_line(channel, &mut 0) {
        return Ok(channel.bytes.get(begin..end));
    }
    match received {
        Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) if wait::clock() < channel.due_ns => Ok(None),
        Ok(()) | Err(Errno::EAGAIN | Errno::EINTR) => Err(fail(channel, Errno::ETIMEDOUT)),
        Err(error) => Err(fail(channel, error)),
    }
}

/// Returns the first received descriptor that was not claimed yet.
pub fn claim(channel: &mut HandoverChannel) -> Option<OwnedFd> {
    channel.fds.pop_front()
}
