// SPDX-License-Identifier: GPL-2.0-or-later
//! The file of the control socket: its mode and owner, the files that it replaces, and those that it must not touch.

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::{ensure, Context};
use testbed::control::Client;
use testbed::firewall::{run_to_end, Ended, Firewall};
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::place::Place;

pub const ROWS: &[Row] = &[
    ("mode-and-owner-are-those-of-the-options", mode_and_owner),
    ("a-group-of-others-names-its-cure", group_of_others),
    ("a-dead-socket-is-replaced", stale),
    ("a-socket-in-use-is-kept", in_use),
    ("what-is-no-socket-is-kept", no_socket),
    ("the-file-goes-with-the-firewall", gone),
    ("another-socket-in-its-place-is-kept", replaced),
];

fn check_file(path: &str, mode: u32, uid: u32, gid: u32) -> anyhow::Result<()> {
    let file = fs::symlink_metadata(path)?;
    let found = (file.mode() & 0o7777, file.uid(), file.gid());
    ensure!(found == (mode, uid, gid), "mode, uid, gid are {found:?}");
    Ok(())
}

fn mode_and_owner(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let firewall = place.start(twin, &[])?;
    check_file(&control, 0o600, 0, 0)?;
    firewall.stop()?;
    // The umask must not affect the mode.
    // SAFETY: umask(2) can't fail and touches no memory; the case is a separate process.
    unsafe { libc::umask(0o077) };
    for (mode, owner, expected) in [
        ("0666", "nobody", (0o666, 65534, 0)),
        ("620", "1:daemon", (0o620, 1, 1)),
        ("0000", "daemon:65533", (0, 1, 65533)),
    ] {
        let more = ["--control-mode", mode, "--control-owner", owner];
        let firewall = place.start(twin, &more)?;
        check_file(&control, expected.0, expected.1, expected.2)
            .with_context(|| format!("{mode} {owner}"))?;
        place.ask(r#"{"command":"log"}"#)?;
        firewall.stop()?;
    }
    Ok(())
}

/// Checks that a plain user can give the socket only to a group whose member it is, and that the error names the cure
/// (SupplementaryGroups= of a unit).
fn group_of_others(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    std::os::unix::fs::chown(place.path(""), Some(65534), Some(65534))?;
    let user = "setpriv --reuid 65534 --regid 65534 --inh-caps -all,+net_admin \
                --ambient-caps -all,+net_admin --bounding-set -all,+net_admin";
    let given = ["--control", &control, "--control-owner", "65534:daemon"];
    let mut wrapper: Vec<&str> = user.split_whitespace().collect();
    let arguments = [&["--receive-buffer", "65536"], &given[..]].concat();
    wrapper.push("--clear-groups");
    let ended = run_to_end(&place.namespace, &wrapper, twin, &arguments)?;
    let cure = "as a member of the group (SupplementaryGroups= in the unit), or leave --control-owner out\n";
    ensure!(
        ended.code == Some(2) && ended.stderr.ends_with(cure),
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    wrapper.pop();
    wrapper.extend(["--groups", "1"]);
    let arguments = [&arguments[..], &["--json"]].concat();
    let firewall = Firewall::start_under(&place.namespace, &wrapper, twin, &arguments)?;
    check_file(&control, 0o600, 65534, 1)?;
    firewall.end_by(libc::SIGTERM).map(drop)
}

fn stale(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    drop(UnixListener::bind(place.path("control"))?);
    for _ in 0..2 {
        let firewall = place.start(twin, &[])?;
        ensure!(place.ask(r#"{"command":"log"}"#)?["ok"] == true);
        firewall.kill()?;
        ensure!(
            Path::new(&place.path("control")).exists(),
            "a killed firewall leaves its file"
        );
    }
    Ok(())
}

/// Runs a twin that must refuse to start, until it ends. Returns its output and exit code.
/// - more: additional options, which cause the refusal.
fn refusal(place: &Place, twin: Twin, more: &[&str]) -> anyhow::Result<Ended> {
    let arguments = [&["--receive-buffer", "65536"], more].concat();
    run_to_end(&place.namespace, &[], twin, &arguments)
}

fn check_refusal(
    place: &Place,
    twin: Twin,
    path: &str,
    code: i32,
    cause: &str,
) -> anyhow::Result<()> {
    let ended = refusal(place, twin, &["--control", path])?;
    let expected = format!("error: control socket {path}: {cause}\n");
    ensure!(
        ended.code == Some(code) && ended.stderr == expected,
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    ensure!(
        ended.lines.is_empty(),
        "something is on stdout: {:?}",
        ended.lines
    );
    Ok(())
}

fn in_use(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let listener = UnixListener::bind(&control)?;
    let pid = std::process::id();
    let cause = format!("in use by pid {pid}: stop it or choose another path");
    check_refusal(&place, twin, &control, 5, &cause)?;
    // The backlog of the listening socket is full.
    let mut waiting = Vec::new();
    while let Ok(stream) = connect_at_once(&control) {
        waiting.push(stream);
    }
    let cause = "in use by another program: stop it or choose another path";
    check_refusal(&place, twin, &control, 5, cause)?;
    drop(waiting);
    drop(listener);
    // A socket of another type is in use, too.
    let datagrams = place.path("datagrams");
    let _bound = std::os::unix::net::UnixDatagram::bind(&datagrams)?;
    check_refusal(&place, twin, &datagrams, 5, cause)?;
    ensure!(Path::new(&datagrams).exists(), "the file is gone");
    // The socket of a running firewall; the next one has another queue.
    let firewall = place.start(twin, &[])?;
    let cause = format!(
        "in use by pid {}: stop it or choose another path",
        firewall.pid
    );
    let ended = refusal(&place, twin, &["--queue", "1", "--control", &control])?;
    ensure!(
        ended.code == Some(5) && ended.stderr.contains(&cause),
        "{}",
        ended.stderr
    );
    ensure!(Client::new(&control)?.ask(r#"{"command":"log"}"#)?["ok"] == true);
    firewall.stop().map(drop)
}

/// Connects to a socket. Fails if the connection can't be opened at once.
fn connect_at_once(path: &str) -> anyhow::Result<std::os::fd::OwnedFd> {
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    // SAFETY: socket(2) touches no memory, and its descriptor has no other owner.
    let socket = unsafe {
        let flags = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_UNIX, flags, 0);
        ensure!(fd >= 0, "socket: {}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: sockaddr_un is plain data, for which all zeros is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address lives during the call and has the length that is given.
    let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), length) };
    ensure!(result == 0, "connect: {}", std::io::Error::last_os_error());
    Ok(socket)
}

fn no_socket(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let cause = "there is a file that is no socket: choose another path";
    let (file, link, dangling) = (
        place.path("file"),
        place.path("link"),
        place.path("dangling"),
    );
    let (folder, pipe) = (place.path("folder"), place.path("pipe"));
    let socket = place.path("socket");
    fs::write(&file, "mine")?;
    drop(UnixListener::bind(&socket)?);
    symlink(&socket, &link)?;
    symlink("nowhere", &dangling)?;
    fs::create_dir(&folder)?;
    let name = std::ffi::CString::new(pipe.as_str())?;
    // SAFETY: the name ends with a NUL and lives during the call.
    ensure!(unsafe { libc::mkfifo(name.as_ptr(), 0o666) } == 0);
    for path in [&file, &link, &dangling, &folder, &pipe] {
        check_refusal(&place, twin, path, 2, cause)?;
        fs::symlink_metadata(path).with_context(|| format!("{path} is gone"))?;
    }
    ensure!(fs::read_to_string(&file)? == "mine" && Path::new(&socket).exists());
    Ok(())
}

fn gone(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &["--sandbox", "off", "--user", "root"])?;
    firewall.stop()?;
    ensure!(!Path::new(&place.path("control")).exists(), "it is there");
    Ok(())
}

fn replaced(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let control = place.path("control");
    let firewall = place.start(twin, &["--sandbox", "off", "--user", "root"])?;
    fs::remove_file(&control)?;
    let _other = UnixListener::bind(&control)?;
    firewall.stop()?;
    ensure!(Path::new(&control).exists(), "another's socket is gone");
    Ok(())
}

/// Checks that both twins refuse to start with the same errors.
pub fn same_refusals() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (file, missing) = (place.path("web.nft/control"), place.path("none/control"));
    let folder = place.path("none");
    let control = place.path("control");
    let cases: [(&[&str], String); 5] = [
        (
            &["--control", &missing],
            format!(
                "control socket {missing}: there is no folder {folder}: make it (mkdir -p {folder}; systemd does by \
                 RuntimeDirectory=) or choose another path"
            ),
        ),
        (
            &["--control", &file],
            format!("control socket {file}: a part of the path is no folder: choose another path"),
        ),
        (
            &["--control", &control, "--control-owner", "no-such-user"],
            "--control-owner: there is no user \"no-such-user\": add it or choose another".to_owned(),
        ),
        (
            &["--control", &control, "--control-owner", "root:no\"group"],
            "--control-owner: there is no group \"no\\x22group\": add it or choose another".to_owned(),
        ),
        (
            &["--control", &control, "--control-owner", "4294967295"],
            "--control-owner: there is no user \"4294967295\": add it or choose another".to_owned(),
        ),
    ];
    for (more, expected) in cases {
        for twin in [Twin::Rust, Twin::C] {
            let ended = refusal(&place, twin, more)?;
            ensure!(
                ended.code == Some(2) && ended.stderr == format!("error: {expected}\n"),
                "{}: exit code {:?}: {}",
                twin.name(),
                ended.code,
                ended.stderr
            );
            ensure!(!Path::new(&control).exists(), "a socket is left");
        }
    }
    Ok(())
}
