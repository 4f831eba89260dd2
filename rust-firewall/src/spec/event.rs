// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/events.toml.
//! The objects in lines of events, and the program's own events.

use std::borrow::Cow;

use serde::{Serialize, Serializer};

/// Kind of an event of the firewall itself, as opposed to events of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsKind {
    /// Packets are decided.
    Started,
    /// The firewall ends by itself: on request, after an error or after an upgrade.
    Stopped,
    /// The policy was reloaded: its number, its rules, and how many of them are as before, new, or gone.
    Reload,
    /// A reload failed, and the old policy stays: `text` says why.
    ReloadFailed,
    /// The guard began to answer packets of a stalled queue: how many at first.
    Stall,
    /// The kernel dropped packets of a queue: how many since the last check.
    Overload,
    /// In place of `started`: packets are decided by a firewall that took over the queues.
    Upgrade,
    /// Events above --events-rate were left out: how many.
    LeftOut,
    /// Events were lost: how many, and the place without room (`text`): `ring`, `sink`, `tail`.
    Lost,
}

/// Names of an event and of its figures (numbers), as in the event's line of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsNames {
    pub name: &'static str,
    pub figures: &'static [&'static str],
}

static NAMES: [EventsNames; 9] = [
    EventsNames {
        name: "started",
        figures: &[],
    },
    EventsNames {
        name: "stopped",
        figures: &[],
    },
    EventsNames {
        name: "reload",
        figures: &["generation", "rules", "kept", "added", "removed"],
    },
    EventsNames {
        name: "reload_failed",
        figures: &[],
    },
    EventsNames {
        name: "stall",
        figures: &["queue", "packets"],
    },
    EventsNames {
        name: "overload",
        figures: &["queue", "lost"],
    },
    EventsNames {
        name: "upgrade",
        figures: &[],
    },
    EventsNames {
        name: "left_out",
        figures: &["events"],
    },
    EventsNames {
        name: "lost",
        figures: &["events"],
    },
];

/// Returns the names of an event and of its figures (numbers), as in the event's line of JSON.
pub fn names(kind: EventsKind) -> &'static EventsNames {
    &NAMES[kind as usize]
}

/// Figures (numbers) of an event, with their names.
#[derive(Clone, Debug, Default)]
pub struct EventFigures {
    pub names: &'static [&'static str],
    pub values: Vec<u64>,
}

impl Serialize for EventFigures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.names.iter().zip(&self.values))
    }
}

// docs/EVENTS.md describes the members.

/// JSON object in events: each line about a packet.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventLine {
    pub timestamp: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flow_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_iface: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_iface: Option<Cow<'static, str>>,
    pub event_type: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_ip: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub src_port: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_ip: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dest_port: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proto: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_type: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop: Option<EventDrop>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject: Option<EventReject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<EventAccept>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anomaly: Option<EventAnomaly>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<EventLog>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<EventTls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quic: Option<EventQuic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<EventHttp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<EventDns>,
    pub twinwall: EventTwinwall,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packet_info: Option<EventPacketInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<EventInput>,
}

/// JSON object in events: the packet's headers, in the objects `drop`, `reject`, `accept` and `log`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventHeaders {
    pub len: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tos: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipid: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tc: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hoplimit: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flowlbl: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcpseq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcpack: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcpwin: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psh: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rst: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urg: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fin: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcpres: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcpurgp: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udplen: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icmp_seq: Option<u64>,
}

/// JSON object in events: `drop`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventDrop {
    #[serde(flatten)]
    pub headers: EventHeaders,
    pub reason: Cow<'static, str>,
}

/// JSON object in events: `reject`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventReject {
    #[serde(flatten)]
    pub headers: EventHeaders,
    pub reply: Cow<'static, str>,
}

/// JSON object in events: `accept`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventAccept {
    #[serde(flatten)]
    pub headers: EventHeaders,
}

/// JSON object in events: `anomaly`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventAnomaly {
    pub r#type: Cow<'static, str>,
    pub event: Cow<'static, str>,
}

/// JSON object in events: `tls`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventTls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<Cow<'static, str>>,
}

/// JSON object in events: `quic`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventQuic {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<Cow<'static, str>>,
}

/// JSON object in events: `http`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventHttp {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Cow<'static, str>>,
    pub http_method: Cow<'static, str>,
}

/// JSON object in events: `dns`, a packet's query; of several over TCP, the one that decided the packet, else the last.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventDns {
    pub r#type: Cow<'static, str>,
    pub rrname: Cow<'static, str>,
    pub rrtype: Cow<'static, str>,
}

/// JSON object in events: `log`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventLog {
    pub action: Cow<'static, str>,
    pub prefix: Cow<'static, str>,
    pub level: Cow<'static, str>,
    #[serde(flatten)]
    pub headers: EventHeaders,
}

/// JSON object in events: `twinwall`, in a line about a packet.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventTwinwall {
    pub verdict: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub statement: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook: Option<Cow<'static, str>>,
    pub queue: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mark: Option<u64>,
}

/// JSON object in events: `packet_info`, the link type of `packet`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventPacketInfo {
    pub linktype: u64,
}

/// JSON object in events: `input`, the packet's metadata.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventInput {
    pub length: u64,
    pub captured: u64,
    pub ethertype: u64,
    pub hook: u64,
    pub iif: u64,
    pub iifname: Cow<'static, str>,
    pub oif: u64,
    pub oifname: Cow<'static, str>,
    pub mark: u64,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    pub ct_state: Option<Cow<'static, str>>,
    pub ct_mark: Option<u64>,
    pub status: Cow<'static, str>,
    pub truncated: bool,
}

/// JSON object in events: each line about the firewall itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventOwnLine {
    pub timestamp: Cow<'static, str>,
    pub event_type: Cow<'static, str>,
    pub twinwall: EventOwn,
}

/// JSON object in events: `twinwall`, in a line about the firewall itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct EventOwn {
    pub event: Cow<'static, str>,
    pub program: Cow<'static, str>,
    pub version: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'static, str>>,
    #[serde(flatten)]
    pub figures: EventFigures,
}
