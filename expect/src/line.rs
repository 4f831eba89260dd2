// SPDX-License-Identifier: GPL-2.0-or-later
//! Text of an expectation: `[WAY] PROTOCOL [ENDS] [CONDITION]... VERDICT` (docs/POLICY.md).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rust_firewall::names::NamesProtocol;
use rust_firewall::packet::verdict::Verdict;
use rust_firewall::policy::hostname;
use rust_firewall::policy::symbol::{self, CT_STATES, ICMPV6_TYPES, ICMP_TYPES};

/// Way of a packet through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    In,
    Forward,
    Out,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Tcp,
    Udp,
    Icmp,
    Icmpv6,
}

/// Address and port of one end of the packet. A part is None if the line lacks it, and `whole` and `fill` have set no
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
}

/// Name that the client shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub protocol: NamesProtocol,
    /// Host in lower case, without a final dot.
    pub host: Vec<u8>,
}

/// Parsed expectation: a packet or connection, and the expected verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub way: Option<Way>,
    pub protocol: Protocol,
    /// Type of the ICMP or ICMPv6 message.
    pub kind: u8,
    pub source: End,
    pub destination: End,
    pub iif: String,
    pub oif: String,
    pub mark: u32,
    pub uid: Option<u32>,
    /// Connection's state as a value of `Type::CtState`; None if the line has none.
    pub state: Option<u32>,
    pub shown: Option<Shown>,
    pub verdict: Verdict,
}

/// Parts of an expectation that are parsed so far.
#[derive(Default)]
struct Reader {
    way: Option<Way>,
    protocol: Option<Protocol>,
    kind: Option<u8>,
    source: End,
    destination: End,
    iif: String,
    oif: String,
    mark: u32,
    uid: Option<u32>,
    state: Option<u32>,
    shown: Option<Shown>,
}

type Words<'a, 'b> = &'a mut std::iter::Peekable<std::str::SplitWhitespace<'b>>;

fn next<'b>(words: Words<'_, 'b>, what: &str) -> Result<&'b str, String> {
    words
        .next()
        .ok_or_else(|| format!("the expectation ends too early: write {what} and a verdict"))
}

/// Parses one end of a packet: `ADDRESS`, `ADDRESS:PORT`, `[IPV6]:PORT` or `:PORT`.
fn end(word: &str) -> Result<End, String> {
    let wrong =
        || format!("\"{word}\" is no end: write ADDRESS, ADDRESS:PORT, [IPV6]:PORT or :PORT");
    if let Ok(address) = word.parse() {
        let address = Some(address);
        return Ok(End {
            address,
            port: None,
        });
    }
    let (address, port) = word.rsplit_once(':').ok_or_else(wrong)?;
    let port = Some(port.parse().map_err(|_| wrong())?);
    let inner = address
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    let address = match (address, inner) {
        ("", _) => None,
        (_, Some(inner)) => Some(IpAddr::V6(inner.parse().map_err(|_| wrong())?)),
        _ => Some(IpAddr::V4(address.parse().map_err(|_| wrong())?)),
    };
    Ok(End { address, port })
}

fn shown(protocol: NamesProtocol, words: Words, field: &str) -> Result<Shown, String> {
    let word = next(words, "a name")?;
    if word != field {
        return Err(format!(
            "\"{word}\" is no name of that protocol: write {field} NAME"
        ));
    }
    let name = next(words, "a name")?.trim_matches('"');
    let read =
        hostname::parse(name).map_err(|why| format!("\"{name}\": {why}: write a whole name"))?;
    if read.wildcard {
        return Err(format!(
            "\"{name}\" stands for many names: write one of them"
        ));
    }
    Ok(Shown {
        protocol,
        host: read.bytes[..read.length].to_vec(),
    })
}

fn number(words: Words, what: &str) -> Result<u32, String> {
    let word = next(words, what)?;
    let number = match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => word.parse(),
    };
    number.map_err(|_| format!("{what} \"{word}\": write a number of 32 bits"))
}

impl Reader {
    fn set_protocol(&mut self, protocol: Protocol) -> Result<(), String> {
        match self.protocol.replace(protocol) {
            None => Ok(()),
            Some(_) => Err("the expectation has two protocols: write one".to_owned()),
        }
    }

    /// Returns the ICMP type that `word` names; None if it names none, or if the protocol so far is not ICMP or ICMPv6.
    fn icmp_type(&self, word: &str) -> Option<u8> {
        let symbols = match self.protocol? {
            Protocol::Icmp => ICMP_TYPES,
            Protocol::Icmpv6 => ICMPV6_TYPES,
            _ => return None,
        };
        let number = symbol::find(symbols, word);
        u8::try_from(number?).ok()
    }

    fn other(&mut self, word: &str, words: Words) -> Result<(), String> {
        if let Some(state) = symbol::find(CT_STATES, word) {
            self.state = Some(state);
        } else if let Some(kind) = self.icmp_type(word) {
            self.kind = Some(kind);
        } else if words.peek() == Some(&"->") {
            self.source = end(word)?;
        } else {
            return Err(format!(
                "\"{word}\" is not known here: see Expectations in docs/POLICY.md"
            ));
        }
        Ok(())
    }

    /// Parses a word of an expectation, and the words after it that are its arguments.
    fn take(&mut self, word: &str, words: Words) -> Result<(), String> {
        match word {
            "in" => self.way = Some(Way::In),
            "forward" => self.way = Some(Way::Forward),
            "out" => self.way = Some(Way::Out),
            "tcp" => self.set_protocol(Protocol::Tcp)?,
            "udp" => self.set_protocol(Protocol::Udp)?,
            "icmp" => self.set_protocol(Protocol::Icmp)?,
            "icmpv6" => self.set_protocol(Protocol::Icmpv6)?,
            "tls" => self.shown = Some(shown(NamesProtocol::Tls, words, "sni")?),
            "quic" => self.shown = Some(shown(NamesProtocol::Quic, words, "sni")?),
            "http" => self.shown = Some(shown(NamesProtocol::Http, words, "host")?),
            "dns" => self.shown = Some(shown(NamesProtocol::Dns, words, "name")?),
            "->" => self.destination = end(next(words, "an address")?)?,
            "iif" => self.iif = next(words, "an interface")?.trim_matches('"').to_owned(),
            "oif" => self.oif = next(words, "an interface")?.trim_matches('"').to_owned(),
            "mark" => self.mark = number(words, "the mark")?,
            "uid" => self.uid = Some(number(words, "the user")?),
            _ => self.other(word, words)?,
        }
        Ok(())
    }

    /// Returns the protocol; if the line has none, that of the shown name. Sets the destination's port to the name's
    /// usual port if the line has none. Fails if the protocol does not fit the name. Without a name, fails if the
    /// protocol is missing, or the destination's port for TCP or UDP.
    fn whole(&mut self) -> Result<Protocol, String> {
        let (usual, port) = match self.shown.as_ref().map(|shown| shown.protocol) {
            Some(NamesProtocol::Tls) => (Protocol::Tcp, 443),
            Some(NamesProtocol::Quic) => (Protocol::Udp, 443),
            Some(NamesProtocol::Http) => (Protocol::Tcp, 80),
            Some(_) => (Protocol::Udp, 53),
            None => {
                let protocol = self
                    .protocol
                    .ok_or("the expectation has no protocol: write tcp, udp, icmp or icmpv6")?;
                let needs_port = matches!(protocol, Protocol::Tcp | Protocol::Udp);
                return match needs_port && self.destination.port.is_none() {
                    true => Err(
                        "the expectation has no port: write -> ADDRESS:PORT or -> :PORT".to_owned(),
                    ),
                    false => Ok(protocol),
                };
            }
        };
        self.destination.port.get_or_insert(port);
        let is_dns = port == 53;
        match self.protocol {
            Some(given) if given != usual && !(is_dns && given == Protocol::Tcp) => Err(
                "a client sends no such name over that protocol: tls and http are tcp, quic is udp"
                    .to_owned(),
            ),
            given => Ok(given.unwrap_or(usual)),
        }
    }
}

/// Returns an address for an end that has none in the line: in a network for benchmarks (RFC 2544, RFC 5180).
/// - last: last byte of the address.
fn address(is_ipv6: bool, last: u8) -> IpAddr {
    match is_ipv6 {
        true => IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last.into())),
        false => IpAddr::V4(Ipv4Addr::new(198, 18, 0, last)),
    }
}

fn fill(expected: &mut Expected) -> Result<(), String> {
    let given = [expected.source.address, expected.destination.address];
    let named: Vec<bool> = given.iter().flatten().map(IpAddr::is_ipv6).collect();
    let is_ipv6 = named
        .first()
        .copied()
        .unwrap_or(expected.protocol == Protocol::Icmpv6);
    let is_alike = named.iter().all(|one| *one == is_ipv6);
    let is_fit = match expected.protocol {
        Protocol::Icmp => !is_ipv6,
        Protocol::Icmpv6 => is_ipv6,
        _ => true,
    };
    if !is_alike || !is_fit {
        return Err(
            "addresses and protocol are of two families: write all of IPv4, or all of IPv6"
                .to_owned(),
        );
    }
    expected.source.address.get_or_insert(address(is_ipv6, 1));
    expected
        .destination
        .address
        .get_or_insert(address(is_ipv6, 2));
    expected.source.port.get_or_insert(50_000);
    Ok(())
}

/// Parses an expectation's text. Fails with "CAUSE: CURE".
pub fn read(text: &str) -> Result<Expected, String> {
    let (rest, verdict) = text
        .trim()
        .rsplit_once(char::is_whitespace)
        .unwrap_or(("", text));
    let verdict = match verdict {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "reject" => Verdict::Reject,
        _ => {
            return Err(format!(
                "the expectation ends with \"{verdict}\": write accept, drop or reject there"
            ))
        }
    };
    let mut reader = Reader::default();
    let mut words = rest.split_whitespace().peekable();
    while let Some(word) = words.next() {
        reader.take(word, &mut words)?;
    }
    let protocol = reader.whole()?;
    let echo = if protocol == Protocol::Icmpv6 { 128 } else { 8 };
    let mut expected = Expected {
        way: reader.way,
        protocol,
        kind: reader.kind.unwrap_or(echo),
        source: reader.source,
        destination: reader.destination,
        iif: reader.iif,
        oif: reader.oif,
        mark: reader.mark,
        uid: reader.uid,
        state: reader.state,
        shown: reader.shown,
        verdict,
    };
    fill(&mut expected)?;
    Ok(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_line() {
        let read = read("in tcp 198.51.100.7 -> 10.0.2.1:22 iif eth0 new accept").unwrap();
        assert_eq!(read.way, Some(Way::In));
        assert_eq!(read.source.address, Some("198.51.100.7".parse().unwrap()));
        assert_eq!(read.destination.port, Some(22));
        assert_eq!(read.state, symbol::find(CT_STATES, "new"));
        assert_eq!((read.iif.as_str(), read.verdict), ("eth0", Verdict::Accept));
    }

    #[test]
    fn names_tell_protocol_and_port() {
        for (text, protocol, port) in [
            ("tls sni ads.example drop", Protocol::Tcp, 443),
            ("tls sni \"ads.example\" -> :8443 drop", Protocol::Tcp, 8443),
            ("quic sni ads.example drop", Protocol::Udp, 443),
            ("http host ads.example drop", Protocol::Tcp, 80),
            ("dns name ads.example drop", Protocol::Udp, 53),
            ("tcp dns name ads.example drop", Protocol::Tcp, 53),
        ] {
            let read = read(text).unwrap();
            assert_eq!(
                (read.protocol, read.destination.port),
                (protocol, Some(port)),
                "{text}"
            );
        }
    }

    #[test]
    fn ends_of_both_families() {
        let read = read("udp [2001:db8::1]:5 -> :53 drop").unwrap();
        assert_eq!(read.source.port, Some(5));
        assert!(read.destination.address.unwrap().is_ipv6());
    }

    #[test]
    fn what_is_wrong_has_a_cure() {
        for (text, words) in [
            ("", "ends with \"\""),
            ("tcp -> :22", "ends with \":22\""),
            ("-> :22 drop", "no protocol"),
            ("tcp drop", "no port"),
            ("tcp udp -> :1 drop", "two protocols"),
            ("tcp -> 10.0.0.1:x drop", "no end"),
            ("tcp 10.0.0.1 -> [::1]:1 drop", "two families"),
            ("icmp -> ::1 drop", "two families"),
            ("udp tls sni a.example drop", "no such name"),
            ("tls sni *.example drop", "stands for many"),
            ("tls host a drop", "sni NAME"),
            ("tcp -> :1 monster drop", "\"monster\" is not known"),
            ("tcp -> :1 mark x drop", "the mark \"x\""),
            ("icmp tcp drop", "two protocols"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
