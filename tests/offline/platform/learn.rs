// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests sets that learn addresses from DNS responses. Captures of queries, responses and packets to addresses run
//! through `explain` of both twins, which must print the same, as expected.

use std::net::IpAddr;

use anyhow::ensure;
use testbed::folder::Folder;
use twinwall_tests::case::Case;

use super::explain::both;

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("learn/what-was-asked", what_was_asked),
        Case::new("learn/what-nobody-asked", what_nobody_asked),
        Case::new("learn/what-is-reflected", what_is_reflected),
        Case::new("learn/what-is-refused", what_is_refused),
        Case::new("learn/for-how-long", for_how_long),
        Case::new("learn/over-tcp", over_tcp),
        Case::new("learn/within-another-over-tcp", within_another),
        Case::new("learn/over-ipv6", over_ipv6),
        Case::new("learn/what-is-odd", what_is_odd),
        Case::new("learn/sets-apart", sets_apart),
        Case::new("learn/among-rules-that-are-found", among_rules),
    ]
}

const POLICY: &str = r#"table inet filter {
	set cdn { type ipv4_addr; learn dns { "*.cdn.example", "www.example" }; }
	set mail { type ipv4_addr; learn dns "mail.example"; }
	set six { type ipv6_addr; learn dns "*.cdn.example"; }
	chain forward {
		type filter hook forward priority 0; policy drop;
		ip saddr 10.0.0.66 drop
		ip daddr 10.0.0.67 drop
		th dport 53 accept
		th sport 53 accept
		udp dport 25 ip daddr @mail accept
		udp dport 1000 ip daddr != @cdn accept
		udp dport 443 ip daddr @cdn accept
		udp dport 443 ip6 daddr @six accept
	}
}
"#;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const CLIENT: &str = "10.0.0.1";
const SERVER: &str = "10.0.0.53";
const WEB: &str = "192.0.2.80";

fn bytes_of(address: &str) -> Vec<u8> {
    match address.parse().expect("an address") {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

pub fn packet(from: &str, to: &str, protocol: u8, layer4: &[u8]) -> Vec<u8> {
    let ends = [bytes_of(from), bytes_of(to)].concat();
    let length = layer4.len() as u16;
    let head = match ends.len() {
        8 => {
            let [high, low] = (length + 20).to_be_bytes();
            vec![0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0]
        }
        _ => {
            let [high, low] = length.to_be_bytes();
            vec![0x60, 0, 0, 0, high, low, protocol, 64]
        }
    };
    [&head[..], &ends, layer4].concat()
}

fn udp(from: u16, to: u16, data: &[u8]) -> Vec<u8> {
    let length = data.len() as u16 + 8;
    let words = [from, to, length, 0].map(u16::to_be_bytes);
    [&words.concat()[..], data].concat()
}

fn tcp(from: u16, to: u16, data: &[u8]) -> Vec<u8> {
    segment(from, to, ACK, 1, data)
}

fn segment(from: u16, to: u16, flags: u8, sequence: u32, data: &[u8]) -> Vec<u8> {
    let ports = [from, to].map(u16::to_be_bytes).concat();
    let rest = [0, 0, 0, 1, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0];
    [&ports[..], &sequence.to_be_bytes(), &rest, data].concat()
}

/// Returns a DNS message preceded by its length, as over TCP.
pub fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

fn name(text: &str) -> Vec<u8> {
    let labels = text.split('.').filter(|label| !label.is_empty());
    let labels = labels.flat_map(|label| [&[label.len() as u8][..], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// Returns a resource record with its owner, type, time to live and data.
fn record(owner: &str, kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let words = [kind, 1].map(u16::to_be_bytes).concat();
    let length = (data.len() as u16).to_be_bytes();
    [&name(owner)[..], &words, &ttl.to_be_bytes(), &length, data].concat()
}

fn message(id: u16, flags: u16, asked: &str, kind: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let head = [id, flags, 1, records.len() as u16, 0, 0];
    let question = [kind, 1].map(u16::to_be_bytes).concat();
    let head = head.map(u16::to_be_bytes).concat();
    [&head[..], &name(asked), &question, &records.concat()].concat()
}

/// Returns a response with one address of a name.
fn answer(id: u16, asked: &str, ttl: u32, address: &str) -> Vec<u8> {
    let data = bytes_of(address);
    let kind = if data.len() == 4 { A } else { AAAA };
    message(id, 0x8180, asked, kind, &[record(asked, kind, ttl, &data)])
}

pub fn query(id: u16, asked: &str, kind: u16) -> Vec<u8> {
    message(id, 0x0100, asked, kind, &[])
}

/// Returns a pcap file of IP packets, each with its time in seconds.
pub fn capture(packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    const RAW: u32 = 101;
    let head = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65535, RAW];
    let mut file = head.map(u32::to_le_bytes).concat();
    for (second, packet) in packets {
        let length = packet.len() as u32;
        let times = [1_700_000_000 + second, 0, length, length];
        file.extend(times.map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

/// Packets with their times, and the expected verdicts of some of them.
#[derive(Default)]
struct Script {
    second: u32,
    packets: Vec<(u32, Vec<u8>)>,
    expected: Vec<(usize, &'static str, String)>,
}

impl Script {
    fn send(&mut self, packet: Vec<u8>) {
        self.packets.push((self.second, packet));
    }

    /// Sends a query of the client from a port.
    fn ask(&mut self, port: u16, query: &[u8]) {
        self.send(packet(CLIENT, SERVER, UDP, &udp(port, 53, query)));
    }

    /// Opens a DNS connection from a port: the first byte of each end has sequence number 1.
    fn open(&mut self, port: u16) {
        let (asked, told) = (segment(port, 53, SYN, 0, b""), SYN | ACK);
        self.send(packet(CLIENT, SERVER, TCP, &asked));
        self.say(port, told, 0, b"");
    }

    /// Sends a segment of the server to a port.
    fn say(&mut self, port: u16, flags: u8, sequence: usize, data: &[u8]) {
        let segment = segment(53, port, flags, sequence as u32, data);
        self.send(packet(SERVER, CLIENT, TCP, &segment));
    }

    /// Sends a response of the server to a port.
    fn tell(&mut self, port: u16, answer: &[u8]) {
        self.send(packet(SERVER, CLIENT, UDP, &udp(53, port, answer)));
    }

    fn expect(&mut self, what: &str, verdict: &'static str, packet: Vec<u8>) {
        let at = format!("{what}, second {}", self.second);
        self.expected.push((self.packets.len(), verdict, at));
        self.send(packet);
    }

    /// Sends a packet to an address, and expects its verdict.
    /// - what: description of the packet, for errors.
    fn reach(&mut self, what: &str, verdict: &'static str, to: &str) {
        let from = if to.contains(':') { "fd00::1" } else { CLIENT };
        self.expect(what, verdict, packet(from, to, UDP, &udp(4000, 443, b"x")));
    }

    fn run(self) -> anyhow::Result<()> {
        self.run_by(POLICY)
    }

    fn run_by(self, policy: &str) -> anyhow::Result<()> {
        let folder = Folder::new()?;
        let policy = folder.write("learn.nft", policy)?;
        let capture = folder.write("learn.pcap", capture(&self.packets))?;
        let (said, error, code) = both(&["explain", "--json", &policy, &capture])?;
        ensure!(code == 0, "{error}");
        let lines = said.lines().filter(|line| line.contains("\"verdict\":"));
        let lines: Vec<&str> = lines.collect();
        ensure!(lines.len() == self.packets.len(), "{said}");
        for (number, verdict, what) in self.expected {
            let expected = format!("\"verdict\":\"{verdict}\"");
            ensure!(
                lines[number].contains(&expected),
                "{what}: not {verdict}: {}",
                lines[number]
            );
        }
        Ok(())
    }
}

fn what_was_asked() -> anyhow::Result<()> {
    let mut script = Script::default();
    script.reach("unknown", "drop", WEB);
    script.ask(4000, &query(7, "A.CDN.Example", A));
    script.reach("only asked", "drop", WEB);
    script.tell(4000, &answer(7, "a.cdn.example", 60, WEB));
    script.reach("answered", "accept", WEB);
    script.reach("a neighbour", "drop", "192.0.2.81");
    script.ask(4001, &query(8, "www.example", A));
    let alias = record("www.example", CNAME, 60, &name("other.net"));
    let target = record("other.net", A, 60, &bytes_of("192.0.2.82"));
    let beside = record("third.net", A, 60, &bytes_of("192.0.2.83"));
    let records = [alias, target, beside];
    script.tell(4001, &message(8, 0x8180, "www.example", A, &records));
    script.reach("behind an alias", "accept", "192.0.2.82");
    script.reach("beside it", "drop", "192.0.2.83");
    // Two concurrent queries, with the responses in reverse order.
    script.ask(4002, &query(9, "b.cdn.example", A));
    script.ask(4003, &query(9, "c.cdn.example", A));
    script.tell(4003, &answer(9, "c.cdn.example", 60, "192.0.2.84"));
    script.tell(4002, &answer(9, "b.cdn.example", 60, "192.0.2.85"));
    script.reach("the later question", "accept", "192.0.2.84");
    script.reach("the earlier question", "accept", "192.0.2.85");
    script.run()
}

fn what_nobody_asked() -> anyhow::Result<()> {
    let told = |what: &str, tell: &dyn Fn(&mut Script)| {
        let mut script = Script::default();
        script.ask(4000, &query(7, "a.cdn.example", A));
        tell(&mut script);
        script.reach(what, "drop", WEB);
        script.run()
    };
    let good = answer(7, "a.cdn.example", 60, WEB);
    told("another id", &|script| {
        script.tell(4000, &answer(8, "a.cdn.example", 60, WEB));
    })?;
    told("another port", &|script| script.tell(4001, &good))?;
    told("another name", &|script| {
        script.tell(4000, &answer(7, "b.cdn.example", 60, WEB));
    })?;
    told("another server", &|script| {
        let answer = udp(53, 4000, &good);
        script.send(packet("10.0.0.54", CLIENT, UDP, &answer));
    })?;
    told("another client", &|script| {
        let answer = udp(53, 4000, &good);
        script.send(packet(SERVER, "10.0.0.2", UDP, &answer));
    })?;
    told("another protocol", &|script| {
        let answer = tcp(53, 4000, &framed(&good));
        script.send(packet(SERVER, CLIENT, TCP, &answer));
    })?;
    told("the client itself", &|script| script.ask(4000, &good))?;
    told("another type", &|script| {
        let records = [record("a.cdn.example", A, 60, &bytes_of(WEB))];
        script.tell(4000, &message(7, 0x8180, "a.cdn.example", AAAA, &records));
    })?;
    told("too late", &|script| {
        script.second += 10;
        script.tell(4000, &good);
    })?;
    told("the second answer", &|script| {
        script.tell(4000, &answer(7, "a.cdn.example", 60, "192.0.2.81"));
        script.tell(4000, &good);
    })?;
    told("another name's address", &|script| {
        let records = [record("b.cdn.example", A, 60, &bytes_of(WEB))];
        script.tell(4000, &message(7, 0x8180, "a.cdn.example", A, &records));
    })?;
    let mut script = Script::default();
    script.ask(4000, &query(7, "cdn.example", A));
    script.tell(4000, &answer(7, "cdn.example", 60, WEB));
    script.reach("the name above the wildcard", "drop", WEB);
    script.run()
}

/// Tests a flow that a server's packet has opened: the client's data in it is no query, until the flow is over.
fn what_is_reflected() -> anyhow::Result<()> {
    let learn = |script: &mut Script, port, address| {
        script.ask(port, &query(7, "a.cdn.example", A));
        script.tell(port, &answer(7, "a.cdn.example", 60, address));
    };
    let mut script = Script::default();
    script.tell(4000, b"hello");
    learn(&mut script, 4000, WEB);
    script.reach("reflected", "drop", WEB);
    learn(&mut script, 4001, "192.0.2.81");
    script.reach("in another flow", "accept", "192.0.2.81");
    script.second = 100;
    script.ask(4000, b"something");
    script.second = 279;
    learn(&mut script, 4000, WEB);
    script.reach("while the flow goes on", "drop", WEB);
    script.second = 279 + 180;
    learn(&mut script, 4000, WEB);
    script.reach("after the flow", "accept", WEB);
    script.run()?;

    // Answers that come late, or again, change nothing of a flow that the client opened.
    let mut script = Script::default();
    script.ask(4000, &query(7, "b.example", A));
    script.second = 170;
    script.tell(4000, &answer(7, "b.example", 60, WEB));
    script.tell(4000, &answer(7, "b.example", 60, WEB));
    script.second = 300;
    learn(&mut script, 4000, WEB);
    script.reach("in the client's flow", "accept", WEB);
    script.run()?;

    // Both ends have port 53.
    let mut script = Script::default();
    script.ask(53, &query(7, "a.cdn.example", A));
    script.tell(53, &answer(7, "a.cdn.example", 60, WEB));
    script.reach("asked by the one that opened", "accept", WEB);
    let back = query(8, "b.cdn.example", A);
    script.tell(53, &back);
    script.ask(53, &answer(8, "b.cdn.example", 60, "192.0.2.81"));
    script.reach("asked by the other one", "drop", "192.0.2.81");
    script.run()
}

fn what_is_refused() -> anyhow::Result<()> {
    let good = answer(7, "a.cdn.example", 60, WEB);
    let asked = udp(4000, 53, &query(7, "a.cdn.example", A));
    let told = udp(53, 4000, &good);
    let mut script = Script::default();
    script.send(packet("10.0.0.66", SERVER, UDP, &asked));
    script.send(packet(SERVER, "10.0.0.66", UDP, &told));
    script.reach("the query was dropped", "drop", WEB);
    script.send(packet(CLIENT, "10.0.0.66", UDP, &asked));
    script.send(packet("10.0.0.66", CLIENT, UDP, &told));
    script.reach("the answer was dropped", "drop", WEB);
    script.send(packet("10.0.0.67", SERVER, UDP, &asked));
    script.send(packet(SERVER, "10.0.0.67", UDP, &told));
    script.reach("so was this", "drop", WEB);
    script.run()
}

fn for_how_long() -> anyhow::Result<()> {
    let mut script = Script::default();
    let learn = |script: &mut Script, ttl, address| {
        script.ask(4000, &query(7, "a.cdn.example", A));
        script.tell(4000, &answer(7, "a.cdn.example", ttl, address));
    };
    learn(&mut script, 100, WEB);
    learn(&mut script, 0, "192.0.2.81");
    learn(&mut script, 0x7fff_ffff, "192.0.2.82");
    script.second = 10;
    learn(&mut script, 5, WEB);
    script.second = 59;
    script.reach("a minute at least", "accept", "192.0.2.81");
    script.second = 60;
    script.reach("no longer", "drop", "192.0.2.81");
    script.second = 99;
    script.reach("a shorter time shortens nothing", "accept", WEB);
    learn(&mut script, 61, WEB);
    script.second = 159;
    script.reach("a longer one prolongs", "accept", WEB);
    script.second = 160;
    script.reach("over", "drop", WEB);
    learn(&mut script, 5, WEB);
    script.reach("learnt again", "accept", WEB);
    script.second = 86_399;
    script.reach("a day", "accept", "192.0.2.82");
    script.second = 86_400;
    script.reach("no more than a day", "drop", "192.0.2.82");
    script.run()
}

fn over_tcp() -> anyhow::Result<()> {
    let mut script = Script::default();
    let asked = [
        framed(&query(7, "a.cdn.example", A)),
        framed(&query(8, "b.cdn.example", A)),
        framed(&query(9, "c.cdn.example", A)),
    ];
    let told = [
        framed(&answer(7, "a.cdn.example", 60, WEB)),
        framed(&answer(8, "b.cdn.example", 60, "192.0.2.81")),
        framed(&answer(9, "c.cdn.example", 60, "192.0.2.82")),
    ];
    script.open(4000);
    let ask = packet(CLIENT, SERVER, TCP, &tcp(4000, 53, &asked.concat()));
    script.send(ask);
    script.send(packet(CLIENT, SERVER, TCP, &tcp(4000, 53, b"")));
    let both = tcp(53, 4000, &told[..2].concat());
    script.send(packet(SERVER, CLIENT, TCP, &both));
    script.reach("the first in a segment", "accept", WEB);
    script.reach("the second", "accept", "192.0.2.81");
    let behind = 1 + told[0].len() + told[1].len();
    let (first, second) = told[2].split_at(20);
    script.say(4000, ACK, behind, first);
    script.say(4000, ACK, behind + 20, second);
    script.reach("in two segments", "drop", "192.0.2.82");
    let ask = tcp(4000, 53, &framed(&query(10, "d.cdn.example", A)));
    script.send(packet(CLIENT, SERVER, TCP, &ask));
    let fourth = framed(&answer(10, "d.cdn.example", 60, "192.0.2.83"));
    let behind = behind + told[2].len();
    script.say(4000, ACK, behind + 1, &fourth);
    script.reach("behind a gap", "drop", "192.0.2.83");
    script.say(4000, ACK, 1, &[&told.concat()[..], &fourth].concat());
    script.reach("with all that was before", "accept", "192.0.2.83");
    script.run()
}

/// Checks that no address is learned from a text that looks like a response, is part of another response, and begins a
/// segment.
fn within_another() -> anyhow::Result<()> {
    let forged = framed(&answer(7, "a.cdn.example", 60, WEB));
    let text = record("evil.example", 16, 60, &forged);
    let true_one = framed(&message(6, 0x8180, "evil.example", 16, &[text]));
    let at = true_one.len() - forged.len();
    let asked = [
        framed(&query(6, "evil.example", 16)),
        framed(&query(7, "a.cdn.example", A)),
    ];
    let opened = |is_open: bool| {
        let mut script = Script::default();
        if is_open {
            script.open(4000);
        }
        script.send(packet(CLIENT, SERVER, TCP, &tcp(4000, 53, &asked.concat())));
        script
    };
    let (first, second) = true_one.split_at(at);
    let mut script = opened(true);
    script.say(4000, ACK, 1, first);
    script.say(4000, ACK, 1 + at, second);
    script.reach("behind what is before it", "drop", WEB);
    script.run()?;
    let mut script = opened(true);
    script.say(4000, ACK, 1 + at, second);
    script.reach("before what is before it", "drop", WEB);
    script.run()?;
    let mut script = opened(false);
    script.say(4000, ACK, 1 + at, second);
    script.reach("without a beginning", "drop", WEB);
    script.run()?;
    let mut script = opened(true);
    script.say(4000, ACK, 1, &true_one[..1]);
    script.say(4000, ACK, 2, &true_one[1..at]);
    script.say(4000, ACK, 1 + at, second);
    script.reach("behind a length in two segments", "drop", WEB);
    script.run()
}

fn over_ipv6() -> anyhow::Result<()> {
    const SIX: &str = "2001:db8::80";
    let mut script = Script::default();
    let ask = |script: &mut Script, id, kind, address| {
        let asked = udp(4000, 53, &query(id, "a.cdn.example", kind));
        let told = udp(53, 4000, &answer(id, "a.cdn.example", 60, address));
        script.send(packet("fd00::1", "fd00::53", UDP, &asked));
        script.send(packet("fd00::53", "fd00::1", UDP, &told));
    };
    script.reach("unknown", "drop", SIX);
    ask(&mut script, 7, AAAA, SIX);
    script.reach("AAAA", "accept", SIX);
    script.reach("A, not yet", "drop", WEB);
    ask(&mut script, 8, A, WEB);
    script.reach("A over IPv6", "accept", WEB);
    script.run()
}

fn what_is_odd() -> anyhow::Result<()> {
    let good = answer(7, "a.cdn.example", 60, WEB);
    let told = |what: &str, packet: Vec<u8>| {
        let mut script = Script::default();
        script.ask(4000, &query(7, "a.cdn.example", A));
        script.send(packet);
        script.reach(what, "drop", WEB);
        script.run()
    };
    let answer_of = |data: &[u8]| packet(SERVER, CLIENT, UDP, &udp(53, 4000, data));
    told("cut", answer_of(&good[..good.len() - 1]))?;
    told("an error", {
        let mut failed = good.clone();
        failed[3] = 0x83;
        answer_of(&failed)
    })?;
    told("truncated", {
        let mut truncated = good.clone();
        truncated[2] |= 2;
        answer_of(&truncated)
    })?;
    told("a fragment", {
        let mut fragment = answer_of(&good);
        fragment[6] = 0x20;
        fragment
    })?;
    told("a length that says less", {
        let mut less = answer_of(&good);
        less[20 + 5] -= 1;
        less
    })
}

fn sets_apart() -> anyhow::Result<()> {
    let mut script = Script::default();
    let to = |port| packet(CLIENT, WEB, UDP, &udp(4000, port, b"x"));
    script.expect("not in the set", "accept", to(1000));
    script.ask(4000, &query(7, "a.cdn.example", A));
    script.tell(4000, &answer(7, "a.cdn.example", 60, WEB));
    script.expect("in the set", "drop", to(1000));
    script.expect("in the other set", "drop", to(25));
    script.ask(4000, &query(7, "mail.example", A));
    script.tell(4000, &answer(7, "mail.example", 60, WEB));
    script.expect("in the other set, too", "accept", to(25));
    script.run()
}

/// Tests a set that learns among many rules on the same field. The engine finds these rules by the field's value, but
/// tests rules with a set that learns one by one.
fn among_rules() -> anyhow::Result<()> {
    let static_rules = (100..120).map(|host| format!("ip daddr 192.0.2.{host} drop\n"));
    let rules: Vec<String> = static_rules.collect();
    let set = "ip daddr @cdn accept\n";
    let policy = format!(
        "table ip t {{\nset cdn {{ type ipv4_addr; learn dns \"*.cdn.example\"; }}\nchain c {{\n\
         type filter hook forward priority 0; policy drop;\nth dport 53 accept\nth sport 53 accept\n\
         {}{set}{}}}\n}}\n",
        rules.concat(),
        set.repeat(20)
    );
    let mut script = Script::default();
    script.reach("unknown", "drop", WEB);
    for (id, address) in [(7, WEB), (8, "192.0.2.100")] {
        script.ask(4000, &query(id, "a.cdn.example", A));
        script.tell(4000, &answer(id, "a.cdn.example", 60, address));
    }
    script.reach("known", "accept", WEB);
    script.reach("known, behind a rule", "drop", "192.0.2.100");
    script.run_by(&policy)
}
