// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules in the hook output that read addresses and ports after NAT, while packets are queued before NAT.

use std::net::Ipv4Addr;

use anyhow::ensure;
use testbed::place::run;
use testbed::twin::Twin;
use testbed::wait::PATIENCE;
use twinwall_tests::case::Row;

use super::Stage;
use crate::evasion::net::{Hook, Net, Sees, SERVER};
use crate::names::ends::{self, Heard, Hello, Identity, QUIC_PORT};
use crate::names::{self, REFUSED};

pub const ROWS: &[Row] = &[("names-behind-nat-of-the-own-host", behind_nat)];

/// Address to which the client's kernel translates SERVER.
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 3, 9);
const ALLOWED: &str = "allowed.example";
const DENIED: &str = "denied.example";

/// Checks that clients reach an allowed name and not a denied one over QUIC and DNS, by rules with the translated
/// address, and that no name passes over TCP.
fn behind_nat(twin: Twin) -> anyhow::Result<()> {
    let net = Net::at(Hook::Output, Sees::Both)?;
    let inside = format!("{INSIDE}/24");
    run(
        &net.server,
        "ip",
        &["address", "add", &inside, "dev", "left"],
    )?;
    let to = Ipv4Addr::from(SERVER);
    let rules = format!("*nat\n-A OUTPUT -d {to} -j DNAT --to-destination {INSIDE}\nCOMMIT\n");
    net.firewall
        .feed("iptables-restore", &["--noflush", "--wait"], &rules)?;
    let identity = Identity::new(&[ALLOWED, DENIED])?;
    ends::serve_quic(&net, &identity, QUIC_PORT, false, &Heard::default())?;
    let _resolver = names::start_resolver(&net, &[names::EVERY_NAME.to_owned()])?;
    let policy = format!(
        "table inet filter {{\n\tchain forward {{\n\t\ttype filter hook forward priority 0; policy accept;\n\t\t\
         ip daddr {INSIDE} tls sni \"{DENIED}\" drop\n\t\t\
         ip daddr {INSIDE} th dport 53 dns name \"{DENIED}\" drop\n\t}}\n}}\n"
    );
    let stage = Stage::start(&net, twin, &policy)?;
    for name in [ALLOWED, DENIED] {
        let is_allowed = name == ALLOWED;
        let limit = if is_allowed { PATIENCE } else { REFUSED };
        let config = identity.client(Hello::Plain, None)?;
        let completes = ends::completes_quic(&net, SERVER.into(), config, name, limit)?;
        ensure!(completes == is_allowed, "QUIC, {name}: {completes}");
        let resolved =
            |more| names::is_answered(&net.client, &names::dig(name, more), "192.0.2.77");
        let more: &[&str] = if is_allowed { &["+time=60"] } else { &[] };
        let is_resolved = resolved(more)?;
        ensure!(is_resolved == is_allowed, "dig, {name}: {is_resolved}");
        // Requests and answers are queued before NAT. Over TCP their addresses differ, so the names are unreadable, and
        // rules that drop by name drop the connection.
        ensure!(!resolved(&["+tcp"])?, "dig over TCP, {name}");
        ensure!(!names::is_fetched(&net, name)?, "TLS, {name}");
    }
    stage.finish()
}
