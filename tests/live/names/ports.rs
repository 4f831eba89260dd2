// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that promise something about ports: shipped ones, and one whose later chain closes ports after rules by
//! name. A program that sends messages of every protocol from any source port to any port of a server must not get
//! around the promise.

use std::net::IpAddr;
use std::time::Instant;

use anyhow::ensure;
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::place::{load, namespace, restore};
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::shipped::{shipped, Kind, Scene, KINDS, OWN_PORTS};
use super::start;
use crate::evasion::net::{Net, Sees, SERVER, SERVER_6};
use crate::evasion::{By, ALLOWED, DENIED};

pub const ROWS: &[Row] = &[
    ("shipped-web-server", web_server),
    ("shipped-workstation", workstation),
    ("shipped-ssh-guard", ssh_guard),
    ("shipped-isolate-uid", isolate_uid),
    ("closed-ports-behind-names", |twin| {
        closed_ports(By::Twin(twin))
    }),
    ("closed-ports-behind-names-in-the-stage", |twin| {
        closed_ports(By::Stage(twin))
    }),
];

/// Rules by name, and ports that a later chain closes: while a name is not known, an accept by the first chain must not
/// skip the second one.
const CLOSED_PORTS: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain names {
		type filter hook forward priority 0; policy accept;
		tls sni @denied drop
		http host @denied drop
	}
	chain ports {
		type filter hook forward priority 10; policy accept;
		tcp dport { 22, 2222 } drop
		udp dport { 53, 7777 } drop
	}
}
"#;

/// Ports of a host: those of services, and one that the kernel may assign.
const PORTS: [u16; 8] = [22, 53, 80, 123, 443, 5353, 8080, 40_000];

/// Client and host. The firewall runs on one of them, for the host's incoming or the client's outgoing packets.
struct Pair {
    client: Namespace,
    host: Namespace,
}

impl Pair {
    fn new() -> anyhow::Result<Pair> {
        let (client, host) = (namespace()?, namespace()?);
        Namespace::veth_pair(&client, &host)?;
        Ok(Pair { client, host })
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            client: &self.client,
            server: &self.host,
            addresses: [VETH_IPV4.1, VETH_IPV6.1],
            ports: &PORTS,
        }
    }
}

/// Loads the same rules into the filter tables of iptables and ip6tables.
fn queue(namespace: &Namespace, rules: &str) -> anyhow::Result<()> {
    for tool in ["iptables", "ip6tables"] {
        restore(namespace, tool, rules)?;
    }
    Ok(())
}

/// Tests the policy web-server: visitors reach TCP port 80, and no port but TCP 80, TCP 443 and UDP 443.
fn web_server(twin: Twin) -> anyhow::Result<()> {
    let pair = Pair::new()?;
    queue(&pair.host, "-A INPUT -j NFQUEUE")?;
    let (_folder, file) = shipped("web-server", &[])?;
    let firewall = start(&pair.host, twin, &["--policy", &file])?;
    let allowed = (Kind::Http, "www.example", 80);
    pair.scene()
        .try_all("www.example", allowed, &|kind, port| {
            port != 443 && (port != 80 || kind.is_udp())
        })?;
    firewall.finish().map(drop)
}

/// Tests the policy workstation with one service: no other port is reached from outside.
fn workstation(twin: Twin) -> anyhow::Result<()> {
    let pair = Pair::new()?;
    load(&pair.host, "conntrack-host")?;
    let service = [(
        "# tcp dport 22 ct state new limit rate 10/minute accept",
        "tcp dport 22 ct state new accept",
    )];
    let (_folder, file) = shipped("workstation", &service)?;
    let arguments = ["--policy", &file, "--conntrack", "mark"];
    let firewall = start(&pair.host, twin, &arguments)?;
    let allowed = (Kind::Other, "any.example", 22);
    pair.scene()
        .try_all("any.example", allowed, &|kind, port| {
            port != 22 || kind.is_udp()
        })?;
    firewall.finish().map(drop)
}

/// Tests the policy ssh-guard: ten connections to port 22 at once, then one in ten seconds. Other ports are not
/// limited.
fn ssh_guard(twin: Twin) -> anyhow::Result<()> {
    const AT_ONCE: u64 = 10;
    const SECONDS_EACH: u64 = 10;
    let pair = Pair::new()?;
    queue(&pair.host, "-A INPUT -j NFQUEUE")?;
    let (_folder, file) = shipped("ssh-guard", &[])?;
    let started = Instant::now();
    let firewall = start(&pair.host, twin, &["--policy", &file])?;
    let (mut to_ssh, mut others) = (0, 0);
    for kind in KINDS.into_iter().filter(|kind| !kind.is_udp()) {
        let allowed = (Kind::Http, "any.example", 80);
        let heard = pair.scene().round(kind, "any.example", allowed)?;
        let ssh = heard.iter().filter(|(_, port)| *port == 22).count();
        to_ssh += ssh as u64;
        others += heard.len() - ssh;
    }
    let limit = AT_ONCE + started.elapsed().as_secs() / SECONDS_EACH + 1;
    ensure!(
        to_ssh <= limit,
        "{to_ssh} connections to port 22, at most {limit} are allowed"
    );
    ensure!(
        to_ssh > 0 && others > OWN_PORTS.len(),
        "{to_ssh} connections to port 22, {others} to others"
    );
    firewall.finish().map(drop)
}

/// Tests the policy isolate-uid for this process's user: its programs reach a name server at port 53 only.
fn isolate_uid(twin: Twin) -> anyhow::Result<()> {
    let pair = Pair::new()?;
    queue(&pair.client, "-A OUTPUT -j NFQUEUE")?;
    let (v4, v6) = (VETH_IPV4.1.to_string(), VETH_IPV6.1.to_string());
    let changed = [
        ("isolated_user = 1000", "isolated_user = 0"),
        ("192.0.2.53", v4.as_str()),
        ("2001:db8::53", v6.as_str()),
        ("10.0.0.0/8", "203.0.113.0/24"),
        ("fd00::/8", "2001:db8:7::/48"),
    ];
    let (_folder, file) = shipped("isolate-uid", &changed)?;
    let firewall = start(&pair.client, twin, &["--policy", &file])?;
    let allowed = (Kind::DnsTcp, "any.example", 53);
    pair.scene()
        .try_all("any.example", allowed, &|_, port| port != 53)?;
    firewall.finish().map(drop)
}

/// Checks that no message arrives at the ports that the second base chain of CLOSED_PORTS closes, although the first
/// chain accepts it, and that no TLS, HTTP or QUIC message with a denied name arrives at any port.
pub fn closed_ports(by: By) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let scene = Scene {
        client: &net.client,
        server: &net.server,
        addresses: [IpAddr::from(SERVER), IpAddr::from(SERVER_6)],
        ports: &[22, 53, 2222, 7777, 8080],
    };
    let running = by.start(&net, CLOSED_PORTS)?;
    let allowed = (Kind::Tls, ALLOWED, 8080);
    let is_closed = |kind: Kind, port: u16| match kind.is_udp() {
        true => port == 53 || port == 7777,
        false => port == 22 || port == 2222,
    };
    scene.try_all(ALLOWED, allowed, &is_closed)?;
    scene.try_all(DENIED, allowed, &|kind, port| {
        is_closed(kind, port) || matches!(kind, Kind::Tls | Kind::Http | Kind::Quic)
    })?;
    running.finish()
}
