// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that nft accepts, with names added at random places. Each must be split into a text that nft accepts, or
//! refused for a reason that docs/STAGE.md lists.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{ensure, Context};
use stage::{Options, Queue};
use testbed::netns::Namespace;
use testbed::place::namespace;
use testbed::twin::root;
use twinwall_judge::names;
use twinwall_judge::random::Random;

/// Folders with the policies to split.
const FOLDERS: [&str; 2] = ["tests/corpus/policy", "rules/policy"];
/// Policy of a router, with features that the other policies lack: a flowtable, packets that are not tracked, NAT,
/// maps, meters, named counters.
const ROUTER: &str = r#"
define lan = "lo"
table inet router {
	counter refused { }
	set guests { type ipv4_addr; flags interval; elements = { 10.1.0.0/16, 10.2.0.0/16 } }
	set seen { type ipv4_addr; flags dynamic; timeout 1m; }
	map zones { type ifname : verdict; elements = { "lo" : jump inside, "eth0" : jump outside } }
	chain raw {
		type filter hook prerouting priority raw; policy accept;
		iif lo udp dport 5353 notrack
		ip saddr @guests return
	}
	chain input {
		type filter hook input priority filter; policy drop;
		iifname $lan accept
		ct state vmap { established : accept, related : accept, invalid : drop }
		tcp dport { 22, 80, 443 } ct state new limit rate 10/second burst 20 packets accept
		ip saddr . tcp dport { 10.0.0.1 . 25, 10.0.0.2 . 587 } accept
		meta l4proto { icmp, ipv6-icmp } accept
		counter name refused reject
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established flow add @fast
		iifname vmap @zones
		ct state established,related accept
		oifname "eth0" tcp flags syn tcp option maxseg size set rt mtu
		ct status dnat accept
	}
	chain inside {
		ip saddr @guests tcp dport 25 reject with tcp reset
		add @seen { ip saddr limit rate over 100/second } drop
		ip6 daddr fd00::/8 accept
		udp dport 443 meta mark set 0x7 accept
		tcp dport 443 ct mark set ct mark | 0x10 accept
		meta skuid 0 ip dscp cs1 return
	}
	chain outside {
		fib saddr . iif oif missing drop
		ip daddr { 192.0.2.1, 192.0.2.2-192.0.2.9 } tcp dport 1024-65535 accept
	}
	chain dstnat {
		type nat hook prerouting priority dstnat; policy accept;
		iifname "eth0" tcp dport 8443 dnat ip to 10.0.0.9:443
	}
	chain srcnat {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" masquerade
	}
}
"#;
/// Number of random placements of names in the router's policy.
const ROUTER_TRIES: u64 = 64;
/// Number of random placements of names in each other policy.
const TRIES: u64 = 8;
/// Matches of host names, which are added to rules of the policies at random places.
const NAMES: [&str; 7] = [
    "tls sni \"denied.example\"",
    "tls sni { \"a.example\", \"*.b.example\" } tls alpn \"h2\"",
    "http host != \"*.allowed.example\"",
    "dns name \"denied.example\"",
    "iifname . tls sni { \"lo\" . \"denied.example\", \"eth0\" . \"*.example\" }",
    "http host . meta length != { \"a.example\" . 40-100, \"*.example\" . 50 }",
    "ct direction . tls sni . tls version { original . \"denied.example\" . 1.3 }",
];
/// Reasons for which a policy may be refused (docs/STAGE.md, "What is refused"): the first words of each.
const REASONS: [&str; 10] = [
    "a path of",
    "a rule that compares the whole mark of connections",
    "a rule that copies the whole mark of connections",
    "a rule that replaces the whole mark of connections",
    "names in a chain of priority",
    "names in a chain of type",
    "names in a table of family",
    "names in the hook",
    "names in two tables that see the same packets",
    "two lookups of names in one rule",
];
/// Minimum percentage of the policies with added names that must be split, not refused.
const SPLIT_MIN: usize = 75;

pub fn policies() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root().join(folder))? {
            found.push(entry?.path());
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "nft"));
    found.sort();
    Ok(found)
}

/// Returns the message with which nft refuses a text; None if nft accepts it.
pub fn refusal_of_nft(
    place: &Namespace,
    folder: &Path,
    text: &[u8],
) -> anyhow::Result<Option<String>> {
    let mut nft = place.command("nft");
    nft.args(["-c", "-f", "-"]).current_dir(folder);
    nft.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = nft.stderr(Stdio::piped()).spawn().context("nft")?;
    // nft may end at the first error, before it has read the whole text.
    let mut stdin = child.stdin.take().context("stdin is piped")?;
    let _ = std::io::Write::write_all(&mut stdin, text);
    drop(stdin);
    let done = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Ok((!done.status.success()).then_some(said))
}

/// Results for all policies with names: number of splits, number of refusals by reason, and texts of failures.
#[derive(Default)]
struct Found {
    split: usize,
    refused: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Found {
    fn try_one(&mut self, place: &Namespace, path: &Path, text: &str) -> anyhow::Result<()> {
        let options = Options {
            queue: Queue::Iptables,
            ..Options::default()
        };
        let name = path.display().to_string();
        let source = stage::text(&name, text).with_context(|| name.clone())?;
        let split = match stage::split(&source, &options) {
            Ok(split) => split,
            Err(refusal) => {
                let is_known = REASONS
                    .iter()
                    .any(|reason| refusal.reason.starts_with(reason));
                if !is_known {
                    self.wrong.push(format!("{refusal}\n{text}"));
                }
                *self.refused.entry(refusal.reason).or_default() += 1;
                return Ok(());
            }
        };
        let folder = path.parent().context("a folder")?;
        match refusal_of_nft(place, folder, split.kernel.as_bytes())? {
            None => self.split += 1,
            Some(why) => self.wrong.push(format!("{name}: {why}\n{}", split.kernel)),
        }
        Ok(())
    }
}

/// Returns the router's policy, with a flowtable if the kernel supports flowtables. Fails unless nft accepts it.
pub fn router(place: &Namespace) -> anyhow::Result<String> {
    let fast = "table inet router {\n\tflowtable fast { hook ingress priority filter; devices = { lo }; }\n}\n";
    let has_flowtables = refusal_of_nft(place, root(), fast.as_bytes())?.is_none();
    let lines = ROUTER
        .lines()
        .filter(|line| has_flowtables || !line.contains("flow add"));
    let own: String = lines.flat_map(|line| [line, "\n"]).collect();
    let router = if has_flowtables {
        format!("{fast}{own}")
    } else {
        own
    };
    let refusal = refusal_of_nft(place, root(), router.as_bytes())?;
    ensure!(
        refusal.is_none(),
        "nft refuses the router's policy: {refusal:?}"
    );
    Ok(router)
}

pub fn all_split() -> anyhow::Result<()> {
    let place = namespace()?;
    let mut found = Found::default();
    let mut taken = 0;
    for (number, path) in policies()?.iter().enumerate() {
        let bytes = fs::read(path)?;
        let folder = path.parent().context("a folder")?;
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        if refusal_of_nft(&place, folder, text.as_bytes())?.is_some() {
            continue;
        }
        taken += 1;
        let mut random = Random::new(number as u64 + 1);
        for _ in 0..TRIES {
            if let Some(named) = names::written(&text, &NAMES, &mut random) {
                found.try_one(&place, path, &named)?;
            }
        }
    }
    let mut random = Random::new(0);
    let router = router(&place)?;
    for _ in 0..ROUTER_TRIES {
        let named =
            names::written(&router, &NAMES, &mut random).context("a router without rules")?;
        found.try_one(&place, &root().join(FOLDERS[0]).join("router.nft"), &named)?;
    }
    let refused: usize = found.refused.values().sum();
    let all = found.split + refused + found.wrong.len();
    println!(
        "{taken} policies that nft takes, {all} with names: {} split",
        found.split
    );
    for (reason, count) in &found.refused {
        println!("  {count} refused: {reason}");
    }
    ensure!(
        found.wrong.is_empty(),
        "{} are neither split nor refused as written:\n{}",
        found.wrong.len(),
        found.wrong.join("\n")
    );
    ensure!(
        100 * found.split >= SPLIT_MIN * all,
        "{} of {all}",
        found.split
    );
    Ok(())
}
