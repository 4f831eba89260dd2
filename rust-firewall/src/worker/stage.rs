// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes of names for the kernel's rules (--stage, docs/STAGE.md). Instead of giving a verdict, the firewall stores
//! the class of a connection's names in bits of the packet's mark, the mask. The kernel's rules decide by these bits.
#![deny(clippy::indexing_slicing)]

use crate::engine::types::{DecideInput, DecideOutcome};
use crate::names::NamesState;
use crate::packet::verdict::Verdict;

/// Returns the bit that marks a class as final: the highest bit of the mask.
pub fn settled(mask: u32) -> u32 {
    mask & !(mask >> 1)
}

/// Returns the class of unreadable names: all bits of the mask except the highest bit.
pub fn unreadable(mask: u32) -> u32 {
    mask & !settled(mask)
}

/// Returns the class of undecided names: all bits of the mask.
pub fn undecided(mask: u32) -> u32 {
    mask
}

/// Returns true if the firewall must only learn addresses from a packet, because the kernel's rules have already
/// accepted it. Of the mask's bits, the packet's mark then has only the highest and the lowest.
/// - mask: as for `tell`; 0 = no --stage
pub fn teaches(mask: u32, packet_mark: u32) -> bool {
    mask != 0 && packet_mark & mask == settled(mask) | mask & mask.wrapping_neg()
}

/// Sets the outcome to accept, with the class in the mask's bits of the packet's mark. The mark's other bits stay.
fn mark(mask: u32, input: &DecideInput, class: u32, outcome: &mut DecideOutcome) {
    outcome.verdict = Verdict::Accept;
    outcome.mark_set = true;
    outcome.mark = input.mark & !mask | class & mask;
}

/// Replaces a policy's outcome by accept, with the packet's class in its mark. Drop and reject stay, for example for a
/// client that contradicts itself, unless the outcome is undecided. Accept stays if the packet has known names or no
/// names, and no rule has set the mark.
/// - mask: adjacent bits of the mark for the class; not 0
/// - is_final: true if later packets of this end, or of both ends, can't change the class
/// - before: mark after the packet's previous query or request. If the marks differ, the packet has no single class: it
///   gets the class of unreadable names; None = this is the first query or request
pub fn tell(
    mask: u32,
    input: &DecideInput,
    is_final: bool,
    before: Option<u32>,
    outcome: &mut DecideOutcome,
) {
    let state = input.names.map_or(NamesState::None, |names| names.state);
    // The outcome can be accept although a name is unknown: then all paths through the policy accept.
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

/// Returns true if a packet is the RST with which the kernel's rules refuse a connection. This RST goes to the sender
/// of the refused packet, and its mark makes the policy reject it.
/// - mask: as for `tell`; 0 = no --stage: returns false
/// - outcome: the policy's outcome for the packet
pub fn is_refused(mask: u32, outcome: &DecideOutcome) -> bool {
    mask != 0 && outcome.verdict == Verdict::Reject
}

/// Sets the outcome to accept, and clears the mask's bits of the packet's mark.
pub fn pass(mask: u32, input: &DecideInput, outcome: &mut DecideOutcome) {
    mark(mask, input, 0, outcome);
    outcome.reject = None;
}

/// Clears the mask's bits in the mark that a policy sets, unless the server has acknowledged the final names of the
/// packet's connection.
/// - mask: bits of --settled; 0 = none
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

    /// Returns a policy's outcome for a packet.
    /// - by: reason of the verdict; the outcome is undecided only for `DecideBy::Undecided`.
    /// - mark: mark that the rules set; None = they set none.
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

    fn input<'a>(packet: &'a Packet<'a>, names: Option<&'a Names>) -> DecideInput<'a> {
        DecideInput {
            packet,
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
            names,
            host_number: 0,
            alpn_bits: 0,
            refused: false,
            now_ns: 0,
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
        let input = input(&packet, Some(&names));
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
    fn the_reset_of_a_refused_connection_passes() {
        let packet = Packet::default();
        let input = input(&packet, None);
        let mut refused = outcome(Verdict::Reject, DecideBy::Rule, None);
        assert!(is_refused(MASK, &refused));
        assert!(!is_refused(0, &refused));
        pass(MASK, &input, &mut refused);
        assert_eq!((refused.verdict, refused.mark), (Verdict::Accept, FOREIGN));
    }

    #[test]
    fn the_highest_and_the_lowest_bit_teach() {
        assert!(teaches(MASK, FOREIGN | 0x810));
        for mark in [0, FOREIGN, 0x800, 0x010, 0x820, 0x830, 0x7f0, 0xff0] {
            assert!(!teaches(MASK, mark), "{mark:#x}");
        }
        assert!(!teaches(0, 0));
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
