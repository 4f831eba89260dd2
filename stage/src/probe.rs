// SPDX-License-Identifier: GPL-2.0-or-later
//! Evaluates matches of names with the firewalls' own engine, so that a class means the same here and in the firewall.

use std::collections::BTreeSet;

use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow::{self, DecidePolicy, Flow, FlowCounters};
use rust_firewall::engine::hostnames;
use rust_firewall::engine::types::{
    CompilePlace, DecideInput, DecideRecorder, DecideSettings, DecideStep, DecideWhy,
};
use rust_firewall::names::{Names, NamesProtocol, NamesState, HOST_BYTES};
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::packet::{Packet, PacketStatus};
use rust_firewall::policy::hostname;
use rust_firewall::policy::{parse, Hook, Policy};

/// Results of matches of names, by the index of the match: true if it holds.
pub type Vector = Vec<bool>;
/// Error in a text of the firewalls' language: line and cause.
pub type Wrong = (usize, String);

/// Maximum number of ALPN protocols in a policy, because all combinations of them are tried.
const PROTOCOLS_MAX: usize = 8;
const NFPROTO_IPV4: u8 = 2;
/// Name of each parsed text in the parser's messages (`names:LINE:COLUMN: CAUSE`).
pub const NAME: &str = "names";

/// Compiled policy with a rule for each match of names. It shows the matches that hold for given names.
pub struct Probe {
    policy: Policy,
    compiled: Compiled,
    flow: Flow,
    counters: FlowCounters,
    fields: Vec<String>,
    /// ALPN protocols in the matches, without duplicates.
    protocols: Vec<String>,
    /// HTTP methods in the matches, without duplicates.
    methods: Vec<String>,
}

/// Recorder of the rules that hold: true at the index of each.
struct Held(Vector);

impl DecideRecorder for Held {
    fn chain(&mut self, _chain: CompilePlace, _depth: u32) {}

    fn rule(&mut self, step: &DecideStep) {
        if let Some(held) = self.0.get_mut(step.place.rule as usize) {
            *held = step.why == DecideWhy::Held;
        }
    }
}

const SETTINGS: DecideSettings = DecideSettings {
    default_verdict: Verdict::Accept,
    malformed_open: false,
    truncated_open: false,
    malformed_by_policy: false,
    undecided_verdict: Verdict::Accept,
    unknown_open: false,
};

/// Splits a message `names:LINE:COLUMN: CAUSE` into line and cause.
pub fn split_message(text: &str) -> Wrong {
    let rest = text.strip_prefix(&format!("{NAME}:")).unwrap_or(text);
    let (line, rest) = rest.split_once(':').unwrap_or(("0", rest));
    let cause = rest.split_once(": ").map_or(rest, |(_, cause)| cause);
    (line.parse().unwrap_or(0), cause.to_owned())
}

/// Returns the quoted strings of a text, without quotes.
fn strings(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}

/// Returns the strings in the matches of a field, without duplicates.
/// - asks: field and text of each match.
fn words(asks: &[(String, String)], field: &str) -> Vec<String> {
    let own = asks.iter().filter(|(known, _)| known == field);
    let all: BTreeSet<&str> = own.flat_map(|(_, text)| strings(text)).collect();
    all.into_iter().map(str::to_owned).collect()
}

/// Fails at the first match of ALPN if there are more protocols than can be combined.
/// - line: line of the first match in `asks`, of any field.
fn check_protocols(asks: &[(String, String)], line: usize) -> Result<(), Wrong> {
    if words(asks, "tls alpn").len() <= PROTOCOLS_MAX {
        return Ok(());
    }
    let first = asks.iter().position(|(field, _)| field == "tls alpn");
    let cause = format!("more than {PROTOCOLS_MAX} protocols of tls alpn in a policy");
    Err((line + first.unwrap_or(0), cause))
}

/// Compiles matches.
/// - sets: declarations of the sets that the matches use, in the firewalls' language, in whole lines.
/// - asks: field and text of each match.
///
/// Fails with line and cause. The line of the first match in `asks` is the number of lines of `sets` plus 4.
pub fn make(sets: &str, asks: &[(String, String)]) -> Result<Probe, Wrong> {
    let rules: String = asks
        .iter()
        .map(|(_, text)| format!("{text} continue\n"))
        .collect();
    let text = format!(
        "{sets}add chain inet {NAME} c {{ type filter hook input priority 0; }}\ntable inet {NAME} {{\nchain c {{\n{rules}}}\n}}\n"
    );
    let policy =
        parse::text(NAME, text.as_bytes()).map_err(|failure| split_message(&failure.text))?;
    let settings = CompileSettings {
        linear: true,
        interface_index: &|_| 1,
        interfaces_must_exist: false,
    };
    let compiled =
        compile::policy(&policy, &settings).map_err(|failure| split_message(&failure.text))?;
    check_protocols(asks, sets.lines().count() + 4)?;
    Ok(Probe {
        protocols: words(asks, "tls alpn"),
        methods: words(asks, "http method"),
        fields: asks.iter().map(|(field, _)| field.clone()).collect(),
        flow: flow::make(&compiled),
        counters: flow::counters_make(&compiled),
        policy,
        compiled,
    })
}

fn set_host(names: &mut Names, host: &[u8]) {
    names.host = [0; HOST_BYTES];
    if let Some(room) = names.host.get_mut(..host.len()) {
        room.copy_from_slice(host);
        names.host_length = host.len() as u8;
    }
}

/// Returns the names of a connection with this protocol whose fields have no values.
fn blank(protocol: NamesProtocol) -> Names {
    Names {
        state: NamesState::Known,
        protocol,
        ..Names::default()
    }
}

impl Probe {
    /// Returns the matches that hold for names.
    fn ask(&self, names: &Names) -> Vector {
        let (host_number, alpn_bits) = hostnames::resolve(&self.compiled.hosts, names);
        let packet = Packet::default();
        let input = DecideInput {
            packet: &packet,
            status: PacketStatus::Ok,
            truncated: false,
            hook: Hook::Input as u8,
            nfproto: NFPROTO_IPV4,
            length: 0,
            mark: 0,
            iif: 0,
            oif: 0,
            iifname: 0,
            oifname: 0,
            uid: None,
            gid: None,
            ct_state: None,
            ct_mark: None,
            names: Some(names),
            host_number,
            alpn_bits,
            refused: false,
            now_ns: 0,
        };
        let policy = DecidePolicy {
            compiled: &self.compiled,
            flow: &self.flow,
            counters: &self.counters,
        };
        let mut held = Held(vec![false; self.fields.len()]);
        decide::trace(&SETTINGS, Some(&policy), &input, &mut held);
        held.0
    }

    /// Returns the possible vectors of one field: for each of its values, the field's matches that hold.
    /// - names: names with all values of the field.
    fn vary(&self, field: &str, names: impl IntoIterator<Item = Names>) -> BTreeSet<Vector> {
        let keep = |vector: Vector| -> Vector {
            let own = self.fields.iter().map(|known| known == field);
            vector
                .into_iter()
                .zip(own)
                .map(|(holds, own)| holds && own)
                .collect()
        };
        if !self.fields.iter().any(|known| known == field) {
            return BTreeSet::from([vec![false; self.fields.len()]]);
        }
        names
            .into_iter()
            .map(|names| keep(self.ask(&names)))
            .collect()
    }

    /// Returns hosts that represent all hosts: each name of the policy, a subdomain of each name, an unknown name, and
    /// no name.
    fn hosts(&self, protocol: NamesProtocol) -> impl Iterator<Item = Names> + '_ {
        let known = &self.policy.hostnames;
        let listed = (0..hostname::count(known)).flat_map(|id| {
            let (name, _) = hostname::get(known, id);
            let child = [b"0--twinwall.", name].concat();
            [name.to_vec(), child]
        });
        let others = [Vec::new(), b"twinwall--none".to_vec()];
        let hosts = others.into_iter().chain(listed);
        hosts
            .filter(|host| host.len() <= HOST_BYTES)
            .map(move |host| {
                let mut names = blank(protocol);
                set_host(&mut names, &host);
                names
            })
    }

    /// Returns names with each combination of the ALPN protocols in matches.
    fn protocols(&self) -> impl Iterator<Item = Names> + '_ {
        (0..1_u32 << self.protocols.len()).map(move |bits| {
            let mut names = blank(NamesProtocol::Tls);
            let chosen = self
                .protocols
                .iter()
                .enumerate()
                .filter(|(bit, _)| bits >> bit & 1 != 0);
            let list: Vec<u8> = chosen
                .flat_map(|(_, word)| [&[word.len() as u8], word.as_bytes()].concat())
                .collect();
            if let Some(room) = names.alpn.get_mut(..list.len()) {
                room.copy_from_slice(&list);
                names.alpn_length = list.len() as u8;
            }
            names
        })
    }

    fn methods(&self) -> impl Iterator<Item = Names> + '_ {
        let words = self.methods.iter().map(String::as_str);
        words
            .chain(["X-OTHER"])
            .filter(|word| word.len() <= 16)
            .map(|word| {
                let mut names = blank(NamesProtocol::Http);
                if let Some(room) = names.method.get_mut(..word.len()) {
                    room.copy_from_slice(word.as_bytes());
                    names.method_length = word.len() as u8;
                }
                names
            })
    }

    /// Returns the possible vectors of one protocol: each combination of its fields' vectors.
    fn combine(&self, protocol: NamesProtocol, fields: [BTreeSet<Vector>; 4]) -> BTreeSet<Vector> {
        let own = |field: &str| match protocol {
            NamesProtocol::Tls => field.starts_with("tls"),
            NamesProtocol::Http => field.starts_with("http"),
            _ => field.starts_with("dns"),
        };
        let base = self.ask(&blank(protocol));
        let others = base
            .iter()
            .zip(&self.fields)
            .map(|(holds, field)| *holds && !own(field));
        let mut all = BTreeSet::from([others.collect::<Vector>()]);
        for field in fields {
            let join = |a: &Vector, b: &Vector| a.iter().zip(b).map(|(a, b)| *a || *b).collect();
            all = all
                .iter()
                .flat_map(|a| field.iter().map(move |b| join(a, b)))
                .collect();
        }
        all
    }

    /// Returns all possible vectors of TLS.
    fn tls(&self) -> BTreeSet<Vector> {
        let versions = (0x0300..=0x0305).chain([0, u16::MAX]).map(|version| Names {
            version,
            ..blank(NamesProtocol::Tls)
        });
        let ech = [false, true].map(|ech| Names {
            ech,
            ..blank(NamesProtocol::Tls)
        });
        let fields = [
            self.vary("tls sni", self.hosts(NamesProtocol::Tls)),
            self.vary("tls alpn", self.protocols()),
            self.vary("tls version", versions),
            self.vary("tls ech", ech),
        ];
        self.combine(NamesProtocol::Tls, fields)
    }

    fn http(&self) -> BTreeSet<Vector> {
        let none = || self.vary("", []);
        let fields = [
            self.vary("http host", self.hosts(NamesProtocol::Http)),
            self.vary("http method", self.methods()),
            none(),
            none(),
        ];
        self.combine(NamesProtocol::Http, fields)
    }

    fn dns(&self) -> BTreeSet<Vector> {
        let types = (0..=u16::MAX).map(|dns_type| Names {
            dns_type,
            ..blank(NamesProtocol::Dns)
        });
        let none = || self.vary("", []);
        let fields = [
            self.vary("dns name", self.hosts(NamesProtocol::Dns)),
            self.vary("dns type", types),
            none(),
            none(),
        ];
        self.combine(NamesProtocol::Dns, fields)
    }

    /// Returns all possible vectors. The vector of a connection without names comes first.
    pub fn vectors(&self) -> Vec<Vector> {
        let none = self.ask(&blank(NamesProtocol::Other));
        let mut all = self.tls();
        all.extend(self.http());
        all.extend(self.dns());
        all.remove(&none);
        [none].into_iter().chain(all).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(texts: &[&str]) -> Vec<(String, String)> {
        let field = |text: &str| text.split(' ').take(2).collect::<Vec<_>>().join(" ");
        texts
            .iter()
            .map(|text| (field(text), text.to_string()))
            .collect()
    }

    const SETS: &str = "table inet names { set s { type hostname\n elements = { \"a.example\", \"*.b.example\" }\n }\n }\n";

    #[test]
    fn each_combination_once() {
        let probe = make(
            SETS,
            &asks(&["tls sni @s", "tls sni \"x.b.example\"", "http host @s"]),
        )
        .unwrap();
        let vectors = probe.vectors();
        // Vectors: no name; TLS name in the set only; TLS name of both matches; HTTP host in the set.
        assert_eq!(vectors.len(), 4, "{vectors:?}");
        assert_eq!(vectors[0], [false; 3]);
        assert!(vectors.contains(&vec![true, true, false]));
        assert!(vectors.contains(&vec![true, false, false]));
        assert!(vectors.contains(&vec![false, false, true]));
    }

    #[test]
    fn negations_and_what_is_missing() {
        let probe = make(
            SETS,
            &asks(&["tls sni != @s", "tls sni missing", "tls sni exists"]),
        )
        .unwrap();
        let vectors = probe.vectors();
        // Vectors: name missing, without TLS or in TLS; name in the set; other name.
        assert_eq!(vectors.len(), 3, "{vectors:?}");
        assert_eq!(vectors[0], [false, true, false]);
    }

    #[test]
    fn other_fields() {
        let texts = [
            "tls alpn \"h2\"",
            "tls version 1.0-1.1",
            "dns type { any, axfr }",
            "http method \"POST\"",
            "tls ech exists",
        ];
        let probe = make(SETS, &asks(&texts)).unwrap();
        // TLS has 2 x 2 x 2 vectors, including the vector without names. DNS and HTTP have one more vector each.
        assert_eq!(probe.vectors().len(), 10);
    }

    /// Host names are short strings as well, but must not count as protocols.
    #[test]
    fn each_combination_of_protocols() {
        let hosts = (0..9).map(|number| format!("tls sni \"{number}.example\""));
        let alpn = [
            "tls alpn \"h2\"",
            "tls alpn \"http/1.1\"",
            "tls alpn != \"http/1.1\"",
        ];
        let texts: Vec<String> = hosts.chain(alpn.map(str::to_owned)).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let vectors = make(SETS, &asks(&texts)).unwrap().vectors();
        for held in [
            [false, false, true],
            [true, false, true],
            [false, true, false],
            [true, true, false],
        ] {
            let found = vectors
                .iter()
                .filter(|vector| vector[0] && vector[9..] == held);
            assert_eq!(found.count(), 1, "{held:?}");
        }
    }

    #[test]
    fn more_protocols_than_can_be_combined_are_refused() {
        let list = |count: usize| {
            let all: Vec<String> = (0..count).map(|number| format!("\"p{number}\"")).collect();
            format!("tls alpn {{ {} }}", all.join(", "))
        };
        assert!(make(SETS, &asks(&["tls sni @s", &list(8)])).is_ok());
        let (line, cause) = make(SETS, &asks(&["tls sni @s", &list(9)])).err().unwrap();
        assert_eq!(line, SETS.lines().count() + 5, "{cause}");
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        let (line, cause) = make(SETS, &asks(&["tls sni @s", "tls sni \"a..b\""]))
            .err()
            .unwrap();
        assert_eq!(line, SETS.lines().count() + 5, "{cause}");
        assert!(cause.contains("empty label"), "{cause}");
    }
}
