// SPDX-License-Identifier: GPL-2.0-or-later
//! A line of `tail`: docs/EVENTS.md. Unknown keys are no error; unknown numbers of the firewall's own events are shown.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde_json::Value;

use crate::failure::{Exit, Failure};

#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    timestamp: String,
    pub event_type: String,
    in_iface: Option<String>,
    out_iface: Option<String>,
    pub src_ip: Option<IpAddr>,
    src_port: Option<u16>,
    pub dest_ip: Option<IpAddr>,
    pub dest_port: Option<u16>,
    /// Protocol as in Suricata: "TCP".
    pub proto: Option<String>,
    icmp_type: Option<u8>,
    pub twinwall: Own,
    /// Copied bytes of the packet in base64; None unless the events were requested with `"packets":true`.
    pub packet: Option<String>,
    pub input: Option<Input>,
    /// All other members, such as the object with the name of event_type, or `tls`.
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Object `twinwall` of an event: members that Suricata's events do not have.
#[derive(Clone, Debug, Deserialize)]
pub struct Own {
    pub verdict: Option<String>,
    pub by: Option<String>,
    pub rule: Option<String>,
    table: Option<String>,
    pub chain: Option<String>,
    /// Kind of an event about the firewall itself, such as "lost"; None in an event about a packet.
    event: Option<String>,
    text: Option<String>,
    queue: Option<u16>,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
}

/// Packet metadata that a policy can match besides the packet's bytes.
#[derive(Clone, Debug, Deserialize)]
pub struct Input {
    pub length: u32,
    pub ethertype: u16,
    pub hook: u8,
    pub iifname: String,
    pub oifname: String,
    pub mark: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub ct_state: Option<String>,
    pub ct_mark: Option<u32>,
    pub truncated: bool,
}

/// Kind of the firewall's own event about lost events. Its text names the place of the loss: ring, sink or tail.
const LOST: &str = "lost";
/// Text of a `lost` event about lines that the destination of --events did not get. `missed` ignores such events.
const LOST_OF_OTHERS: &str = "sink";

/// Objects of an event that may have the name which a client requested, each with the key of the name.
const NAMES: [(&str, &str); 4] = [
    ("tls", "sni"),
    ("quic", "sni"),
    ("http", "hostname"),
    ("dns", "rrname"),
];

fn end(ip: Option<IpAddr>, port: Option<u16>) -> String {
    match (ip, port) {
        (Some(ip), Some(port)) => SocketAddr::new(ip, port).to_string(),
        (Some(ip), None) => ip.to_string(),
        _ => "?".to_owned(),
    }
}

impl Event {
    pub fn parse(line: &str) -> Result<Event, Failure> {
        serde_json::from_str(line).map_err(|error| {
            let begin: String = line.chars().take(80).collect();
            Failure::new(
                Exit::Refused,
                format_args!(
                    "unsupported event ({error}): use fwctl and firewall of the same version. \
                     It begins: {begin}"
                ),
            )
        })
    }

    /// Returns true for the event of a packet's verdict; false for an event of a log statement or of the firewall
    /// itself.
    pub fn is_packet(&self) -> bool {
        self.event_type != "twinwall" && self.event_type != "log"
    }

    /// Returns the number of earlier events that this client did not get because they came too fast, according to this
    /// `lost` event; 0 for other events, and for losses of the destination of --events.
    pub fn missed(&self) -> u64 {
        match self.twinwall.event.as_deref() {
            Some(LOST) if self.twinwall.text.as_deref() != Some(LOST_OF_OTHERS) => {
                self.figures().map(|(_, figure)| figure).sum()
            }
            _ => 0,
        }
    }

    /// Returns the name that the packet's client requested: in TLS, QUIC, HTTP or a DNS query.
    pub fn name(&self) -> Option<&str> {
        let named = NAMES
            .iter()
            .find_map(|(object, key)| self.rest.get(*object)?.get(key));
        named
            .and_then(Value::as_str)
            .filter(|name| !name.is_empty())
    }

    fn figures(&self) -> impl Iterator<Item = (&str, u64)> {
        let figures = self.twinwall.rest.iter();
        figures.filter_map(|(name, value)| Some((name.as_str(), value.as_u64()?)))
    }

    /// Returns the origin of the verdict, as `diff` and `explain` print it.
    pub fn by(&self) -> String {
        let own = &self.twinwall;
        match (&own.rule, &own.table, &own.chain, &own.by) {
            (Some(rule), ..) => rule.clone(),
            (_, Some(table), Some(chain), _) => format!("policy {table} {chain}"),
            (.., Some(by)) => by.clone(),
            _ => "?".to_owned(),
        }
    }

    /// Returns the time of day of the time stamp: "18:52:26.123456".
    fn clock(&self) -> &str {
        self.timestamp.get(11..26).unwrap_or(&self.timestamp)
    }

    /// Returns the time stamp in nanoseconds since 1970; None if it can't be parsed.
    pub fn time_ns(&self) -> Option<u64> {
        let part = |from: usize, to: usize| self.timestamp.get(from..to)?.parse::<u64>().ok();
        let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
        if year < 1970
            || !(1..=12).contains(&month)
            || day == 0
            || !self.timestamp.ends_with("+0000")
        {
            return None;
        }
        // Years begin with March, so that a leap day is the last day (days_from_civil, Howard Hinnant).
        let (year, month) = match month {
            1 | 2 => (year - 1, month + 9),
            _ => (year, month - 3),
        };
        let days =
            year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
        let seconds =
            (days - 719_468) * 86_400 + part(11, 13)? * 3600 + part(14, 16)? * 60 + part(17, 19)?;
        Some(seconds * 1_000_000_000 + part(20, 26)? * 1000)
    }

    fn packet_text(&self, verdict: &str) -> String {
        let detail = self.rest.get(&self.event_type);
        let detail = |key| detail.and_then(|detail| detail.get(key));
        // A packet that passes a log statement continues to its verdict.
        let kind = match self.is_packet() {
            true => verdict,
            false => &self.event_type,
        };
        let mut text = format!(
            "{} {kind:<6} {} > {}",
            self.clock(),
            end(self.src_ip, self.src_port),
            end(self.dest_ip, self.dest_port)
        );
        if let Some(proto) = &self.proto {
            text.push_str(&format!(" {proto}"));
        }
        if let Some(kind) = self.icmp_type {
            text.push_str(&format!(" type {kind}"));
        }
        let has = |flag| detail(flag).and_then(Value::as_bool) == Some(true);
        for flag in ["syn", "fin", "rst"] {
            if has(flag) {
                text.push_str(&format!(" {flag}"));
            }
        }
        // Nearly all other packets have an ACK; with a SYN it is the response to a SYN.
        if has("syn") && has("ack") {
            text.push_str(" ack");
        }
        if let Some(bytes) = detail("len").and_then(Value::as_u64) {
            text.push_str(&format!(", {bytes} bytes"));
        }
        if let Some(event) = detail("event").and_then(Value::as_str) {
            text.push_str(&format!(", {event}"));
        }
        if let Some(name) = self.name() {
            text.push_str(&format!(", name {name}"));
        }
        if let Some(name) = &self.in_iface {
            text.push_str(&format!(", in {name}"));
        }
        if let Some(name) = &self.out_iface {
            text.push_str(&format!(", out {name}"));
        }
        if let Some(queue) = self.twinwall.queue {
            text.push_str(&format!(", queue {queue}"));
        }
        text.push_str(&format!(": {}", self.by()));
        if let Some(prefix) = detail("prefix").and_then(Value::as_str) {
            text.push_str(&format!(" \"{prefix}\""));
        }
        text
    }

    /// Formats the event on one line for people.
    pub fn text(&self) -> String {
        let own = &self.twinwall;
        if let Some(verdict) = &own.verdict {
            return self.packet_text(verdict);
        }
        let event = own.event.as_deref().unwrap_or("?");
        let mut text = format!("{} * {}", self.clock(), event.replace('_', " "));
        if let Some(said) = &own.text {
            text.push_str(&format!(": {said}"));
        }
        for (name, figure) in self.figures() {
            text.push_str(&format!(", {} {figure}", name.replace('_', " ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_stands_on_a_line() {
        let event = Event::parse(
            r#"{"timestamp":"2026-01-02T03:04:05.678901+0000","flow_id":1,"in_iface":"eth0",
            "event_type":"drop","src_ip":"192.0.2.9","src_port":46400,"dest_ip":"2001:db8::1",
            "dest_port":22,"proto":"TCP","drop":{"len":60,"syn":true,"rst":false},"twinwall":
            {"verdict":"drop","by":"rule","rule":"web.nft:6","table":"inet filter","chain":"input",
            "hook":"input","queue":3}}"#,
        );
        assert_eq!(
            event.unwrap().text(),
            "03:04:05.678901 drop   192.0.2.9:46400 > [2001:db8::1]:22 TCP syn, 60 bytes, in eth0, \
             queue 3: web.nft:6"
        );
    }

    #[test]
    fn a_name_is_that_of_any_protocol() {
        let name = |object: &str| {
            let line = format!(
                r#"{{"timestamp":"","event_type":"accept",{object}"twinwall":{{"verdict":"accept"}}}}"#
            );
            Event::parse(&line).unwrap().name().map(str::to_owned)
        };
        for object in [
            r#""tls":{"sni":"a.example","version":"TLS 1.3"},"#,
            r#""quic":{"sni":"a.example"},"#,
            r#""http":{"hostname":"a.example","http_method":"GET"},"#,
            r#""dns":{"type":"query","rrname":"a.example","rrtype":"A"},"#,
        ] {
            assert_eq!(name(object).as_deref(), Some("a.example"), "{object}");
        }
        let nameless = [
            r#""tls":{"version":"TLS 1.3"},"#,
            r#""dns":{"rrname":""},"#,
            "",
        ];
        assert!(nameless.iter().all(|object| name(object).is_none()));
    }

    #[test]
    fn a_name_is_told() {
        let event = Event::parse(
            r#"{"timestamp":"2026-01-02T03:04:05.678901+0000","event_type":"drop","src_ip":"192.0.2.9",
            "src_port":1,"dest_ip":"192.0.2.1","dest_port":443,"proto":"TCP","drop":{"len":60},
            "tls":{"sni":"a.example"},"twinwall":{"verdict":"drop","rule":"web.nft:6","queue":0}}"#,
        );
        assert_eq!(
            event.unwrap().text(),
            "03:04:05.678901 drop   192.0.2.9:1 > 192.0.2.1:443 TCP, 60 bytes, name a.example, queue 0: web.nft:6"
        );
    }

    #[test]
    fn a_time_stamp_is_a_number() {
        let time = |text: &str| {
            let line = format!(r#"{{"timestamp":"{text}","event_type":"x","twinwall":{{}}}}"#);
            Event::parse(&line).unwrap().time_ns()
        };
        assert_eq!(time("1970-01-01T00:00:00.000001+0000"), Some(1000));
        let wanted = Some(1_709_251_199_000_002_000);
        assert_eq!(time("2024-02-29T23:59:59.000002+0000"), wanted);
        assert_eq!(time("2026-01-02T03:04:05.678901+0100"), None);
        assert_eq!(time("2026-13-02T03:04:05.678901+0000"), None);
        assert_eq!(time("soon"), None);
    }

    #[test]
    fn an_answer_to_a_syn_and_the_way_out_are_told() {
        let event = Event::parse(
            r#"{"timestamp":"2026-01-02T03:04:05.678901+0000","in_iface":"eth0","out_iface":"eth1",
            "event_type":"accept","src_ip":"192.0.2.1","src_port":22,"dest_ip":"192.0.2.9",
            "dest_port":46400,"proto":"TCP","accept":{"len":60,"syn":true,"ack":true,"rst":false},
            "twinwall":{"verdict":"accept","by":"default","queue":0}}"#,
        );
        assert_eq!(
            event.unwrap().text(),
            "03:04:05.678901 accept 192.0.2.1:22 > 192.0.2.9:46400 TCP syn ack, 60 bytes, in eth0, \
             out eth1, queue 0: default"
        );
    }

    #[test]
    fn a_log_is_told_from_a_verdict() {
        let event = Event::parse(
            r#"{"timestamp":"2026-01-02T03:04:05.678901+0000","event_type":"log","src_ip":"::1",
            "dest_ip":"::2","log":{"action":"blocked","prefix":"no: ","level":"warn","len":9},
            "twinwall":{"verdict":"drop","rule":"web.nft:8","statement":0,"queue":0}}"#,
        );
        let event = event.unwrap();
        assert!(!event.is_packet());
        assert_eq!(
            event.text(),
            "03:04:05.678901 log    ::1 > ::2, 9 bytes, queue 0: web.nft:8 \"no: \""
        );
    }

    #[test]
    fn what_was_missed_is_counted() {
        let event = Event::parse(
            r#"{"timestamp":"2026-01-02T03:04:05.678901+0000","event_type":"twinwall","twinwall":
            {"event":"lost","program":"c-firewall","version":"0.1.0","events":7}}"#,
        );
        let event = event.unwrap();
        assert_eq!((event.is_packet(), event.missed()), (false, 7));
        assert_eq!(event.text(), "03:04:05.678901 * lost, events 7");
    }
}
