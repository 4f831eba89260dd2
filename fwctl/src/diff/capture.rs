// SPDX-License-Identifier: GPL-2.0-or-later
//! Decides the packets of a capture by the old and the new policy.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use rust_firewall::engine::fields;
use rust_firewall::explain::comment;
use rust_firewall::options::{Options, OptionsFacts};
use rust_firewall::packet::pcap::{self, PcapPacket};
use rust_firewall::policy::symbol;
use rust_firewall::policy::{Type, HOOKS};

use super::engine::{Engine, Facts, Interfaces, CONNECTION};
use super::flips::{Flips, FlowKey, Left, FLOWS_MAX};
use crate::failure::Failure;
use crate::rights;

/// Returns a packet's protocol family, from its first byte; 0 if it is unknown.
fn nfproto(bytes: &[u8]) -> u8 {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => fields::IPV4,
        Some(6) => fields::IPV6,
        _ => 0,
    }
}

/// Number of a connection's first packets in each hook that a record has without a gap; of the later packets it has
/// only some (packaging/record.nft).
const CONTIGUOUS: u8 = 10;

/// Connections whose first packet is in the capture (its connection state is `new`), with the number of packets so far
/// in each hook.
#[derive(Default)]
struct Opened(HashMap<FlowKey, [u8; HOOKS.len()]>);

impl Opened {
    /// Counts a packet. Returns true if its names can be known: the capture has its connection from the first packet
    /// on, without a gap. Also returns true for packets without ports, which have no names.
    /// - is_new: true if the packet's connection state is `new`.
    fn take(&mut self, flow: &FlowKey, hook: u8, is_new: bool) -> bool {
        if !flow.has_ports() {
            return true;
        }
        let reversed = flow.reversed();
        let opener = match self.0.contains_key(&reversed) {
            true => &reversed,
            false => flow,
        };
        if is_new && !self.0.contains_key(opener) && self.0.len() < FLOWS_MAX {
            self.0.insert(opener.clone(), [0; HOOKS.len()]);
        }
        let Some(counts) = self.0.get_mut(opener) else {
            return false;
        };
        // The directions may be in different hooks: a gap in one hook makes the whole connection incomplete.
        let is_whole = counts.iter().all(|count| *count < CONTIGUOUS);
        if let Some(count) = counts.get_mut(usize::from(hook)) {
            *count = count.saturating_add(1);
        }
        is_whole
    }
}

/// Parameters of a comparison by a capture: the age of packets that count, and the kind of the capture.
pub struct Capture {
    /// Maximum age of packets that count, in seconds before the present. None: all packets count.
    pub last_seconds: Option<u32>,
    /// True for a record of the unit twinwall-record: it has the connection state of each packet, and the first packets
    /// of connections without a gap.
    pub has_all: bool,
}

fn facts(packet: &PcapPacket, given: OptionsFacts, first_hook: u8) -> Facts {
    Facts {
        bytes: packet.bytes.to_owned(),
        original: packet.original,
        truncated: false,
        hook: given.hook.map_or(first_hook, |hook| hook as u8),
        nfproto: nfproto(packet.bytes),
        mark: given.mark,
        iif: given.iif,
        oif: given.oif,
        uid: given.uid,
        gid: given.gid,
        ct_state: given.ct_state,
        ct_mark: given.ct_mark,
        time_ns: packet.time_ns,
    }
}

impl Capture {
    /// Returns the time from which on packets count, in nanoseconds since 1970; 0 if all packets count.
    fn begin_ns(&self) -> u64 {
        let Some(seconds) = self.last_seconds else {
            return 0;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as u64);
        now.saturating_sub(u64::from(seconds) * 1_000_000_000)
    }

    /// Decides the capture's packets by the old and by the new policy, and adds both decisions to `flips`. Returns the
    /// counts of skipped, damaged and nameless input, and the time of the first compared packet. Gives up root's rights
    /// before it parses a packet.
    pub fn compare(
        &self,
        options: &Options,
        mut old: Engine,
        mut new: Engine,
        interfaces: &Interfaces,
        flips: &mut Flips,
    ) -> Result<Left, Failure> {
        let mut left = Left::default();
        let begin_ns = self.begin_ns();
        let must_be_opened = self.has_all && (old.requirement().names || new.requirement().names);
        let mut opened = Opened::default();
        let state_new = symbol::find(symbol::symbols_of(Type::CtState), "new");
        let mut pcap = pcap::open(&options.explain.capture)?;
        rights::become_nobody()?;
        while let Some(packet) = pcap::next(&mut pcap)? {
            let told = packet.comment.map(comment::parse);
            left.damaged += u64::from(told == Some(None));
            let given = match told.flatten() {
                Some(comment) => comment.facts,
                None => options.explain.facts.clone(),
            };
            let flow = FlowKey::of(packet.bytes, packet.original);
            let is_new = given.ct_state.is_some() && given.ct_state == state_new;
            let is_early = packet.time_ns < begin_ns;
            let facts = facts(&packet, given, old.first_hook() as u8);
            if must_be_opened && !opened.take(&flow, facts.hook, is_new) {
                left.nameless += u64::from(!is_early);
                continue;
            }
            let (was, old_timed) = old.decide(&facts, interfaces);
            let (will, new_timed) = new.decide(&facts, interfaces);
            // Packets after a refused packet would not have been sent.
            let is_behind = self.has_all && [&was, &will].iter().any(|one| one.by == CONNECTION);
            if !is_early && !is_behind {
                left.first_ns.get_or_insert(packet.time_ns);
                flips.note(flow, was, will, old_timed || new_timed);
            }
        }
        left.skipped = pcap.skipped;
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the flow of a UDP packet between two ports of 127.0.0.1.
    fn flow(from: u8, to: u8) -> FlowKey {
        let mut packet = [0; 28];
        packet[0] = 0x45;
        packet[3] = 28;
        packet[9] = 17;
        packet[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 1]);
        (packet[21], packet[23], packet[25]) = (from, to, 8);
        FlowKey::of(&packet, 28)
    }

    #[test]
    fn a_connection_counts_from_its_first_packet_on_in_both_directions() {
        let mut opened = Opened::default();
        let (input, output) = (1, 3);
        assert!(!opened.take(&flow(1, 2), input, false));
        assert!(opened.take(&flow(1, 2), input, true));
        assert!(opened.take(&flow(2, 1), input, false));
        assert!(!opened.take(&flow(1, 3), input, false));
        assert!(opened.take(&flow(2, 1), output, false));
        for _ in 2..CONTIGUOUS {
            assert!(opened.take(&flow(1, 2), input, false));
        }
        // After these packets the record may have gaps.
        assert!(!opened.take(&flow(1, 2), input, false));
        assert!(!opened.take(&flow(2, 1), output, true));
    }

    #[test]
    fn the_last_seconds_have_a_beginning() {
        let begin_ns = |last_seconds| {
            let has_all = false;
            Capture {
                last_seconds,
                has_all,
            }
            .begin_ns()
        };
        assert_eq!(begin_ns(None), 0);
        assert!(begin_ns(Some(60)) > 0 && begin_ns(Some(60)) < begin_ns(Some(1)));
    }
}
