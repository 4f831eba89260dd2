// SPDX-License-Identifier: GPL-2.0-or-later
//! Ports that Docker publishes: from the command lines of its proxies, and from its rules, because it may run no proxy.

use std::collections::BTreeSet;
use std::net::IpAddr;

use procfs::process::all_processes;

use super::arguments::{Ports, Protocol};
use crate::doctor::ruleset::Table;
use crate::doctor::tools;

/// Name of the program of Docker's proxies.
pub const PROXY: &str = "docker-proxy";
/// Docker's chain in the tables `nat` of iptables.
const CHAIN: &str = "DOCKER";

fn protocol(name: &str) -> Option<Protocol> {
    match name {
        "tcp" => Some(Protocol::Tcp),
        "udp" => Some(Protocol::Udp),
        _ => None,
    }
}

/// Parses a published port. Returns None if only this host can reach the address, or the protocol is neither TCP nor
/// UDP.
/// - name: name of the protocol.
/// - address: address with or without a prefix length; None: all addresses.
fn published(name: &str, port: &str, address: Option<&str>) -> Option<Ports> {
    let address: Option<IpAddr> = address.and_then(|text| text.split('/').next()?.parse().ok());
    let is_local = address.is_some_and(|address| address.is_loopback());
    let ports = Ports::one(protocol(name)?, port.parse().ok()?);
    (!is_local).then_some(ports)
}

/// Returns the word after an option of a command line; None if there is none.
fn option<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == name)?;
    words.get(at + 1).copied()
}

/// Parses the command line of a proxy. Returns the published port.
fn of_proxy(words: &[&str]) -> Option<Ports> {
    let (protocol, port) = (option(words, "-proto")?, option(words, "-host-port")?);
    published(protocol, port, option(words, "-host-ip"))
}

/// Parses a rule such as `-t nat -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination
/// 172.17.0.2:80`. Returns the published port.
fn of_rule(text: &str) -> Option<Ports> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (protocol, port) = (option(&words, "-p")?, option(&words, "--dport")?);
    (option(&words, "-j")? == "DNAT").then(|| published(protocol, port, option(&words, "-d")))?
}

fn of_tables(tables: &[Table]) -> impl Iterator<Item = Ports> + '_ {
    let nat = tables.iter().filter(|table| table.name == "nat");
    let chains = nat.flat_map(|table| &table.chains);
    let rules = chains
        .filter(|chain| chain.name == CHAIN)
        .flat_map(|chain| &chain.rules);
    rules.filter_map(|rule| of_rule(&rule.text))
}

/// Returns the ports of running proxies; only proxies that run as root count.
fn of_proxies() -> Vec<Ports> {
    let mut all = Vec::new();
    for process in all_processes().into_iter().flatten().flatten() {
        let is_proxy = process
            .status()
            .is_ok_and(|status| status.euid == 0 && status.name == PROXY);
        if is_proxy {
            let words = process.cmdline().unwrap_or_default();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            all.extend(of_proxy(&words));
        }
    }
    all
}

/// Returns the ports that Docker publishes. Without root's rights, finds only the ports of proxies.
pub fn ports() -> BTreeSet<Ports> {
    let mut all: BTreeSet<Ports> = of_proxies().into_iter().collect();
    all.extend(of_tables(&tools::gather().0));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::iptables;

    #[test]
    fn proxies_tell_their_ports() {
        let line = "/usr/bin/docker-proxy -proto tcp -host-ip 0.0.0.0 -host-port 8080 -container-ip 172.17.0.2 -container-port 80";
        let of = |line: &str| of_proxy(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(of(line), Some(Ports::one(Protocol::Tcp, 8080)));
        let udp = line.replace("tcp", "udp").replace("0.0.0.0", "::");
        assert_eq!(of(&udp), Some(Ports::one(Protocol::Udp, 8080)));
        assert_eq!(of(&line.replace("0.0.0.0", "127.0.0.1")), None);
        assert_eq!(of("docker-proxy -version"), None);
    }

    #[test]
    fn rules_tell_published_ports() {
        let text = "*nat\n:PREROUTING ACCEPT [0:0]\n:DOCKER - [0:0]\n\
            -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER\n\
            -A DOCKER -i docker0 -j RETURN\n\
            -A DOCKER ! -i docker0 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 172.17.0.2:80\n\
            -A DOCKER -d 127.0.0.1/32 ! -i docker0 -p tcp -m tcp --dport 5432 -j DNAT --to-destination 172.17.0.3:5432\n\
            -A DOCKER -d 192.0.2.1/32 ! -i docker0 -p udp -m udp --dport 53 -j DNAT --to-destination 172.17.0.4:53\n\
            COMMIT\n";
        let tables = iptables::parse("iptables", text);
        let found: Vec<Ports> = of_tables(&tables).collect();
        let expected = [
            Ports::one(Protocol::Tcp, 8080),
            Ports::one(Protocol::Udp, 53),
        ];
        assert_eq!(found, expected);
    }
}
