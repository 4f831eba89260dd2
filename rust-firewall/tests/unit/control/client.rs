// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of a client of the control socket: the lines that it sends, and the answer that it must read.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use nix::errno::Errno;
use nix::poll::PollFlags;
use rust_firewall::control;
use rust_firewall::control::client::{ControlClient, ControlLine, LINE_BYTES, READ_MS};
use rust_firewall::control::proof::Proof;

/// Number of bytes that the buffers of both ends of a socket can't hold.
const LARGE_BYTES: usize = 4 << 20;

/// A client, and the other end of its connection.
struct Both {
    client: ControlClient,
    peer: UnixStream,
}

fn open_both() -> Both {
    let (own, peer) = UnixStream::pair().expect("a pair of sockets");
    own.set_nonblocking(true).expect("a socket");
    Both {
        client: control::client::make(OwnedFd::from(own), 0, Proof { pid: 1, number: 1 }),
        peer,
    }
}

fn say(both: &mut Both, text: &[u8]) {
    both.peer.write_all(text).expect("room");
    control::client::receive(&mut both.client).expect("a connection");
}

/// Checks that the client's first line is `expected`, and removes it.
#[track_caller]
fn assert_line(both: &mut Both, expected: &[u8]) {
    let line = control::client::line(&mut both.client);
    assert_eq!(line, ControlLine::Whole(expected.to_vec()));
}

#[track_caller]
fn assert_no_line(both: &mut Both, expected: &ControlLine) {
    assert_eq!(control::client::line(&mut both.client), *expected);
}

#[test]
fn gives_lines_one_at_a_time() {
    let mut both = open_both();
    assert_no_line(&mut both, &ControlLine::None);
    assert_eq!(control::client::events(&both.client), PollFlags::POLLIN);
    assert_eq!(control::client::timeout(&both.client, 0), None);
    say(&mut both, b"a\nbb\n\nc");
    assert_eq!(control::client::events(&both.client), PollFlags::empty());
    assert_eq!(control::client::timeout(&both.client, 0), Some(0));
    assert_line(&mut both, b"a");
    assert_line(&mut both, b"bb");
    assert_line(&mut both, b"");
    assert_no_line(&mut both, &ControlLine::None);
    assert_eq!(control::client::events(&both.client), PollFlags::POLLIN);
    say(&mut both, b"c\n");
    assert_line(&mut both, b"cc");
}

#[test]
fn tells_a_line_that_was_cut() {
    let mut both = open_both();
    say(&mut both, b"a\nb");
    both.peer.shutdown(Shutdown::Write).expect("a connection");
    control::client::receive(&mut both.client).expect("a connection");
    assert!(both.client.ended);
    assert_eq!(control::client::timeout(&both.client, 0), Some(0));
    assert_line(&mut both, b"a");
    assert_no_line(&mut both, &ControlLine::Cut);
}

#[test]
fn tells_an_end_between_lines() {
    let mut both = open_both();
    say(&mut both, b"a\n");
    both.peer.shutdown(Shutdown::Write).expect("a connection");
    control::client::receive(&mut both.client).expect("a connection");
    assert_line(&mut both, b"a");
    assert_no_line(&mut both, &ControlLine::None);
    assert!(both.client.ended);
}

/// Sends `bytes` bytes x and then the text `end` from the other end of the connection. The client receives all of them.
fn say_long(both: &mut Both, bytes: usize, end: &[u8]) {
    for piece in vec![b'x'; bytes].chunks(1024) {
        say(both, piece);
    }
    say(both, end);
}

#[test]
fn takes_the_longest_line() {
    let mut both = open_both();
    say_long(&mut both, LINE_BYTES - 1, b"\n");
    assert_line(&mut both, &vec![b'x'; LINE_BYTES - 1]);
}

#[test]
fn tells_a_line_that_is_too_long() {
    let mut both = open_both();
    say_long(&mut both, LINE_BYTES - 1, b"x");
    assert_no_line(&mut both, &ControlLine::TooLong);
    // The client's buffer has no room for this line end.
    say(&mut both, b"\n");
    assert_no_line(&mut both, &ControlLine::TooLong);
}

#[test]
fn sends_an_answer_and_takes_nothing_meanwhile() {
    let mut both = open_both();
    let mut text = [0; 16];
    control::client::answer(&mut both.client, "answer\n".to_owned(), 100);
    assert_eq!(control::client::events(&both.client), PollFlags::POLLOUT);
    say(&mut both, b"a\n");
    assert_no_line(&mut both, &ControlLine::None);
    control::client::send_answer(&mut both.client, 100).expect("a connection");
    assert!(!control::client::is_answered(&both.client));
    let read = both.peer.read(&mut text).expect("an answer");
    assert_eq!(&text[..read], b"answer\n");
    control::client::receive(&mut both.client).expect("a connection");
    assert_line(&mut both, b"a");
}

/// Tests the time limit of an answer: after the other end has read a part of the answer, it has another ten seconds.
#[test]
fn gives_up_on_who_does_not_read() {
    let mut both = open_both();
    let client = &mut both.client;
    let mut sink = vec![0; LARGE_BYTES];
    control::client::answer(client, "x".repeat(LARGE_BYTES), 0);
    assert_eq!(control::client::send_answer(client, 1000), Ok(()));
    assert_eq!(control::client::timeout(client, 1000), Some(READ_MS));
    assert_eq!(
        control::client::send_answer(client, 1000 + READ_MS - 1),
        Ok(())
    );
    assert!(both.peer.read(&mut sink).expect("some of it") > 0);
    assert_eq!(control::client::send_answer(client, 1000 + READ_MS), Ok(()));
    let timeout = control::client::timeout(client, 2000 + READ_MS);
    assert_eq!(timeout, Some(READ_MS - 1000));
    let timeout = control::client::timeout(client, 5000 + 2 * READ_MS);
    assert_eq!(timeout, Some(0));
    let late = control::client::send_answer(client, 1000 + 2 * READ_MS);
    assert_eq!(late, Err(Errno::ETIMEDOUT));
}

#[test]
fn tells_a_broken_connection() {
    let mut both = open_both();
    both.peer.shutdown(Shutdown::Both).expect("a connection");
    control::client::answer(&mut both.client, "answer\n".to_owned(), 0);
    let broken = control::client::send_answer(&mut both.client, 0);
    assert_eq!(broken, Err(Errno::EPIPE));
}
