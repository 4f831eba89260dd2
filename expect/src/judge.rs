// SPDX-License-Identifier: GPL-2.0-or-later
//! Decides the packets of an expectation by a policy, one hook after another.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow::{self, DecidePolicy};
use rust_firewall::engine::types::{DecideBy, DecideInput, DecideOutcome, DecideSettings};
use rust_firewall::engine::{hostnames, interface, learned};
use rust_firewall::explain::describe;
use rust_firewall::names::Names;
use rust_firewall::options::{Options, OptionsSituation};
use rust_firewall::packet::verdict::{self, Verdict};
use rust_firewall::packet::{self as ip, Packet as Parsed};
use rust_firewall::policy::{hook_name, parse, Hook, Policy};
use stage::Source;

use crate::line::{Expected, Way};
use crate::packet::{known, packets, Packet};

/// Name of the policy's text in the engine's messages; `placed` replaces it and its line by the file and its line.
const NAME: &str = "policy";

/// Firewall options that change a verdict.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    decide: DecideSettings,
    /// Maximum number of learned addresses.
    learned: u32,
}

impl From<&Options> for Settings {
    fn from(options: &Options) -> Settings {
        let open = |situation: OptionsSituation| options.fail_open[situation as usize];
        Settings {
            decide: DecideSettings {
                default_verdict: options.default_verdict,
                malformed_open: open(OptionsSituation::Malformed),
                truncated_open: open(OptionsSituation::Truncated),
                malformed_by_policy: options.malformed_by_policy,
                undecided_verdict: options.undecided_verdict,
                unknown_open: open(OptionsSituation::Unknown),
            },
            learned: options.learned,
        }
    }
}

impl Settings {
    /// Returns settings for a policy in the kernel: packets in hooks without a chain pass, whatever --default says.
    pub fn of_kernel(options: &Options) -> Settings {
        let mut settings = Settings::from(options);
        settings.decide.default_verdict = Verdict::Accept;
        settings
    }
}

/// Verdict, and a description of its origin: a rule, a chain's policy, an option, or a hook without a chain.
struct Decision {
    verdict: Verdict,
    by: String,
}

pub struct Judge<'a> {
    source: &'a Source,
    policy: Policy,
    compiled: Compiled,
    settings: DecideSettings,
    /// Numbers of interfaces by name, from 1. They are independent of the host's interfaces.
    interfaces: RefCell<HashMap<String, u32>>,
}

fn number(interfaces: &RefCell<HashMap<String, u32>>, name: &str) -> u32 {
    if name.is_empty() {
        return 0;
    }
    let mut known = interfaces.borrow_mut();
    let next = known.len() as u32 + 1;
    *known.entry(name.to_owned()).or_insert(next)
}

/// Replaces "policy:LINE" at the start of a text by the file and line in the source.
fn placed(source: &Source, text: &str) -> String {
    let found = text.strip_prefix(NAME).and_then(|rest| {
        let rest = rest.strip_prefix(':')?;
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let line: usize = rest[..end].parse().ok()?;
        Some((source.place_of_line(line), &rest[end..]))
    });
    match found {
        Some((place, rest)) => format!("{place}{rest}"),
        None => text.to_owned(),
    }
}

fn hooks(way: Way) -> &'static [Hook] {
    match way {
        Way::In => &[Hook::Prerouting, Hook::Input],
        Way::Forward => &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
        Way::Out => &[Hook::Output, Hook::Postrouting],
    }
}

impl<'a> Judge<'a> {
    /// Compiles a policy. Fails with the cause if the engine does not support all of it.
    pub fn new(source: &'a Source, settings: &Settings) -> Result<Judge<'a>, String> {
        let interfaces = RefCell::default();
        let text = stage::without_nat(source);
        let fail = |failure: rust_firewall::base::log::Failure| placed(source, &failure.text);
        let policy = parse::text(NAME, text.as_bytes()).map_err(fail)?;
        let numbers = CompileSettings {
            linear: true,
            interface_index: &|name| number(&interfaces, name),
            interfaces_must_exist: false,
        };
        let mut compiled = compile::policy(&policy, &numbers).map_err(fail)?;
        let learns = compile::requirement(&compiled).learns;
        compiled.learned = learns.then(|| Arc::new(learned::make(settings.learned)));
        Ok(Judge {
            source,
            policy,
            compiled,
            settings: settings.decide,
            interfaces,
        })
    }

    /// Returns the packet's way through the host (in, forward, out): that of the expectation, otherwise that of its
    /// interfaces, otherwise that of the first chain in the hook input, forward or output, otherwise in.
    fn way(&self, expected: &Expected) -> Way {
        let chains = self.policy.tables.iter().flat_map(|table| &table.chains);
        let first = chains
            .filter_map(|chain| chain.base)
            .find_map(|base| match base.hook {
                Hook::Input => Some(Way::In),
                Hook::Forward => Some(Way::Forward),
                Hook::Output => Some(Way::Out),
                Hook::Prerouting | Hook::Postrouting => None,
            });
        match (
            expected.way,
            expected.iif.is_empty(),
            expected.oif.is_empty(),
        ) {
            (Some(way), _, _) => way,
            (None, false, false) => Way::Forward,
            (None, false, true) => Way::In,
            (None, true, false) => Way::Out,
            (None, true, true) => first.unwrap_or(Way::In),
        }
    }

    fn by(&self, outcome: &DecideOutcome, hook: Hook) -> String {
        match outcome.by {
            DecideBy::Rule => {
                let place = compile::rule_at(&self.compiled, outcome.rule);
                let text = describe::rule_text(&self.policy, place);
                let place = placed(self.source, &describe::place(&self.policy, place));
                format!("{place}: {text}")
            }
            DecideBy::Policy => {
                let place = compile::chain_at(&self.compiled, outcome.chain);
                format!(
                    "the policy of chain {}",
                    describe::chain(&self.policy, place)
                )
            }
            DecideBy::Default => format!("no chain in hook {}", hook_name(hook)),
            DecideBy::Undecided => "--undecided, before the client has shown a name".to_owned(),
            DecideBy::Fail | DecideBy::Connection => "--fail".to_owned(),
        }
    }

    /// Returns the outcome to report, which names a rule if possible. If the given outcome is only due to an undecided
    /// name, returns the outcome for a connection without names, provided that it has the same verdict. Otherwise
    /// returns the given outcome.
    fn reason(
        &self,
        expected: &Expected,
        packet: &Packet,
        hook: Hook,
        mark: u32,
        outcome: DecideOutcome,
    ) -> DecideOutcome {
        if outcome.by != DecideBy::Undecided {
            return outcome;
        }
        let nameless = self.decide(expected, packet, &known(None), hook, mark);
        match nameless.verdict == outcome.verdict {
            true => nameless,
            false => outcome,
        }
    }

    fn decide(
        &self,
        expected: &Expected,
        packet: &Packet,
        names: &Names,
        hook: Hook,
        mark: u32,
    ) -> DecideOutcome {
        let mut parsed = Parsed::default();
        let length = packet.bytes.len() as u32;
        let status = ip::parse(&packet.bytes, length, &mut parsed);
        let sees_input = hook != Hook::Output;
        let sees_output = !matches!(hook, Hook::Prerouting | Hook::Input);
        let iif = if sees_input {
            expected.iif.as_str()
        } else {
            ""
        };
        let oif = if sees_output {
            expected.oif.as_str()
        } else {
            ""
        };
        let (host_number, alpn_bits) = hostnames::resolve(&self.compiled.hosts, names);
        let input = DecideInput {
            packet: &parsed,
            status,
            truncated: false,
            hook: hook as u8,
            nfproto: 0,
            length,
            mark,
            iif: number(&self.interfaces, iif),
            oif: number(&self.interfaces, oif),
            iifname: interface::value(iif.as_bytes()),
            oifname: interface::value(oif.as_bytes()),
            uid: expected.uid,
            gid: None,
            ct_state: Some(packet.state),
            ct_mark: Some(0),
            names: Some(names),
            host_number,
            alpn_bits,
            refused: false,
            now_ns: 0,
        };
        let policy = DecidePolicy {
            compiled: &self.compiled,
            flow: &flow::make(&self.compiled),
            counters: &flow::counters_make(&self.compiled),
        };
        decide::packet(&self.settings, Some(&policy), &input)
    }

    /// Decides a packet in the hooks of its way, up to the first hook that does not accept it, and returns that hook's
    /// decision. If all hooks accept the packet, returns the decision in the hook input, forward or output.
    fn walk(&self, expected: &Expected, packet: &Packet, way: Way) -> Decision {
        let (mut mark, mut accepted) = (expected.mark, None);
        for &hook in hooks(way) {
            let outcome = self.decide(expected, packet, &packet.names, hook, mark);
            let decision = Decision {
                verdict: outcome.verdict,
                by: self.by(&self.reason(expected, packet, hook, mark, outcome), hook),
            };
            if outcome.verdict != Verdict::Accept {
                return decision;
            }
            mark = outcome.mark;
            let is_main = !matches!(hook, Hook::Prerouting | Hook::Postrouting);
            if is_main || accepted.is_none() {
                accepted = Some(decision);
            }
        }
        accepted.unwrap_or(Decision {
            verdict: Verdict::Accept,
            by: "no hook".to_owned(),
        })
    }

    /// Decides an expectation. Fails with "expected …, got …", which states the origin of the verdict (see `Decision`).
    pub fn check(&self, expected: &Expected) -> Result<(), String> {
        let way = self.way(expected);
        let all = packets(expected);
        let last = all.len().saturating_sub(1);
        let decisions = all.iter().map(|packet| self.walk(expected, packet, way));
        let numbered = decisions.enumerate();
        let found = numbered.fold(None, |found: Option<(usize, Decision)>, next| match found {
            Some((at, decision)) if decision.verdict != Verdict::Accept => Some((at, decision)),
            _ => Some(next),
        });
        let Some((at, decision)) = found else {
            return Ok(());
        };
        if decision.verdict == expected.verdict {
            return Ok(());
        }
        let packet = match at == last {
            true => "",
            false => " of the first packet",
        };
        let way = match way {
            Way::In => "in",
            Way::Forward => "forward",
            Way::Out => "out",
        };
        Err(format!(
            "expected {}, got {}{packet} ({way}) by {}",
            verdict::name(expected.verdict),
            verdict::name(decision.verdict),
            decision.by
        ))
    }
}
