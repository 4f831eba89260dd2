// SPDX-License-Identifier: GPL-2.0-or-later
//! rules/load and rules/unload must leave the host's own rules unchanged.

use anyhow::{ensure, Context};
use testbed::netns::Namespace;
use testbed::place::{namespace, restore};
use testbed::skip::skip;
use testbed::twin::root;
use twinwall_tests::case::Case;

const BACKENDS: [&str; 2] = ["iptables-nft", "iptables-legacy"];
const OUR_CHAIN: &str = "TWINWALL";

/// Rules that a host may have: policies, a separate chain, and rules in the chains that get a jump to TWINWALL.
const FOREIGN: &str = "\
:INPUT DROP [0:0]
:guests - [0:0]
-A INPUT -i lo -j ACCEPT
-A INPUT -s 192.0.2.0/24 -j guests
-A OUTPUT -d 192.0.2.7/32 -j DROP
-A guests -p tcp -m tcp --dport 22 -j ACCEPT";

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::new("unknown-name", unknown_name),
        Case::new("not-root", not_root),
        Case::new(
            "the-other-backend-is-unloaded-too",
            the_other_backend_is_unloaded_too,
        ),
        Case::new("nft/a-chain-used-since-stays", a_chain_used_since_stays),
        Case::new(
            "nft/an-empty-chain-of-the-host-stays",
            an_empty_chain_of_the_host_stays,
        ),
    ];
    for backend in BACKENDS {
        let mut add = |name: &str, body: fn(&Place) -> anyhow::Result<()>| {
            cases.push(Case::new(
                format!("{}/{name}", &backend["iptables-".len()..]),
                move || body(&Place::new(backend)?),
            ));
        };
        add(
            "every-name-loads-and-leaves-no-trace",
            every_name_loads_and_leaves_no_trace,
        );
        add("foreign-rules-are-untouched", foreign_rules_are_untouched);
        add("twice-is-once", twice_is_once);
        add("another-name-replaces", another_name_replaces);
        add("unload-without-load", unload_without_load);
    }
    cases
}

/// A namespace, and the variant of iptables for the rules, one of BACKENDS.
struct Place {
    namespace: Namespace,
    backend: &'static str,
}

struct Said {
    code: Option<i32>,
    stderr: String,
}

impl Place {
    fn new(backend: &'static str) -> anyhow::Result<Place> {
        let place = Place {
            namespace: namespace()?,
            backend,
        };
        // iptables-legacy makes the kernel create its tables at the first use, and they stay. So this uses them before
        // a comparison.
        for tool in place.tools() {
            let listed = place
                .namespace
                .command(&tool)
                .args(["--list-rules", "--wait"])
                .output();
            if !listed.with_context(|| tool.clone())?.status.success() {
                return Err(skip(format!("this kernel has nothing for {tool}")));
            }
        }
        Ok(place)
    }

    fn tools(&self) -> [String; 2] {
        [
            self.backend.to_string(),
            self.backend.replacen("iptables", "ip6tables", 1),
        ]
    }

    fn script(&self, name: &str, arguments: &[&str]) -> anyhow::Result<Said> {
        let mut command = self.namespace.command(root().join("rules").join(name));
        let output = command
            .args(arguments)
            .env("IPTABLES", self.backend)
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(Said {
            code: output.status.code(),
            stderr,
        })
    }

    fn succeed(&self, script: &str, arguments: &[&str]) -> anyhow::Result<()> {
        let said = self.script(script, arguments)?;
        ensure!(
            said.code == Some(0),
            "rules/{script} {arguments:?}: {}",
            said.stderr
        );
        Ok(())
    }

    fn load(&self, name: &str) -> anyhow::Result<()> {
        self.succeed("load", &[name])
    }

    fn unload(&self) -> anyhow::Result<()> {
        self.succeed("unload", &[])
    }

    /// Returns the rules of all backends, with the rules' counters. Omits comments, which contain the time, and the
    /// counters of policies, which iptables-legacy resets at every change.
    fn tables(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for backend in BACKENDS {
            for tool in [
                backend.to_string(),
                backend.replacen("iptables", "ip6tables", 1),
            ] {
                text += &self.output(&format!("{tool}-save"), &["--counters"])?;
            }
        }
        text += &self.output("nft", &["list", "ruleset"])?;
        Ok(text)
    }

    fn output(&self, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.namespace.command(program).args(arguments).output();
        let output = output.with_context(|| program.to_string())?;
        ensure!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout)?;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines = lines.map(|line| match line.split_once(" [") {
            Some((policy, _)) if line.starts_with(':') => format!("{policy}\n"),
            _ => format!("{line}\n"),
        });
        Ok(lines.collect())
    }

    /// Adds the rules of a host by this backend, and makes some of their counters nonzero.
    fn add_foreign_rules(&self) -> anyhow::Result<()> {
        for tool in self.tools() {
            let ipv6 = tool.starts_with("ip6");
            let rules = if ipv6 {
                FOREIGN.replace("192.0.2.", "2001:db8::")
            } else {
                FOREIGN.into()
            };
            let rules = rules
                .replace("::7/32", "::7/128")
                .replace("::0/24", "::/32");
            restore(&self.namespace, &tool, &rules)?;
        }
        self.output("ping", &["-n", "-c", "1", "127.0.0.1"])?;
        Ok(())
    }

    fn check_same(&self, before: &str, what: &str) -> anyhow::Result<()> {
        let after = self.tables()?;
        ensure!(
            after == before,
            "{what}: the tables were\n{before}and are\n{after}"
        );
        Ok(())
    }
}

fn names() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(root().join("rules/queue"))? {
        let file = entry?
            .file_name()
            .into_string()
            .expect("the names of rules are ASCII");
        // The files with another ending are for nft, which loads them itself.
        if let Some(name) = file.strip_suffix(".iptables") {
            names.push(name.to_owned());
        }
    }
    names.sort();
    ensure!(names.len() >= 6, "rules: {names:?}");
    Ok(names)
}

/// Loads and unloads each fragment of rules/queue (*.iptables) in an empty namespace. rules/load must create the chains
/// and, with nft, the table; rules/unload must remove them.
fn every_name_loads_and_leaves_no_trace(place: &Place) -> anyhow::Result<()> {
    let before = place.tables()?;
    for name in names()? {
        place.load(&name)?;
        let loaded = place.tables()?;
        ensure!(
            loaded.contains("-j NFQUEUE"),
            "{name}: no rule that queues:\n{loaded}"
        );
        ensure!(
            loaded.contains(&format!("-j {OUR_CHAIN}")),
            "{name}: no jump to our chain:\n{loaded}"
        );
        place.unload()?;
        place.check_same(&before, &name)?;
    }
    Ok(())
}

fn foreign_rules_are_untouched(place: &Place) -> anyhow::Result<()> {
    place.add_foreign_rules()?;
    let before = place.tables()?;
    for name in names()? {
        place.load(&name)?;
        let loaded = place.tables()?;
        let mut lines = loaded.lines();
        for line in before.lines() {
            ensure!(
                lines.any(|loaded| loaded == line),
                "{name}: the line \"{line}\" is gone or elsewhere:\n{loaded}"
            );
        }
        place.unload()?;
        place.check_same(&before, &name)?;
    }
    Ok(())
}

fn twice_is_once(place: &Place) -> anyhow::Result<()> {
    let before = place.tables()?;
    for name in names()? {
        place.load(&name)?;
        let once = place.tables()?;
        place.load(&name)?;
        place.check_same(&once, &format!("{name} twice"))?;
        place.unload()?;
        place.unload()?;
        place.check_same(&before, &format!("{name} unloaded twice"))?;
    }
    Ok(())
}

fn another_name_replaces(place: &Place) -> anyhow::Result<()> {
    let before = place.tables()?;
    place.load("loopback-9999-udp")?;
    let alone = place.tables()?;
    place.unload()?;
    // veth-9999 has rules in other chains, and for both IP versions.
    place.load("veth-9999")?;
    place.load("loopback-9999-udp")?;
    place.check_same(&alone, "loaded in place of veth-9999")?;
    place.unload()?;
    place.check_same(&before, "unloaded")
}

fn unload_without_load(place: &Place) -> anyhow::Result<()> {
    let before = place.tables()?;
    place.unload()?;
    place.check_same(&before, "empty")?;
    place.add_foreign_rules()?;
    let before = place.tables()?;
    place.unload()?;
    place.check_same(&before, "with foreign rules")
}

fn unknown_name() -> anyhow::Result<()> {
    let place = Place::new("iptables-nft")?;
    let before = place.tables()?;
    let names = names()?.join(" ");
    for name in ["nothing", "", "../queue/veth-9999", "veth-9999.iptables"] {
        let said = place.script("load", &[name])?;
        let expected = format!("error: there are no rules \"{name}\": choose one of: {names}\n");
        ensure!(
            said.code == Some(2) && said.stderr == expected,
            "{:?}, {}",
            said.code,
            said.stderr
        );
    }
    let said = place.script("load", &[])?;
    ensure!(
        said.code == Some(2) && said.stderr.contains(&names),
        "{:?}, {}",
        said.code,
        said.stderr
    );
    place.check_same(&before, "after errors")
}

fn not_root() -> anyhow::Result<()> {
    let place = Place::new("iptables-nft")?;
    for (script, arguments) in [("load", &["veth-9999"] as &[&str]), ("unload", &[])] {
        let mut command = place.namespace.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        // The user may read the script wherever the repository is, but is not root.
        command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]);
        let output = command
            .arg(root().join("rules").join(script))
            .args(arguments)
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let expected = "error: only root may change packet filter rules: run it with sudo\n";
        ensure!(
            output.status.code() == Some(1) && stderr == expected,
            "rules/{script}: {stderr}"
        );
    }
    Ok(())
}

fn the_other_backend_is_unloaded_too() -> anyhow::Result<()> {
    let mut place = Place::new("iptables-legacy")?;
    let before = place.tables()?;
    place.load("veth-9999")?;
    place.backend = "iptables-nft";
    place.unload()?;
    place.check_same(&before, "loaded with legacy, unloaded with nft")
}

fn a_chain_used_since_stays() -> anyhow::Result<()> {
    let place = Place::new("iptables-nft")?;
    restore(
        &place.namespace,
        "iptables-nft",
        "-A INPUT -s 192.0.2.0/24 -j DROP",
    )?;
    let with_rule = place.tables()?;
    place.output("iptables-nft", &["--delete", "INPUT", "1"])?;
    place.output("nft", &["delete", "table", "ip", "filter"])?;

    place.load("veth-9999")?;
    restore(
        &place.namespace,
        "iptables-nft",
        "-A INPUT -s 192.0.2.0/24 -j DROP",
    )?;
    place.unload()?;
    place.check_same(
        &with_rule,
        "a rule was added to the chain that load had made",
    )?;

    place.output("nft", &["delete", "table", "ip", "filter"])?;
    place.load("veth-9999")?;
    place.output("iptables-nft", &["--policy", "INPUT", "DROP"])?;
    place.unload()?;
    let tables = place.tables()?;
    ensure!(
        tables.contains(":INPUT DROP"),
        "the policy that was set since is gone:\n{tables}"
    );
    Ok(())
}

fn an_empty_chain_of_the_host_stays() -> anyhow::Result<()> {
    let place = Place::new("iptables-nft")?;
    let chain = "{ type filter hook input priority filter; policy accept; }";
    place.output("nft", &["add", "table", "ip", "filter"])?;
    place.output("nft", &["add", "chain", "ip", "filter", "INPUT", chain])?;
    let before = place.tables()?;
    for name in ["veth-9999", "loopback-9999"] {
        place.load(name)?;
        place.unload()?;
        place.check_same(&before, name)?;
    }
    Ok(())
}
