// SPDX-License-Identifier: GPL-2.0-or-later
//! Whom the firewall runs as: --user, and a user who is not root and has a capability by the file.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{ensure, Context};
use twinwall_tests::case::{skip, until, Case, PATIENCE};
use twinwall_tests::firewall::{run_to_end, Firewall};
use twinwall_tests::ledger::Stats;
use twinwall_tests::place::{namespace, restore};
use twinwall_tests::proc;
use twinwall_tests::traffic::{udp_client, udp_send, UdpServer};
use twinwall_tests::twin::Twin;

use crate::running::{of_both, policy, Folder, RULES};

pub fn cases() -> Vec<Case> {
    of_both(
        "user",
        &[
            ("another", another),
            ("there-is-none", there_is_none),
            ("cannot-read-the-policy", cannot_read_the_policy),
            ("with-a-file-capability", with_a_file_capability),
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

/// The start reads it as root; the warning says what a reload will come to, and it does.
fn cannot_read_the_policy(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::new("unreadable")?;
    let file = folder.write("p.nft", &policy(""))?;
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

/// `setcap cap_net_admin+ep` lets a normal user run it. What only root may read, the ledger lacks, and says so.
fn with_a_file_capability(twin: Twin) -> anyhow::Result<()> {
    const PACKETS: u64 = 100;
    let folder = Folder::new("setcap")?;
    let program = folder.file(twin.program());
    fs::copy(twin.binary(), &program)?;
    let set = Command::new("setcap")
        .args(["cap_net_admin+ep", &program])
        .output();
    let set = set.map_err(|_| skip("setcap is not installed: make deps"))?;
    if !set.status.success() {
        return Err(skip(String::from_utf8_lossy(&set.stderr)));
    }
    let file = folder.write("p.nft", &policy(""))?;
    let namespace = namespace()?;
    restore(&namespace, "iptables", RULES)?;
    // The shell runs the copy in place of the program that it is given.
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
