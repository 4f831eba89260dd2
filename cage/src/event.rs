// SPDX-License-Identifier: GPL-2.0-or-later
//! Lines of the firewall's events (docs/EVENTS.md): denied packets, and DNS queries.

use std::net::IpAddr;

use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
struct Name {
    sni: Option<String>,
    hostname: Option<String>,
    rrname: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Own {
    verdict: Option<String>,
    by: Option<String>,
    rule: Option<String>,
    comment: Option<String>,
    chain: Option<String>,
    hook: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Line {
    flow_id: Option<u64>,
    event_type: String,
    src_ip: Option<IpAddr>,
    src_port: Option<u16>,
    dest_ip: Option<IpAddr>,
    dest_port: Option<u16>,
    proto: Option<String>,
    tls: Option<Name>,
    quic: Option<Name>,
    http: Option<Name>,
    dns: Option<Name>,
    twinwall: Own,
}

/// Peer of a connection, with the protocol that shows its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer {
    /// "tls sni", "quic sni", "http host", "dns name", or the protocol (tcp, udp) if no name is known.
    pub kind: String,
    pub name: Option<String>,
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let address = match (self.address, self.port) {
            (Some(IpAddr::V6(address)), Some(port)) => format!("[{address}]:{port}"),
            (Some(address), Some(port)) => format!("{address}:{port}"),
            (Some(address), None) => address.to_string(),
            (None, _) => "?".to_owned(),
        };
        match &self.name {
            Some(name) => write!(out, "{} {name} ({address})", self.kind),
            None => write!(out, "{} {address}", self.kind),
        }
    }
}

/// Event: a denied packet, or a DNS query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Denied {
        peer: Peer,
        why: String,
        flow: Option<u64>,
    },
    Question {
        name: String,
    },
}

fn named(line: &Line) -> (String, Option<String>) {
    let names = [
        (
            "tls sni",
            line.tls.as_ref().and_then(|shown| shown.sni.clone()),
        ),
        (
            "quic sni",
            line.quic.as_ref().and_then(|shown| shown.sni.clone()),
        ),
        (
            "http host",
            line.http.as_ref().and_then(|shown| shown.hostname.clone()),
        ),
        (
            "dns name",
            line.dns.as_ref().and_then(|shown| shown.rrname.clone()),
        ),
    ];
    let found = names.into_iter().find(|(_, name)| name.is_some());
    let protocol = line.proto.clone().unwrap_or_default().to_lowercase();
    found.map_or((protocol, None), |(kind, name)| (kind.to_owned(), name))
}

fn peer(line: &Line) -> Peer {
    let (kind, name) = named(line);
    let is_answer = line.twinwall.hook.as_deref() == Some("input");
    let (address, port) = match is_answer {
        true => (line.src_ip, line.src_port),
        false => (line.dest_ip, line.dest_port),
    };
    Peer {
        kind,
        name,
        address,
        port,
    }
}

/// Returns the reason of a denial: the rule's comment, otherwise the rule's file and line, otherwise the source of the
/// verdict (`by`).
fn why(own: &Own) -> String {
    let place = own
        .rule
        .as_deref()
        .map(|rule| rule.rsplit('/').next().unwrap_or(rule));
    match (&own.comment, place, own.by.as_deref()) {
        (Some(comment), _, _) => comment.clone(),
        (None, Some(place), _) => format!("by {place}"),
        (None, None, Some("policy")) => format!(
            "by the policy of chain {}",
            own.chain.as_deref().unwrap_or("?")
        ),
        (None, None, Some("fail")) => "it can't be read".to_owned(),
        (None, None, by) => format!("by {}", by.unwrap_or("?")),
    }
}

impl Event {
    /// Parses an event's line. Returns None if it is neither a denied packet nor a DNS query.
    pub fn read(line: &str) -> Option<Event> {
        let line: Line = serde_json::from_str(line).ok()?;
        let is_denied = matches!(line.twinwall.verdict.as_deref(), Some("drop" | "reject"));
        if line.event_type == "log" {
            let name = line.dns.and_then(|dns| dns.rrname)?;
            return Some(Event::Question { name });
        }
        is_denied.then(|| Event::Denied {
            peer: peer(&line),
            why: why(&line.twinwall),
            flow: line.flow_id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(line: &str) -> String {
        match Event::read(line) {
            Some(Event::Denied { peer, why, .. }) => format!("{peer}: {why}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_denied_packet_is_told_by_its_name() {
        let line = r#"{"flow_id":1,"event_type":"reject","src_ip":"10.0.2.100","src_port":4000,"dest_ip":"192.0.2.1",
            "dest_port":443,"proto":"TCP","reject":{},"tls":{"sni":"ads.example"},
            "twinwall":{"verdict":"reject","by":"rule","rule":"/a/build.nft:12","hook":"output"}}"#;
        assert_eq!(
            denied(line),
            "tls sni ads.example (192.0.2.1:443): by build.nft:12"
        );
        let answer = line.replace("output", "input");
        assert_eq!(
            denied(&answer),
            "tls sni ads.example (10.0.2.100:4000): by build.nft:12"
        );
        let said = line.replace(r#""hook""#, r#""comment":"name not allowed","hook""#);
        assert_eq!(
            denied(&said),
            "tls sni ads.example (192.0.2.1:443): name not allowed"
        );
    }

    #[test]
    fn one_without_a_name_is_told_by_its_address() {
        let line = r#"{"event_type":"anomaly","dest_ip":"2001:db8::1","dest_port":53,"proto":"UDP","anomaly":{},
            "twinwall":{"verdict":"drop","by":"fail","hook":"output"}}"#;
        assert_eq!(denied(line), "udp [2001:db8::1]:53: it can't be read");
    }

    #[test]
    fn a_question_is_told_by_its_name() {
        let line = r#"{"event_type":"log","log":{},"dns":{"type":"query","rrname":"a.example","rrtype":"A"},"twinwall":{"verdict":"accept"}}"#;
        assert_eq!(
            Event::read(line),
            Some(Event::Question {
                name: "a.example".to_owned()
            })
        );
        assert_eq!(Event::read(r#"{"event":"start"}"#), None);
    }
}
