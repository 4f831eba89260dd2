// SPDX-License-Identifier: GPL-2.0-or-later
//! What a firewall says of names where the kernel decides (--stage, docs/STAGE.md): a class in the bits of a packet's mark.
#![deny(clippy::indexing_slicing)]

use crate::engine::types::{DecideInput, DecideOutcome};
use crate::names::NamesState;
use crate::packet::verdict::Verdict;

/// The bit that says that a connection's class is final.
pub fn settled(mask: u32) -> u32 {
    mask & !(mask >> 1)
}

/// Class of unreadable names: all bits but that.
pub fn unreadable(mask: u32) -> u32 {
    mask & !settled(mask)
}

/// Class of an unsettled connection: all bits.
pub fn undecided(mask: u32) -> u32 {
    mask
}

/// Sets the class in a packet's mark and keeps the other bits.
fn mark(mask: u32, input: &DecideInput, class: u32, outcome: &mut DecideOutcome) {
    outcome.verdict = Verdict::Accept;
    outcome.mark_set = true;
    outcome.mark = input.mark & !mask | class & mask;
}

/// Makes a policy's outcome the class of a packet. What is not decided by
/// rules stays as it is: malformed packets, and connections whose client contradicts itself.
/// - mask: bits in a row; not 0
/// - is_final: later packets of this end, or of both, do not change the connection's class
/// - before: the mark for the packet's query before this one: where they differ, the packet has no one class
pub fn tell(
    mask: u32,
    input: &DecideInput,
    is_final: bool,
    before: Option<u32>,
    outcome: &mut DecideOutcome,
) {
    let state = input.names.map_or(NamesState::None, |names| names.state);
    // All ways through the policy accept, so what rules say of a name that is not known may not matter to them.
    let is_by_rules = outcome.undecided || outcome.verdict == Verdict::Accept;
    if is_by_rules && state == NamesState::Unreadable {
        mark(mask, input, unreadable(mask), outcome);
    } else if is_by_rules && state == NamesState::Undecided {
        mark(mask, input, undecided(mask), outcome);
    } else if outcome.verdict == Verdict::Accept && outcome.mark_set {
        let class = outcome.mark & unreadable(mask);
        let last = if is_final { settled(mask) } else { 0 };
        mark(mask, input, class | last, outcome);
    }
    if outcome.verdict == Verdict::Accept && before.is_some_and(|before| before != outcome.mark) {
        mark(mask, input, unreadable(mask), outcome);
    }
}

/// Clears bits of the mark that a policy sets, unless the names of the packet's connection are final.
/// - mask: of --settled; 0: none
pub fn withhold(mask: u32, is_settled: bool, outcome: &mut DecideOutcome) {
    if !is_settled {
        outcome.mark &= !mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::types::{DecideBy, LOGS_MAX};
    use crate::names::Names;
    use crate::packet::{Packet, PacketStatus};

    const MASK: u32 = 0x0ff0;
    const FOREIGN: u32 = 0x7000f;

    /// Result of a policy's rules for a packet.
    fn outcome(verdict: Verdict, by: DecideBy, mark: Option<u32>) -> DecideOutcome {
        DecideOutcome {
            verdict,
            by,
            rule: 0,
            chain: 0,
            mark_set: mark.is_some(),
            mark: mark.unwrap_or(0),
            reject: None,
            undecidable: false,
            undecided: by == DecideBy::Undecided,
            read_names: false,
            log_count: 0,
            logs: [0; LOGS_MAX],
        }
    }

    fn tell_of(
        state: NamesState,
        is_settled: bool,
        before: Option<u32>,
        outcome: &mut DecideOutcome,
    ) {
        let packet = Packet::default();
        let names = Names {
            state,
            ..Names::default()
        };
        let input = DecideInput {
            packet: &packet,
            status: PacketStatus::Ok,
            truncated: false,
            hook: 0,
            nfproto: 0,
            length: 0,
            mark: FOREIGN | 0x0800,
            iif: 0,
            oif: 0,
            iifname: 0,
            oifname: 0,
            uid: None,
            gid: None,
            ct_state: None,
            ct_mark: None,
            names: Some(&names),
            host_number: 0,
            alpn_bits: 0,
            refused: false,
            now_ns: 0,
        };
        tell(MASK, &input, is_settled, before, outcome);
    }

    fn told(
        state: NamesState,
        is_settled: bool,
        before: Option<u32>,
        mut outcome: DecideOutcome,
    ) -> u32 {
        tell_of(state, is_settled, before, &mut outcome);
        assert_eq!((outcome.verdict, outcome.mark_set), (Verdict::Accept, true));
        outcome.mark
    }

    fn class_2() -> DecideOutcome {
        outcome(Verdict::Accept, DecideBy::Rule, Some(0x20))
    }

    #[test]
    fn a_class_keeps_foreign_bits() {
        let known = NamesState::Known;
        assert_eq!(told(known, false, None, class_2()), FOREIGN | 0x020);
        assert_eq!(told(known, true, None, class_2()), FOREIGN | 0x820);
    }

    #[test]
    fn what_is_not_known_is_accepted() {
        let unknown = || outcome(Verdict::Drop, DecideBy::Undecided, None);
        let undecided = told(NamesState::Undecided, false, None, unknown());
        assert_eq!(undecided, FOREIGN | 0xff0);
        let unreadable = told(NamesState::Unreadable, false, None, unknown());
        assert_eq!(unreadable, FOREIGN | 0x7f0);
    }

    #[test]
    fn queries_of_different_classes_have_none() {
        let (same, other) = (FOREIGN | 0x020, FOREIGN | 0x030);
        let known = NamesState::Known;
        assert_eq!(told(known, false, Some(same), class_2()), same);
        assert_eq!(told(known, false, Some(other), class_2()), FOREIGN | 0x7f0);
    }

    #[test]
    fn what_rules_did_not_decide_stays() {
        let mut failed = outcome(Verdict::Drop, DecideBy::Fail, None);
        tell_of(NamesState::Known, true, None, &mut failed);
        assert_eq!((failed.verdict, failed.mark_set), (Verdict::Drop, false));
    }
    #[test]
    fn a_mark_waits_until_names_are_final() {
        let mut waiting = outcome(Verdict::Accept, DecideBy::Rule, Some(0x8000_0001));
        withhold(0x8000_0000, false, &mut waiting);
        assert_eq!((waiting.mark_set, waiting.mark), (true, 1));
        let mut last = outcome(Verdict::Accept, DecideBy::Rule, Some(0x8000_0001));
        withhold(0x8000_0000, true, &mut last);
        assert_eq!(last.mark, 0x8000_0001);
    }
}
