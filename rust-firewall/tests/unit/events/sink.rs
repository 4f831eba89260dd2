// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests sinks of events with a simulated clock: files, pipes, listeners and clients that are full, fail, disappear and
//! reappear.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};

use crate::support::place::Place;
use nix::poll::PollFlags;
use nix::sys::stat::Mode;
use nix::unistd::{dup2_raw, mkfifo};
use rust_firewall::base::counts::{self, Count};
use rust_firewall::base::log::LogExit;
use rust_firewall::events;
use rust_firewall::events::sink::{EventsLines, EventsSink, ROOM, ROOM_TAIL};

const SECOND: u64 = 1_000_000_000;
const LINE: &[u8] = b"0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab\n";

struct Made {
    sink: EventsSink,
    lines: EventsLines,
    now_ns: u64,
}

impl Made {
    fn new(sink: EventsSink, room: usize) -> Made {
        Made {
            sink,
            lines: events::sink::lines_make(room),
            now_ns: 5 * SECOND,
        }
    }

    fn open(events: &str) -> Made {
        Made::new(events::sink::open(events, None).unwrap(), ROOM)
    }

    fn put(&mut self, line: &[u8]) {
        assert!(events::sink::append(&mut self.lines, line));
    }

    fn flush(&mut self) {
        let lines = &mut self.lines;
        let mut swap = |written: Option<&mut Vec<u8>>| events::sink::swap(lines, written);
        events::sink::flush(&mut self.sink, &mut swap, self.now_ns);
    }

    fn left(&self) -> u64 {
        events::sink::left(&self.sink) + events::sink::lines_left(&self.lines)
    }
}

/// Reads all bytes that can be read without blocking. Returns their number.
fn read_all(from: &mut impl Read, bytes: &mut Vec<u8>) -> usize {
    let before = bytes.len();
    match from.read_to_end(bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
    }
    bytes.len() - before
}

#[test]
fn a_file_is_added_to_and_a_cut_line_gets_its_end() {
    let place = Place::new("sink-added");
    let path = place.path("events");
    fs::write(&path, "whole\nhal").unwrap();
    let mut made = Made::open(&path);
    made.put(b"one\n");
    made.put(b"two\n");
    assert_eq!(made.left(), 2);
    let written = counts::get(Count::EventsWritten);
    made.flush();
    assert_eq!(made.left(), 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "whole\nhal\none\ntwo\n");
    assert!(counts::get(Count::EventsWritten) >= written + 2);
}

#[test]
fn a_new_file_is_for_its_group_to_read() {
    let place = Place::new("sink-new");
    let path = place.path("events");
    Made::open(&path);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_file_that_was_moved_is_opened_anew_at_a_line() {
    let place = Place::new("sink-moved");
    let (path, moved) = (place.path("events"), place.path("events.1"));
    let mut made = Made::open(&path);
    made.put(b"one\n");
    made.flush();
    made.put(b"two\n");
    fs::rename(&path, &moved).unwrap();
    events::sink::rotate(&mut made.sink);
    made.flush();
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
    assert_eq!(fs::read_to_string(&moved).unwrap(), "one\n");
}

#[test]
fn a_deleted_file_is_made_again() {
    let place = Place::new("sink-deleted");
    let path = place.path("events");
    let mut made = Made::open(&path);
    made.put(b"one\n");
    made.flush();
    fs::remove_file(&path).unwrap();
    made.put(b"two\n");
    made.flush();
    assert_eq!(fs::read_to_string(&path).unwrap(), "two\n");
}

/// Checks that a full pipe does not block, and that a line that was written in part is continued at the right byte.
#[test]
fn a_full_pipe_is_waited_for_and_then_counted() {
    let place = Place::new("sink-pipe");
    let path = place.path("events");
    mkfifo(path.as_str(), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let mut made = Made::open(&path); // no process reads yet
    assert!(events::sink::fd(&made.sink).is_none());
    let mut reader = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
        .unwrap();
    let mut lines = 0;
    while events::sink::append(&mut made.lines, LINE) {
        lines += 1;
        if lines % 1024 == 0 {
            made.flush();
        }
    }
    assert_eq!(made.lines.lost, 1);
    assert_eq!(events::sink::events(&made.sink), PollFlags::POLLOUT);
    let mut bytes = Vec::new();
    while read_all(&mut reader, &mut bytes) > 0 {
        made.flush();
    }
    assert_eq!(bytes.len(), lines * LINE.len());
    assert!(bytes.chunks(LINE.len()).all(|line| line == LINE));
    assert_eq!(events::sink::events(&made.sink), PollFlags::empty());
}

/// Makes the descriptor of a sink refer to another file, so that the sink writes to it.
fn stand_for(made: &Made, file: &str) {
    let other = fs::OpenOptions::new().write(true).open(file).unwrap();
    let own = events::sink::fd(&made.sink).unwrap().as_raw_fd();
    // SAFETY: the descriptor stays owned by the sink, which closes it.
    let same = unsafe { dup2_raw(other, own) }.unwrap();
    std::mem::forget(same);
}

#[test]
fn a_full_disk_is_tried_again_in_a_second() {
    let place = Place::new("sink-full");
    let mut made = Made::open(&place.path("events"));
    stand_for(&made, "/dev/full");
    made.put(b"one\n");
    made.flush();
    assert_eq!(made.left(), 1);
    // There is space again, but the sink does not try before a second has passed.
    stand_for(&made, "/dev/null");
    made.now_ns += SECOND - 1;
    made.flush();
    assert_eq!(made.left(), 1);
    made.now_ns += 1;
    made.flush();
    assert_eq!(made.left(), 0);
}

/// Checks that the sink connects again only after a second if the listener has closed, and then writes a line that the
/// listener received in part again completely.
#[test]
fn a_listener_that_went_is_looked_for_each_second() {
    let place = Place::new("sink-listener");
    let path = place.path("events");
    let accept = |listener: &UnixListener| {
        let (client, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        client
    };
    let mut made = Made::open(&format!("unix:{path}"));
    assert!(events::sink::fd(&made.sink).is_none());
    let listener = UnixListener::bind(&path).unwrap();
    made.put(LINE);
    made.flush();
    let mut client = accept(&listener);
    let mut bytes = Vec::new();
    assert_eq!(read_all(&mut client, &mut bytes), LINE.len());
    for _ in 0..10_000 {
        made.put(LINE);
    }
    made.flush();
    assert!(events::sink::events(&made.sink).contains(PollFlags::POLLOUT));
    // The listener closes with unread bytes.
    drop((client, listener));
    events::sink::look(&mut made.sink, made.now_ns);
    assert!(events::sink::fd(&made.sink).is_none());
    let lines = made.left() as usize;
    assert!(lines > 0);
    fs::remove_file(&path).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    made.flush();
    assert!(events::sink::fd(&made.sink).is_none());
    made.now_ns += SECOND;
    made.flush();
    let mut client = accept(&listener);
    bytes.clear();
    while bytes.len() < lines * LINE.len() {
        read_all(&mut client, &mut bytes);
        made.flush();
    }
    assert!(bytes.chunks(LINE.len()).all(|line| line == LINE));
}

#[test]
fn a_client_that_went_is_seen() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let mut made = Made::new(events::sink::client(OwnedFd::from(ours)), ROOM_TAIL);
    theirs.write_all(b"says what it likes").unwrap();
    events::sink::look(&mut made.sink, made.now_ns);
    assert!(events::sink::fd(&made.sink).is_some());
    assert!(events::sink::file(&made.sink).is_none());
    drop(theirs);
    events::sink::look(&mut made.sink, made.now_ns);
    assert!(events::sink::fd(&made.sink).is_none());
}

#[test]
fn a_file_that_can_not_be_made_is_a_failure() {
    let failure = events::sink::open("/nowhere/events", None).err();
    let failure = failure.unwrap();
    assert_eq!(failure.code, LogExit::Usage);
    assert_eq!(
        failure.text,
        "--events /nowhere/events: No such file or directory: name a file that the firewall's \
         user (--user) can write, in a folder that is there"
    );
}
