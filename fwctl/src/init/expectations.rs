// SPDX-License-Identifier: GPL-2.0-or-later
//! Expectations of a host's policy, which are checked at each apply (docs/POLICY.md): SSH stays possible, open ports
//! are open, other ports are closed.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use super::arguments::{Ports, Protocol};
use super::wish::{Host, Wish};

/// Addresses of hosts without special rights. Crate `expect` also uses them for sources without an address.
const OTHERS: [&str; 2] = ["198.18.0.1", "2001:2::1"];
const OTHER_SERVER: &str = "198.18.0.2";

/// Writes expectations for the present SSH session, and for SSH from the addresses in OTHERS.
fn ssh(text: &mut String, wish: &Wish, host: &Host) {
    if let Some(session) = host.ssh.session {
        let (client, server) = (session.client, session.server);
        let _ = writeln!(text, "# expect: in tcp {client} -> {server} new accept");
        let _ = writeln!(
            text,
            "# expect: in tcp {client} -> {server} established accept"
        );
        let _ = writeln!(
            text,
            "# expect: out tcp {server} -> {client} established accept"
        );
    }
    let addresses = OTHERS.iter().filter_map(|text| text.parse::<IpAddr>().ok());
    for address in addresses {
        let is_held = wish.ssh_from.iter().any(|prefix| prefix.holds(&address));
        let verdict = match wish.ssh_from.is_empty() || is_held {
            true => "accept",
            false => "drop",
        };
        for port in &wish.ssh_ports {
            let _ = writeln!(text, "# expect: in tcp {address} -> :{port} new {verdict}");
        }
    }
}

fn open(text: &mut String, ports: &Ports) {
    for address in OTHERS {
        let (protocol, port) = (ports.protocol, ports.first);
        let _ = writeln!(
            text,
            "# expect: in {protocol} {address} -> :{port} new accept"
        );
    }
}

/// Writes the expectation that packets to the highest TCP port that is not open are dropped.
fn closed(text: &mut String, wish: &Wish, host: &Host) {
    let is_open = |port: u16| {
        let port = Ports::one(Protocol::Tcp, port);
        let mut all = wish.open.iter().chain(&host.published);
        all.any(|ports| ports.hold(&port)) || wish.ssh_ports.contains(&port.first)
    };
    if let Some(port) = (1..=u16::MAX).rev().find(|port| !is_open(*port)) {
        for address in OTHERS {
            let _ = writeln!(text, "# expect: in tcp {address} -> :{port} new drop");
        }
    }
}

fn names(text: &mut String, wish: &Wish, host: &Host) {
    let names = wish.names();
    for name in &names {
        let name = match name.strip_prefix("*.") {
            Some(rest) => format!("any.{rest}"),
            None => (*name).to_owned(),
        };
        let _ = writeln!(text, "# expect: out tls sni {name} accept");
        let _ = writeln!(text, "# expect: out http host {name} accept");
        let server = host
            .resolvers
            .first()
            .map(|address| SocketAddr::new(*address, 53));
        let server = server.map_or(":53".to_owned(), |server| server.to_string());
        let _ = writeln!(text, "# expect: out dns name {name} -> {server} accept");
    }
    let other: Option<IpAddr> = OTHER_SERVER.parse().ok();
    let holds_other = wish
        .prefixes()
        .iter()
        .any(|(prefix, _)| other.is_some_and(|other| prefix.holds(&other)));
    if !names.is_empty() && !names.contains(&"*.invalid") && !holds_other {
        *text += "# expect: out tls sni denied.invalid reject\n# expect: out http host denied.invalid reject\n";
    }
}

/// Returns the expectations as policy comments, each on its own line.
pub fn text(wish: &Wish, host: &Host) -> String {
    let mut text = String::from("\n# Held against the policy by fwctl check and fwctl apply.\n");
    ssh(&mut text, wish, host);
    for ports in wish.open.iter().chain(&host.published) {
        open(&mut text, ports);
    }
    closed(&mut text, wish, host);
    names(&mut text, wish, host);
    text
}
