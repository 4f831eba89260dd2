// SPDX-License-Identifier: GPL-2.0-or-later
//! Bad input yields one line with cause and cure, and the exit code.

use std::process::Command;

use crate::place::{program, Place};

fn refused(command: &mut Command, code: i32, wanted: &str) {
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{command:?}: {stderr}");
    assert!(stderr.contains(wanted), "{command:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{command:?}");
    assert_eq!(stderr.lines().count(), 1, "{command:?}: {stderr}");
}

#[test]
fn one_line_each() {
    for (words, wanted) in [
        ("-w /dev/null", "not provided: --interface <NAME>"),
        ("-i lo", "not provided: --write <FILE>"),
        (
            "-i nope0 -w /dev/null",
            "-i nope0: no such interface: ip link",
        ),
        (
            "-i a-name-that-is-too-long -w /dev/null",
            "no such interface",
        ),
        ("-i lo -w /dev/null tcp prt 443", "filter \"tcp prt 443\": "),
        ("-i lo -w - --rotate 1GB", "stdout has no other file"),
        ("-i lo -w x --rotate 10", "'--rotate <SIZE,TIME>'"),
        ("-i lo -w x --ring 1", "between 2M and 16G"),
        ("-i lo -w x --backend afxdp", "it goes with --take"),
        ("-i lo -w x --take", "and --take with it alone"),
        (
            "-i any -w x ether host 02:00:00:00:00:01",
            "filter \"ether host",
        ),
        (
            "-i lo -w x --user no-such-user",
            "--user no-such-user: there is no such user",
        ),
    ] {
        let words = words.split(' ');
        refused(Command::new(program()).args(words), 2, wanted);
    }
}

#[test]
fn who_has_no_rights_is_told_how_to_get_them() {
    let place = Place::new();
    let mut command = place.here.command("setpriv");
    command.args([
        "--reuid",
        "65534",
        "--clear-groups",
        program(),
        "-i",
        "veth",
        "-w",
        "/dev/null",
    ]);
    refused(&mut command, 3, "sudo setcap cap_net_raw=ep ");
}

/// Requests 8 GiB of huge pages, more than the machine's pool is assumed to have.
#[test]
fn an_empty_pool_of_huge_pages_is_told_with_the_cure() {
    let place = Place::new();
    let mut command = place.here.command(program());
    command.args(["-i", "veth", "-w", "/dev/null", "--backend", "recvmmsg"]);
    command.args(["--pages", "hugetlb", "--ring", "1G", "--threads", "64"]);
    refused(&mut command, 1, "too few: sudo sysctl vm.nr_hugepages=4096");
}

#[test]
fn a_folder_where_the_user_may_not_write_is_named() {
    let place = Place::new();
    let name = place.file("%s.pcapng");
    let mut command = place.here.command(program());
    command.args([
        "-i", "veth", "-w", &name, "--rotate", "1s", "--user", "nobody",
    ]);
    refused(
        &mut command,
        1,
        "as user nobody: choose a folder of theirs, or another by --user",
    );
    let mut command = place.here.command(program());
    refused(
        command.args(["-i", "veth", "-w", "/nonexistent/x"]),
        1,
        "-w /nonexistent/x: No such file",
    );
}
