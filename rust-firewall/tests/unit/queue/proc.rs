// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of the parsers for files of /proc, with texts that kernels wrote.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use nix::errno::Errno;
use nix::sys::socket::{
    bind, getsockname, socket, AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType,
};
use rust_firewall::queue::proc::{is_socket, owner, parse_figures, parse_inode, QueueFigures};

const QUEUES: &str = "    0   4242     3 2   128     7     9 4294967295  1
    1 3221225472     0 1     0     0     0        0  1
65535     12     1 2 65531     0     0       10  1
";

const NETLINK: &str = "\
sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
0000000000000000 0   4242       00000111 0        0        0     2        0        111
0000000000000000 12  4242       00000000 213504   0        0     2        77       31337
0000000000000000 12  3221225472 00000000 0        0        0     2        0        18446744073709551615
";

#[test]
fn a_queue_is_found_by_its_number() {
    let first = QueueFigures {
        portid: 4242,
        waiting: 3,
        queue_full: 7,
        user_drop: 9,
        offered: u32::MAX,
    };
    assert_eq!(parse_figures(QUEUES, 0), Ok(first));
    let second = QueueFigures {
        portid: 3221225472,
        ..QueueFigures::default()
    };
    assert_eq!(parse_figures(QUEUES, 1), Ok(second));
    assert_eq!(parse_figures(QUEUES, 65535).unwrap().offered, 10);
}

#[test]
fn a_queue_that_is_not_listed_is_not_found() {
    assert_eq!(parse_figures(QUEUES, 2), Err(Errno::ENOENT));
    assert_eq!(parse_figures("", 0), Err(Errno::ENOENT));
}

#[test]
fn lines_that_are_not_understood_are_skipped() {
    let text = "queue portid\n0 1 2\n 0 x 3 2 128 7 9 1 1\n\n0 5 3 2 128 7 9 11 1";
    assert_eq!(parse_figures(text, 0).unwrap().offered, 11);
    assert_eq!(
        parse_figures("0 1 2 3 4 5 6 4294967296 1", 0),
        Err(Errno::ENOENT)
    );
}

#[test]
fn a_socket_is_found_by_protocol_and_port() {
    assert_eq!(parse_inode(NETLINK, 4242), Ok(31337));
    assert_eq!(parse_inode(NETLINK, 3221225472), Ok(u64::MAX));
    assert_eq!(parse_inode(NETLINK, 111), Err(Errno::ENOENT));
    assert_eq!(parse_inode("0 12 5 0 0 0", 5), Err(Errno::ENOENT));
}

#[test]
fn a_link_is_the_socket_if_it_is_exactly_that() {
    assert!(is_socket(OsStr::new("socket:[31337]"), 31337));
    for link in [
        "socket:[313370]",
        "socket:[3133]",
        "pipe:[31337]",
        "/socket:[31337]",
        "",
    ] {
        assert!(!is_socket(OsStr::new(link), 31337), "{link}");
    }
    assert!(!is_socket(OsStr::from_bytes(b"socket:[\xff]"), 31337));
}

#[test]
fn nobody_owns_a_port_that_is_not_there() {
    assert_eq!(owner(u32::MAX), Err(Errno::ENOENT));
}

#[test]
fn the_owner_of_a_port_is_the_process_that_holds_its_socket() {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkNetFilter,
    )
    .unwrap();
    bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0)).unwrap();
    let portid = getsockname::<NetlinkAddr>(socket.as_raw_fd())
        .unwrap()
        .pid();
    let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
    let owner = owner(portid).unwrap();
    assert_eq!(
        (owner.pid, owner.comm.as_str()),
        (std::process::id(), comm.trim_end())
    );
}
