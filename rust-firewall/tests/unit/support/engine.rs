// SPDX-License-Identifier: GPL-2.0-or-later
//! Random policies and packets with few different values, so that packets often match rules; and compilation of
//! policies with their state. The C twin's tests/engine.c generates the same policies and packets from the same random
//! numbers.

use std::fmt::Write;

use rust_firewall::base::log::Failure;
use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::flow::{self, DecidePolicy, Flow, FlowCounters};
use rust_firewall::engine::types::DecideInput;
use rust_firewall::packet::{Packet, PacketStatus};
use rust_firewall::policy::parse;

/// Sebastiano Vigna's splitmix64: numbers that look random and are the same on every run and in both
/// twins.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    /// Returns a number less than a bound, which must not be 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        (self.next() >> 32) as u32 % bound
    }
}

/// A compiled policy with its state.
pub struct Engine {
    pub compiled: Compiled,
    pub flow: Flow,
    pub counters: FlowCounters,
}

impl Engine {
    pub fn policy(&self) -> DecidePolicy<'_> {
        DecidePolicy {
            compiled: &self.compiled,
            flow: &self.flow,
            counters: &self.counters,
        }
    }

    /// Returns the packets and bytes of a counter.
    pub fn counter(&self, counter: u32) -> (u64, u64) {
        let mut sum = flow::FlowCounter::default();
        flow::sum(&self.counters, counter, &mut sum);
        (sum.packets, sum.bytes)
    }
}

/// Returns the index of an interface of the tests: 1 for lo, 2 to 5 for eth0 to eth3, otherwise 0.
pub fn interface_index(name: &str) -> u32 {
    match name {
        "lo" => 1,
        "eth0" => 2,
        "eth1" => 3,
        "eth2" => 4,
        "eth3" => 5,
        _ => 0,
    }
}

/// Compiles a policy's text.
/// - linear, must_exist: `linear` and `interfaces_must_exist` of `CompileSettings`.
pub fn compile_text(text: &str, linear: bool, must_exist: bool) -> Result<Engine, Failure> {
    let policy = parse::text("policy.nft", text.as_bytes())?;
    let settings = CompileSettings {
        linear,
        interface_index: &interface_index,
        interfaces_must_exist: must_exist,
    };
    let compiled = compile::policy(&policy, &settings)?;
    let flow = flow::make(&compiled);
    let counters = flow::counters_make(&compiled);
    Ok(Engine {
        compiled,
        flow,
        counters,
    })
}

/// Compiles a policy's text. The test fails if the text is not valid; missing interfaces are allowed.
/// - linear: `linear` of `CompileSettings`.
pub fn engine(text: &str, linear: bool) -> Engine {
    match compile_text(text, linear, false) {
        Ok(engine) => engine,
        Err(failure) => panic!("{}\n{text}", failure.text),
    }
}

/// Returns the metadata of a packet on the hook input, with all optional fields absent.
pub fn input<'a>(packet: &'a Packet<'a>, status: PacketStatus) -> DecideInput<'a> {
    DecideInput {
        packet,
        status,
        truncated: false,
        hook: 1,
        nfproto: 0,
        length: packet.original,
        mark: 0,
        iif: 0,
        oif: 0,
        iifname: 0,
        oifname: 0,
        uid: None,
        gid: None,
        ct_state: None,
        ct_mark: None,
        names: None,
        host_number: 0,
        alpn_bits: 0,
        refused: false,
        now_ns: 0,
    }
}

/// Returns an interface name as a value of the type ifname.
pub fn ifname(name: &str) -> u128 {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    u128::from_be_bytes(bytes)
}

const PORTS: u32 = 60;
const ADDRESSES: u32 = 48;
const MARKS: u32 = 6;
const CHAINS: u32 = 4;

/// Protocols that a rule's matches require; they are fixed for a rule, so that its matches don't exclude each other.
#[derive(Clone, Copy)]
struct Kind {
    ipv6: bool,
    udp: bool,
}

fn address(random: &mut Random, kind: Kind) -> String {
    let host = random.below(ADDRESSES);
    if kind.ipv6 {
        format!("2001:db8::{host:x}")
    } else {
        format!("10.0.0.{host}")
    }
}

fn port_match(random: &mut Random, kind: Kind, text: &mut String) {
    let protocol = if kind.udp { "udp" } else { "tcp" };
    let port = random.below(PORTS);
    let _ = match random.below(8) {
        0..=2 => write!(text, "{protocol} dport {port} "),
        3 => write!(text, "{protocol} dport {port}-{} ", port + random.below(8)),
        4 => write!(
            text,
            "{protocol} dport {{ {port}, {}, {}-{} }} ",
            port + 70,
            port + 2,
            port + 4
        ),
        5 => write!(text, "{protocol} sport != {port} "),
        6 => write!(text, "th dport >= {port} "),
        _ => write!(text, "{protocol} sport < {port} "),
    };
}

fn address_match(random: &mut Random, kind: Kind, text: &mut String) {
    let family = if kind.ipv6 { "ip6" } else { "ip" };
    let first = address(random, kind);
    let _ = match random.below(9) {
        7 | 8 if kind.ipv6 => write!(text, "ip6 saddr & ::7 == ::{:x} ", random.below(8)),
        7 | 8 => write!(text, "ip saddr & 0.0.0.7 == 0.0.0.{} ", random.below(8)),
        0..=2 => write!(text, "{family} saddr {first} "),
        3 => write!(
            text,
            "{family} saddr {first}/{} ",
            if kind.ipv6 { 124 } else { 29 }
        ),
        4 => write!(text, "{family} saddr != {first} "),
        5 => write!(
            text,
            "{family} saddr @{} ",
            if kind.ipv6 { "six" } else { "four" }
        ),
        _ if kind.ipv6 => write!(text, "ip6 hoplimit {} ", random.below(4)),
        _ => write!(text, "ip daddr {{ {first}, 10.0.1.0/24 }} "),
    };
}

fn other_match(random: &mut Random, kind: Kind, text: &mut String) {
    let _ = match random.below(9) {
        0 => write!(text, "meta mark {} ", random.below(MARKS)),
        1 => write!(text, "meta mark & 3 == {} ", random.below(4)),
        2 => write!(text, "iifname \"eth{}\" ", random.below(4)),
        3 => write!(text, "iifname \"eth*\" "),
        4 => write!(text, "iif eth{} ", random.below(4)),
        5 => write!(text, "meta length {}-{} ", 40, 50 + random.below(20)),
        6 if !kind.udp => write!(text, "tcp flags & (syn | ack) == syn "),
        7 if !kind.udp && !kind.ipv6 => write!(text, "ip saddr . tcp dport @both "),
        8 if !kind.ipv6 => write!(
            text,
            "ip saddr . meta l4proto {{ 10.0.0.{} . tcp, 10.0.0.0/28 . udp }} ",
            random.below(ADDRESSES)
        ),
        _ => write!(text, "ct state new,established "),
    };
}

fn effect(random: &mut Random, text: &mut String) {
    let _ = match random.below(12) {
        0..=5 => write!(text, "counter "),
        6 => write!(text, "limit rate 4/second burst 3 packets "),
        7 => write!(text, "limit rate over 500 bytes/second "),
        8 => write!(text, "quota over {} bytes ", 500 * (1 + random.below(9))),
        9 => write!(text, "meta mark set {} ", random.below(MARKS)),
        10 => write!(text, "meta mark set meta mark & 5 ^ 2 "),
        _ => write!(text, "log "),
    };
}

/// Writes a rule's last statement: a verdict, a reject, a verdict map, or a mark from a map.
/// - chain: number of the rule's chain; jumps lead to chains with higher numbers.
fn verdict(random: &mut Random, chain: u32, kind: Kind, text: &mut String) {
    let to = (chain + 1 + random.below(2)).min(CHAINS - 1);
    let may_jump = chain + 1 < CHAINS;
    let _ = match random.below(14) {
        0..=2 => write!(text, "accept"),
        3..=5 => write!(text, "drop"),
        6 => write!(text, "return"),
        7 if may_jump => write!(text, "jump c{to}"),
        8 if may_jump => write!(text, "goto c{to}"),
        9 if may_jump => write!(text, "jump c{to}"),
        10 => write!(text, "reject"),
        11 if !kind.udp => write!(text, "tcp dport vmap @ports"),
        12 if !kind.udp => write!(text, "reject with tcp reset"),
        13 if kind.udp => write!(text, "meta mark set udp dport map @marks"),
        _ => write!(text, "continue"),
    };
}

/// Writes a rule.
/// - favourite: kind of match of most rules in its chain: 0 = port, 1 = address, 2 = other.
fn rule(random: &mut Random, chain: u32, favourite: u32, text: &mut String) {
    let kind = Kind {
        ipv6: random.below(4) == 0,
        udp: random.below(4) == 0,
    };
    text.push_str("\t\t");
    if random.below(10) == 0 {
        text.push_str("counter ");
    }
    match if random.below(8) > 0 {
        favourite
    } else {
        random.below(3)
    } {
        0 => port_match(random, kind, text),
        1 => address_match(random, kind, text),
        _ => other_match(random, kind, text),
    }
    match random.below(8) {
        0 => port_match(random, kind, text),
        1 => address_match(random, kind, text),
        2 => other_match(random, kind, text),
        _ => {}
    }
    for _ in 0..random.below(3) {
        effect(random, text);
    }
    verdict(random, chain, kind, text);
    text.push('\n');
}

fn sets(random: &mut Random, text: &mut String) {
    text.push_str("\tset four {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\tauto-merge\n\t\telements = { 10.0.0.0/30");
    for _ in 0..random.below(10) {
        let _ = write!(text, ", 10.0.0.{}", random.below(ADDRESSES));
    }
    text.push_str(" }\n\t}\n\tset six {\n\t\ttype ipv6_addr\n\t\tflags interval\n\t\tauto-merge\n\t\telements = { 2001:db8::4/126");
    for _ in 0..random.below(10) {
        let _ = write!(text, ", 2001:db8::{:x}", random.below(ADDRESSES));
    }
    text.push_str(" }\n\t}\n\tset both {\n\t\ttype ipv4_addr . inet_service\n\t\tflags interval\n\t\telements = { 10.0.0.63 . 1");
    for host in 0..random.below(ADDRESSES) {
        let port = random.below(PORTS);
        let more = random.below(3) * 5;
        let _ = write!(text, ", 10.0.0.{host} . {port}-{}", port + more);
    }
    text.push_str(
        " }\n\t}\n\tmap ports {\n\t\ttype inet_service : verdict\n\t\telements = { 99 : accept",
    );
    for port in 0..random.below(PORTS) {
        let verdict = ["accept", "drop", "return", "jump c3", "continue"];
        let _ = write!(text, ", {port} : {}", verdict[random.below(5) as usize]);
    }
    text.push_str(" }\n\t}\n\tmap marks {\n\t\ttype inet_service : mark\n\t\telements = { 99 : 1");
    for port in 0..random.below(PORTS) {
        let _ = write!(text, ", {port} : {}", random.below(MARKS));
    }
    text.push_str(" }\n\t}\n");
}

fn chain(random: &mut Random, number: u32, text: &mut String) {
    let favourite = random.below(3);
    let rules = random.below(90);
    for _ in 0..rules {
        rule(random, number, favourite, text);
    }
    text.push_str("\t}\n");
}

/// Generates a policy with one table inet: base chains c0 and late of the hook input, and chains that c0 may jump to.
/// Verdict maps jump to c3, which has no jumps.
pub fn policy_text(random: &mut Random) -> String {
    let mut text = String::from("table inet filter {\n");
    sets(random, &mut text);
    text.push_str("\tchain c3 {\n\t\tip saddr 10.0.0.7 counter drop\n\t\tcounter\n\t}\n");
    for number in 0..CHAINS - 1 {
        let _ = writeln!(text, "\tchain c{number} {{");
        if number == 0 {
            text.push_str("\t\ttype filter hook input priority 0; policy drop;\n");
        }
        chain(random, number, &mut text);
    }
    text.push_str("\tchain late {\n\t\ttype filter hook input priority 10; policy accept;\n\t\tcounter\n\t\tmeta mark 3 drop\n\t}\n}\n");
    text
}

/// Generates a random packet: IPv4 or IPv6 with TCP, UDP or ICMP. Its addresses and ports are in the ranges that
/// `policy_text` uses.
pub fn packet_bytes(random: &mut Random) -> Vec<u8> {
    let ipv6 = random.below(4) == 0;
    let protocol = [6, 6, 17, 1][random.below(4) as usize];
    let host = random.below(ADDRESSES) as u8;
    let (sport, dport) = (random.below(PORTS), random.below(PORTS));
    let flags = [2, 16, 18][random.below(3) as usize];
    let mut bytes = Vec::new();
    if ipv6 {
        bytes.extend([0x60, 0, 0, 0, 0, 20, protocol, random.below(4) as u8]);
        for last in [host, 1] {
            bytes.extend([
                0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last,
            ]);
        }
    } else {
        bytes.extend([0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
        bytes.extend([10, 0, 0, host, 10, 0, 1, 1]);
    }
    bytes.extend([0, sport as u8, 0, dport as u8]);
    // The rest of the TCP header; in UDP the first 4 bytes are length and checksum.
    bytes.extend([0, 20, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
    bytes
}
