// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall's user: --user, and a plain user whose program file has capabilities.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Firewall};
use testbed::folder::Folder;
use testbed::ledger::Stats;
use testbed::place::{namespace, restore};
use testbed::proc;
use testbed::skip::{not_installed, skip};
use testbed::traffic::{udp_client, udp_send, UdpServer};
use testbed::twin::{built, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Case;

use super::running::{of_both, policy, RULES};

pub fn cases() -> Vec<Case> {
    of_both(
        "user",
        &[
            ("another", another),
            ("there-is-none", there_is_none),
            ("by-number", by_number),
            ("the-default", the_default),
            ("cannot-read-the-policy", cannot_read_the_policy),
            ("with-a-file-capability", with_a_file_capability),
            ("commands-without-file-capabilities", commands_without),
        ],
    )
}

fn another(twin: Twin) -> anyhow::Result<()> {
    for (name, uid) in [("daemon", "1"), ("root", "0")] {
        let firewall = Firewall::start(&namespace()?, twin, &["--user", name])?;
        let of = |key: &str| proc::status(firewall.pid, firewall.pid, key);
        ensure!(
            of("Uid")? == [uid; 4].join("\t"),
            "{name}: Uid {}",
            of("Uid")?
        );
        ensure!(
            of("CapEff")? == "0000000000001000",
            "{name}: CapEff {}",
            of("CapEff")?
        );
        firewall.stop()?;
    }
    Ok(())
}

fn there_is_none(twin: Twin) -> anyhow::Result<()> {
    let ended = run_to_end(&namespace()?, &[], twin, &["--user", "no-such-user"])?;
    let line = "error: there is no user \"no-such-user\": choose another with --user\n";
    ensure!(
        ended.code == Some(2) && ended.stderr == line,
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Checks --user with numbers: they need not belong to an account, and a user's number alone also selects its group.
/// Invalid values are refused.
fn by_number(twin: Twin) -> anyhow::Result<()> {
    for (user, uid, gid) in [
        ("1", "1", "1"),
        ("64125", "64125", "64125"),
        ("1:64126", "1", "64126"),
    ] {
        let firewall = Firewall::start(&namespace()?, twin, &["--user", user])?;
        for (key, expected) in [("Uid", uid), ("Gid", gid)] {
            let found = proc::status(firewall.pid, firewall.pid, key)?;
            ensure!(found == [expected; 4].join("\t"), "{user}: {key} {found}");
        }
        firewall.stop()?;
    }
    for user in ["1:", ":1", "4294967295", "1:2:3", "1:daemon"] {
        let ended = run_to_end(&namespace()?, &[], twin, &["--user", user])?;
        let line = format!("error: there is no user \"{user}\": choose another with --user\n");
        ensure!(
            ended.code == Some(2) && ended.stderr == line,
            "{user}: {:?}: {}",
            ended.code,
            ended.stderr
        );
    }
    Ok(())
}

/// Returns a wrapper command that replaces the contents of /etc/passwd and runs a program. It drops all arguments of
/// the program, so that the default of --user applies.
/// - users: contents of /etc/passwd.
fn with_users(folder: &Folder, users: &str) -> anyhow::Result<[String; 5]> {
    let file = folder.write("passwd", users)?;
    let script = format!("mount --bind {file} /etc/passwd && exec \"$1\"");
    Ok(["unshare", "--mount", "sh", "-c", &script].map(str::to_owned))
}

const ROOT: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n";

/// Checks that the default user is twinwall, and the error if there is no such user.
fn the_default(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let wrapper = with_users(&folder, ROOT)?;
    let mut wrapper: Vec<&str> = wrapper.iter().map(String::as_str).collect();
    wrapper.push("sh");
    let ended = run_to_end::<&str>(&namespace()?, &wrapper, twin, &[])?;
    let line = "error: there is no user \"twinwall\" for the firewall to become: make it (in a checkout sudo make user; \
                the packages do by systemd-sysusers), or choose another with --user NAME\n";
    ensure!(
        ended.code == Some(2) && ended.stderr == line,
        "{:?}: {}",
        ended.code,
        ended.stderr
    );
    let users = format!("{ROOT}twinwall:x:64127:64128::/:/bin/sh\n");
    with_users(&folder, &users)?;
    let firewall = Firewall::start_under(&namespace()?, &wrapper, twin, &[])?;
    let uid = proc::status(firewall.pid, firewall.pid, "Uid")?;
    ensure!(uid == ["64127"; 4].join("\t"), "Uid {uid}");
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
    Ok(())
}

/// Checks a policy that root can read at the start, but the firewall's user can't read later: a warning says that a
/// reload will fail, and the reload fails.
fn cannot_read_the_policy(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let file = folder.write("p.nft", policy(""))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let arguments = ["--policy", &file, "--user", "daemon"];
    let firewall = Firewall::start(&namespace()?, twin, &arguments)?;
    proc::signal(firewall.pid, libc::SIGHUP);
    firewall.ledger()?; // behind the reload
    let ended = firewall.end_by(libc::SIGTERM)?;
    let warning = format!(
        "warning: {file}: Permission denied for user daemon: a reload will fail: let that user read it, or choose \
         another with --user\n"
    );
    let (first, rest) = ended
        .stderr
        .split_at_checked(warning.len())
        .context("no warning")?;
    ensure!(first == warning, "says: {}", ended.stderr);
    ensure!(
        rest.contains("Permission denied"),
        "no failed reload: {rest}"
    );
    Ok(())
}

/// Copies a program, and adds capabilities to the copy's file. Returns the copy's path.
fn with_capabilities(
    folder: &Folder,
    program: PathBuf,
    capabilities: &str,
) -> anyhow::Result<String> {
    let name = program.file_name().and_then(OsStr::to_str);
    let copy = folder.file(name.context("a program's name")?);
    fs::copy(&program, &copy)?;
    let set = Command::new("setcap").args([capabilities, &copy]).output();
    let set = set.map_err(|_| not_installed("setcap"))?;
    if !set.status.success() {
        return Err(skip(String::from_utf8_lossy(&set.stderr)));
    }
    Ok(copy)
}

/// Checks that commands that need no rights use none: if the program's file has the capability to read any file, the
/// command still reads no file that its caller may not read.
fn commands_without(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let secret = folder.write("secret", "root's own\n")?;
    let good = folder.write("p.nft", policy(""))?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let socket = folder.file("socket");
    let _listener = UnixListener::bind(&socket)?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600))?;
    let capabilities = "cap_dac_override,cap_dac_read_search,cap_net_admin+ep";
    let twin = with_capabilities(&folder, twin.binary(), capabilities)?;
    let fwctl = with_capabilities(&folder, built("fwctl"), capabilities)?;
    let ask = |words: &[&str]| -> anyhow::Result<(Option<i32>, String)> {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=1", "--regid=1", "--clear-groups"]);
        let output = command.args(words).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok((output.status.code(), said))
    };
    for words in [
        &[&twin, "check", &secret][..],
        &[&twin, "explain", &good, &secret],
        &[&twin, "explain", &secret, &good],
        &[&fwctl, "--socket", &socket, "status"],
    ] {
        let (code, said) = ask(words)?;
        let refused = said.contains("Permission denied") || said.contains("may not open it");
        ensure!(
            code != Some(0) && refused && !said.contains("root's"),
            "{words:?}: {said}"
        );
    }
    for words in [
        &[&twin, "check", &good][..],
        &[&twin, "--version"],
        &[&fwctl, "--version"],
    ] {
        let (code, said) = ask(words)?;
        ensure!(code == Some(0), "{words:?}: {said}");
    }
    Ok(())
}

/// Checks a firewall that a plain user starts from a file with `setcap cap_net_admin+ep`. Its ledger lacks the kernel's
/// figures, which only root may read, and a warning says so.
fn with_a_file_capability(twin: Twin) -> anyhow::Result<()> {
    const PACKETS: u64 = 100;
    let folder = Folder::shared()?;
    let program = with_capabilities(&folder, twin.binary(), "cap_net_admin+ep")?;
    let file = folder.write("p.nft", policy(""))?;
    let namespace = namespace()?;
    restore(&namespace, "iptables", RULES)?;
    // The shell runs the copy instead of the given program.
    let run = format!("exec {program} \"$@\"");
    let wrapper = [
        "setpriv",
        "--reuid=1",
        "--regid=1",
        "--clear-groups",
        "sh",
        "-c",
        &run,
    ];
    let arguments = ["--policy", &file, "--json"];
    let firewall = Firewall::start_under(&namespace, &wrapper, twin, &arguments)?;
    let of = |key: &str| proc::status(firewall.pid, firewall.pid, key);
    ensure!(of("Uid")? == "1\t1\t1\t1", "Uid {}", of("Uid")?);
    ensure!(
        of("CapEff")? == "0000000000001000",
        "CapEff {}",
        of("CapEff")?
    );
    ensure!(
        of("Seccomp")? == "2" && of("NoNewPrivs")? == "1",
        "no sandbox"
    );
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let server = UdpServer::start(&namespace, localhost, false)?;
    let client = udp_client(&namespace, localhost)?;
    udp_send(&client, PACKETS, 18)?;
    let mut stats = firewall.ledger()?;
    until("all is decided", PATIENCE, || {
        stats = firewall.ledger()?;
        Ok(stats.total.received == PACKETS)
    })?;
    server.check_arrived(0)?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let last = Stats::parse(ended.lines.last().context("no ledger at exit")?)?;
    ensure!(
        last.total.verdicts["drop"] == PACKETS,
        "{:?}",
        last.total.verdicts
    );
    ensure!(
        ended.stderr.contains(
            "warning: /proc/net/netfilter/nfnetlink_queue: Permission denied: the ledger lacks the kernel's figures\n"
        ),
        "says: {}",
        ended.stderr
    );
    Ok(())
}
