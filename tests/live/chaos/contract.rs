// SPDX-License-Identifier: GPL-2.0-or-later
//! The failure contract, a table that a firewall prints at its start, has a row for each situation. Each row must be
//! correct for the rules, the options and this kernel.

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::Path;

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{namespace, restore, run};
use testbed::skip::{not_installed, skip};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::scene::{check_contract, rule, with_known_rules};

pub const ROWS: &[Row] = &[
    ("contract-as-a-table", as_a_table),
    ("contract-knows-the-rules", knows_the_rules),
    ("contract-without-tools", without_tools),
    ("contract-with-nft-alone", with_nft_alone),
    ("contract-with-bad-tools", with_bad_tools),
    ("contract-with-a-bad-fwctl", with_a_bad_fwctl),
    ("contract-by-policy", by_policy),
    ("contract-in-the-stage", in_the_stage),
];

fn as_a_table(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let arguments = [
        "--fail",
        "stall=open,truncated=open",
        "--deadline",
        "60000",
        "--queue-length",
        "7",
        "--receive-buffer",
        "1048576",
    ];
    let firewall = with_known_rules(|| Firewall::start_under(&namespace, &[], twin, &arguments))?;
    let expected = [
        "  overload   closed  dropped: counted as user drop if the socket's 1048576 bytes are full, as queue full if \
         7 packets wait",
        "  stall      open    accepted by the guard when none was answered for 60000 ms",
        "  crash      closed  waiting packets are dropped, then the rules decide, of which there \
         is none for this queue yet",
        "  malformed  closed  dropped, counted by reason, as far as the first 128 bytes show",
        "  truncated  open    accepted, counted as truncated",
        "  unknown    closed  never: there is no policy",
    ];
    ensure!(firewall.contract == expected, "{:#?}", firewall.contract);
    ensure!(
        firewall
            .ready
            .contains(", fail stall=open,truncated=open, "),
        "{}",
        firewall.ready
    );
    Ok(())
}

/// Checks the contract's row about a crash with these rules.
/// - rules: program that restores them, and their lines.
/// - really: the row's text about the time after the waiting packets are dropped.
fn check_crash(twin: Twin, rules: &[(&str, String)], really: &str) -> anyhow::Result<()> {
    let namespace = namespace()?;
    for (tool, lines) in rules {
        restore(&namespace, tool, lines)?;
    }
    let start = || Firewall::start(&namespace, twin, &["--queue", "0:1"]);
    let firewall = with_known_rules(start)?;
    let really = format!("waiting packets are dropped, then {really}");
    check_contract(&firewall, "crash", ["closed", &really])
}

fn knows_the_rules(twin: Twin) -> anyhow::Result<()> {
    const PLAIN: &str = "the rules drop packets: they have no bypass";
    const BYPASS: &str = "packets pass: the rules have a bypass";
    const BOTH: &str = "rules with a bypass let packets pass, others drop them";
    const NONE: &str = "the rules decide, of which there is none for this queue yet";
    let plain = || rule("");
    let bypass = || rule("--queue-bypass");
    let balanced =
        || "-A INPUT -p tcp -j NFQUEUE --queue-balance 1:5 --queue-bypass --queue-cpu-fanout";
    // A rule of another program, and a comment that looks like one of the firewall's rules.
    let others = || {
        "-A INPUT -p tcp -j NFQUEUE --queue-num 2\n\
         -A INPUT -p tcp -m comment --comment \"-A x -j NFQUEUE --queue-num 0\" -j ACCEPT"
    };
    for (rules, really) in [
        (vec![], NONE),
        (vec![("iptables", others().to_owned())], NONE),
        (vec![("iptables", plain())], PLAIN),
        (vec![("iptables", bypass())], BYPASS),
        (vec![("ip6tables", balanced().to_owned())], BYPASS),
        (
            vec![("iptables", plain()), ("ip6tables", balanced().to_owned())],
            BOTH,
        ),
    ] {
        check_crash(twin, &rules, really)?;
    }
    Ok(())
}

/// Starts a twin that sees the folder `tools` in place of /usr/sbin, the folder of nft and iptables.
fn start_with(tools: &Folder, namespace: &Namespace, twin: Twin) -> anyhow::Result<Firewall> {
    let script = "mount --bind \"$0\" /usr/sbin && exec \"$@\"";
    let wrapper = ["unshare", "--mount", "sh", "-c", script, &tools.file("")];
    Firewall::start_under(namespace, &wrapper, twin, &["--json"])
}

/// Checks that the row about a crash says that the rules are unknown, and why.
fn check_unknown(firewall: &Firewall, why: &str) -> anyhow::Result<()> {
    let really = format!(
        "waiting packets are dropped, then the rules decide, as far as can be known: {why}"
    );
    check_contract(firewall, "crash", ["closed", &really])
}

fn without_tools(twin: Twin) -> anyhow::Result<()> {
    let (tools, namespace) = (Folder::new()?, namespace()?);
    let firewall = with_known_rules(|| start_with(&tools, &namespace, twin))?;
    check_unknown(&firewall, "nft is not there")?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let warning =
        "warning: it is not known whether a rule leads packets to queue 0: nft is not there: ";
    ensure!(ended.stderr.contains(warning), "{}", ended.stderr);
    Ok(())
}

fn write_script(folder: &Folder, name: &str, script: &str, mode: u32) -> anyhow::Result<()> {
    let path = folder.write(name, format!("#!/bin/sh\n{script}\n"))?;
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

/// Tests nft without iptables, as in a Debian installation: nft then lists all rules.
fn with_nft_alone(twin: Twin) -> anyhow::Result<()> {
    let (tools, namespace) = (Folder::new()?, namespace()?);
    fs::copy("/usr/sbin/nft", tools.file("nft")).map_err(|_| not_installed("nft"))?;
    let start = || with_known_rules(|| start_with(&tools, &namespace, twin));
    let ended = start()?.end_by(libc::SIGTERM)?;
    ensure!(ended.unfed.is_some(), "no warning: {}", ended.stderr);
    let rules = "table inet t { chain c { type filter hook input priority 0; queue num 0; }; }";
    if run(&namespace, "nft", &[rules]).is_err() {
        return Err(skip("this kernel has no queue in nf_tables (nft_queue)"));
    }
    let firewall = start()?;
    let really = "waiting packets are dropped, then the rules drop packets: they have no bypass";
    check_contract(&firewall, "crash", ["closed", really])?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.unfed.is_none() && ended.stderr.is_empty(),
        "{}",
        ended.stderr
    );
    Ok(())
}

/// Checks that the firewall starts although its tools hang or fail: it ends the wait for a tool that hangs, and ignores
/// the output of a tool that failed.
fn with_bad_tools(twin: Twin) -> anyhow::Result<()> {
    for (script, why) in [
        ("exec /bin/sleep 100", "did not end in time"),
        ("echo '{\"nftables\":[]}'; exit 1", "failed"),
        ("echo no ruleset", "failed"),
        ("exec /bin/cat /dev/zero", "did not end in time"),
    ] {
        let tools = Folder::new()?;
        for tool in ["nft", "iptables-nft-save", "ip6tables-nft-save"] {
            write_script(&tools, tool, script, 0o755)?;
        }
        let start = || start_with(&tools, &namespace()?, twin);
        let mut firewall = start()?;
        // fwctl waits for a tool nearly as long as the firewall waits for fwctl.
        until("fwctl ends in time", PATIENCE, || {
            let is_late = firewall.ready.contains("fwctl did not end in time");
            if is_late {
                firewall = start()?;
            }
            Ok(!is_late)
        })?;
        check_unknown(&firewall, &format!("nft {why}"))?;
        let warning = format!(
            "warning: it is not known whether a rule leads packets to queue 0: nft {why}: `fwctl doctor` looks again\n"
        );
        let ended = firewall.end_by(libc::SIGTERM)?;
        ensure!(ended.stderr.contains(&warning), "{}", ended.stderr);
    }
    Ok(())
}

/// Starts a copy of a twin in this folder, in which the copy searches for fwctl.
fn start_in(folder: &Folder, twin: Twin) -> anyhow::Result<Firewall> {
    let copy = folder.file(twin.program());
    fs::copy(twin.binary(), &copy)?;
    let script = format!("exec {copy} \"$@\"");
    Firewall::start_under(&namespace()?, &["sh", "-c", &script], twin, &["--json"])
}

/// Checks that a firewall starts without fwctl, and with a fwctl that fails or hangs. It must not run a fwctl that
/// users other than root and the owner of the firewall's file could have changed.
fn with_a_bad_fwctl(twin: Twin) -> anyhow::Result<()> {
    const CHANGED: &str = "fwctl can be changed by other users";
    check_unknown(&start_in(&Folder::new()?, twin)?, "fwctl is not there")?;
    for (script, why) in [
        ("exec /bin/sleep 100", "fwctl did not end in time"),
        ("exec /bin/cat /dev/zero", "fwctl did not end in time"),
        ("exit 1", "fwctl failed"),
        ("echo '{}'", "fwctl failed"),
    ] {
        let folder = Folder::new()?;
        write_script(&folder, "fwctl", script, 0o755)?;
        check_unknown(&start_in(&folder, twin)?, why)?;
    }
    let aside = Folder::new()?;
    let mark = aside.file("mark");
    let script = format!("touch {mark}");
    for mode in [0o775, 0o757, 0o777] {
        let folder = Folder::new()?;
        write_script(&folder, "fwctl", &script, mode)?;
        check_unknown(&start_in(&folder, twin)?, CHANGED)?;
    }
    let folder = Folder::new()?;
    write_script(&folder, "fwctl", &script, 0o755)?;
    chown(folder.file("fwctl"), Some(1), Some(1))?;
    check_unknown(&start_in(&folder, twin)?, CHANGED)?;
    let shared = Folder::shared()?;
    write_script(&shared, "fwctl", &script, 0o755)?;
    check_unknown(&start_in(&shared, twin)?, CHANGED)?;
    let folder = Folder::new()?;
    symlink(shared.file("fwctl"), folder.file("fwctl"))?;
    check_unknown(&start_in(&folder, twin)?, CHANGED)?;
    ensure!(!Path::new(&mark).exists(), "a script ran");
    Ok(())
}

fn by_policy(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let policy = testbed::twin::root().join("rules/policy/web-server.nft");
    let policy = policy.to_string_lossy().into_owned();
    let arguments = [
        "--policy",
        &policy,
        "--malformed",
        "policy",
        "--deadline",
        "0",
        "--conntrack",
        "mark",
        "--fail",
        "open",
    ];
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    for (situation, really) in [
        (
            "overload",
            "passes unseen: counted as unseen if the socket's 67108864 bytes are full, by nobody if 131072 packets wait",
        ),
        ("stall", "waits for ever: --deadline is 0"),
        (
            "crash",
            "the guard accepts everything until SIGTERM or the next start",
        ),
        ("malformed", "the policy decides: --malformed policy"),
        ("truncated", "accepted, counted as truncated or undecidable"),
        ("unknown", "accepted at the first rule that reads it, as beyond 32768 undecided bytes each way"),
    ] {
        check_contract(&firewall, situation, ["open", really])?;
    }
    Ok(())
}

/// Tests a firewall that only reads names: the kernel's rules decide packets that pass it without a class.
fn in_the_stage(twin: Twin) -> anyhow::Result<()> {
    const THEN: &str =
        "; then dropped by the kernel's rules, unless split with --bypass or --unknown-open";
    let (namespace, folder) = (namespace()?, Folder::new()?);
    let names = folder.write(
        "names.nft",
        "table inet names { chain classes { meta mark set 0x90000 accept; }; }\n",
    )?;
    restore(&namespace, "iptables", &rule("--queue-bypass"))?;
    let arguments = [
        "--policy",
        &names,
        "--stage",
        "0xffff0000",
        "--fail",
        "malformed=open",
    ];
    let firewall = with_known_rules(|| Firewall::start(&namespace, twin, &arguments))?;
    let malformed =
        format!("accepted, counted by reason, as far as the first 128 bytes show{THEN}");
    check_contract(&firewall, "malformed", ["open", &malformed])?;
    let crash =
        "waiting packets are dropped, then names are not known yet: the rules have a bypass";
    check_contract(&firewall, "crash", ["closed", crash])?;
    let unknown = "dropped at the kernel's first rule that reads it, as beyond 32768 undecided bytes each way, unless \
                   split with --unknown-open; before these bytes as split with --undecided";
    check_contract(&firewall, "unknown", ["closed", unknown])
}
