// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies and packets of the micro-benchmarks, which are the same in the C twin's bench/cases.c.

use std::fmt::Write;
use std::hint::black_box;

use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow::{self, DecidePolicy, Flow, FlowCounters};
use rust_firewall::engine::types::{DecideInput, DecideSettings};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{self, Packet, PacketStatus};
use rust_firewall::policy::parse;

pub const PACKETS: usize = 512;
pub const PACKET_BYTES: usize = 40;

/// Factor that scatters numbers over 32 bits: about 2^32 / golden ratio, odd, so that its multiples differ.
pub const STRIDE: u32 = 2_654_435_761;

pub const SETTINGS: DecideSettings = DecideSettings {
    default_verdict: Verdict::Drop,
    malformed_open: false,
    truncated_open: false,
    malformed_by_policy: false,
    undecided_verdict: Verdict::Accept,
    unknown_open: false,
};

const HEAD: &str = "table inet filter {\n";
const INPUT: &str = "\tchain input {\n\t\ttype filter hook input priority filter; policy accept;\n";

fn ten_mixed(_size: u32) -> String {
    format!(
        "{HEAD}\tset admins {{\n\t\ttype ipv4_addr\n\t\tflags interval\n\
         \t\telements = {{ 10.1.0.0/16, 192.0.2.1 }}\n\t}}\n{INPUT}\
         \t\tct state established,related accept\n\
         \t\tct state invalid drop\n\
         \t\tiifname \"lo\" accept\n\
         \t\tip saddr 203.0.113.0/24 counter drop\n\
         \t\ttcp flags & (fin | syn) == fin | syn drop\n\
         \t\ticmp type echo-request limit rate 10/second accept\n\
         \t\tip saddr @admins tcp dport 22 accept\n\
         \t\ttcp dport {{ 80, 443, 8000-8100 }} counter accept\n\
         \t\tudp dport 53 accept\n\
         \t\tcounter drop\n\
         \t}}\n}}\n"
    )
}

fn ports(size: u32) -> String {
    let mut text = format!("{HEAD}{INPUT}");
    for index in 0..size {
        let _ = writeln!(text, "\t\ttcp dport {} drop", 10000 + index);
    }
    text + "\t}\n}\n"
}

fn addresses(size: u32) -> String {
    let mut text = format!("{HEAD}{INPUT}");
    for index in 0..size {
        let [a, b, c, d] = index.wrapping_mul(STRIDE).to_be_bytes();
        let _ = writeln!(text, "\t\tip saddr {a}.{b}.{c}.{d} drop");
    }
    text + "\t}\n}\n"
}

/// Returns a policy with a set of prefixes from /26 to /32, each in a /26 of its own in 10.0.0.0/8.
fn prefixes(size: u32) -> String {
    let mut text = format!(
        "{HEAD}\tset listed {{\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = {{\n"
    );
    for index in 0..size {
        let address = (index.wrapping_mul(STRIDE) & 0x3ffff) << 6;
        let [_, b, c, d] = address.to_be_bytes();
        let _ = writeln!(text, "\t\t\t10.{b}.{c}.{d}/{},", 26 + index % 7);
    }
    text + &format!("\t\t}}\n\t}}\n{INPUT}\t\tip saddr @listed drop\n\t}}\n}}\n")
}

/// Case of a benchmark: a policy with `size` rules or elements.
pub struct Case {
    pub name: &'static str,
    make: fn(u32) -> String,
    size: u32,
}

const fn case(name: &'static str, make: fn(u32) -> String, size: u32) -> Case {
    Case { name, make, size }
}

pub const CASES: [Case; 7] = [
    case("ten-mixed", ten_mixed, 10),
    case("10-ports", ports, 10),
    case("10000-ports", ports, 10000),
    case("10-addresses", addresses, 10),
    case("10000-addresses", addresses, 10000),
    case("10-prefixes", prefixes, 10),
    case("100000-prefixes", prefixes, 100_000),
];

/// Compiled policy with its state.
pub struct Subject {
    pub compiled: Compiled,
    pub flow: Flow,
    pub counters: FlowCounters,
}

pub fn make_subject(case: &Case) -> Subject {
    compile(&(case.make)(case.size))
}

pub fn compile(text: &str) -> Subject {
    let policy = parse::text("micro.nft", text.as_bytes()).expect("the policy is right");
    let settings = CompileSettings {
        linear: false,
        interface_index: &|_| 0,
        interfaces_must_exist: false,
    };
    let compiled = compile::policy(&policy, &settings).expect("the policy is right");
    Subject {
        flow: flow::make(&compiled),
        counters: flow::counters_make(&compiled),
        compiled,
    }
}

/// Returns IPv4 packets with TCP. Source addresses and destination ports are scattered. Half of the source addresses
/// are in 10.0.0.0/8.
pub fn make_bytes() -> Vec<[u8; PACKET_BYTES]> {
    const COMMON: [u8; PACKET_BYTES] = [
        0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 0, 0, 0, 0, 10, 0, 1, 1, 0x9c, 0x40, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0,
    ];
    let make = |index: u32| {
        let scattered = (index + 7).wrapping_mul(40503).wrapping_mul(STRIDE);
        let [highest, high, low, lowest] = scattered.to_be_bytes();
        let mut bytes = COMMON;
        bytes[12] = if index % 2 == 1 { 10 } else { highest };
        bytes[13] = high;
        bytes[14] = low;
        bytes[15] = lowest;
        bytes[22] = (scattered >> 20) as u8;
        bytes[23] = (scattered >> 12) as u8;
        bytes
    };
    (0..PACKETS as u32).map(make).collect()
}

pub fn make_packets(bytes: &[[u8; PACKET_BYTES]]) -> Vec<(Packet<'_>, PacketStatus)> {
    let mut packets = Vec::new();
    for bytes in bytes {
        let mut parsed = Packet::default();
        let status = packet::parse(bytes, PACKET_BYTES as u32, &mut parsed);
        packets.push((parsed, status));
    }
    packets
}

/// Returns the input of a decision: a packet that arrived at eth0, with hook input and ct state new.
pub fn make_input<'a>(packet: &'a Packet<'a>, status: PacketStatus) -> DecideInput<'a> {
    DecideInput {
        packet,
        status,
        truncated: false,
        hook: 1,
        nfproto: 2,
        length: packet.end,
        mark: 0,
        iif: 2,
        oif: 0,
        iifname: 0x6574_6830 << 96, // eth0
        oifname: 0,
        uid: None,
        gid: None,
        ct_state: Some(8),
        ct_mark: None,
        names: None,
        host_number: 0,
        alpn_bits: 0,
        refused: false,
        now_ns: 0,
    }
}

pub fn make_inputs<'a>(packets: &'a [(Packet<'a>, PacketStatus)]) -> Vec<DecideInput<'a>> {
    let input = |(packet, status): &'a (Packet<'a>, PacketStatus)| make_input(packet, *status);
    packets.iter().map(input).collect()
}

/// Decides all packets. Returns the number of accepted packets.
pub fn decide_all(subject: &Subject, inputs: &[DecideInput]) -> u32 {
    let policy = DecidePolicy {
        compiled: &subject.compiled,
        flow: &subject.flow,
        counters: &subject.counters,
    };
    let mut accepted = 0;
    for input in inputs {
        let outcome = decide::packet(&SETTINGS, Some(&policy), black_box(input));
        accepted += u32::from(outcome.verdict == Verdict::Accept);
    }
    accepted
}
