// SPDX-License-Identifier: GPL-2.0-or-later
//! Users and groups that may use the control socket.

use std::io;
use std::os::unix::net::UnixStream;
use std::thread;

use anyhow::{ensure, Context};
use testbed::control::{error_of, Client};
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::place::Place;

pub const ROWS: &[Row] = &[
    ("who-may-ask-is-served", served),
    ("who-may-not-ask-is-told-and-counted", refused),
    ("places-are-kept-for-root", places),
];

/// Id of a user without any rights.
const USER: u32 = 4711;
/// Id of a group without any rights.
const GROUP: u32 = 4712;

/// Connects to the control socket as a user, with a group and supplementary groups.
fn connect_as(path: &str, uid: u32, gid: u32, others: &[u32]) -> anyhow::Result<Client> {
    let (path, others) = (path.to_owned(), others.to_vec());
    // These calls change only the thread, which then ends.
    let connect = move || -> io::Result<UnixStream> {
        // SAFETY: the groups live during the call; the others touch no memory.
        let results = unsafe {
            [
                libc::syscall(libc::SYS_setgroups, others.len(), others.as_ptr()),
                libc::syscall(libc::SYS_setresgid, gid, gid, gid),
                libc::syscall(libc::SYS_setresuid, uid, uid, uid),
            ]
        };
        assert_eq!(results, [0; 3], "root can be anybody");
        UnixStream::connect(path)
    };
    let stream = thread::spawn(connect).join().expect("no panic");
    Client::of(stream.with_context(|| format!("connect as {uid}"))?)
}

fn check_served(mut client: Client) -> anyhow::Result<()> {
    let answer = client.ask(r#"{"command":"log"}"#)?;
    ensure!(answer["ok"] == true, "{answer}");
    Ok(())
}

fn check_refused(mut client: Client, uid: u32) -> anyhow::Result<()> {
    let answer = client.line()?;
    let expected =
        format!("user {uid} may not use the control socket: ask as root, or see --control-owner and --control-mode");
    ensure!(error_of(&answer)? == expected, "{answer}");
    client.check_closed()
}

/// Checks that the socket's owner, members of its group, the firewall's user, and root are served.
fn served(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let more = [
        "--control-mode",
        "0666",
        "--control-owner",
        "4711:4712",
        "--user",
        "daemon",
    ];
    let firewall = place.start(twin, &more)?;
    check_served(connect_as(&control, 0, 0, &[])?)?;
    check_served(connect_as(&control, USER, 1, &[])?)?;
    check_served(connect_as(&control, 1, 1, &[])?).context("daemon")?;
    check_served(connect_as(&control, 99, GROUP, &[])?).context("by his group")?;
    check_served(connect_as(&control, 99, 98, &[5, 6, GROUP, 7])?).context("by another group")?;
    ensure!(place.count("control_refused")? == 0);
    firewall.stop().map(drop)
}

/// Checks two modes (permissions) of the socket: with 0666 every user can connect, but only permitted users are served;
/// without write permission for the group, the group's members can't connect.
fn refused(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let more = ["--control-mode", "0666", "--control-owner", "4711:4712"];
    let firewall = place.start(twin, &more)?;
    check_refused(connect_as(&control, 99, 98, &[])?, 99)?;
    check_refused(connect_as(&control, 99, USER, &[5, 6, 7])?, 99)?;
    ensure!(place.count("control_refused")? == 2);
    firewall.stop()?;
    let more = ["--control-mode", "0646", "--control-owner", "4711:4712"];
    let firewall = place.start(twin, &more)?;
    // For a member of the group the kernel checks only the group's permissions, so this user can't even connect.
    ensure!(connect_as(&control, 99, GROUP, &[]).is_err());
    check_refused(connect_as(&control, 99, 98, &[])?, 99)?;
    firewall.stop().map(drop)
}

/// Checks that silent clients of one user, and those of all users but root together, are limited in number, so that
/// root can still connect and control the firewall.
fn places(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let more = ["--control-mode", "0660", "--control-owner", "4711:4712"];
    let firewall = place.start(twin, &more)?;
    let check_full = |uid: u32, expected: &str| -> anyhow::Result<()> {
        let mut client = connect_as(&control, uid, GROUP, &[])?;
        let answer = client.line()?;
        let expected = format!("{expected} are being served: close one, or try again later");
        ensure!(error_of(&answer)? == expected, "{answer}");
        client.check_closed()
    };
    let mut silent = Vec::new();
    for (uid, number) in [(99, 8), (98, 4)] {
        for _ in 0..number {
            silent.push(connect_as(&control, uid, GROUP, &[])?);
        }
    }
    check_full(99, "8 clients of this user")?;
    check_full(98, "12 clients of users other than root")?;
    check_full(USER, "12 clients of users other than root")?;
    let of_root: Vec<_> = (0..3).map(|_| place.connect()).collect::<Result<_, _>>()?;
    ensure!(place.ask(r#"{"command":"log"}"#)?["ok"] == true);
    drop(of_root);
    drop(silent);
    firewall.stop().map(drop)
}
