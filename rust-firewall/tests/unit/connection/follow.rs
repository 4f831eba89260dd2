// SPDX-License-Identifier: GPL-2.0-or-later
//! Plays the scripts of packets that both twins share (tests/corpus/vectors/connection.txt), and compares the results.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use rust_firewall::base::siphash::SiphashKey;
use rust_firewall::connection::listing::{self, Page};
use rust_firewall::connection::{
    follow, lifetime, table, ConnectionChecksum, ConnectionInput, ConnectionSettings,
};
use rust_firewall::connection::{
    ConnectionCounts, Connections, Followed, FollowedKind, INTERFACE_HOST, INTERFACE_UNKNOWN,
    SLOT_NONE,
};
use rust_firewall::handover::connections::parse;
use rust_firewall::names::{self, Names, NamesProtocol, NamesState};
use rust_firewall::packet::{self, Packet};

use crate::support::connections::written;

const TCP: u8 = 6;
const UDP: u8 = 17;
const CLIENT: u8 = 1;
const SERVER: u8 = 2;

/// Step of a script: a packet, by its parts.
struct Step<'a> {
    from_client: bool,
    flags: &'a str,
    sequence: u32,
    acknowledged: u32,
    data: Vec<u8>,
    options: HashMap<&'a str, &'a str>,
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("no number: {text}"))
}

impl Step<'_> {
    fn option(&self, key: &str, otherwise: u32) -> u32 {
        self.options.get(key).map_or(otherwise, |text| number(text))
    }

    /// Returns the interface that a step's option names: a number, or INTERFACE_UNKNOWN for `?`. Without the option
    /// returns INTERFACE_HOST, which stands for this host.
    fn interface(&self, key: &str) -> u32 {
        match self.options.get(key) {
            Some(&"?") => INTERFACE_UNKNOWN,
            _ => self.option(key, INTERFACE_HOST),
        }
    }
}

/// Returns the bytes of a text with the escapes \r, \n and \xNN.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b'x') => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            Some(other) => panic!("no escape: {other}"),
        });
    }
    bytes
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    let pairs = (0..digits.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
        .collect()
}

/// Appends a value to the data with a name.
/// - kind: `data` (text with escapes), `hex`, or `hexrepeat` (a byte and the number of times that it is appended).
/// - text: NAME VALUE.
fn take_data(known: &mut HashMap<String, Vec<u8>>, kind: &str, text: &str) {
    let (name, value) = text.split_once(' ').expect("NAME VALUE");
    let bytes = match kind {
        "data" => unescape(value),
        "hex" => unhex(value),
        _ => {
            let (byte, count) = value.split_once(' ').expect("BYTE COUNT");
            unhex(byte).repeat(number(count) as usize)
        }
    };
    known.entry(name.to_owned()).or_default().extend(bytes);
}

/// Returns the data that a step's word names.
/// - text: the word: `-` (none), NAME, or NAME[FROM:TO] (offsets of the first byte and after the last byte).
fn data_of(known: &HashMap<String, Vec<u8>>, text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let (name, part) = text.split_once('[').unwrap_or((text, ""));
    let bytes = known.get(name).unwrap_or_else(|| panic!("no data {name}"));
    let Some(part) = part.strip_suffix(']') else {
        return bytes.clone();
    };
    let (from, to) = part.split_once(':').expect("FROM:TO");
    let from = if from.is_empty() { 0 } else { number(from) };
    let to = if to.is_empty() {
        bytes.len()
    } else {
        number(to) as usize
    };
    bytes[from as usize..to].to_vec()
}

/// Returns the Internet checksum (RFC 1071).
fn checksum(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let words = bytes
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns the header and data of layer 4, without a checksum.
fn layer4(step: &Step, protocol: u8) -> Vec<u8> {
    let (client, server) = (step.option("port", 40000), step.option("dport", 443));
    let (source, destination) = match step.from_client {
        true => (client, server),
        false => (server, client),
    };
    let mut bytes = Vec::new();
    bytes.extend((source as u16).to_be_bytes());
    bytes.extend((destination as u16).to_be_bytes());
    if protocol == UDP {
        let told = step.option("length", step.data.len() as u32);
        bytes.extend((told as u16 + 8).to_be_bytes());
        bytes.extend([0, 0]);
    } else {
        let bits = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16), ('U', 32)];
        let set = bits
            .iter()
            .filter(|(letter, _)| step.flags.contains(*letter));
        bytes.extend(step.sequence.to_be_bytes());
        bytes.extend(step.acknowledged.to_be_bytes());
        let offset = ((20 + step.option("options", 0)) / 4 << 4) as u8;
        let flags = set.map(|(_, bit)| bit).sum();
        bytes.extend([offset, flags, 0xff, 0xff, 0, 0, 0, 0]);
    }
    bytes.extend(&step.data);
    bytes
}

/// Returns the packet of a step, from its IP header on: its data if they are the whole packet.
fn packet_of(step: &Step) -> Vec<u8> {
    if step.flags == "packet" {
        return step.data.clone();
    }
    let protocol = if step.flags == "udp" { UDP } else { TCP };
    let mut body = layer4(step, protocol);
    let is_ipv6 = step.option("ip", 4) == 6;
    let (source, destination) = match step.from_client {
        true => (step.option("client", CLIENT.into()) as u8, SERVER),
        false => (SERVER, step.option("client", CLIENT.into()) as u8),
    };
    let end = |last: u8| {
        let mut address = vec![0; if is_ipv6 { 16 } else { 4 }];
        address[0] = 0x20;
        *address.last_mut().unwrap() = last;
        address
    };
    let (source, destination) = (end(source), end(destination));
    let pseudo = [0, protocol, (body.len() >> 8) as u8, body.len() as u8];
    let place = if protocol == UDP { 6 } else { 16 };
    let sum = checksum(&[&source, &destination, &pseudo, &body]);
    let sum = match step.option("unsummed", 0) {
        0 => sum ^ step.option("spoil", 0) as u16,
        _ => 0,
    };
    body[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    let fragment = step.option("fragment", 0) as u16;
    let length = (body.len() as u16).to_be_bytes();
    let mut bytes = if is_ipv6 {
        vec![0x60, 0, 0, 0, length[0], length[1], protocol, 64]
    } else {
        let total = (body.len() as u16 + 20).to_be_bytes();
        let offset = fragment.to_be_bytes();
        let head = [0x45, 0, total[0], total[1], 0, 1, offset[0], offset[1]];
        [&head[..], &[64, protocol, 0, 0]].concat()
    };
    bytes.extend(source);
    bytes.extend(destination);
    bytes.extend(body);
    bytes
}

fn protocol_text(protocol: NamesProtocol) -> &'static str {
    match protocol {
        NamesProtocol::Other => "other",
        NamesProtocol::Tls => "tls",
        NamesProtocol::Quic => "quic",
        NamesProtocol::Http => "http",
        NamesProtocol::Dns => "dns",
    }
}

fn names_text(known: &Names) -> String {
    let host = String::from_utf8_lossy(names::host(known)).into_owned();
    match known.state {
        NamesState::None => "nothing".to_owned(),
        NamesState::Undecided => "undecided".to_owned(),
        NamesState::Unreadable => "unreadable".to_owned(),
        NamesState::Known if host.is_empty() => format!("known {}", protocol_text(known.protocol)),
        NamesState::Known => format!("known {} {host}", protocol_text(known.protocol)),
    }
}

/// Returns the result for a packet (none, denied, or its names), in the words of the scripts.
fn told(connections: &Connections, followed: &Followed) -> String {
    match followed.kind {
        FollowedKind::None => "none".to_owned(),
        FollowedKind::Denied => "denied".to_owned(),
        FollowedKind::Names => {
            let alone = if followed.slot == SLOT_NONE {
                " alone"
            } else {
                ""
            };
            names_text(follow::names(connections, followed)) + alone
        }
    }
}

/// Returns a page of connections, in the words of the scripts.
fn listed_text(page: &Page) -> String {
    let states = ["undecided", "named", "missing", "denied", "unknown"];
    let listed = page.listed.iter().take(page.count as usize).map(|listed| {
        let host = String::from_utf8_lossy(&listed.host[..listed.host_length.into()]).into_owned();
        let protocol = protocol_text(listed.protocol);
        let seconds = listed.age_ns / 1_000_000_000;
        format!(
            "{} {protocol} {seconds} {host}",
            states[listed.state as usize]
        )
        .trim_end()
        .to_owned()
    });
    let listed: Vec<String> = listed.collect();
    let next = match page.next {
        SLOT_NONE => String::new(),
        next => format!("; next {next}"),
    };
    listed.join(", ") + &next
}

/// Returns the counters that are not 0, in the words of the scripts.
fn counts_text(counts: &ConnectionCounts) -> String {
    let lists = [
        "opening",
        "showing",
        "settling",
        "known",
        "datagrams",
        "closing",
        "silent",
    ];
    let protocols = ["other", "tls", "quic", "http", "dns"];
    let causes = [
        "midstream",
        "ambiguous",
        "gaps",
        "pool",
        "timeout",
        "cut",
        "fragment",
        "checksum",
        "parse",
        "interface",
        "bound",
    ];
    let mut text = String::new();
    let mut put = |key: &str, count: u64| {
        if count > 0 {
            write!(text, " {key}={count}").unwrap();
        }
    };
    put("opened", counts.opened);
    for (name, count) in lists.iter().zip(counts.now) {
        put(&format!("now.{name}"), count);
    }
    for (name, count) in protocols.iter().zip(counts.decided) {
        put(&format!("decided.{name}"), count);
    }
    put("denied", counts.denied);
    put("evasion", counts.evasion);
    for (name, count) in causes.iter().zip(counts.unreadable) {
        put(&format!("unreadable.{name}"), count);
    }
    for (name, count) in lists.iter().zip(counts.evicted) {
        put(&format!("evicted.{name}"), count);
    }
    put("unknown_version", counts.unknown_version);
    text.trim_start().to_owned()
}

/// Makes a table without connections. Its hash key is fixed, so that it does not depend on chance which clients share a
/// place in the table.
fn made(settings: &ConnectionSettings) -> Connections {
    let mut connections = follow::make(settings);
    connections.table.key = SiphashKey { words: [0; 2] };
    connections
}

/// State of a script that is being played.
struct Play {
    settings: ConnectionSettings,
    /// Connections of the script, made with its first packet.
    connections: Option<Connections>,
    last: Followed,
    /// Sequence number that the receiver of the last packet expects; None if unknown.
    expected: Option<u32>,
    /// True if names may depend on the bytes of the last packet.
    decides: bool,
    input: ConnectionInput,
    /// True if another firewall takes over before each packet.
    upgraded: bool,
}

impl Play {
    fn new(upgraded: bool) -> Self {
        Play {
            upgraded,
            settings: ConnectionSettings {
                connections: 16,
                hello_bytes: 65536,
                hello_timeout_ns: 10_000_000_000,
                undecided_bytes: 8192,
            },
            connections: None,
            last: Followed {
                kind: FollowedKind::None,
                slot: SLOT_NONE,
            },
            expected: None,
            decides: false,
            input: ConnectionInput {
                generation: 1,
                asks_requests: true,
                ..ConnectionInput::default()
            },
        }
    }

    fn connections(&mut self) -> &mut Connections {
        let settings = self.settings;
        self.connections.get_or_insert_with(|| made(&settings))
    }

    /// Replaces the table by another table, to which the connections are handed over as in an upgrade. Copies the state
    /// that an upgrade does not transfer: counts, the next check for expired connections, policies' verdicts on
    /// connections, and caches.
    fn hand_over(&mut self) {
        let Some(mut old) = self.connections.take() else {
            return;
        };
        let now_ns = self.input.now_ns;
        let bytes = written(&mut old, u64::MAX, now_ns);
        let mut new = made(&self.settings);
        parse(&bytes, &mut new, now_ns).expect("good connections");
        assert_eq!(written(&mut new, u64::MAX, now_ns), bytes);
        new.counts = old.counts;
        new.expire_ns = old.expire_ns;
        for connection in &mut new.table.slots {
            let hash = table::hash(&old.table, &connection.key);
            let slot = table::find(&old.table, &connection.key, hash);
            let before = table::at(&mut old.table, slot);
            connection.denied = before.denied;
            connection.is_reset = before.is_reset;
            connection.cache = before.cache;
        }
        self.connections = Some(new);
    }

    fn set(&mut self, text: &str) {
        let (key, value) = text.split_once(' ').expect("set KEY VALUE");
        match key {
            "undecided" => self.settings.undecided_bytes = number(value),
            "memory" => self.settings.hello_bytes = number(value).into(),
            "at" => self.input.now_ns = u64::from(number(value)) * 1_000_000_000,
            "asks-requests" => self.input.asks_requests = number(value) == 1,
            "generation" => self.input.generation = number(value).into(),
            _ => panic!("no setting: {key}"),
        }
    }

    /// Returns the ends whose packets can't change the class after the last packet: "both", "one" (the server) or "no".
    fn final_text(&mut self) -> String {
        let last = self.last;
        let connections = self.connections();
        let both = follow::is_settled(connections, &last);
        let one = follow::is_answer(connections, &last);
        let words = [(both, "both"), (one, "one")];
        let told = words.into_iter().find(|(is_so, _)| *is_so);
        told.map_or("no", |(_, word)| word).to_owned()
    }

    /// Returns the page of the connection listing that begins at a slot of the table, in the words of the scripts.
    fn list(&mut self, from: u32, undecided: bool) -> String {
        let mut page = Page {
            from,
            undecided,
            ..Page::default()
        };
        let input = self.input;
        let connections = self.connections();
        listing::fill(connections, input.generation, input.now_ns, &mut page);
        listed_text(&page)
    }

    /// Forgets all connections, as after a policy without names.
    fn abandon(&mut self) {
        let now_ns = self.input.now_ns;
        lifetime::abandon_all(self.connections(), now_ns);
    }

    /// Sends a step's packet. Returns the results for it, one for each DNS query or HTTP request in it, in the words of
    /// the scripts.
    fn send(&mut self, step: &Step) -> String {
        let bytes = packet_of(step);
        let captured = bytes.len() - step.option("cut", 0) as usize;
        let mut packet = Packet::default();
        packet::parse(&bytes[..captured], bytes.len() as u32, &mut packet);
        let mut input = self.input;
        input.segmented = step.option("segmented", 0) == 1;
        input.source_interface = step.interface("in");
        input.sink_interface = step.interface("out");
        if step.options.contains_key("verified") {
            input.checksum = ConnectionChecksum::Verified;
        }
        if step.options.contains_key("pending") {
            input.checksum = ConnectionChecksum::NotReady;
        }
        if self.upgraded {
            self.hand_over();
        }
        let connections = self.connections();
        let followed = follow::follow(connections, &packet, &input);
        let mut text = told(connections, &followed);
        while follow::next(connections) {
            text += ", ";
            text += &told(connections, &followed);
        }
        let expected = follow::expected(connections, &followed, &packet);
        self.decides = follow::decides(connections, &followed, &packet);
        self.expected = expected;
        self.last = followed;
        text
    }
}

/// Returns the step of a line.
/// - words: words of the line after `>` or `<`, up to `->`.
fn step_of<'a>(from_client: bool, words: &[&'a str], known: &HashMap<String, Vec<u8>>) -> Step<'a> {
    let &[flags, sequence, acknowledged, data, ref options @ ..] = words else {
        panic!("not FLAGS SEQUENCE ACKNOWLEDGED DATA: {words:?}");
    };
    Step {
        from_client,
        flags,
        sequence: number(sequence),
        acknowledged: number(acknowledged),
        data: data_of(known, data),
        options: options
            .iter()
            .map(|word| word.split_once('=').unwrap())
            .collect(),
    }
}

fn play_all(upgraded: bool) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/vectors/connection.txt");
    let text = fs::read_to_string(path).unwrap();
    let mut known: HashMap<String, Vec<u8>> = HashMap::new();
    let mut play = Play::new(upgraded);
    let (mut name, mut steps, mut wrong) = (String::new(), 0, 0);
    for (at, line) in text.lines().enumerate() {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = rest.split_once(" -> ").map_or(rest, |(words, _)| words);
        let expected = line.split_once(" -> ").map_or("", |(_, expected)| expected);
        let got = match key {
            "" | "#" => continue,
            "name" => {
                name = rest.to_owned();
                play = Play::new(upgraded);
                continue;
            }
            "data" | "hex" | "hexrepeat" => {
                take_data(&mut known, key, rest);
                continue;
            }
            "set" => {
                play.set(rest);
                continue;
            }
            "deny" => {
                let (generation, tells) = rest.split_once(' ').unwrap_or((rest, ""));
                let (last, generation) = (play.last, number(generation).into());
                follow::deny(play.connections(), &last, generation, tells == "reset");
                continue;
            }
            "abandon" => {
                play.abandon();
                continue;
            }
            "cache" => {
                let last = play.last;
                let cache = follow::cache(play.connections(), &last).expect("a connection");
                cache.generation = number(rest).into();
                continue;
            }
            "reset" => {
                let last = play.last;
                let expected = play.expected;
                let expected = expected.filter(|_| follow::is_reset(play.connections(), &last));
                expected.map_or("none".to_owned(), |expected| expected.to_string())
            }
            "final" => play.final_text(),
            "decides" => if play.decides { "yes" } else { "no" }.to_owned(),
            // After an upgrade the connections are in other slots.
            "list" | "list-undecided" if play.upgraded => continue,
            "list" | "list-undecided" => play.list(number(words), key == "list-undecided"),
            "cached" => {
                let last = play.last;
                let cache = follow::cache(play.connections(), &last);
                cache.map_or("none".to_owned(), |cache| cache.generation.to_string())
            }
            ">" | "<" => {
                let words: Vec<&str> = words.split(' ').collect();
                play.send(&step_of(key == ">", &words, &known))
            }
            "counts" => counts_text(&follow::counts(play.connections())),
            _ => panic!("line {}: {line}", at + 1),
        };
        let expected = if key.starts_with('c') { rest } else { expected };
        steps += 1;
        if got != expected {
            println!("{name}, line {}: {line}\n  got {got}", at + 1);
            wrong += 1;
        }
    }
    assert_eq!(wrong, 0);
    assert!(steps > 200, "only {steps} steps");
}

#[test]
fn every_script_goes_as_it_says() {
    play_all(false);
}

#[test]
fn every_script_goes_as_it_says_over_upgrades() {
    play_all(true);
}
