// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy that decides in this process, as the firewall would.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rust_firewall::connection::asked::{self, Asked};
use rust_firewall::connection::follow;
use rust_firewall::connection::{ConnectionChecksum, ConnectionInput, Connections};
use rust_firewall::engine::compile::{self, CompileSettings};
use rust_firewall::engine::compiled::Compiled;
use rust_firewall::engine::decide;
use rust_firewall::engine::flow::{self, DecidePolicy, Flow, FlowCounters};
use rust_firewall::engine::interface;
use rust_firewall::engine::learned;
use rust_firewall::engine::named::{self, Named};
use rust_firewall::engine::teach::{self, TeachOutput};
use rust_firewall::engine::types::{
    CompilePlace, DecideBy, DecideInput, DecideOutcome, DecideRecorder, DecideSettings, DecideStep,
};
use rust_firewall::explain::describe;
use rust_firewall::options::{self, Options, OptionsSituation};
use rust_firewall::packet::verdict::{self, Verdict};
use rust_firewall::packet::{self, Packet};
use rust_firewall::policy::requirement::Requirement;
use rust_firewall::policy::{Hook, Policy, StatementKind};
use serde::Serialize;

use crate::failure::Failure;

/// Origin of a verdict on a packet of a connection that was refused before.
pub const CONNECTION: &str = "connection";
/// Generation number of the policy; an engine has only one policy.
const GENERATION: u64 = 1;

/// Numbers of interfaces by name, from 1. They are not the kernel's, but the same for both policies and all packets.
#[derive(Default)]
pub struct Interfaces(RefCell<HashMap<Vec<u8>, u32>>);

impl Interfaces {
    /// Returns the number of an interface; 0 for the empty name. A new name gets the next number.
    pub fn index(&self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let mut names = self.0.borrow_mut();
        let next = names.len() as u32 + 1;
        *names.entry(name.to_owned()).or_insert(next)
    }
}

/// A packet with its metadata from the kernel.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Bytes of the packet from the IP header on, as far as they are known.
    pub bytes: Vec<u8>,
    /// Length of the complete packet in bytes.
    pub original: u32,
    pub truncated: bool,
    pub hook: u8,
    /// Protocol family; 0: the version in the IP header counts instead.
    pub nfproto: u8,
    pub mark: u32,
    /// Input interface; empty if none.
    pub iif: Vec<u8>,
    /// Output interface; empty if none.
    pub oif: Vec<u8>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// Connection state as a value of `Type::CtState`; None: the packet has none, or it is unknown.
    pub ct_state: Option<u32>,
    pub ct_mark: Option<u32>,
    pub time_ns: u64,
}

/// Verdict on a packet, and the origin of the verdict.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Decision {
    pub verdict: String,
    /// Origin: "web.nft:6", "policy inet filter input", "default", "fail", "undecided" or "connection".
    pub by: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} by {}", self.verdict, self.by)
    }
}

pub struct Engine {
    policy: Policy,
    compiled: Compiled,
    flow: Flow,
    counters: FlowCounters,
    settings: DecideSettings,
    /// Maximum number of a packet's bytes that the policy sees, from the IP header on (--copy-bytes).
    copied: usize,
    /// Followed connections; None if the policy reads no names.
    connections: Option<Box<Connections>>,
    /// Pending DNS queries; None if the policy learns no addresses from DNS answers.
    asked: Option<Asked>,
    /// True if the policy has limits or quotas: its rules are then evaluated one by one, to find packets that meet a
    /// limit or a quota.
    has_limits: bool,
    /// Latest time of a packet so far.
    now_ns: u64,
}

fn is_limit(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Limit(_) | StatementKind::Quota(_))
}

fn has_limits(policy: &Policy) -> bool {
    let chains = policy.tables.iter().flat_map(|table| &table.chains);
    let rules = chains.flat_map(|chain| &chain.rules);
    let mut statements = rules.flat_map(|rule| &rule.statements);
    statements.any(|statement| is_limit(&statement.kind))
}

/// Recorder that finds out whether an evaluation meets a limit or a quota.
struct Watch<'a> {
    policy: &'a Policy,
    met: bool,
}

impl DecideRecorder for Watch<'_> {
    fn chain(&mut self, _chain: CompilePlace, _depth: u32) {}

    fn rule(&mut self, step: &DecideStep) {
        let Some(rule) = describe::rule(self.policy, step.place) else {
            return;
        };
        // The statement that did not hold was evaluated, too.
        let asked = rule
            .statements
            .iter()
            .take(step.place.statement as usize + 1);
        self.met |= asked.map(|statement| &statement.kind).any(is_limit);
    }
}

impl Engine {
    /// Compiles a policy.
    /// - options: options of the firewall whose verdicts the engine reproduces.
    pub fn new(
        policy: Policy,
        options: &Options,
        interfaces: &Interfaces,
    ) -> Result<Engine, Failure> {
        let has_limits = has_limits(&policy);
        let settings = CompileSettings {
            linear: has_limits,
            interface_index: &|name| interfaces.index(name.as_bytes()),
            interfaces_must_exist: false,
        };
        let mut compiled = compile::policy(&policy, &settings)?;
        let requirement = *compile::requirement(&compiled);
        let mut options = options.clone();
        options::provide(&mut options, &requirement);
        let room = || Arc::new(learned::make(options.learned));
        compiled.learned = requirement.learns.then(room);
        let connections = requirement
            .names
            .then(|| Box::new(follow::make(&options::connections(&options))));
        let open = |situation: OptionsSituation| options.fail_open[situation as usize];
        Ok(Engine {
            flow: flow::make(&compiled),
            counters: flow::counters_make(&compiled),
            policy,
            compiled,
            settings: DecideSettings {
                default_verdict: options.default_verdict,
                malformed_open: open(OptionsSituation::Malformed),
                truncated_open: open(OptionsSituation::Truncated),
                malformed_by_policy: options.malformed_by_policy,
                undecided_verdict: options.undecided_verdict,
                unknown_open: open(OptionsSituation::Unknown),
            },
            copied: options.copy_bytes as usize,
            connections,
            asked: requirement.learns.then(asked::make),
            has_limits,
            now_ns: 0,
        })
    }

    /// Returns the hook of the first base chain in the policy's text; input if there is no base chain.
    pub fn first_hook(&self) -> Hook {
        let chains = self.policy.tables.iter().flat_map(|table| &table.chains);
        let mut bases = chains.filter_map(|chain| chain.base);
        bases
            .find(|base| base.declared == 0)
            .map_or(Hook::Input, |base| base.hook)
    }

    /// Returns the fields and bytes that the policy reads.
    pub fn requirement(&self) -> &Requirement {
        compile::requirement(&self.compiled)
    }

    fn by(&self, outcome: &DecideOutcome) -> String {
        match outcome.by {
            DecideBy::Rule => {
                let place = compile::rule_at(&self.compiled, outcome.rule);
                describe::place(&self.policy, place)
            }
            DecideBy::Policy => {
                let place = compile::chain_at(&self.compiled, outcome.chain);
                format!("policy {}", describe::chain(&self.policy, place))
            }
            DecideBy::Default => "default".to_owned(),
            DecideBy::Fail => "fail".to_owned(),
            DecideBy::Undecided => "undecided".to_owned(),
            DecideBy::Connection => CONNECTION.to_owned(),
        }
    }

    /// Returns the metadata for reading a packet's names. The result of its checksum is unknown here, so it counts as
    /// correct.
    fn connection_input(&self) -> ConnectionInput {
        ConnectionInput {
            checksum: ConnectionChecksum::NotReady,
            generation: GENERATION,
            asks_requests: compile::requirement(&self.compiled).requests,
            now_ns: self.now_ns,
            ..ConnectionInput::default()
        }
    }

    /// Learns addresses from an accepted packet, if the policy learns addresses.
    fn learn(&mut self, parsed: &Packet) {
        let how = self.connection_input();
        if let Some(asked) = &mut self.asked {
            teach::packet(
                asked,
                &self.compiled,
                parsed,
                &how,
                &mut TeachOutput::default(),
            );
        }
    }

    /// Adds a packet to its connection, and returns the names of the connection; None if the policy reads no names.
    fn follow_names(&mut self, parsed: &Packet) -> Option<Named> {
        let how = self.connection_input();
        let connections = self.connections.as_mut()?;
        Some(named::follow(connections, &self.compiled, parsed, &how))
    }

    /// Evaluates the policy. For a packet with several DNS queries or HTTP requests, evaluates it once for each of
    /// them, until one is not accepted. Also returns true if the packet met a limit or a quota, whose result depends on
    /// earlier packets and on the time.
    /// - named: None: the policy reads no names.
    fn ask_policy(
        &mut self,
        input: &DecideInput,
        named: &mut Option<Named>,
    ) -> (DecideOutcome, bool) {
        let policy = DecidePolicy {
            compiled: &self.compiled,
            flow: &self.flow,
            counters: &self.counters,
        };
        let mut watch = Watch {
            policy: &self.policy,
            met: false,
        };
        loop {
            let mut told = *input;
            if let (Some(named), Some(connections)) = (&named, &self.connections) {
                let names = follow::names(connections, &named.followed);
                named::tell(named, names, &mut told);
            }
            let outcome = match self.has_limits {
                true => decide::trace(&self.settings, Some(&policy), &told, &mut watch),
                false => decide::packet(&self.settings, Some(&policy), &told),
            };
            let (Some(connections), Some(named)) = (&mut self.connections, named.as_mut()) else {
                return (outcome, watch.met);
            };
            if outcome.verdict != Verdict::Accept
                || !named::next(connections, &self.compiled, GENERATION, named)
            {
                return (outcome, watch.met);
            }
        }
    }

    /// Decides a packet, limited to the bytes that the firewall would copy. Also returns true if the packet met a limit
    /// or a quota.
    pub fn decide(&mut self, facts: &Facts, interfaces: &Interfaces) -> (Decision, bool) {
        self.now_ns = self.now_ns.max(facts.time_ns);
        let bytes = facts.bytes.get(..self.copied).unwrap_or(&facts.bytes);
        let mut parsed = Packet::default();
        let status = packet::parse(bytes, facts.original, &mut parsed);
        let input = DecideInput {
            packet: &parsed,
            status,
            truncated: facts.truncated,
            hook: facts.hook,
            nfproto: facts.nfproto,
            length: facts.original,
            mark: facts.mark,
            iif: interfaces.index(&facts.iif),
            oif: interfaces.index(&facts.oif),
            iifname: interface::value(&facts.iif),
            oifname: interface::value(&facts.oif),
            uid: facts.uid,
            gid: facts.gid,
            ct_state: facts.ct_state,
            ct_mark: facts.ct_mark,
            names: None,
            host_number: 0,
            alpn_bits: 0,
            refused: false,
            now_ns: self.now_ns,
        };
        let mut named = self.follow_names(&parsed);
        let (mut outcome, met) = self.ask_policy(&input, &mut named);
        if let (Some(named), Some(connections)) = (&named, &mut self.connections) {
            named::reset(connections, named, &parsed, &mut outcome);
            if named::refuses(named, &outcome) {
                let tells = outcome.verdict == verdict::Verdict::Reject;
                follow::deny(connections, &named.followed, GENERATION, tells);
            }
        }
        if outcome.verdict == Verdict::Accept {
            self.learn(&parsed);
        }
        let decision = Decision {
            verdict: verdict::name(outcome.verdict).to_owned(),
            by: self.by(&outcome),
        };
        (decision, met)
    }
}
