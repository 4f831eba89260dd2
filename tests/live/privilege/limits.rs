// SPDX-License-Identifier: GPL-2.0-or-later
//! Calls that are allowed only with some arguments: no socket reaches the kernel or the network, no ioctl changes an
//! interface, no socket option changes iptables' rules, and clone starts only threads.

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::place::namespace;
use testbed::twin::Twin;
use twinwall_tests::case::Case;

use super::inject::{call, Outcome};
use super::running::of_both;

pub fn cases() -> Vec<Case> {
    of_both(
        "limits",
        &[
            ("no-other-socket", no_other_socket),
            ("a-socket-to-programs", a_socket_to_programs),
            ("no-ioctl-that-changes", no_ioctl_that_changes),
            ("no-option-of-iptables", no_option_of_iptables),
            ("no-process-and-no-namespace", no_process),
            ("no-clone3", no_clone3),
        ],
    )
}

/// Checks that a call ends the firewall, with a line that names the call.
fn check_ends(twin: Twin, name: &str, number: i64, arguments: [u64; 3]) -> anyhow::Result<()> {
    let firewall = Firewall::start(&namespace()?, twin, &["--deadline", "0"])?;
    let outcome = call(firewall.pid, number, arguments)?;
    ensure!(
        outcome == Outcome::Forbidden,
        "{name} {arguments:?}: {outcome:?}"
    );
    let ended = firewall.end_by(0)?;
    let line = format!("error: forbidden system call {name} ({number}): ");
    ensure!(
        ended.signal == Some(libc::SIGSYS) && ended.stderr.starts_with(&line),
        "{name} {arguments:?}: {:?}: {}",
        ended.signal,
        ended.stderr
    );
    Ok(())
}

fn no_other_socket(twin: Twin) -> anyhow::Result<()> {
    let kinds = [
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER),
        (libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE),
        (libc::AF_INET, libc::SOCK_DGRAM, 0),
        (libc::AF_PACKET, libc::SOCK_RAW, 0),
    ];
    for (family, kind, protocol) in kinds {
        let arguments = [family, kind, protocol].map(|argument| argument as u64);
        check_ends(twin, "socket", libc::SYS_socket, arguments)?;
    }
    // The kernel uses only the lower 32 bits.
    let family = 1 << 32 | libc::AF_NETLINK as u64;
    check_ends(twin, "socket", libc::SYS_socket, [family, 3, 12])
}

/// Checks that the kernel executes a call, with success or its own error, and that the firewall continues.
fn check_made(twin: Twin, number: i64, arguments: [u64; 3]) -> anyhow::Result<()> {
    let firewall = Firewall::start(&namespace()?, twin, &["--deadline", "0"])?;
    let outcome = call(firewall.pid, number, arguments)?;
    ensure!(matches!(outcome, Outcome::Gave(_)), "{outcome:?}");
    firewall.stop().map(drop)
}

fn a_socket_to_programs(twin: Twin) -> anyhow::Result<()> {
    let arguments = [libc::AF_UNIX, libc::SOCK_DGRAM, 0].map(|argument| argument as u64);
    check_made(twin, libc::SYS_socket, arguments)
}

const NO_FD: u64 = u64::MAX;

fn no_ioctl_that_changes(twin: Twin) -> anyhow::Result<()> {
    check_made(twin, libc::SYS_ioctl, [NO_FD, libc::SIOCGIFNAME, 0])?;
    for request in [libc::SIOCSIFFLAGS, libc::SIOCADDRT] {
        check_ends(twin, "ioctl", libc::SYS_ioctl, [NO_FD, request, 0])?;
    }
    Ok(())
}

/// IPT_SO_SET_REPLACE of linux/netfilter_ipv4/ip_tables.h.
const IPT_SO_SET_REPLACE: u64 = 64;

fn no_option_of_iptables(twin: Twin) -> anyhow::Result<()> {
    let level = libc::IPPROTO_IP as u64;
    let arguments = [NO_FD, level, IPT_SO_SET_REPLACE];
    check_ends(twin, "setsockopt", libc::SYS_setsockopt, arguments)
}

/// Flags with which clone starts a thread, except CLONE_CHILD_CLEARTID.
const ALMOST_A_THREAD: libc::c_int = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID;

fn no_process(twin: Twin) -> anyhow::Result<()> {
    let all_namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::SIGCHLD;
    let with_a_namespace = ALMOST_A_THREAD | libc::CLONE_CHILD_CLEARTID | libc::CLONE_NEWNET;
    for flags in [
        libc::SIGCHLD,
        all_namespaces,
        ALMOST_A_THREAD,
        with_a_namespace,
    ] {
        check_ends(twin, "clone", libc::SYS_clone, [flags as u64, 0, 0])?;
    }
    Ok(())
}

/// Checks that clone3 fails with ENOSYS, as on a kernel without it: the C library then calls clone. Tests with several
/// workers show that threads start.
fn no_clone3(twin: Twin) -> anyhow::Result<()> {
    let firewall = Firewall::start(&namespace()?, twin, &["--deadline", "0"])?;
    let outcome = call(firewall.pid, libc::SYS_clone3, [0, 0, 0])?;
    ensure!(
        outcome == Outcome::Gave(-i64::from(libc::ENOSYS)),
        "{outcome:?}"
    );
    firewall.stop().map(drop)
}
