// SPDX-License-Identifier: GPL-2.0-or-later
//! Names on a router that translates addresses: it masquerades the client, and the server has another address than the
//! one that clients use (DNAT). Real clients reach allowed names and no denied name.

use anyhow::ensure;
use testbed::place::{restore, run};
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::{ask_all, start_resolver, EVERY_NAME, POLICY};
use crate::evasion::net::{Net, Sees, SERVER};
use crate::evasion::By;

pub const ROWS: &[Row] = &[
    ("behind-nat", |twin| behind_nat(By::Twin(twin))),
    ("behind-nat-in-the-stage", in_the_stage),
];

/// Address of the server behind the router. Clients use SERVER.
const INSIDE: [u8; 4] = [10, 9, 3, 9];

fn text(address: [u8; 4]) -> String {
    address.map(|byte| byte.to_string()).join(".")
}

/// Returns the number of packets that each rule of the table nat has translated: one per connection.
fn translated(net: &Net) -> anyhow::Result<Vec<u64>> {
    let listed = run(
        &net.firewall,
        "iptables-save",
        &["--counters", "--table", "nat"],
    )?;
    let listed = String::from_utf8(listed.stdout)?;
    let rules = listed.lines().filter(|line| line.contains(" -A "));
    let packets = rules.filter_map(|line| line.strip_prefix('[')?.split(':').next()?.parse().ok());
    Ok(packets.collect())
}

/// Checks that clients reach allowed names and no denied name, and that the router has translated the addresses of both
/// ends.
pub fn behind_nat(by: By) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let inside = format!("{}/24", text(INSIDE));
    run(
        &net.server,
        "ip",
        &["address", "add", &inside, "dev", "left"],
    )?;
    let rules = format!(
        "-A PREROUTING -i left -d {} -j DNAT --to-destination {}\n-A POSTROUTING -o right -j MASQUERADE",
        text(SERVER),
        text(INSIDE)
    );
    let rules = format!("*nat\n{rules}\nCOMMIT\n");
    net.firewall
        .feed("iptables-restore", &["--noflush", "--wait"], &rules)?;
    // Only translated packets may reach the server.
    let untranslated = [
        format!("-A INPUT -d {} -i left -j DROP", text(SERVER)),
        "-A INPUT -s 10.9.1.0/24 -j DROP".to_owned(),
    ];
    restore(&net.server, "iptables", &untranslated.join("\n"))?;
    let _resolver = start_resolver(&net, &[EVERY_NAME.to_owned()])?;
    ask_all(&net, true)?;
    let running = by.start(&net, POLICY)?;
    ask_all(&net, false)?;
    let packets = translated(&net)?;
    ensure!(packets.len() == 2 && !packets.contains(&0), "{packets:?}");
    running.finish()
}

fn in_the_stage(twin: Twin) -> anyhow::Result<()> {
    behind_nat(By::Stage(twin))
}
