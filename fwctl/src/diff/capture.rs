// SPDX-License-Identifier: GPL-2.0-or-later
//! Decides the packets of a capture by both policies.

use rust_firewall::engine::fields;
use rust_firewall::explain::comment;
use rust_firewall::options::Options;
use rust_firewall::packet::pcap;

use super::engine::{Engine, Facts, Interfaces};
use super::flips::{Flips, FlowKey, Left};
use crate::failure::Failure;

/// Returns a packet's family, which the kernel reports even if no byte is copied.
fn nfproto(bytes: &[u8]) -> u8 {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => fields::IPV4,
        Some(6) => fields::IPV6,
        _ => 0,
    }
}

/// Decides all packets by the running policy and by the new policy.
pub fn compare(
    options: &Options,
    mut old: Engine,
    mut new: Engine,
    interfaces: &Interfaces,
    flips: &mut Flips,
) -> Result<Left, Failure> {
    let mut left = Left::default();
    let mut pcap = pcap::open(&options.explain.capture)?;
    while let Some(packet) = pcap::next(&mut pcap)? {
        let told = packet.comment.map(comment::read);
        left.damaged += u64::from(told == Some(None));
        let given = match told.flatten() {
            Some(comment) => comment.facts,
            None => options.explain.facts.clone(),
        };
        let hook = given.hook.unwrap_or_else(|| old.first_hook());
        let facts = Facts {
            bytes: packet.bytes.to_owned(),
            original: packet.original,
            truncated: false,
            hook: hook as u8,
            nfproto: nfproto(packet.bytes),
            mark: given.mark,
            iif: given.iif,
            oif: given.oif,
            uid: given.uid,
            gid: given.gid,
            ct_state: given.ct_state,
            ct_mark: given.ct_mark,
            time_ns: packet.time_ns,
        };
        let (was, old_timed) = old.decide(&facts, interfaces);
        let (will, new_timed) = new.decide(&facts, interfaces);
        let flow = FlowKey::of(&facts.bytes, facts.original);
        flips.note(flow, was, will, old_timed || new_timed);
    }
    left.skipped = pcap.skipped;
    Ok(left)
}
