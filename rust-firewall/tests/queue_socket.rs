// SPDX-License-Identifier: GPL-2.0-or-later
//! The arena, and receiving from a socket that is no netlink socket.

use nix::errno::Errno;
use rust_firewall::queue_socket::{
    arena, fd, init, keep, message, receive, receive_call, slot_bytes, slot_offset, SLOT_ALIGN,
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

#[test]
fn an_arena_of_4_gib_costs_nothing_until_it_is_touched() {
    let before = resident_kib();
    let socket = init(1, 1 << 32).unwrap();
    assert_eq!(arena(&socket, (1 << 32) - 1, 1), [0]);
    assert!(resident_kib() < before + 1024);
}

/// What this process has in memory.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
