// SPDX-License-Identifier: GPL-2.0-or-later
//! Decision about a packet. It allocates nothing, does not panic, and makes no system call, except that a search in
//! `learned` may wait for a lock. Its state is in flow.
#![deny(clippy::indexing_slicing)]

use crate::engine::compiled::{Compiled, FAMILIES};
use crate::engine::fields::{IPV4, IPV6};
use crate::engine::flow::DecidePolicy;
use crate::engine::types::{
    CompilePlace, DecideBy, DecideInput, DecideOutcome, DecideRecorder, DecideSettings, DecideStep,
    LOGS_MAX,
};
use crate::engine::walk;
use crate::packet::verdict::Verdict;
use crate::packet::{self, PacketStatus};

/// Recorder that records nothing.
struct NullRecorder;

impl DecideRecorder for NullRecorder {
    const LISTENS: bool = false;
    fn chain(&mut self, _chain: CompilePlace, _depth: u32) {}
    fn rule(&mut self, _step: &DecideStep) {}
}

fn verdict_of(open: bool) -> Verdict {
    if open {
        Verdict::Accept
    } else {
        Verdict::Drop
    }
}

/// Returns the verdict for a packet without a policy: --default for `Ok` and `BeyondCopy`; for malformed and truncated
/// packets the --fail modes (accept if open, drop if closed).
/// - truncated: true if the netlink message did not fit its slot of the receive buffer; status is ignored then.
pub fn decide(settings: &DecideSettings, status: PacketStatus, truncated: bool) -> Verdict {
    if truncated {
        return verdict_of(settings.truncated_open);
    }
    match packet::is_malformed(status) {
        true => verdict_of(settings.malformed_open),
        false => settings.default_verdict,
    }
}

/// Returns the numbers of the base chains for a packet's hook and protocol; none if the packet is neither IPv4 nor
/// IPv6.
fn bases_of(compiled: &Compiled, hook: u8, nfproto: u8) -> &[u32] {
    let family = match nfproto {
        IPV4 => 0,
        IPV6 => 1,
        _ => FAMILIES,
    };
    let families = compiled.hooks.get(usize::from(hook));
    families
        .and_then(|families| families.get(family))
        .map_or(&[], Vec::as_slice)
}

fn nfproto_of(input: &DecideInput) -> u8 {
    match (input.nfproto, input.packet.version) {
        (0, 4) => IPV4,
        (0, 6) => IPV6,
        (nfproto, _) => nfproto,
    }
}

fn fail(open: bool, outcome: &mut DecideOutcome) {
    outcome.verdict = verdict_of(open);
    outcome.by = DecideBy::Fail;
}

/// Returns the outcome with its initial values.
#[inline]
fn undecided(settings: &DecideSettings, input: &DecideInput) -> DecideOutcome {
    DecideOutcome {
        verdict: settings.default_verdict,
        by: DecideBy::Default,
        rule: 0,
        chain: 0,
        mark_set: false,
        mark: input.mark,
        reject: None,
        undecidable: false,
        undecided: false,
        read_names: false,
        log_count: 0,
        logs: [0; LOGS_MAX],
    }
}

/// Decides a packet. This function is not inlined into `packet`, which is inlined itself: so the outcome is written
/// directly to its final place.
#[inline(never)]
fn decide_by<R: DecideRecorder>(
    settings: &DecideSettings,
    policy: Option<&DecidePolicy>,
    input: &DecideInput,
    outcome: &mut DecideOutcome,
    recorder: &mut R,
) {
    let by_policy = settings.malformed_by_policy && policy.is_some();
    if input.truncated {
        fail(settings.truncated_open, outcome);
        return;
    }
    let nfproto = nfproto_of(input);
    if packet::is_malformed(input.status) && !(by_policy && nfproto != 0) {
        fail(settings.malformed_open, outcome);
        return;
    }
    if input.refused {
        outcome.verdict = Verdict::Drop;
        outcome.by = DecideBy::Connection;
        return;
    }
    let Some(&policy) = policy else {
        return;
    };
    let bases = bases_of(policy.compiled, input.hook, nfproto);
    if bases.is_empty() {
        return;
    }
    walk::policy(settings, &policy, input, bases, nfproto, recorder, outcome);
}

/// Decides a packet.
/// - policy: None = the verdict is that of `decide`.
/// - The --fail modes decide truncated packets; malformed packets, unless settings.malformed_by_policy is set and they
///   are IPv4 or IPv6; and packets of which a rule reads bytes that were not captured (undecidable) or an unreadable
///   name. --undecided decides packets of which a rule reads a name that is not known yet (undecided). If a rule reads
///   uncaptured bytes, or an unreadable or unknown name, earlier rules have already had their effects, and an option
///   that accepts lets the packet pass only if the rules may accept it (`ways`). Packets of a refused connection
///   (input.refused) are dropped, unless --fail decides them as truncated or malformed.
#[inline]
pub fn packet(
    settings: &DecideSettings,
    policy: Option<&DecidePolicy>,
    input: &DecideInput,
) -> DecideOutcome {
    let mut outcome = undecided(settings, input);
    decide_by(settings, policy, input, &mut outcome, &mut NullRecorder);
    outcome
}

/// Decides like `packet`, and reports every rule that is evaluated.
/// - policy: compiled with settings.linear; otherwise rules that can't match are not reported.
pub fn trace(
    settings: &DecideSettings,
    policy: Option<&DecidePolicy>,
    input: &DecideInput,
    recorder: &mut impl DecideRecorder,
) -> DecideOutcome {
    let mut outcome = undecided(settings, input);
    decide_by(settings, policy, input, &mut outcome, recorder);
    outcome
}
