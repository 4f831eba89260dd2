// SPDX-License-Identifier: GPL-2.0-or-later
//! Starts with a policy: refusals with their errors, and the policy in the start line.

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Ended, Firewall};
use testbed::folder::Folder;
use testbed::place::namespace;
use testbed::twin::{Twin, TWINS};
use twinwall_tests::case::Case;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("policy/refused-starts", refused_starts),
        Case::new("policy/reject-without-the-capability", no_capability),
        Case::new("policy/start-lines", start_lines),
    ]
}

/// Writes a policy of one chain (hook input, policy drop), with the rules from line 3 on. Returns its path.
fn chain(folder: &Folder, rules: &str) -> anyhow::Result<String> {
    folder.write("policy.nft", format!(
        "table inet t {{ chain c {{\ntype filter hook input priority 0; policy drop;\n{rules}\n}}\n}}\n"
    ))
}

fn ended(twin: Twin, wrapper: &[&str], arguments: &[&str]) -> anyhow::Result<Ended> {
    run_to_end(&namespace()?, wrapper, twin, arguments).with_context(|| twin.name())
}

fn check_refused(
    wrapper: &[&str],
    arguments: &[&str],
    code: i32,
    error: &str,
) -> anyhow::Result<()> {
    for twin in TWINS {
        let ended = ended(twin, wrapper, arguments)?;
        ensure!(
            ended.code == Some(code) && ended.stderr == format!("error: {error}\n"),
            "{} {arguments:?}: exit code {:?}: {}",
            twin.name(),
            ended.code,
            ended.stderr
        );
        ensure!(ended.lines.is_empty(), "on stdout: {:?}", ended.lines);
    }
    Ok(())
}

fn refused_starts() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let missing = "/nonexistent/policy.nft";
    let cause = format!("{missing}: cannot read the policy: No such file or directory");
    check_refused(&[], &["--policy", missing], 2, &cause)?;
    let path = chain(&folder, "tcp dport 22 accept\niif \"nowhere\" drop")?;
    let cause = format!(
        "{path}:4:1: \"nowhere\": there is no network interface of this name: create it first, \
         or match its name with iifname or oifname"
    );
    check_refused(&[], &["--policy", &path], 2, &cause)?;
    let path = chain(&folder, "tcp dport 22 accept")?;
    let cause = "the policy reads 128 bytes of a packet where --copy-bytes gives it 127: \
                 ask for 128 or leave --copy-bytes out";
    check_refused(&[], &["--policy", &path, "--copy-bytes", "127"], 2, cause)?;
    let path = chain(&folder, "ct mark 5 accept")?;
    let cause = "the policy uses ct mark, which --conntrack mark does not give: \
                 use --conntrack attribute or take ct mark out of the policy";
    check_refused(&[], &["--policy", &path, "--conntrack", "mark"], 2, cause)?;
    Ok(())
}

fn no_capability() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    let wrapper = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"];
    let path = chain(&folder, "tcp dport 22 reject")?;
    let cause = "CAP_NET_RAW is missing, and the policy uses reject: run as root or with sudo, \
                 or give the program the capability (setcap cap_net_admin,cap_net_raw+ep)";
    check_refused(&wrapper, &["--policy", &path], 3, cause)?;
    // A policy without `reject` needs no CAP_NET_RAW.
    let path = chain(&folder, "tcp dport 22 drop")?;
    for twin in TWINS {
        let arguments = ["--policy", &path, "--receive-buffer", "65536"];
        Firewall::start_under(&namespace()?, &wrapper, twin, &arguments)?;
    }
    Ok(())
}

fn start_lines() -> anyhow::Result<()> {
    let folder = Folder::new()?;
    for (rules, copied, more, said) in [
        (
            "meta skuid 5 drop\nmeta iifname \"x\" drop",
            128,
            &[][..],
            "malformed fail, policy FILE: reads 0 bytes, uid and gid, interface names",
        ),
        (
            "ct state new accept\ntcp dport 5 reject",
            128,
            &["--conntrack", "mark", "--malformed", "policy"],
            "malformed policy, policy FILE: reads 128 bytes, ct state by mark; rejects",
        ),
        (
            "ip saddr 10.0.0.1 accept",
            64,
            &["--copy-bytes", "64"],
            "malformed fail, policy FILE: reads 20 bytes",
        ),
    ] {
        let path = chain(&folder, rules)?;
        for twin in TWINS {
            let arguments = [&["--policy", &path, "--receive-buffer", "65536"], more].concat();
            let firewall = Firewall::start_under(&namespace()?, &[], twin, &arguments)?;
            let said = said.replace("FILE", &path);
            ensure!(
                firewall
                    .ready
                    .ends_with(&format!(", default accept, {said}"))
                    && firewall.ready.contains(&format!(", copy {copied} bytes, ")),
                "{}",
                firewall.ready
            );
        }
    }
    Ok(())
}
