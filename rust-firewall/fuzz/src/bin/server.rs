// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of the following of connections, with models of TCP servers behind the firewall. A client does anything that
//! a client can (decoys that do not reach the server, different bytes for the same sequence number, SYNs, RSTs, FINs,
//! pauses, reuse of ports), and forges packets of the server. If all verdicts are applied, no server may receive a
//! request for the denied name.
//!
//! Input: a byte of properties for each server, then steps (`Step`). With TWINWALL_LINES set each input's verdicts are
//! printed, to be compared with those of the C twin.
#![no_main]

#[path = "../../../tests/unit/support/connections.rs"]
mod connections;
#[allow(dead_code)] // the fuzzer needs no random policies
#[path = "../../../tests/unit/support/engine.rs"]
mod engine;

use std::sync::OnceLock;

use engine::Engine;
use libfuzzer_sys::{fuzz_target, Corpus};
use rust_firewall::base::siphash::SiphashKey;
use rust_firewall::connection::{
    follow, ConnectionChecksum, ConnectionInput, ConnectionSettings, Connections,
};
use rust_firewall::engine::types::DecideSettings;
use rust_firewall::engine::{decide, named};
use rust_firewall::handover::connections::parse;
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{self, Packet};
use rust_firewall_fuzz::content::{self, KINDS};
use rust_firewall_fuzz::server::{self, Sent, Server, ACK, FIN, RST, SYN, URG};

const SERVERS: usize = 3;
const HEADER_BYTES: usize = 40;
// Interfaces.
const CLIENT_SIDE: u32 = 2;
const SERVER_SIDE: u32 = 3;
// Last bytes of addresses.
const CLIENT: u8 = 2;
const OTHER_CLIENT: u8 = 3;
/// Bit of a step's `server`: the client sends the denied name, otherwise the allowed name.
const DENIED: u8 = 16;
/// Property of a server: the sequence numbers of its client wrap from 2^32 - 1 to 0.
const WRAPS: u8 = 32;
const MS_NS: u64 = 1_000_000;
const STEP_BYTES: usize = 8;

/// Step of a fuzz input (STEP_BYTES bytes): one action of the client, of a forger, or of the operator (reload,
/// hand-over).
struct Step {
    /// Action of the step: `ACTION_*`, modulo ACTIONS.
    action: u8,
    /// Number of the server, the bit DENIED, and the packet's fate (`FATE_*`) in the three highest bits.
    server: u8,
    /// For data: its offset in the client's first bytes (`content::make`); from 0x8000 on, the offset of the next byte
    /// that the server expects. For ACTION_OTHERS: the first client port.
    offset: u16,
    length: u16,
    /// Change of the client's segment: `CHANGE_*`, modulo 16.
    change: u8,
    /// Time before the step, as a code for `pause_ms`.
    pause: u8,
}

// Actions, modulo ACTIONS.
/// Sends a SYN, as action 0 does, so that connections are opened often. Actions from 7 on send data.
const ACTION_SYN_TOO: u8 = 1;
/// Sends a segment without data from the client, whose flags are one of ODD_FLAGS.
const ACTION_FLAGS: u8 = 2;
const ACTION_RELOAD: u8 = 3;
const ACTION_HAND_OVER: u8 = 4;
/// Sends a packet with the server's address from the client's side.
const ACTION_FORGE: u8 = 5;
/// Opens connections of another client.
const ACTION_OTHERS: u8 = 6;
const ACTIONS: u8 = 14;

// Fates of a packet: the three highest bits of a step's server. With other values the packet arrives unchanged.
/// The packet is lost between the firewall and the server; also with FATE_DECOY_TOO.
const FATE_DECOY: u8 = 4;
const FATE_DECOY_TOO: u8 = 5;
/// The packet's checksum is wrong, and the server does not receive the packet.
const FATE_BAD_CHECKSUM: u8 = 6;
/// The server's answer is lost on its way to the firewall.
const FATE_UNHEARD: u8 = 7;

// Changes of a client's segment: a step's change modulo 16. Other values change nothing.
const CHANGE_ACKNOWLEDGED: u8 = 10;
const CHANGE_NO_ACK: u8 = 11;
const CHANGE_URGENT: u8 = 12;
/// Shifts the sequence number by one of SHIFTS.
const CHANGE_SEQUENCE: u8 = 13;
/// Changes a byte of the data.
const CHANGE_BYTE: u8 = 14;
/// Changes the client's initial sequence number.
const CHANGE_BASE: u8 = 15;

const POLICY: &str = r#"table inet t {
set d { type hostname; elements = { "www.denied.example" } }
chain c {
type filter hook input priority 0; policy accept;
th dport 53 dns name @d drop
tls sni @d drop
http host @d reject
}
}
"#;
const SHIFTS: [u32; 4] = [u32::MAX, 1, u32::MAX - 2, 2];
const ODD_FLAGS: [u8; 7] = [RST, RST | ACK, FIN | ACK, FIN, SYN | ACK, SYN | RST, ACK];
const PORTS: [u16; KINDS.len()] = [443, 80, 53];

/// Servers, the firewall in front of them, and the state of their client.
struct Scene {
    engine: &'static Engine,
    connections: Connections,
    servers: [Server; SERVERS],
    /// Sequence number of the client's next SYN to each server.
    bases: [u32; SERVERS],
    /// Sequence number of each server's SYN, as far as the client knows.
    known: [u32; SERVERS],
    /// Number of initial sequence numbers that were generated. The next one is computed from it.
    drawn: u32,
    now_ns: u64,
    generation: u64,
    /// Verdicts so far: `+` for accept, `-` for others.
    line: String,
}

fn make_connections() -> Connections {
    let mut made = follow::make(&ConnectionSettings {
        connections: 64,
        hello_bytes: 65_536,
        hello_timeout_ns: 10_000 * MS_NS,
        undecided_bytes: 32_768,
    });
    // The key is fixed, so that each run evicts the same connections.
    made.table.key = SiphashKey { words: [1, 2] };
    made
}

fn draw_base(scene: &mut Scene, number: usize) -> u32 {
    scene.drawn += 1;
    match scene.servers[number].properties & WRAPS {
        0 => scene.drawn.wrapping_mul(0x1000_1001),
        _ => u32::MAX - scene.drawn * 97 % content::BYTES as u32,
    }
}

/// Adds 16-bit words to a ones' complement sum, for a checksum (RFC 1071). Returns the sum.
fn add_up(bytes: &[u8], sum: u32) -> u32 {
    let words = bytes.chunks(2);
    let words = words.map(|word| u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    let mut sum = sum + words.map(u32::from).sum::<u32>();
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Returns an IPv4 packet with a valid TCP checksum.
/// - client: last byte of the client's address, and the client's port.
/// - is_clients: true if the client is the source, false if the server is.
fn packet(client: (u8, u16), server_port: u16, is_clients: bool, sent: &Sent) -> Vec<u8> {
    let mut ends = [
        ([10, 0, 0, client.0], client.1),
        ([10, 0, 1, 1], server_port),
    ];
    if !is_clients {
        ends.reverse();
    }
    let length = HEADER_BYTES + sent.data.len();
    let mut bytes = [
        &[0x45, 0][..],
        &(length as u16).to_be_bytes(),
        &[0, 0, 0x40, 0, 64, 6, 0, 0],
        &ends[0].0,
        &ends[1].0,
        &ends[0].1.to_be_bytes(),
        &ends[1].1.to_be_bytes(),
        &sent.sequence.to_be_bytes(),
        &sent.acknowledged.to_be_bytes(),
        &[0x50, sent.flags, 0, 0, 0, 0, 0, 0],
        &sent.data,
    ]
    .concat();
    let sum = !add_up(&bytes[12..], 6 + length as u32 - 20) as u16;
    bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// Returns true if the firewall accepts a packet. Appends `+` or `-` (not accepted) to `scene.line`.
/// - from_client_side: true if the packet arrives from the client's side, false if it arrives from the servers' side.
fn passes(scene: &mut Scene, bytes: &[u8], from_client_side: bool) -> bool {
    let settings = DecideSettings {
        default_verdict: Verdict::Accept,
        malformed_open: false,
        truncated_open: false,
        malformed_by_policy: false,
        undecided_verdict: Verdict::Accept,
        unknown_open: false,
    };
    let mut sides = [CLIENT_SIDE, SERVER_SIDE];
    if !from_client_side {
        sides.reverse();
    }
    let how = ConnectionInput {
        checksum: ConnectionChecksum::Unverified,
        segmented: false,
        source_interface: sides[0],
        sink_interface: sides[1],
        generation: scene.generation,
        asks_requests: true,
        is_directed: false,
        now_ns: scene.now_ns,
    };
    let mut parsed = Packet::default();
    let status = packet::parse(bytes, bytes.len() as u32, &mut parsed);
    let (connections, compiled) = (&mut scene.connections, &scene.engine.compiled);
    let mut named = named::follow(connections, compiled, &parsed, &how);
    let outcome = loop {
        let mut input = engine::input(&parsed, status);
        named::tell(
            &named,
            follow::names(connections, &named.followed),
            &mut input,
        );
        let outcome = decide::packet(&settings, Some(&scene.engine.policy()), &input);
        if outcome.verdict != Verdict::Accept
            || !named::next(connections, compiled, scene.generation, &mut named)
        {
            break outcome;
        }
    };
    if named::refuses(&named, &outcome) {
        let tells = outcome.verdict == Verdict::Reject;
        follow::deny(connections, &named.followed, scene.generation, tells);
    }
    let is_accepted = outcome.verdict == Verdict::Accept;
    scene.line.push(if is_accepted { '+' } else { '-' });
    is_accepted
}

/// Sends a segment between the client and a server through the firewall. Returns true if it is accepted.
/// - number: number of the server.
/// - is_clients: true if the client is the source address.
/// - from_client_side: true if the segment arrives from the client's side.
/// - is_bad: true if the checksum is wrong.
fn through(
    scene: &mut Scene,
    number: usize,
    is_clients: bool,
    from_client_side: bool,
    is_bad: bool,
    sent: &Sent,
) -> bool {
    let port = PORTS[scene.servers[number].kind as usize];
    let mut bytes = packet((CLIENT, 2000 + number as u16), port, is_clients, sent);
    bytes[36] ^= if is_bad { 0x55 } else { 0 };
    passes(scene, &bytes, from_client_side)
}

/// Sends a client's segment through the firewall. If the segment reaches the server, the server may answer, and the
/// program aborts if the server has received a request for the denied name.
/// - number: number of the server.
fn send_segment(scene: &mut Scene, step: &Step, number: usize, sent: &Sent) {
    let fate = step.server >> 5;
    let is_bad = fate == FATE_BAD_CHECKSUM;
    let is_lost = is_bad || fate == FATE_DECOY || fate == FATE_DECOY_TOO;
    if !through(scene, number, true, true, is_bad, sent) || is_lost {
        return;
    }
    scene.drawn += 1;
    let own = scene.drawn.wrapping_mul(0x0100_0193);
    let answer = server::receive(&mut scene.servers[number], sent, own);
    let server = &scene.servers[number];
    assert!(!server::is_asked_for_denied(server), "{}", scene.line);
    let Some(answer) = answer.filter(|_| fate != FATE_UNHEARD) else {
        return;
    };
    if through(scene, number, false, false, false, &answer) && answer.flags & SYN != 0 {
        scene.known[number] = answer.sequence;
    }
}

/// Changes a client's segment as the step's change says.
/// - number: number of the server.
fn change(scene: &mut Scene, step: &Step, number: usize, sent: &mut Sent) {
    match step.change % 16 {
        CHANGE_ACKNOWLEDGED => sent.acknowledged = sent.acknowledged.wrapping_add(0x5000),
        CHANGE_NO_ACK => sent.flags &= !ACK,
        CHANGE_URGENT => sent.flags |= URG,
        CHANGE_SEQUENCE => {
            let shift = SHIFTS[usize::from(step.change >> 6)];
            sent.sequence = sent.sequence.wrapping_add(shift);
        }
        CHANGE_BYTE if !sent.data.is_empty() => {
            let place = usize::from(step.change) % sent.data.len();
            sent.data[place] ^= 1;
        }
        CHANGE_BASE => {
            let before = scene.bases[number];
            scene.bases[number] = draw_base(scene, number);
            let by = scene.bases[number].wrapping_sub(before);
            sent.sequence = sent.sequence.wrapping_add(by);
        }
        _ => {}
    }
}

/// Sends a client's SYN, or a part of the client's first bytes (the content, `content::make`) as data. The step has
/// the part's offset and length. If bit 15 of the offset is set, the part begins at the next byte that the server
/// expects. If bit 15 of the length is set, the part ends at the content's end. A SYN has data only if bit 15 of the
/// offset is set; the data begins at the content's start.
/// - number: number of the server.
fn send_content(scene: &mut Scene, step: &Step, number: usize, is_syn: bool) {
    let server = &scene.servers[number];
    let content = content::make(server.kind, step.server & DENIED != 0, server.properties);
    let is_high = |value: u16| value & 0x8000 != 0;
    let offset = match is_high(step.offset) {
        true => server.next as usize,
        false => step.offset.into(),
    };
    let place = if is_syn { 0 } else { offset % content.len() };
    let left = content.len() - place;
    let length = match is_high(step.length) {
        _ if is_syn && !is_high(step.offset) => 0,
        true => left,
        false => 1 + usize::from(step.length) % left,
    };
    let mut sent = Sent {
        flags: if is_syn { SYN } else { ACK },
        sequence: scene.bases[number],
        acknowledged: 0,
        data: content[place..place + length].to_vec(),
    };
    if !is_syn {
        sent.sequence = sent.sequence.wrapping_add(1 + place as u32);
        sent.acknowledged = scene.known[number].wrapping_add(1);
    }
    change(scene, step, number, &mut sent);
    send_segment(scene, step, number, &sent);
}

/// Sends a segment without data, whose flags are one of ODD_FLAGS: from the client, or forged with the server's
/// address.
/// - number: number of the server.
fn send_flags(scene: &mut Scene, step: &Step, number: usize, is_forged: bool) {
    let [high, _] = step.offset.to_be_bytes();
    let is_odd = u32::from(high & 1);
    let next = is_odd * scene.servers[number].next;
    let clients = scene.bases[number].wrapping_add(1 + next);
    let [kind, _] = step.length.to_be_bytes();
    let flags = ODD_FLAGS[usize::from(kind) % ODD_FLAGS.len()];
    let mut sent = Sent {
        flags,
        sequence: clients,
        acknowledged: scene.known[number].wrapping_add(1),
        data: Vec::new(),
    };
    if is_forged {
        let is_later = u32::from(flags & SYN == 0);
        sent.sequence = scene.known[number].wrapping_add(is_later);
        sent.acknowledged = clients.wrapping_add(is_odd * content::BYTES as u32);
        through(scene, number, false, true, false, &sent);
    } else {
        send_segment(scene, step, number, &sent);
    }
}

/// Hands the connections over to another firewall.
fn hand_over(scene: &mut Scene) {
    let bytes = connections::written(&mut scene.connections, 1 << 26, scene.now_ns);
    let mut next = make_connections();
    parse(&bytes, &mut next, scene.now_ns).expect("what was written");
    scene.connections = next;
    scene.generation += 1;
}

/// Opens connections of another client, so that the table of connections may become full.
fn open_others(scene: &mut Scene, step: &Step) {
    let sent = Sent {
        flags: SYN,
        ..Sent::default()
    };
    let [count, _] = step.length.to_be_bytes();
    for place in 0..u16::from(count % 64) {
        let client = (OTHER_CLIENT, step.offset.wrapping_add(place));
        passes(scene, &packet(client, PORTS[0], true, &sent), true);
    }
}

/// Returns the time before a step: mostly short, or longer than one of the time-outs.
fn pause_ms(pause: u8) -> u64 {
    match pause {
        ..0xe0 => 1,
        0xe0..0xf0 => u64::from(pause & 0xf) * 100,
        0xf0..0xf8 => 11_000,
        0xf8..0xfc => 130_000,
        0xfc.. => 500_000,
    }
}

fn take_step(scene: &mut Scene, step: &Step) {
    let number = usize::from(step.server & 0xf) % SERVERS;
    scene.now_ns += pause_ms(step.pause) * MS_NS;
    match step.action % ACTIONS {
        ACTION_RELOAD => scene.generation += 1,
        ACTION_HAND_OVER => hand_over(scene),
        ACTION_OTHERS => open_others(scene, step),
        ACTION_FLAGS => send_flags(scene, step, number, false),
        ACTION_FORGE => send_flags(scene, step, number, true),
        action => send_content(scene, step, number, action <= ACTION_SYN_TOO),
    }
}

fuzz_target!(|input: &[u8]| -> Corpus {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let Some((properties, steps)) = input.split_first_chunk::<SERVERS>() else {
        return Corpus::Reject;
    };
    let mut scene = Scene {
        engine: ENGINE.get_or_init(|| engine::engine(POLICY, false)),
        connections: make_connections(),
        servers: properties.map(server::make),
        bases: [0; SERVERS],
        known: [0; SERVERS],
        drawn: 0,
        now_ns: 1_000_000 * MS_NS,
        generation: 1,
        line: String::new(),
    };
    for number in 0..SERVERS {
        scene.bases[number] = draw_base(&mut scene, number);
    }
    for step in steps.chunks_exact(STEP_BYTES) {
        let short = |place: usize| u16::from_be_bytes([step[place], step[place + 1]]);
        let step = Step {
            action: step[0],
            server: step[1],
            offset: short(2),
            length: short(4),
            change: step[6],
            pause: step[7],
        };
        take_step(&mut scene, &step);
    }
    if std::env::var_os("TWINWALL_LINES").is_some() {
        println!("{}", scene.line);
    }
    Corpus::Keep
});
