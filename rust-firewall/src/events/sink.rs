// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: close connect fcntl newfstatat openat poll pread64 recvfrom sendto socket statx write
//! Where lines of events go: a file, stdout, a listener's Unix socket, or a client that follows. None
//! of them ever keeps anybody waiting but the thread of events; what finds no room is counted, and
//! the state of a sink is told once when it changes.
//!
//! Theory of operation: lines are put into `EventsLines::pending` under the lock of events; the
//! thread swaps it with `EventsSink::writing`, if that has been written, and writes without the lock.
//! A line that was written in part is completed where it began; where that is gone, it is written
//! again as a whole.

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

/// Bytes of lines that wait to be written, and that are being written.
pub const ROOM: usize = 1 << 20;
/// Bytes of room for a client.
pub const ROOM_TAIL: usize = 1 << 18;
const FILE_MODE: Mode = Mode::from_bits_truncate(0o640);
const RETRY_NS: u64 = 1_000_000_000;
const UNIX_PREFIX: &str = "unix:";
/// Bytes that a writable pipe accepts at once.
const PIPE_BYTES: usize = libc::PIPE_BUF;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsSinkKind {
    /// A file, a pipe or a device.
    File,
    Stdout,
    Unix,
    Tail,
}

/// State guarded by the lock.
pub struct EventsLines {
    room: usize,
    pending: Vec<u8>,
    /// Lines that found no room.
    pub lost: u64,
    /// How many of them have been told.
    pub lost_told: u64,
}

/// State of the thread alone.
pub struct EventsSink {
    pub kind: EventsSinkKind,
    /// The path of a file or a socket, as it is told.
    pub path: String,
    /// None = not open: it is tried again at retry_ns.
    fd: Option<Arc<OwnedFd>>,
    writing: Vec<u8>,
    /// Bytes that are written.
    written: usize,
    /// There is more to write than the sink takes at once.
    blocked: bool,
    /// The sink takes no lines, which has been told.
    troubled: bool,
    /// When the trouble began.
    lost_then: u64,
    /// After an error: when it is tried again.
    retry_ns: u64,
}

/// Makes a buffer without lines. room: its size in bytes.
pub fn lines_make(room: usize) -> EventsLines {
    EventsLines {
        room,
        pending: Vec::with_capacity(room),
        lost: 0,
        lost_told: 0,
    }
}

/// Whether a line finds room.
pub fn has_room(lines: &EventsLines, line: &[u8]) -> bool {
    line.len() <= lines.room.saturating_sub(lines.pending.len())
}

/// Swaps the pending lines with the written ones. Returns the number of lines dropped so far.
pub fn swap(lines: &mut EventsLines, written: Option<&mut Vec<u8>>) -> u64 {
    if let Some(written) = written {
        written.clear();
        mem::swap(&mut lines.pending, written);
    }
    lines.lost
}

/// Ends the last line of a file, should the firewall before have died within it.
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
        let _ = write(fd, b"\n"); // what can't be written now is told when a line is
    }
}

/// Opens or creates a file as the program's user; a link that others could have made is not followed.
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

/// Why a file could not be opened.
fn reason(error: Errno) -> String {
    match error {
        Errno::ELOOP => "it is a link, or others could lead it elsewhere by one".to_owned(),
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

/// Reports once that events are lost from now on.
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

/// Opens what --events names. inherited: see `events::open`.
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
            // A reader may come later.
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

/// The descriptor of a file that is open.
pub fn file(sink: &EventsSink) -> Option<Arc<OwnedFd>> {
    let fd = sink.fd.as_ref();
    fd.filter(|_| sink.kind == EventsSinkKind::File).cloned()
}

/// Makes a sink of a client.
pub fn client(fd: OwnedFd) -> EventsSink {
    make(EventsSinkKind::Tail, "tail", Some(fd), ROOM_TAIL)
}

/// Adds a line, or counts that there was no room. Returns whether there was.
pub fn put(lines: &mut EventsLines, line: &[u8]) -> bool {
    if !has_room(lines, line) {
        lines.lost += 1;
        return false;
    }
    lines.pending.extend_from_slice(line);
    true
}

/// The descriptor, if it is a file or a socket that is open.
pub fn fd(sink: &EventsSink) -> Option<BorrowedFd<'_>> {
    sink.fd.as_ref().map(AsFd::as_fd)
}

/// The place where the line begins that has been written in part.
fn line_start(sink: &EventsSink) -> usize {
    let written = sink.writing.get(..sink.written).unwrap_or_default();
    let end = written.iter().rposition(|&byte| byte == b'\n');
    end.map_or(0, |end| end + 1)
}

/// A partly written line is written again as a whole.
fn again(sink: &mut EventsSink) {
    sink.written = line_start(sink);
}

/// Notes what went wrong; it is tried again later.
fn fail(sink: &mut EventsSink, error: Errno, now_ns: u64) {
    begin_trouble(sink, &reason(error));
    sink.retry_ns = now_ns + RETRY_NS;
    // A full disk is waited for; other ends are gone.
    if matches!(sink.kind, EventsSinkKind::Unix | EventsSinkKind::Tail) || error == Errno::EPIPE {
        sink.fd = None;
        again(sink);
    }
}

fn to_write(sink: &EventsSink) -> &[u8] {
    sink.writing.get(sink.written..).unwrap_or_default()
}

/// Whole lines, as many as a pipe that can be written to takes at once; or one that is longer, whose
/// reader is waited for.
fn portion(sink: &EventsSink) -> &[u8] {
    let left = to_write(sink);
    let Some(fits) = left.get(..PIPE_BYTES) else {
        return left;
    };
    let end = fits.iter().rposition(|&byte| byte == b'\n');
    let end = end.or_else(|| left.iter().position(|&byte| byte == b'\n'));
    end.and_then(|end| left.get(..=end)).unwrap_or(left)
}

/// Writes whole lines between the reports, which are printed under the same lock. A line that was
/// written in part is ended and begun anew, since a report may have followed.
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

/// Counts the lines that were written.
fn count(sink: &EventsSink, from: usize) {
    if sink.kind != EventsSinkKind::Tail {
        let written = sink.writing.get(from..sink.written).unwrap_or_default();
        counts::add(Count::EventsWritten, lines_of(written));
    }
}

fn is_regular(found: &FileStat) -> bool {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == SFlag::S_IFREG
}

/// Whether a file was deleted: nobody would ever read it.
fn is_deleted(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|found| found.st_nlink == 0 && is_regular(&found))
}

/// Opens what is not open, or what is no longer there. Returns whether it can be written to.
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

/// Takes over the pending lines if all earlier ones have been written. swap: `swap`, under
/// the lock. Returns whether there is something to write.
fn take(sink: &mut EventsSink, swap: &mut dyn FnMut(Option<&mut Vec<u8>>) -> u64) -> bool {
    if sink.written < sink.writing.len() {
        return true;
    }
    swap(Some(&mut sink.writing));
    sink.written = 0;
    !sink.writing.is_empty()
}

/// Writes what can be written without waiting.
pub fn flush(
    sink: &mut EventsSink,
    swap: &mut dyn FnMut(Option<&mut Vec<u8>>) -> u64,
    now_ns: u64,
) {
    sink.blocked = false;
    while now_ns >= sink.retry_ns && take(sink, swap) && is_open(sink, now_ns) {
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

/// Opens a file anew.
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
            "events: {}: {}: it could not be opened anew, the old file goes on",
            sink.path,
            reason(error)
        )),
    }
}

/// Checks whether the other end is still there. A client that is not, and one that could not be
/// written to, has no descriptor then.
pub fn look(sink: &mut EventsSink, now_ns: u64) {
    let Some(fd) = sink.fd.as_ref().filter(|_| is_socket(sink)) else {
        return;
    };
    // Its content does not matter.
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

/// Events to poll the descriptor for.
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

/// Lines that were taken over and not written.
pub fn left(sink: &EventsSink) -> u64 {
    lines_of(to_write(sink))
}

/// Lines that wait.
pub fn lines_left(lines: &EventsLines) -> u64 {
    lines_of(&lines.pending)
}
