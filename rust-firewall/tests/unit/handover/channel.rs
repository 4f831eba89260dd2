// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests lines and descriptors between the two ends of a channel.

use std::fs::File;
use std::io::IoSlice;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread;

use nix::fcntl::{fcntl, FcntlArg, FdFlag};
use nix::sys::socket::{sendmsg, ControlMessage, MsgFlags};
use nix::sys::stat::fstat;
use rust_firewall::handover::channel::{
    claim, last_line, line, line_if_any, open, send, HandoverChannel, FDS_MAX, LINE_BYTES,
};

const LONG_MS: u32 = 10000;
const SHORT_MS: u32 = 50;
/// Number of bytes, larger than a socket's buffer.
const MUCH: usize = 250_000;

const ENDED: &str = "the old firewall ended the upgrade: see its log, and try again";
const SILENT: &str = "the old firewall does not continue the upgrade: see its log, and try again";
const STRANGE: &str =
    "the old firewall sent an unexpected message: check that it is a Twinwall firewall";

/// Returns both ends of a channel: the new firewall's end (its peer is "old"), and the old firewall's end (its peer is
/// "new").
fn ends(timeout_ms: u32) -> (HandoverChannel, HandoverChannel) {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    (
        open(ours.into(), "old", timeout_ms),
        open(theirs.into(), "new", timeout_ms),
    )
}

fn put(channel: &HandoverChannel, text: &str, fd: Option<BorrowedFd>) {
    send(channel, text, fd).expect("room");
}

fn next(channel: &mut HandoverChannel) -> String {
    String::from_utf8(line(channel).expect("a line").to_vec()).expect("text")
}

fn why(channel: &mut HandoverChannel) -> String {
    line(channel).expect_err("no line").text
}

#[test]
fn lines_come_one_by_one() {
    let (mut ours, theirs) = ends(LONG_MS);
    put(&theirs, "one\ntwo\n\nth", None);
    assert_eq!(next(&mut ours), "one");
    assert_eq!(next(&mut ours), "two");
    assert_eq!(next(&mut ours), "");
    put(&theirs, "ree\n", None);
    assert_eq!(next(&mut ours), "three");
}

#[test]
fn descriptors_come_in_order() {
    let (mut ours, theirs) = ends(LONG_MS);
    let files = ["/dev/null", "/dev/zero", "/proc/self/exe"].map(|path| File::open(path).unwrap());
    put(&theirs, "state\n", None);
    for file in &files {
        put(&theirs, "line\n", Some(file.as_fd()));
    }
    assert_eq!(next(&mut ours), "state");
    for file in &files {
        assert_eq!(next(&mut ours), "line");
        let fd = claim(&mut ours).expect("a descriptor");
        let (came, sent) = (fstat(&fd).unwrap(), fstat(file).unwrap());
        assert_eq!((came.st_dev, came.st_ino), (sent.st_dev, sent.st_ino));
        let flags = fcntl(&fd, FcntlArg::F_GETFD).unwrap();
        assert_eq!(flags, FdFlag::FD_CLOEXEC.bits());
    }
    assert!(claim(&mut ours).is_none());
}

#[test]
fn a_long_line_comes_whole() {
    let (mut ours, theirs) = ends(LONG_MS);
    let sender = thread::spawn(move || {
        let text = "a".repeat(MUCH) + "\n";
        put(&theirs, &text, Some(std::io::stderr().as_fd()));
    });
    assert_eq!(next(&mut ours).len(), MUCH);
    sender.join().expect("all is sent");
    assert!(claim(&mut ours).is_some());
}

#[test]
fn a_line_without_end_is_strange() {
    let (mut ours, theirs) = ends(LONG_MS);
    let sender = thread::spawn(move || {
        // The send may fail: the reader stops at LINE_BYTES.
        let _ = send(&theirs, &"a".repeat(LINE_BYTES + MUCH), None);
    });
    assert_eq!(why(&mut ours), STRANGE);
    drop(ours);
    sender.join().expect("no panic");
}

#[test]
fn who_does_not_wait_hears_whole_lines_only() {
    let (mut ours, theirs) = ends(LONG_MS);
    let mut heard = || {
        line_if_any(&mut ours)
            .expect("a connection")
            .map(<[u8]>::to_vec)
    };
    assert_eq!(heard(), None);
    put(&theirs, "com", None);
    assert_eq!(heard(), None);
    put(&theirs, "mit\ntwo\n", None);
    assert_eq!(heard(), Some(b"commit".to_vec()));
    assert_eq!(heard(), Some(b"two".to_vec()));
    assert_eq!(heard(), None);
    drop(theirs);
    assert_eq!(line_if_any(&mut ours).expect_err("an end").text, ENDED);
    let (mut late, _theirs) = ends(0);
    assert_eq!(line_if_any(&mut late).expect_err("silence").text, SILENT);
}

#[test]
fn a_last_line_is_received_or_not_sent() {
    let (mut ours, theirs) = ends(0);
    put(&theirs, "in time\n", None);
    assert_eq!(last_line(&mut ours).expect("a line"), b"in time");
    let (mut ours, theirs) = ends(SHORT_MS);
    put(&theirs, "no end", None);
    assert_eq!(last_line(&mut ours).expect_err("silence").text, SILENT);
    let failed = send(&theirs, "\n", None).expect_err("an end");
    assert_eq!(
        failed.text,
        "the new firewall ended the upgrade: see its log, and try again"
    );
}

#[test]
fn an_end_is_told() {
    let (mut ours, theirs) = ends(LONG_MS);
    put(&theirs, "no end", Some(std::io::stderr().as_fd()));
    drop(theirs);
    assert_eq!(why(&mut ours), ENDED);
}

#[test]
fn silence_is_told() {
    let (mut ours, theirs) = ends(SHORT_MS);
    put(&theirs, "no end", None);
    assert_eq!(why(&mut ours), SILENT);
}

/// Checks that sending fails if the other end reads nothing.
#[test]
fn a_full_socket_is_told() {
    let (ours, _theirs) = ends(SHORT_MS);
    let failed = send(&ours, &"a".repeat(MUCH), None).expect_err("a full socket");
    assert_eq!(failed.text, SILENT);
}

#[test]
fn two_descriptors_at_a_time_are_strange() {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    let mut ours = open(ours.into(), "old", LONG_MS);
    let fds = [theirs.as_raw_fd(); 2];
    let rights = [ControlMessage::ScmRights(&fds)];
    let line = [IoSlice::new(b"line\n")];
    let sent = sendmsg::<()>(theirs.as_raw_fd(), &line, &rights, MsgFlags::empty(), None);
    assert_eq!(sent, Ok(5));
    assert_eq!(why(&mut ours), STRANGE);
}

#[test]
fn too_many_descriptors_are_strange() {
    let (mut ours, theirs) = ends(LONG_MS);
    let sender = thread::spawn(move || {
        for _ in 0..=FDS_MAX {
            put(&theirs, "x", Some(std::io::stderr().as_fd()));
        }
    });
    assert_eq!(why(&mut ours), STRANGE);
    sender.join().expect("all is sent");
}
