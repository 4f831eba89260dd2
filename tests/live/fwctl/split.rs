// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl split` as a command: its texts and files, and what nft and the kernel say to them.

use std::fs;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::folder::Folder;
use testbed::netns::Namespace;

use super::ctl::fwctl;
use super::LoneRow;

pub const LONE_ROWS: &[LoneRow] = &[
    ("split-explains-each-rule", explains_each_rule),
    ("split-checks-with-nft", checks_with_nft),
    ("split-writes-what-can-be-loaded", writes_what_can_be_loaded),
];

/// Socket that no firewall has: `split` needs none.
const NO_SOCKET: &str = "/run/no-firewall";

const POLICY: &str = "table inet host {
	set denied { type hostname; elements = { \"ads.example\" }; }
	set updates { type ipv4_addr; learn dns \"*.updates.example\"; }
	chain input {
		type filter hook input priority filter; policy accept;
		tcp dport 443 jump web
		udp dport 53 accept
	}
	chain web {
		ip saddr 192.0.2.1 tls sni @denied counter drop
		tcp dport 80 reject
	}
	chain output {
		type filter hook output priority filter; policy accept;
		ip daddr @updates accept
	}
	chain unused {
		drop
	}
}
";

/// Rules of POLICY, each with its line number.
const RULES: [(usize, &str); 6] = [
    (6, "tcp dport 443 jump web"),
    (7, "udp dport 53 accept"),
    (10, "ip saddr 192.0.2.1 tls sni @denied counter drop"),
    (11, "tcp dport 80 reject"),
    (15, "ip daddr @updates accept"),
    (18, "drop"),
];

struct Place {
    namespace: Namespace,
    folder: Folder,
    policy: String,
}

impl Place {
    fn new() -> anyhow::Result<Place> {
        let folder = Folder::of_root()?;
        let policy = folder.write("policy.nft", POLICY)?;
        Ok(Place {
            namespace: Namespace::new()?,
            folder,
            policy,
        })
    }

    /// Runs `fwctl split POLICY` with options. Returns stdout.
    fn split(&self, options: &[&str]) -> anyhow::Result<String> {
        let said = fwctl(
            &self.namespace,
            NO_SOCKET,
            &[&["split", &self.policy], options].concat(),
        )?;
        Ok(said.code(0)?.to_owned())
    }

    /// Returns true if the kernel supports the statement `queue` of nft.
    fn has_queue(&self) -> bool {
        let rule = "table inet q {\n\tchain c {\n\t\tqueue\n\t}\n}\n";
        let checked = self.namespace.feed("nft", &["-c", "-f", "-"], rule);
        checked.is_ok()
    }
}

/// Returns the lines of an explanation about one rule: the rule, and the lines indented below it.
fn about<'a>(
    text: &'a str,
    policy: &str,
    (line, rule): (usize, &str),
) -> anyhow::Result<Vec<&'a str>> {
    let head = format!("  {policy}:{line}: {rule}");
    let mut lines = text.lines().skip_while(|line| *line != head);
    let found = lines
        .next()
        .with_context(|| format!("no \"{head}\" in: {text}"))?;
    let below = lines.take_while(|line| line.starts_with("    "));
    Ok([found].into_iter().chain(below.map(str::trim)).collect())
}

/// Checks that each rule is listed with its hook, where it is decided and why, and the lines that queue its packets, and
/// that these lines are in the kernel's text.
fn explains_each_rule() -> anyhow::Result<()> {
    let place = Place::new()?;
    let (text, kernel) = (place.split(&["--explain"])?, place.split(&[])?);
    let beginnings: [&[&str]; 6] = [
        &["decided: kernel, as written: it matches no name"],
        &["decided: kernel, as written: it matches no name"],
        &[
            "decided: kernel, by the firewall's class of the connection: it matches tls sni; classes: 2",
            "test: ",
            "queued: stage-names-input: tcp dport 443 ip saddr 192.0.2.1",
            "queued: stage-names-output: tcp sport 443 ip daddr 192.0.2.1",
        ],
        &["decided: kernel, with another chain: both ends", "test: jump stage-reject-1"],
        &["decided: kernel, as written: the firewall adds the addresses of @updates"],
        &["decided: kernel, as written: it matches no name"],
    ];
    for (rule, wanted) in RULES.iter().zip(beginnings) {
        let lines = about(&text, &place.policy, *rule)?;
        let are_alike = lines.len() == wanted.len() + 1
            && lines[1..]
                .iter()
                .zip(wanted)
                .all(|(line, begin)| line.starts_with(begin));
        ensure!(are_alike, "{lines:?} instead of {wanted:?}");
        for line in &lines {
            if let Some((_, line)) = line.split_once("queued: stage-names-") {
                let (_, matches) = line.split_once(": ").context("a hook")?;
                ensure!(
                    kernel.contains(&format!("\t{matches} goto stage-ask\n")),
                    "{matches}: {kernel}"
                );
            }
            if let Some(test) = line.strip_prefix("test: ") {
                ensure!(kernel.contains(test), "{test}: {kernel}");
            }
        }
    }
    for chain in [
        "input, hook input priority 0:",
        "web, hook input priority 0:",
        "unused, no packet reaches it:",
    ] {
        ensure!(
            text.contains(&format!("rules of inet host {chain}\n")),
            "{chain}: {text}"
        );
    }
    let object: Value = serde_json::from_str(&place.split(&["--explain", "--json"])?)?;
    let rules = object["rules"].as_array().context("rules")?;
    let places: Vec<String> = rules
        .iter()
        .map(|rule| rule["place"].as_str().unwrap_or("").to_owned())
        .collect();
    let wanted: Vec<String> = RULES
        .iter()
        .map(|(line, _)| format!("{}:{line}", place.policy))
        .collect();
    ensure!(places == wanted, "{places:?} instead of {wanted:?}");
    ensure!(
        rules[2]["queued"][0]["chain"] == "stage-names-input",
        "{object}"
    );
    Ok(())
}

/// Checks that --check accepts what the kernel accepts, and refuses a rule that nft does not know.
fn checks_with_nft() -> anyhow::Result<()> {
    let mut place = Place::new()?;
    let text = place.split(&["--check", "--queue", "iptables"])?;
    ensure!(text.contains("chain stage-names-input"), "{text}");
    let said = fwctl(
        &place.namespace,
        NO_SOCKET,
        &["split", &place.policy, "--check"],
    )?;
    match place.has_queue() {
        true => said.code(0).map(|_| ())?,
        false => said.error(2, "nft does not take the kernel's text")?,
    }
    let wrong = POLICY.replace("udp dport 53 accept", "udp monster 53 accept");
    place.policy = place.folder.write("wrong.nft", wrong)?;
    let options = ["split", &place.policy, "--check", "--queue", "iptables"];
    let said = fwctl(&place.namespace, NO_SOCKET, &options)?;
    said.error(2, "nft does not take the kernel's text")?;
    let without = POLICY
        .replace("tls sni @denied", "")
        .replace("learn dns", "comment");
    place.policy = place.folder.write("without.nft", without)?;
    let said = fwctl(&place.namespace, NO_SOCKET, &["split", &place.policy])?;
    said.error(2, "no rule asks for a name")
}

/// Checks the files that --write writes with --queue nft and with --queue iptables, and that the kernel loads them.
fn writes_what_can_be_loaded() -> anyhow::Result<()> {
    let place = Place::new()?;
    for queue in ["nft", "iptables"] {
        let folder = place.folder.file(queue);
        let options = ["--queue", queue, "--queues", "5:6", "--write", &folder];
        let said = place.split(&options)?;
        ensure!(said.is_empty(), "--write prints: {said}");
        let read = |name: &str| fs::read_to_string(format!("{folder}/{name}"));
        let kernel = place.split(&options[..4])?;
        ensure!(
            read("kernel.nft")?.trim_end() == kernel.trim_end(),
            "{folder}: {kernel}"
        );
        ensure!(read("stage")?.starts_with("0x"), "{folder}");
        ensure!(read("names.nft")?.contains("ads.example"), "{folder}");
        ensure!(
            kernel.contains("queue num 5-6") == (queue == "nft"),
            "{kernel}"
        );
        let iptables = read("iptables.rules").ok();
        ensure!(iptables.is_some() == (queue == "iptables"), "{folder}");
        if let Some(rules) = iptables {
            ensure!(rules.contains("-j NFQUEUE --queue-balance 5:6"), "{rules}");
            place.namespace.feed("nft", &["-f", "-"], &kernel)?;
            place
                .namespace
                .feed("iptables-restore", &["--noflush"], &rules)?;
            place
                .namespace
                .feed("ip6tables-restore", &["--noflush"], &rules)?;
        } else if place.has_queue() {
            place.namespace.feed("nft", &["-f", "-"], &kernel)?;
        }
    }
    Ok(())
}
