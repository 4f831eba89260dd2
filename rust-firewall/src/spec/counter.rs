// SPDX-License-Identifier: GPL-2.0-or-later
// Made by spec/generate from spec/counters.toml.
//! The counters of a queue's worker.

use std::slice;

/// Alignment of `Stats` in bytes: a pair of cache lines, which adjacent-line prefetch fetches together.
pub const STATS_ALIGN: usize = 128;
/// Number of counters in `Stats`.
pub const STATS_WORDS: usize = 59;

/// The counters of a worker. Those of a running worker are atomic (`LiveStats`), those of a copy are plain.
/// `stats::snapshot` reads them in this order, which puts received before verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C, align(128))]
pub struct Stats<Word = u64> {
    /// Packets received from the queue.
    pub received: Word,
    /// Bytes of the packets received.
    pub bytes: Word,
    /// Packets answered, by verdict.
    pub verdicts: [Word; 6],
    /// Verdicts for packets that the kernel no longer had.
    pub refused: Word,
    /// Malformed packets, by reason.
    pub malformed: [Word; 19],
    /// Messages that could not be read, with an id or not.
    pub netlink: Word,
    /// Packets with a header beyond the copied bytes.
    pub beyond_copy: Word,
    /// Messages that the receive slot was too small for.
    pub truncated: Word,
    /// Messages whose packet's id could not be read.
    pub without_id: Word,
    /// Ids without a message, for no known reason.
    pub gaps: Word,
    /// Receive calls that reported lost packets.
    pub overruns: Word,
    /// Calls to send verdicts for which the kernel had no room.
    pub send_retries: Word,
    /// Packets whose bytes that the policy reads were not copied.
    pub undecidable: Word,
    /// Packets of which a rule reads a name that is not known yet, or can't be read.
    pub undecided: Word,
    /// Packets without a connection state where the policy asks for it.
    pub without_ct_state: Word,
    /// Packets given back to the kernel with the checksum that it had not written yet.
    pub restated: Word,
    /// Replies to rejected packets, by result.
    pub replies: [Word; 3],
    /// Connections that were followed for their names, by result.
    pub connections: [Word; 10],
    /// DNS answers where the policy has sets that learn, by result.
    pub answers: [Word; 5],
    /// Learned addresses that were sent to the kernel's sets (--stage), by result.
    pub elements: [Word; 2],
}

impl<Word> Stats<Word> {
    /// All counters, in the order of the fields.
    pub fn words(&self) -> impl Iterator<Item = &Word> {
        [
            slice::from_ref(&self.received),
            slice::from_ref(&self.bytes),
            &self.verdicts[..],
            slice::from_ref(&self.refused),
            &self.malformed[..],
            slice::from_ref(&self.netlink),
            slice::from_ref(&self.beyond_copy),
            slice::from_ref(&self.truncated),
            slice::from_ref(&self.without_id),
            slice::from_ref(&self.gaps),
            slice::from_ref(&self.overruns),
            slice::from_ref(&self.send_retries),
            slice::from_ref(&self.undecidable),
            slice::from_ref(&self.undecided),
            slice::from_ref(&self.without_ct_state),
            slice::from_ref(&self.restated),
            &self.replies[..],
            &self.connections[..],
            &self.answers[..],
            &self.elements[..],
        ]
        .into_iter()
        .flatten()
    }

    pub fn words_mut(&mut self) -> impl Iterator<Item = &mut Word> {
        [
            slice::from_mut(&mut self.received),
            slice::from_mut(&mut self.bytes),
            &mut self.verdicts[..],
            slice::from_mut(&mut self.refused),
            &mut self.malformed[..],
            slice::from_mut(&mut self.netlink),
            slice::from_mut(&mut self.beyond_copy),
            slice::from_mut(&mut self.truncated),
            slice::from_mut(&mut self.without_id),
            slice::from_mut(&mut self.gaps),
            slice::from_mut(&mut self.overruns),
            slice::from_mut(&mut self.send_retries),
            slice::from_mut(&mut self.undecidable),
            slice::from_mut(&mut self.undecided),
            slice::from_mut(&mut self.without_ct_state),
            slice::from_mut(&mut self.restated),
            &mut self.replies[..],
            &mut self.connections[..],
            &mut self.answers[..],
            &mut self.elements[..],
        ]
        .into_iter()
        .flatten()
    }
}

/// Line of the ledger's text that lists a counter: that of a queue, or of the policy. None means
/// that the text shows the counter elsewhere, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterText {
    None,
    Queue,
    Policy,
}

/// Description of a counter. Its index in `COUNTER_WORDS` is the counter's index in `Stats`.
#[derive(Clone, Copy, Debug)]
pub struct CounterWord {
    /// Key in the ledger as JSON.
    pub key: &'static str,
    /// Name in the key's JSON object; None = the key has only this counter.
    pub value: Option<&'static str>,
    /// Name in the state that an upgrade hands over.
    pub handover: &'static str,
    pub text: CounterText,
    /// True if the ledger shows the counter.
    pub shown: bool,
}

const fn word(
    key: &'static str,
    value: Option<&'static str>,
    handover: &'static str,
    text: CounterText,
    shown: bool,
) -> CounterWord {
    CounterWord {
        key,
        value,
        handover,
        text,
        shown,
    }
}

/// The counters, in the order of `Stats::words`.
pub static COUNTER_WORDS: [CounterWord; STATS_WORDS] = [
    word("received", None, "received", CounterText::None, true),
    word("bytes", None, "bytes", CounterText::None, true),
    word(
        "verdicts",
        Some("accept"),
        "verdict-accept",
        CounterText::None,
        true,
    ),
    word(
        "verdicts",
        Some("drop"),
        "verdict-drop",
        CounterText::None,
        true,
    ),
    word(
        "verdicts",
        Some("reject"),
        "verdict-reject",
        CounterText::None,
        true,
    ),
    word(
        "verdicts",
        Some("mark"),
        "verdict-mark",
        CounterText::None,
        true,
    ),
    word(
        "verdicts",
        Some("repeat"),
        "verdict-repeat",
        CounterText::None,
        true,
    ),
    word(
        "verdicts",
        Some("requeue"),
        "verdict-requeue",
        CounterText::None,
        true,
    ),
    word("refused", None, "refused", CounterText::None, true),
    word(
        "malformed",
        Some("ok"),
        "malformed-ok",
        CounterText::None,
        false,
    ),
    word(
        "malformed",
        Some("beyond-copy"),
        "malformed-beyond-copy",
        CounterText::None,
        false,
    ),
    word(
        "malformed",
        Some("empty"),
        "malformed-empty",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("version"),
        "malformed-version",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv4-short"),
        "malformed-ipv4-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv4-header-length"),
        "malformed-ipv4-header-length",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv4-total-length"),
        "malformed-ipv4-total-length",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv4-fragment-overflow"),
        "malformed-ipv4-fragment-overflow",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv6-short"),
        "malformed-ipv6-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv6-payload-length"),
        "malformed-ipv6-payload-length",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv6-extension-short"),
        "malformed-ipv6-extension-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv6-extension-limit"),
        "malformed-ipv6-extension-limit",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("ipv6-fragment-overflow"),
        "malformed-ipv6-fragment-overflow",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("tcp-short"),
        "malformed-tcp-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("tcp-data-offset"),
        "malformed-tcp-data-offset",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("udp-short"),
        "malformed-udp-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("udp-length"),
        "malformed-udp-length",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("icmp-short"),
        "malformed-icmp-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("icmpv6-short"),
        "malformed-icmpv6-short",
        CounterText::None,
        true,
    ),
    word(
        "malformed",
        Some("netlink"),
        "netlink",
        CounterText::None,
        true,
    ),
    word("beyond_copy", None, "beyond_copy", CounterText::Queue, true),
    word("truncated", None, "truncated", CounterText::Queue, true),
    word("without_id", None, "without_id", CounterText::Queue, true),
    word("gaps", None, "gaps", CounterText::Queue, true),
    word("overruns", None, "overruns", CounterText::Queue, true),
    word(
        "send_retries",
        None,
        "send_retries",
        CounterText::Queue,
        true,
    ),
    word(
        "undecidable",
        None,
        "undecidable",
        CounterText::Policy,
        true,
    ),
    word("undecided", None, "undecided", CounterText::Policy, true),
    word(
        "without_ct_state",
        None,
        "without_ct_state",
        CounterText::Policy,
        true,
    ),
    word("restated", None, "restated", CounterText::Policy, true),
    word(
        "replies",
        Some("sent"),
        "replies-sent",
        CounterText::None,
        true,
    ),
    word(
        "replies",
        Some("not_due"),
        "replies-not-due",
        CounterText::None,
        true,
    ),
    word(
        "replies",
        Some("failed"),
        "replies-failed",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("opened"),
        "connections-opened",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("other"),
        "connections-other",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("tls"),
        "connections-tls",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("quic"),
        "connections-quic",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("http"),
        "connections-http",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("dns"),
        "connections-dns",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("denied"),
        "connections-denied",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("evasion"),
        "connections-evasion",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("unreadable"),
        "connections-unreadable",
        CounterText::None,
        true,
    ),
    word(
        "connections",
        Some("evicted"),
        "connections-evicted",
        CounterText::None,
        true,
    ),
    word(
        "answers",
        Some("learned"),
        "answers-learned",
        CounterText::None,
        true,
    ),
    word(
        "answers",
        Some("empty"),
        "answers-empty",
        CounterText::None,
        true,
    ),
    word(
        "answers",
        Some("other"),
        "answers-other",
        CounterText::None,
        true,
    ),
    word(
        "answers",
        Some("unasked"),
        "answers-unasked",
        CounterText::None,
        true,
    ),
    word(
        "answers",
        Some("unreadable"),
        "answers-unreadable",
        CounterText::None,
        true,
    ),
    word(
        "elements",
        Some("added"),
        "elements-added",
        CounterText::None,
        true,
    ),
    word(
        "elements",
        Some("failed"),
        "elements-failed",
        CounterText::None,
        true,
    ),
];
