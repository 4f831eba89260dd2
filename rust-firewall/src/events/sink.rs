// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close connect fcntl newfstatat openat poll pread64 recvfrom sendto socket statx write
//! Sinks of events: a file, stdout, a Unix socket, or a client that follows. A sink can block only the events thread.
//! Lines without room are counted, and a sink's change of state is reported once.
//!
//! Theory of operation: lines are added to `EventsLines::pending` under the lock of events. When the thread has written
//! `EventsSink::writing`, it swaps the two, and writes without the lock. The rest of a partly written line is written
//! to the same file or connection; if that is closed, the complete line is written again.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{openat, OFlag};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{
    connect, recv, send, socket, AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr,
};
use nix::sys::stat::{fstat, FileStat, Mode, SFlag};
use nix::sys::uio::pread;
use nix::unistd::write;

use crate::base::counts::{self, Count};
use crate::base::log::{self, failure_set, strerror, Failure, LogExit};
use crate::privilege;

/// Size of each of the two buffers of a sink, in bytes: for pending lines, and for lines that are being written.
pub const ROOM: usize = 1 << 20;
/// Size of each of a client's two buffers, in bytes.
pub const ROOM_TAIL: usize = 1 << 18;
const FILE_MODE: Mode = Mode::from_bits_truncate(0o640);
const RETRY_NS: u64 = 1_000_000_000;
const UNIX_PREFIX: &str = "unix:";
/// Number of bytes that a writable pipe accepts at once.
const PIPE_BYTES: usize = libc::PIPE_BUF;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsSinkKind {
    /// A file, a pipe or a device.
    File,
    Stdout,
    Unix,
    Tail,
}

/// Lines that wait to be written to a sink, guarded by the lock of events.
pub struct EventsLines {
    room: usize,
    pending: Vec<u8>,
    /// Number of lost lines; includes events lost in the rings if their report had no room.
    pub lost: u64,
    /// Part of `lost` that an event has already reported.
    pub lost_told: u64,
}

/// State of a sink that only the events thread uses.
pub struct EventsSink {
    pub kind: EventsSinkKind,
    /// Path of the file or socket; for stdout and clients, a name for messages.
    pub path: String,
    /// Descriptor; None = stdout, or not open: the next attempt is at retry_ns.
    fd: Option<Arc<OwnedFd>>,
    writing: Vec<u8>,
    /// Number of bytes in writing that have been written.
    written: usize,
    /// True if the sink accepted no more lines at the last attempt.
    blocked: bool,
    /// True if the sink accepts no lines or has lost lines, and this has been logged (not for a client).
    troubled: bool,
    /// Number of lost lines when the sink was last without trouble. A higher number means new losses.
    lost_then: u64,
    /// Time of the next attempt to write after an error.
    retry_ns: u64,
}

/// Creates an empty buffer of lines.
/// - room: its size in bytes.
pub fn lines_make(room: usize) -> EventsLines {
    EventsLines {
        room,
        pending: Vec::with_capacity(room),
        lost: 0,
        lost_told: 0,
    }
}

/// Returns true if there is room for a line.
pub fn has_room(lines: &EventsLines, line: &[u8]) -> bool {
    line.len() <= lines.room.saturating_sub(lines.pending.len())
}

/// Exchanges the pending lines with a buffer of lines that have been written; the written lines are removed. None =
/// exchanges nothing. Returns the number of lost lines so far.
pub fn swap(lines: &mut EventsLines, written: Option<&mut Vec<u8>>) -> u64 {
    if let Some(written) = written {
        written.clear();
        mem::swap(&mut lines.pending, written);
    }
    lines.lost
}

/// Adds a line end to a file that ends within a line, because a killed firewall may have written a part of a line.
fn end_last_line(folder: &OwnedFd, name: &str, fd: &OwnedFd) {
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
    let Ok(file) = openat(folder, name, flags, Mode::empty()) else {
        return;
    };
    let Ok(found) = fstat(&file) else {
        return;
    };
    let mut last = [b'\n'];
    if is_regular(&found)
        && found.st_size > 0
        && pread(&file, &mut last, found.st_size - 1) == Ok(1)
        && last != [b'\n']
    {
        let _ = write(fd, b"\n"); // an error is reported when a line is written
    }
}

/// Opens or creates a file with the rights of the firewall's user. Does not follow a link that other users could have
/// created.
fn open_file(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlag::O_WRONLY
        | OFlag::O_APPEND
        | OFlag::O_CREAT
        | OFlag::O_CLOEXEC
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY;
    let (folder, name) = privilege::path::folder(path)?;
    let fd = openat(&folder, name, flags | OFlag::O_NOFOLLOW, FILE_MODE)?;
    end_last_line(&folder, name, &fd);
    Ok(fd)
}

/// Returns the text for an error of a sink's file or socket.
fn reason(error: Errno) -> String {
    match error {
        Errno::ELOOP => "it is a link, or others could redirect it by one".to_owned(),
        error => strerror(error),
    }
}

fn open_socket(path: &str) -> Result<OwnedFd, Errno> {
    let address = UnixAddr::new(path)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &address)?;
    Ok(fd)
}

fn reopen(sink: &EventsSink) -> Result<Arc<OwnedFd>, Errno> {
    let fd = match sink.kind {
        EventsSinkKind::Unix => open_socket(&sink.path),
        _ => open_file(&sink.path),
    };
    fd.map(Arc::new)
}

/// Logs that a sink accepts no events or loses events, once until it accepts events again. Logs nothing for a client.
/// - what: reason.
fn begin_trouble(sink: &mut EventsSink, what: &str) {
    if mem::replace(&mut sink.troubled, true) || sink.kind == EventsSinkKind::Tail {
        return;
    }
    log::warn(format_args!(
        "events: {}: {what}: events are kept as far as there is room, then counted",
        sink.path
    ));
}

fn end_trouble(sink: &mut EventsSink, lost: u64) {
    if !mem::take(&mut sink.troubled) {
        return;
    }
    if sink.kind != EventsSinkKind::Tail {
        log::warn(format_args!(
            "events: {} takes events again: {} were lost",
            sink.path,
            lost - sink.lost_then
        ));
    }
    sink.lost_then = lost;
}

fn make(kind: EventsSinkKind, path: &str, fd: Option<OwnedFd>, room: usize) -> EventsSink {
    EventsSink {
        kind,
        path: path.to_owned(),
        fd: fd.map(Arc::new),
        writing: Vec::with_capacity(room),
        written: 0,
        blocked: false,
        troubled: false,
        lost_then: 0,
        retry_ns: 0,
    }
}

/// Opens the destination of --events.
/// - inherited: descriptor of the file from the old firewall; None = none.
pub fn open(place: &str, inherited: Option<OwnedFd>) -> Result<EventsSink, Failure> {
    if place == "-" {
        return Ok(make(EventsSinkKind::Stdout, "stdout", None, ROOM));
    }
    let (kind, path) = match place.strip_prefix(UNIX_PREFIX) {
        Some(path) => (EventsSinkKind::Unix, path),
        None => (EventsSinkKind::File, place),
    };
    let mut sink = make(kind, path, inherited, ROOM);
    if sink.fd.is_none() {
        match reopen(&sink) {
            Ok(fd) => sink.fd = Some(fd),
            // A reader of the socket or pipe may come later.
            Err(error) if kind == EventsSinkKind::Unix || error == Errno::ENXIO => {
                begin_trouble(&mut sink, &reason(error));
            }
            Err(error) => {
                let text = reason(error);
                return Err(failure_set(
                    LogExit::Usage,
                    format_args!(
                        "--events {path}: {text}: name a file that the firewall's user (--user) \
                         can write, in a folder that is there"
                    ),
                ));
            }
        }
    }
    Ok(sink)
}

/// Returns the descriptor of the sink's file; None if the sink is no file, or is not open.
pub fn file(sink: &EventsSink) -> Option<Arc<OwnedFd>> {
    let fd = sink.fd.as_ref();
    fd.filter(|_| sink.kind == EventsSinkKind::File).cloned()
}

/// Creates a sink for a client.
pub fn client(fd: OwnedFd) -> EventsSink {
    make(EventsSinkKind::Tail, "tail", Some(fd), ROOM_TAIL)
}

/// Adds a line, or counts it as lost. Returns true if there was room.
pub fn append(lines: &mut EventsLines, line: &[u8]) -> bool {
    if !has_room(lines, line) {
        lines.lost += 1;
        return false;
    }
    lines.pending.extend_from_slice(line);
    true
}

/// Returns the descriptor of an open file or socket; None if the sink is stdout, or is not open.
pub fn fd(sink: &EventsSink) -> Option<BorrowedFd<'_>> {
    sink.fd.as_ref().map(AsFd::as_fd)
}

/// Returns the offset in `writing` of the first line that is not completely written.
fn line_start(sink: &EventsSink) -> usize {
    let written = sink.writing.get(..sink.written).unwrap_or_default();
    let end = written.iter().rposition(|&byte| byte == b'\n');
    end.map_or(0, |end| end + 1)
}

/// Resets `written` to the start of the partly written line, so that the line is written again.
fn again(sink: &mut EventsSink) {
    sink.written = line_start(sink);
}

/// Logs an error of a sink, and sets the time of the next attempt. Closes a connection or a broken pipe, but no file.
fn fail(sink: &mut EventsSink, error: Errno, now_ns: u64) {
    begin_trouble(sink, &reason(error));
    sink.retry_ns = now_ns + RETRY_NS;
    // A file stays open until its disk has space; connections and broken pipes are closed.
    if matches!(sink.kind, EventsSinkKind::Unix | EventsSinkKind::Tail) || error == Errno::EPIPE {
        sink.fd = None;
        again(sink);
    }
}

fn to_write(sink: &EventsSink) -> &[u8] {
    sink.writing.get(sink.written..).unwrap_or_default()
}

/// Returns complete lines, as many as a writable pipe accepts at once; or a single longer line, whose write may block
/// the thread.
fn portion(sink: &EventsSink) -> &[u8] {
    let left = to_write(sink);
    let Some(fits) = left.get(..PIPE_BYTES) else {
        return left;
    };
    let end = fits.iter().rposition(|&byte| byte == b'\n');
    let end = end.or_else(|| left.iter().position(|&byte| byte == b'\n'));
    end.and_then(|end| left.get(..=end)).unwrap_or(left)
}

/// Writes complete lines to stdout, where other threads print reports under the same lock. A partly written line is
/// ended and begun again, because a report may have followed.
fn write_stdout(sink: &mut EventsSink) -> Result<usize, Errno> {
    let out = io::stdout();
    let mut polled = [PollFd::new(out.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut polled, PollTimeout::ZERO) == Ok(0) {
        return Err(Errno::EAGAIN);
    }
    let out = out.lock();
    if line_start(sink) != sink.written {
        write(out.as_fd(), b"\n")?;
    }
    again(sink);
    write(out.as_fd(), portion(sink))
}

fn write_some(sink: &mut EventsSink) -> Result<usize, Errno> {
    if sink.kind == EventsSinkKind::Stdout {
        return write_stdout(sink);
    }
    let Some(fd) = &sink.fd else {
        return Err(Errno::EBADF);
    };
    match sink.kind {
        EventsSinkKind::File | EventsSinkKind::Stdout => write(fd, to_write(sink)),
        EventsSinkKind::Unix | EventsSinkKind::Tail => send(
            fd.as_raw_fd(),
            to_write(sink),
            MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL,
        ),
    }
}

fn lines_of(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Counts the lines that were written since an offset, except for lines to clients.
fn count(sink: &EventsSink, from: usize) {
    if sink.kind != EventsSinkKind::Tail {
        let written = sink.writing.get(from..sink.written).unwrap_or_default();
        counts::add(Count::EventsWritten, lines_of(written));
    }
}

fn is_regular(found: &FileStat) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}

/// Returns true if a file was deleted, so that no program can open it any more.
fn is_deleted(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|found| found.st_nlink == 0 && is_regular(&found))
}

/// Opens a sink that is not open, or whose file was deleted. Returns true if it can be written to.
fn is_open(sink: &mut EventsSink, now_ns: u64) -> bool {
    match sink.kind {
        EventsSinkKind::Stdout => return true,
        EventsSinkKind::Tail => return sink.fd.is_some(),
        EventsSinkKind::File if sink.fd.as_ref().is_some_and(|fd| is_deleted(fd)) => {
            sink.fd = None;
            again(sink);
        }
        EventsSinkKind::File | EventsSinkKind::Unix => {}
    }
    if sink.fd.is_none() {
        match reopen(sink) {
            Ok(fd) => sink.fd = Some(fd),
            Err(error) => fail(sink, error, now_ns),
        }
    }
    sink.fd.is_some()
}

/// Swaps in the pending lines if all earlier lines have been written. Returns true if there is something to write.
/// - swap: calls `swap` under the lock.
fn swap_in(sink: &mut EventsSink, swap: &mut dyn FnMut(Option<&mut Vec<u8>>) -> u64) -> bool {
    if sink.written < sink.writing.len() {
        return true;
    }
    swap(Some(&mut sink.writing));
    sink.written = 0;
    !sink.writing.is_empty()
}

/// Writes lines until the sink accepts no more at once. Only a disk, or a long line on stdout, may block the thread.
/// - swap: calls `swap` under the lock.
pub fn flush(
    sink: &mut EventsSink,
    swap: &mut dyn FnMut(Option<&mut Vec<u8>>) -> u64,
    now_ns: u64,
) {
    sink.blocked = false;
    while now_ns >= sink.retry_ns && swap_in(sink, swap) && is_open(sink, now_ns) {
        let from = sink.written;
        match write_some(sink) {
            Ok(written) => {
                sink.written += written;
                count(sink, from);
            }
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                sink.blocked = true;
                break;
            }
            Err(error) => {
                fail(sink, error, now_ns);
                break;
            }
        }
    }
    let lost = swap(None);
    if lost > sink.lost_then {
        begin_trouble(sink, "it takes them too slowly");
    }
    let is_open = sink.fd.is_some() || sink.kind == EventsSinkKind::Stdout;
    if sink.written == sink.writing.len() && is_open {
        end_trouble(sink, lost);
    }
}

/// Reopens the sink's file, which may have been renamed. If that fails, the old file stays in use.
pub fn rotate(sink: &mut EventsSink) {
    if sink.kind != EventsSinkKind::File {
        return;
    }
    match open_file(&sink.path) {
        Ok(fd) => {
            sink.fd = Some(Arc::new(fd));
            again(sink);
            sink.retry_ns = 0;
        }
        Err(error) => log::warn(format_args!(
            "events: {}: {}: it could not be reopened, the old file stays in use",
            sink.path,
            reason(error)
        )),
    }
}

/// Checks whether a connection is closed. Afterwards a client whose connection is closed or broken has no descriptor.
pub fn look(sink: &mut EventsSink, now_ns: u64) {
    let Some(fd) = sink.fd.as_ref().filter(|_| is_socket(sink)) else {
        return;
    };
    // Received bytes are ignored.
    let mut said = [0; 256];
    match recv(fd.as_raw_fd(), &mut said, MsgFlags::MSG_DONTWAIT) {
        Ok(0) => fail(sink, Errno::EPIPE, now_ns),
        Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => {}
        Err(error) => fail(sink, error, now_ns),
    }
}

fn is_socket(sink: &EventsSink) -> bool {
    matches!(sink.kind, EventsSinkKind::Unix | EventsSinkKind::Tail)
}

/// Returns the poll flags for the sink's descriptor.
pub fn events(sink: &EventsSink) -> PollFlags {
    let mut flags = PollFlags::empty();
    if is_socket(sink) {
        flags |= PollFlags::POLLIN;
    }
    if sink.blocked {
        flags |= PollFlags::POLLOUT;
    }
    flags
}

/// Returns the number of lines in writing that have not been written.
pub fn left(sink: &EventsSink) -> u64 {
    lines_of(to_write(sink))
}

/// Returns the number of pending lines.
pub fn lines_left(lines: &EventsLines) -> u64 {
    lines_of(&lines.pending)
}
