// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of a host's policy.
//!
//! SSH, and the answers of this host's services, are accepted by ports and flags before any other rule. So a connection
//! that is older than the policy, and has neither a state nor a class, continues. Names are matched before established
//! connections are accepted: after that, no rule would see a name.

use std::fmt::Write;
use std::net::IpAddr;

use super::arguments::{Ports, Prefix, Protocol};
use super::expectations;
use super::wish::{Host, Wish};

const HEAD: &str = "\
# The policy of this host, made by fwctl init: the language of nft, and names of hosts (docs/POLICY.md). After a change:
# fwctl apply, and fwctl confirm in another session, to see that there still can be one.
# Forwarded packets, those of containers among them, are left to the rules of the program that forwards.

";

/// Rules that accept incoming packets for IP itself: errors, neighbours and routers (RFC 4861: hop limit 255),
/// multicast groups, ping, DHCP.
const NEEDED_IN: &str = "
		# What IP needs: errors, neighbours and routers, multicast groups, addresses by DHCP; and ping.
		icmp type { destination-unreachable, time-exceeded, parameter-problem } accept
		icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept
		icmpv6 type { nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, nd-redirect } ip6 hoplimit 255 accept
		icmpv6 type { mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } ip6 saddr fe80::/10 accept
		icmp type echo-request limit rate 10/second burst 20 packets accept
		icmpv6 type echo-request limit rate 10/second burst 20 packets accept
		udp sport 67 udp dport 68 accept
		ip6 saddr fe80::/10 udp sport 547 udp dport 546 accept

		counter comment \"nothing else comes in\"
	}
";

const NEEDED_OUT: &str = "
		# What IP needs. Time (NTP) would be: udp dport 123 accept
		meta l4proto { icmp, ipv6-icmp } accept
		udp sport 68 udp dport 67 accept
		udp sport 546 udp dport 547 accept

		# Answered, so that programs see it at once.
		counter reject comment \"nothing else goes out\"
	}
";

/// Ports at which clients show names. A client on this host may use a service's port as its source port, so the rule
/// that accepts services' answers excludes these destination ports.
const NAMED: &str = "{ 53, 80, 443 }";

/// Formats the ports of a protocol as a set without duplicates, "{ 22, 8000-8100 }", or as a single port or range,
/// "22". None if there are none.
fn set(ports: impl IntoIterator<Item = Ports>, protocol: Protocol) -> Option<String> {
    let mut all: Vec<Ports> = ports
        .into_iter()
        .filter(|one| one.protocol == protocol)
        .collect();
    all.sort();
    let mut merged: Vec<Ports> = Vec::new();
    for one in all {
        match merged.last_mut() {
            Some(last) if one.first <= last.last => last.last = last.last.max(one.last),
            _ => merged.push(one),
        }
    }
    let texts: Vec<String> = merged.iter().map(Ports::to_string).collect();
    match texts.as_slice() {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("{{ {} }}", several.join(", "))),
    }
}

fn ssh_ports(wish: &Wish) -> impl Iterator<Item = Ports> + '_ {
    let ports = wish.ssh_ports.iter();
    ports.map(|port| Ports::one(Protocol::Tcp, *port))
}

/// Returns the word of a family in rules, and the suffix of its sets.
fn family(address: &IpAddr) -> (&'static str, char) {
    match address {
        IpAddr::V4(_) => ("ip", '4'),
        IpAddr::V6(_) => ("ip6", '6'),
    }
}

/// Writes a set for each family that has an address. Returns the matches of an address in them: "ip saddr @ssh4".
/// - name: name of the sets without the suffix of the family: "ssh".
/// - end: `saddr` or `daddr`.
fn address_sets(text: &mut String, name: &str, end: &str, prefixes: &[Prefix]) -> Vec<String> {
    let mut matches = Vec::new();
    for (word, suffix) in [("ip", '4'), ("ip6", '6')] {
        let own = prefixes.iter().filter(|one| family(&one.address).0 == word);
        let elements: Vec<String> = own.map(Prefix::to_string).collect();
        if elements.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "\tset {name}{suffix} {{\n\t\ttype ipv{suffix}_addr\n\t\tflags interval\n\t\tauto-merge\n\
             \t\telements = {{ {} }}\n\t}}\n\n",
            elements.join(", ")
        );
        matches.push(format!("{word} {end} @{name}{suffix}"));
    }
    matches
}

fn name_set(text: &mut String, names: &[&str]) {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let _ = write!(
        text,
        "\t# The names that this host may reach. With `*.` all names under it: write both where both are meant.\n\
         \tset names {{\n\t\ttype hostname\n\t\telements = {{ {} }}\n\t}}\n\n",
        quoted.join(", ")
    );
}

/// Writes a rule for each protocol that has ports: it accepts packets to these ports.
/// - comment: text of a comment line before the first rule.
fn open_rules(text: &mut String, ports: impl IntoIterator<Item = Ports> + Clone, comment: &str) {
    let mut comment = Some(comment);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        if let Some(set) = set(ports.clone(), protocol) {
            let head = comment.take().map(|comment| format!("\n\t\t# {comment}\n"));
            *text += &head.unwrap_or_default();
            let _ = writeln!(text, "\t\t{protocol} dport {set} counter accept");
        }
    }
}

/// Writes the chain of incoming packets.
/// - ssh: matches of the addresses from which SSH is allowed; empty = all.
fn input(text: &mut String, wish: &Wish, host: &Host, ssh: &[String]) {
    *text += "\tchain input {\n\t\ttype filter hook input priority filter; policy drop;\n\n\t\tiifname \"lo\" accept\n";
    if let Some(set) = set(ssh_ports(wish), Protocol::Tcp) {
        *text += "\n\t\t# SSH, before anything that needs the state of a connection: sessions that are there go on.\n";
        let all = [String::new()];
        for source in if ssh.is_empty() { &all } else { ssh } {
            let rule = format!("{source} tcp dport {set} counter accept");
            let _ = writeln!(text, "\t\t{}", rule.trim_start());
        }
    }
    open_rules(text, wish.open.iter().copied(), "Open to everybody.");
    let published = host.published.iter().copied();
    open_rules(
        text,
        published,
        "Published by Docker, whose own rules open them, too.",
    );
    *text += "\n\t\tct state invalid counter drop\n\t\t# Answers to what this host has asked.\n\
              \t\tct state established,related accept\n";
    *text += NEEDED_IN;
}

/// Writes the rules that accept packets to the allowed addresses.
fn destination_rules(text: &mut String, prefixes: &[(Prefix, Option<u16>)]) {
    if !prefixes.is_empty() {
        *text += "\n\t\t# Addresses that this host may reach.\n";
    }
    for (prefix, port) in prefixes {
        let (word, _) = family(&prefix.address);
        let port = port.map_or(String::new(), |port| format!(" th dport {port}"));
        let _ = writeln!(
            text,
            "\t\t{word} daddr {prefix} meta l4proto {{ tcp, udp }}{port} counter accept"
        );
    }
}

/// Writes the rules that accept packets to the allowed names, and reject other packets to the ports of NAMED.
/// - resolvers: matches of the DNS servers; empty = all.
fn name_rules(text: &mut String, resolvers: &[String]) {
    *text += "\n\t\t# Questions about these names, and connections to them. Until a client has shown the name, packets pass: the\n\
              \t\t# handshake of TCP says nothing of a name.\n";
    let all = ["meta l4proto { tcp, udp }".to_owned()];
    for server in if resolvers.is_empty() {
        &all
    } else {
        resolvers
    } {
        let _ = writeln!(
            text,
            "\t\t{server} th dport 53 dns name @names counter accept"
        );
    }
    let _ = write!(
        text,
        "\t\tmeta l4proto {{ tcp, udp }} th dport 443 tls sni @names counter accept\n\
         \t\ttcp dport 80 http host @names counter accept\n\
         \t\tmeta l4proto {{ tcp, udp }} th dport {NAMED} counter reject comment \"other names, or none\"\n"
    );
}

/// Writes the chain of outgoing packets; writes nothing if all destinations are allowed.
fn output(text: &mut String, wish: &Wish, host: &Host, resolvers: &[String]) {
    if wish.allow.is_empty() {
        return;
    }
    *text += "\n\tchain output {\n\t\ttype filter hook output priority filter; policy drop;\n\n\t\toifname \"lo\" accept\n";
    let served = ssh_ports(wish).chain(wish.open.iter().copied());
    if let Some(set) = set(served.chain(host.published.iter().copied()), Protocol::Tcp) {
        let _ = write!(
            text,
            "\n\t\t# Answers of what is served, of connections without a state, too; not what opens a connection.\n\
             \t\ttcp sport {set} tcp dport != {NAMED} tcp flags & (syn | ack) != syn accept\n"
        );
    }
    destination_rules(text, &wish.prefixes());
    if !wish.names().is_empty() {
        name_rules(text, resolvers);
    }
    *text += "\n\t\tct state established,related accept\n";
    *text += NEEDED_OUT;
}

/// Returns the text of the policy, with its expectations.
pub fn text(wish: &Wish, host: &Host) -> String {
    let mut text = HEAD.to_owned() + "table inet host {\n";
    let ssh = address_sets(&mut text, "ssh", "saddr", &wish.ssh_from);
    let names = wish.names();
    let mut resolvers = Vec::new();
    if !names.is_empty() {
        name_set(&mut text, &names);
        let bits = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
        let servers = host.resolvers.iter().map(|address| Prefix {
            address: *address,
            bits: bits(address),
        });
        let servers: Vec<Prefix> = servers.collect();
        resolvers = address_sets(&mut text, "resolvers", "daddr", &servers);
    }
    input(&mut text, wish, host, &ssh);
    output(&mut text, wish, host, &resolvers);
    text += "}\n";
    text += &expectations::text(wish, host);
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::applied::config;
    use crate::init::arguments::{destination, Origin};
    use crate::init::session::{Found, Session};

    fn host() -> Host {
        let session = Session {
            client: "[2001:db8::7]:5000".parse().unwrap(),
            server: "[2001:db8::1]:2222".parse().unwrap(),
        };
        Host {
            ssh: Found {
                session: Some(session),
                is_claim_false: false,
            },
            ssh_ports: BTreeSet::from([22, 2222]),
            published: BTreeSet::from(["8080".parse().unwrap(), "53/udp".parse().unwrap()]),
            resolvers: vec![
                "192.0.2.53".parse().unwrap(),
                "2001:db8::53".parse().unwrap(),
            ],
            ..Host::default()
        }
    }

    fn made(host: &Host, from: &[&str], open: &[&str], allow: &[&str]) -> String {
        let from: Vec<Origin> = from.iter().map(|text| text.parse().unwrap()).collect();
        let open = open.iter().map(|text| text.parse().unwrap());
        let allow = allow.iter().map(|text| destination(text).unwrap());
        text(
            &Wish::new(host, &from, open, allow.collect()).unwrap(),
            host,
        )
    }

    /// Panics unless all expectations of a policy hold. Returns their number.
    fn check(text: &str) -> usize {
        let wanted = config::read(Path::new("/nonexistent"))
            .unwrap()
            .wanted()
            .unwrap();
        let source = stage::text("p.nft", text).unwrap();
        let (all, broken) = expect::hold(&source, &wanted.expect);
        assert!(broken.is_empty(), "{}\n{text}", broken[0]);
        all
    }

    #[test]
    fn all_policies_hold_their_expectations_and_can_be_split() {
        let (none, host) = (Host::default(), host());
        let names = [
            "deb.debian.org",
            "*.example.org",
            "192.0.2.0/24:25",
            "2001:db8::/32",
        ];
        for host in [&none, &host] {
            for from in [&[][..], &["2001:db8::/64", "192.0.2.7", "192.0.2.0/25"]] {
                for open in [&[][..], &["80", "443/udp", "443", "440-450"]] {
                    for allow in [&[][..], &names[..2], &names[2..], &names[..]] {
                        let text = made(host, from, open, allow);
                        assert!(check(&text) >= 2, "{text}");
                        let source = stage::text("p.nft", &text).unwrap();
                        let asks = allow.first() == Some(&names[0]);
                        assert_eq!(stage::asks_for_names(&source).ok(), Some(asks));
                        if asks {
                            let split = stage::split(&source, &stage::Options::default()).unwrap();
                            assert!(split.warnings.is_empty(), "{:?}", split.warnings);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ports_stand_once() {
        let text = made(
            &host(),
            &[],
            &["8000-8100", "8050-8200", "80", "53/udp"],
            &["a.example"],
        );
        assert!(
            text.contains("tcp dport { 22, 2222 } counter accept"),
            "{text}"
        );
        assert!(
            text.contains("tcp dport { 80, 8000-8200 } counter accept"),
            "{text}"
        );
        assert!(
            text.contains("tcp sport { 22, 80, 2222, 8000-8200 } tcp dport != { 53, 80, 443 }"),
            "{text}"
        );
    }

    #[test]
    fn names_stand_before_established_connections() {
        let text = made(&host(), &[], &[], &["a.example"]);
        let (_, output) = text.split_once("chain output").unwrap();
        let at = |words: &str| {
            output
                .find(words)
                .unwrap_or_else(|| panic!("{words}: {output}"))
        };
        let established = at("ct state established");
        assert!(
            at("tcp sport { 22, 2222, 8080 }") < at("dns name @names"),
            "{output}"
        );
        assert!(
            at("tls sni @names") < at("other names, or none"),
            "{output}"
        );
        assert!(at("other names, or none") < established, "{output}");
    }

    #[test]
    fn a_session_needs_no_state() {
        for allow in [&[][..], &["a.example"]] {
            let text = made(&host(), &["2001:db8::7"], &[], allow);
            // A packet of a connection that the kernel has not tracked may have any of these states.
            let mut older = String::new();
            for state in ["new", "invalid", "untracked"] {
                let ends = ("[2001:db8::7]:5000", "[2001:db8::1]:2222");
                let _ = writeln!(
                    older,
                    "# expect: in tcp {} -> {} {state} accept",
                    ends.0, ends.1
                );
            }
            assert_eq!(check(&(text.clone() + &older)), check(&text) + 3);
        }
    }
}
