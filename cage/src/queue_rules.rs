// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules in the cage's network namespace that send packets to the firewall: all except those on loopback, of IPv6
//! neighbour discovery, and of settled TCP connections. No rule has `bypass`: without a firewall, the kernel drops
//! these packets.
//!
//! A direction of a connection is settled when the policy has set its bit of `SETTLED` in the mark of a packet, which
//! the firewall applies only once the connection's names are final (--settled). The kernel stores it in the
//! connection's mark. A SYN clears it, and SYN, FIN and RST are always queued, so that the firewall sees the start and
//! end of connections.
//!
//! Connection tracking passes its state to the firewall in bits of the mark, since some kernels have no attribute for
//! it; the bits are those of rules/queue/conntrack-host.iptables. The kernel alone handles IPv6 neighbour discovery:
//! its messages end at the uplink, and only processes with CAP_NET_RAW could send others.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::failure::Failure;
use crate::programs;

pub const QUEUE: u16 = 0;
/// Bits of a connection's mark, by direction: the command's packets (OUT) or its peer's packets (IN) are no longer
/// queued to the firewall.
pub const SETTLED_OUT: u32 = 0x8000_0000;
pub const SETTLED_IN: u32 = 0x2000_0000;
pub const SETTLED: u32 = SETTLED_OUT | SETTLED_IN;

/// Conntrack states, each with the bit of the packet's mark by which the firewall gets the state.
const STATES: [(&str, &str); 5] = [
    ("invalid", "0x01000000"),
    ("established", "0x02000000"),
    ("related", "0x04000000"),
    ("new", "0x08000000"),
    ("untracked", "0x40000000"),
];
const STATE_BITS: u32 = 0x4f00_0000;
/// ICMPv6 types that are accepted without the firewall: router solicitation, neighbour solicitation and advertisement,
/// multicast reports.
const NEIGHBOURS: [u8; 5] = [133, 135, 136, 131, 143];

/// Returns the queue rules as a text for `nft -f -`.
pub fn for_nft() -> String {
    let mut chains = String::new();
    let types = NEIGHBOURS.map(|number| number.to_string()).join(", ");
    let (others, unsettled) = (!(STATE_BITS | SETTLED), !SETTLED);
    for (hook, way, own) in [
        ("input", "iifname", SETTLED_IN),
        ("output", "oifname", SETTLED_OUT),
    ] {
        chains += &format!(
            "\tchain {hook} {{\n\t\ttype filter hook {hook} priority mangle; policy drop;\n\
             \t\t{way} \"lo\" accept\n\
             \t\ticmpv6 type {{ {types} }} accept\n\
             \t\ttcp flags & syn == syn ct mark set ct mark & {unsettled:#x}\n\
             \t\ttcp flags & (fin | syn | rst) == 0 ct mark & {own:#x} == {own:#x} accept\n"
        );
        for (state, bit) in STATES {
            chains +=
                &format!("\t\tct state {state} meta mark set meta mark & {others:#x} | {bit}\n");
        }
        chains += &format!(
            "\t\tqueue num {QUEUE}\n\t}}\n\
             \tchain settled_{hook} {{\n\t\ttype filter hook {hook} priority filter; policy accept;\n"
        );
        for bit in [SETTLED_OUT, SETTLED_IN] {
            chains +=
                &format!("\t\tmeta mark & {bit:#x} == {bit:#x} ct mark set ct mark | {bit:#x}\n");
        }
        chains += "\t}\n";
    }
    format!("table inet cage {{\n{chains}}}\n")
}

/// Returns the queue rules as a text for `iptables-restore`, or for `ip6tables-restore` with `is_ipv6`.
pub fn for_iptables(is_ipv6: bool) -> String {
    let (mut queued, mut settled) = (String::new(), String::new());
    let bits = STATE_BITS | SETTLED;
    for (hook, way, own) in [("INPUT", "-i", SETTLED_IN), ("OUTPUT", "-o", SETTLED_OUT)] {
        queued += &format!("-A {hook} {way} lo -j ACCEPT\n");
        for number in NEIGHBOURS.iter().filter(|_| is_ipv6) {
            queued +=
                &format!("-A {hook} -p ipv6-icmp -m icmp6 --icmpv6-type {number} -j ACCEPT\n");
        }
        queued += &format!(
            "-A {hook} -p tcp -m tcp --tcp-flags SYN SYN -j CONNMARK --set-xmark 0x0/{SETTLED:#x}\n\
             -A {hook} -p tcp -m tcp --tcp-flags FIN,SYN,RST NONE -m connmark --mark {own:#x}/{own:#x} -j ACCEPT\n"
        );
        for (state, bit) in STATES {
            let state = state.to_uppercase();
            queued += &format!(
                "-A {hook} -m conntrack --ctstate {state} -j MARK --set-xmark {bit}/{bits:#x}\n"
            );
        }
        queued += &format!("-A {hook} -j NFQUEUE --queue-num {QUEUE}\n");
        for bit in [SETTLED_OUT, SETTLED_IN] {
            settled += &format!(
                "-A {hook} -m mark --mark {bit:#x}/{bit:#x} -j CONNMARK --set-xmark {bit:#x}/{bit:#x}\n"
            );
        }
    }
    format!(
        "*mangle\n:INPUT DROP [0:0]\n:FORWARD DROP [0:0]\n:OUTPUT DROP [0:0]\n{queued}COMMIT\n\
         *filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{settled}COMMIT\n"
    )
}

fn feed(program: &Path, arguments: &[&str], text: &str) -> std::io::Result<Output> {
    let mut command = Command::new(program);
    // iptables-legacy's lock file is in a root-only folder; no other process uses this network namespace.
    command.args(arguments).env("XTABLES_LOCKFILE", "/dev/null");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program doesn't read the rules, its exit status shows the reason.
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait_with_output()
}

/// Loads rules with one program. Fails with the first line of its error output.
fn load_with(name: &str, arguments: &[&str], text: &str) -> Result<(), String> {
    let program = programs::find(name).ok_or_else(|| format!("{name} is not installed"))?;
    let output = feed(&program, arguments, text).map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("it failed");
    Err(format!("{name}: {}", line.trim()))
}

fn load_iptables(suffix: &str) -> Result<(), String> {
    for (family, is_ipv6) in [("iptables", false), ("ip6tables", true)] {
        let text = for_iptables(is_ipv6);
        load_with(&format!("{family}{suffix}-restore"), &[], &text)?;
    }
    Ok(())
}

/// Loads the queue rules into the calling thread's network namespace: by nft, or if that fails (the kernel may lack its
/// `queue`), by iptables-nft or iptables-legacy.
pub fn load() -> Result<(), Failure> {
    let ways = [
        || load_with("nft", &["-f", "-"], &for_nft()),
        || load_iptables("-nft"),
        || load_iptables("-legacy"),
    ];
    let mut complaints = Vec::new();
    for way in ways {
        match way() {
            Ok(()) => return Ok(()),
            Err(complaint) => complaints.push(complaint),
        }
    }
    Err(Failure::new(format_args!(
        "no queue rule could be loaded ({}): install nftables or iptables, and as root load the modules nft_queue, \
         xt_NFQUEUE and nfnetlink_queue",
        complaints.join("; ")
    )))
}
