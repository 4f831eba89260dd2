// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that a cage writes: for `--allow`, and for `--learn` while it observes.
//!
//! A new connection must go to an allowed address, or to one that DNS or /etc/hosts has for an allowed name. At the
//! ports of HTTP and HTTPS the name that the client shows must be allowed, too, unless the address itself is: a name
//! alone proves nothing, since a client can show any name to any server. For an open connection to an address of a
//! name, only the shown name or the port counts, since a connection may last longer than its address. A rule that
//! accepts all packets of a connection sets the mark that exempts the connection from the queue.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use crate::allow::{Allowed, Host};
use crate::hosts;
use crate::queue_rules::SETTLED;

const HTTP: u16 = 80;
const HTTPS: u16 = 443;
/// Limit for DNS queries of names below a wildcard, which could carry data in their labels.
const QUESTIONS: &str = "limit rate over 100/second burst 400 packets";

/// Addresses that are denied for all names: this host's, link-local ones, multicast, reserved ones, and the services of
/// clouds for metadata or agents.
const NOWHERE: [(&str, &str); 4] = [
    ("ip", "0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/3"),
    // Alibaba, Azure, Oracle.
    ("ip", "100.100.100.200, 168.63.129.16, 192.0.0.192"),
    ("ip6", "::/96, ::ffff:0:0/96, fe80::/10, ff00::/8"),
    // AWS, Google, Oracle, Alibaba, Scaleway.
    (
        "ip6",
        "fd00:ec2::254, fd20:ce::254, fd00:c1::a9fe:a9fe, fd00:100::100:200, fd00:42::42",
    ),
];

/// Allowed names by port; None: the ports of HTTP and HTTPS.
type Groups = BTreeMap<Option<u16>, BTreeSet<String>>;

fn elements<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let quoted: Vec<String> = names
        .into_iter()
        .map(|name| format!("\"{name}\""))
        .collect();
    quoted.join(", ")
}

/// Returns statements that accept a packet and set the SETTLED bits of its mark. The firewall applies these bits after
/// the names of the connection are final. The kernel then accepts TCP packets of the connection without the queue,
/// except SYN, FIN and RST.
fn accept() -> String {
    format!("meta mark set {SETTLED:#x} accept")
}

fn suffix(port: Option<u16>) -> String {
    port.map_or("web".to_owned(), |port| port.to_string())
}

fn family(address: &IpAddr) -> &'static str {
    if address.is_ipv4() {
        "ip"
    } else {
        "ip6"
    }
}

/// Writes the sets of a port: names, and the addresses that DNS returns for them.
/// - port: None: the ports of HTTP and HTTPS.
fn write_sets(text: &mut String, port: Option<u16>, names: &BTreeSet<String>) {
    let (suffix, names) = (suffix(port), elements(names));
    let _ = writeln!(
        text,
        "\tset names_{suffix} {{ type hostname; elements = {{ {names} }}; }}"
    );
    for (family, kind) in [("4", "ipv4_addr"), ("6", "ipv6_addr")] {
        let _ = writeln!(
            text,
            "\tset learned{family}_{suffix} {{ type {kind}; learn dns {{ {names} }}; }}"
        );
    }
}

/// Writes rules that accept connections by the name that the client shows; none for ports other than those of HTTP and
/// HTTPS.
/// - port: None: the ports of HTTP and HTTPS.
/// - ech: true to allow an encrypted ClientHello.
fn write_named(text: &mut String, port: Option<u16>, ech: bool) {
    let set = format!("@names_{}", suffix(port));
    if port.is_none() || port == Some(HTTPS) {
        if !ech {
            let _ = writeln!(
                text,
                "\t\tth dport {HTTPS} tls ech exists reject comment \"encrypted ClientHello\""
            );
        }
        let _ = writeln!(text, "\t\tth dport {HTTPS} tls sni {set} {}", accept());
    }
    if port.is_none() || port == Some(HTTP) {
        let _ = writeln!(text, "\t\ttcp dport {HTTP} http host {set} accept");
    }
}

/// Writes rules for opening connections: by address, and by name if the client's first packet shows one (QUIC).
/// - port: None: the ports of HTTP and HTTPS.
fn write_opening(text: &mut String, port: Option<u16>, names: &BTreeSet<String>) {
    let (ports, way) = match port {
        None => (format!("{{ {HTTP}, {HTTPS} }}"), "goto standing"),
        Some(port @ (HTTP | HTTPS)) => (port.to_string(), "goto standing"),
        Some(port) => (port.to_string(), "accept"),
    };
    let suffix = suffix(port);
    let _ = writeln!(
        text,
        "\t\tip daddr @learned4_{suffix} th dport {ports} {way}"
    );
    let _ = writeln!(
        text,
        "\t\tip6 daddr @learned6_{suffix} th dport {ports} {way}"
    );
    // Programs find addresses of /etc/hosts without a DNS query.
    for address in hosts::addresses(names) {
        let _ = writeln!(
            text,
            "\t\t{} daddr {address} th dport {ports} {way}",
            family(&address)
        );
    }
}

fn write_net(text: &mut String, address: &IpAddr, bits: u8, port: Option<u16>) {
    let family = family(address);
    let ports = port.map_or(String::new(), |port| format!(" th dport {port}"));
    let _ = writeln!(
        text,
        "\t\t{family} daddr {address}/{bits} meta l4proto {{ tcp, udp }}{ports} {}",
        accept()
    );
}

fn write_questions(text: &mut String, groups: &Groups) {
    let names: BTreeSet<&String> = groups.values().flatten().collect();
    *text += "\tchain questions {\n";
    if !names.is_empty() {
        let wild: Vec<&String> = names
            .iter()
            .copied()
            .filter(|name| name.starts_with("*."))
            .collect();
        if !wild.is_empty() {
            let _ = writeln!(
                text,
                "\t\tdns name {{ {} }} {QUESTIONS} reject comment \"too many questions\"",
                elements(wild)
            );
        }
        let _ = writeln!(
            text,
            "\t\tdns name {{ {} }} dns type {{ a, aaaa }} accept",
            elements(names)
        );
    }
    *text += "\t\treject comment \"question not allowed\"\n\t}\n";
}

/// Writes a rule that rejects queries for allowed names to DNS servers other than the resolver. Such a server's answer
/// would add an address to the allowed ones.
fn write_other_servers(text: &mut String, groups: &Groups) {
    let names: BTreeSet<&String> = groups.values().flatten().collect();
    if !names.is_empty() {
        let _ = writeln!(
            text,
            "\t\tth dport 53 dns name {{ {} }} reject comment \"question to another server\"",
            elements(names)
        );
    }
}

/// Returns the policy for `--allow`.
/// - resolver: the only DNS server that the command may query for allowed names.
/// - ech: true to allow an encrypted ClientHello.
pub fn of_allowed(allowed: &[Allowed], resolver: IpAddr, ech: bool) -> String {
    let mut groups = Groups::new();
    let mut nets = Vec::new();
    for one in allowed {
        match &one.host {
            Host::Name(name) => drop(groups.entry(one.port).or_default().insert(name.clone())),
            Host::Net(address, bits) => nets.push((address, *bits, one.port)),
        }
    }
    let mut text = format!("# The mark {SETTLED:#x}: once its names are final, the connection needs no firewall.\ntable inet cage {{\n");
    for (port, names) in &groups {
        write_sets(&mut text, *port, names);
    }
    text += "\tchain output {\n\t\ttype filter hook output priority filter; policy drop;\n";
    let _ = writeln!(
        text,
        "\t\t{} daddr {resolver} th dport 53 goto questions",
        family(&resolver)
    );
    write_other_servers(&mut text, &groups);
    for (address, bits, port) in nets {
        write_net(&mut text, address, bits, port);
    }
    text +=
        "\t\tct state established goto standing\n\t\tct state new goto opening\n\t\tdrop\n\t}\n";
    text += "\tchain standing {\n\t\tjump named\n";
    for port in groups
        .keys()
        .flatten()
        .filter(|port| ![HTTP, HTTPS].contains(port))
    {
        let _ = writeln!(text, "\t\tth dport {port} {}", accept());
    }
    text += "\t\treject comment \"name not allowed\"\n\t}\n\tchain opening {\n";
    for (family, addresses) in NOWHERE {
        let _ = writeln!(
            text,
            "\t\t{family} daddr {{ {addresses} }} reject comment \"no address of a name\""
        );
    }
    for (port, names) in &groups {
        write_opening(&mut text, *port, names);
    }
    text += "\t\treject comment \"address not allowed\"\n\t}\n\tchain named {\n";
    for port in groups.keys() {
        write_named(&mut text, *port, ech);
    }
    text += "\t}\n";
    write_questions(&mut text, &groups);
    text + INPUT
}

/// Chain without rules for incoming packets, so that the firewall sees the answers of peers, e.g. of DNS servers.
const INPUT: &str =
    "\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n\t}\n}\n";

/// Returns the observing policy: everything passes, names are read, and each DNS query over UDP is an event.
pub fn of_learning() -> String {
    let accept = accept();
    let rules = format!(
        "\t\tudp dport 53 dns name exists log prefix \"question\" accept\n\
         \t\ttls sni exists {accept}\n\t\thttp host exists accept\n\t\t{accept}\n"
    );
    format!(
        "table inet cage {{\n\tchain output {{\n\t\ttype filter hook output priority filter; policy accept;\n{rules}\t}}\n{INPUT}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> String {
        let allowed: Vec<Allowed> = words.iter().map(|word| word.parse().unwrap()).collect();
        of_allowed(&allowed, "169.254.53.53".parse().unwrap(), false)
    }

    #[test]
    fn a_port_has_sets_of_its_own() {
        let text = of(&["example.org", "git@example.org:22"]);
        assert!(
            text.contains("set names_web { type hostname; elements = { \"example.org\" }; }"),
            "{text}"
        );
        assert!(
            text.contains("ip daddr @learned4_22 th dport 22 accept"),
            "{text}"
        );
        assert!(!text.contains("http host @names_22"), "{text}");
    }

    #[test]
    fn a_port_of_names_keeps_to_names() {
        let text = of(&["example.org:443"]);
        assert!(
            text.contains("tls sni @names_443 meta mark set 0xa0000000 accept"),
            "{text}"
        );
        assert!(
            !text.contains("th dport 443 accept") && !text.contains("th dport 443 meta mark"),
            "{text}"
        );
        assert!(!text.contains("http host"), "{text}");
    }

    #[test]
    fn questions_are_bounded_under_wildcards_only() {
        assert!(of(&["*.example.org"]).contains(QUESTIONS));
        assert!(!of(&["example.org"]).contains(QUESTIONS));
    }

    #[test]
    fn only_the_resolver_answers_for_allowed_names() {
        let text = of(&["example.org", "10.0.0.0/8", "ns.example:53"]);
        let resolver = text.find("ip daddr 169.254.53.53 th dport 53").unwrap();
        let others = text.find("th dport 53 dns name { \"example.org\", \"ns.example\" } reject");
        let net = text.find("ip daddr 10.0.0.0/8").unwrap();
        assert!(
            others.is_some_and(|others| resolver < others && others < net),
            "{text}"
        );
        assert!(!of(&["10.0.0.0/8"]).contains("dns name"));
    }

    #[test]
    fn no_name_leads_to_a_metadata_service() {
        let text = of(&["example.org"]);
        for address in [
            "169.254.0.0/16",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:100::100:200",
            "fd00:42::42",
        ] {
            let is_rejected = |line: &str| {
                line.contains(address) && line.ends_with("reject comment \"no address of a name\"")
            };
            assert!(text.lines().any(is_rejected), "{address}: {text}");
        }
        rust_firewall::policy::parse::text("cage.nft", text.as_bytes()).unwrap();
    }

    #[test]
    fn nothing_allowed_is_nothing_passed() {
        let text = of(&[]);
        assert!(
            !text.replace("policy accept", "").contains("accept"),
            "{text}"
        );
    }
}
