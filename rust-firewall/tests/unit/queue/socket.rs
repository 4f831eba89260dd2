// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the arena and of receiving, with datagram sockets in place of a netlink socket.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::Instant;

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rust_firewall::queue::socket::{
    arena, bound_wait, fd, forget_fd, init, keep, message, receive, receive_call, set_buffer,
    set_fd, slot_bytes, slot_offset, QueueSocket, SLOT_ALIGN,
};

#[test]
fn a_slot_holds_the_copy_and_the_overhead() {
    assert_eq!(slot_bytes(0), 512);
    assert_eq!(slot_bytes(1), 576);
    assert_eq!(slot_bytes(64), 576);
    assert_eq!(slot_bytes(128), 640);
    assert_eq!(slot_bytes(65535), 66048);
    assert!((0..=65535).all(|copy_bytes| slot_bytes(copy_bytes) % SLOT_ALIGN == 0));
}

#[test]
fn a_kept_message_stands_in_the_first_slot() {
    for batch in [1, 4] {
        let mut socket = init(batch, 64).unwrap();
        keep(&mut socket, b"message");
        assert_eq!(message(&socket, 0).bytes, b"message");
        assert!(!message(&socket, 0).truncated);
        keep(&mut socket, &[7; 100]);
        assert_eq!(message(&socket, 0).bytes, [7; 64]);
    }
}

#[test]
fn nothing_beyond_the_arena_is_read() {
    let socket = init(4, 64).unwrap();
    assert_eq!(slot_offset(&socket, 3), 192);
    assert_eq!(arena(&socket, 192, 64).len(), 64);
    assert_eq!(arena(&socket, 192, 65).len(), 0);
    assert_eq!(arena(&socket, usize::MAX, 1).len(), 0);
    assert_eq!(message(&socket, 4).bytes.len(), 0);
}

#[test]
fn the_call_depends_on_the_batch() {
    assert_eq!(receive_call(&init(1, 64).unwrap()), "recv");
    assert_eq!(receive_call(&init(2, 64).unwrap()), "recvmmsg");
}

#[test]
fn without_a_file_descriptor_nothing_is_received() {
    for batch in [1, 2] {
        let mut socket = init(batch, 64).unwrap();
        assert_eq!(fd(&socket).unwrap_err(), Errno::EBADF);
        assert_eq!(receive(&mut socket, false), Err(Errno::EBADF));
    }
}

/// Returns a sender, the receiver connected to it, and a queue socket that uses the receiver.
fn connected(batch: u32, slot_bytes: u64) -> (UnixDatagram, UnixDatagram, QueueSocket) {
    let (sender, receiver) = UnixDatagram::pair().unwrap();
    let mut socket = init(batch, slot_bytes).unwrap();
    // SAFETY: the caller holds the receiver, the second of three, as long as the third: it drops
    // them together.
    unsafe { set_fd(&mut socket, receiver.as_raw_fd()) };
    (sender, receiver, socket)
}

#[test]
fn each_message_stands_in_its_slot() {
    let (sender, _receiver, mut socket) = connected(3, 64);
    for datagram in [&[1; 10][..], &[2; 64], &[3; 65], &[4; 1]] {
        sender.send(datagram).unwrap();
    }
    assert_eq!(receive(&mut socket, false), Ok(3));
    let told = [0, 1, 2].map(|index| {
        let message = message(&socket, index);
        (message.bytes.to_vec(), message.truncated)
    });
    assert_eq!(
        told,
        [
            (vec![1; 10], false),
            (vec![2; 64], false),
            (vec![3; 64], true)
        ]
    );
    assert_eq!(arena(&socket, slot_offset(&socket, 1), 64), [2; 64]);
    assert_eq!(receive(&mut socket, true), Ok(1));
    assert_eq!(message(&socket, 0).bytes, [4]);
    assert_eq!(receive(&mut socket, false), Ok(0));
}

#[test]
fn a_batch_of_one_receives_one_by_one() {
    let (sender, _receiver, mut socket) = connected(1, 64);
    for datagram in [[1; 10], [2; 10]] {
        sender.send(&datagram).unwrap();
    }
    assert_eq!(receive(&mut socket, false), Ok(1));
    assert_eq!(message(&socket, 0).bytes, [1; 10]);
    assert_eq!(receive(&mut socket, true), Ok(1));
    assert_eq!(message(&socket, 0).bytes, [2; 10]);
    assert_eq!(receive(&mut socket, false), Ok(0));
}

#[test]
fn waiting_for_an_answer_ends_after_a_second() {
    for batch in [1, 2] {
        let (_sender, _receiver, mut socket) = connected(batch, 64);
        bound_wait(&socket).unwrap();
        let mut took = |waits| {
            let start = Instant::now();
            assert_eq!(receive(&mut socket, waits), Ok(0));
            start.elapsed().as_millis()
        };
        // On a busy machine this thread may pause meanwhile.
        assert!((0..10).any(|_| (900..3000).contains(&took(true))));
        assert!((0..10).any(|_| took(false) < 500));
    }
}

#[test]
fn the_buffer_is_told_as_it_was_asked_for() {
    let (_sender, receiver, socket) = connected(1, 64);
    let default = getsockopt(&receiver, sockopt::RcvBuf).unwrap();
    assert_eq!(set_buffer(&socket, 0), Ok(default as u32 / 2));
    assert_eq!(getsockopt(&receiver, sockopt::RcvBuf).unwrap(), default);
    assert_eq!(set_buffer(&socket, 100_000), Ok(100_000));
    assert_eq!(getsockopt(&receiver, sockopt::RcvBuf).unwrap(), 200_000);
}

#[test]
fn a_forgotten_file_descriptor_is_none() {
    let (_sender, receiver, mut socket) = connected(1, 64);
    assert_eq!(fd(&socket).unwrap().as_raw_fd(), receiver.as_raw_fd());
    forget_fd(&mut socket);
    assert_eq!(fd(&socket).unwrap_err(), Errno::EBADF);
}

#[test]
fn an_arena_of_4_gib_costs_nothing_until_it_is_touched() {
    let before = resident_kib();
    let socket = init(1, 1 << 32).unwrap();
    assert_eq!(arena(&socket, (1 << 32) - 1, 1), [0]);
    assert!(resident_kib() < before + 1024);
}

/// Returns the resident memory of this process in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
