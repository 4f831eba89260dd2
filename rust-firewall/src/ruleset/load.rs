// SPDX-License-Identifier: GPL-2.0-or-later
//! Policy of a running program: parsed, compiled, with its state.

use std::sync::{Arc, Mutex, MutexGuard};

use crate::base::clock;
use crate::base::lock;
use crate::base::log::{self, Failure};
use crate::engine::compile::{self, CompileSettings};
use crate::engine::compiled::Compiled;
use crate::engine::flow::{self, Flow, FlowCounter};
use crate::engine::interface;
use crate::engine::learned;
use crate::options::{self, Options};
use crate::policy::advice;
use crate::policy::parse;
use crate::policy::requirement::Requirement;
use crate::policy::Policy;

/// A loaded policy, shared by all workers.
pub struct Loaded {
    /// Generation: counts up from 1 with each policy that replaces another.
    pub generation: u32,
    /// Time of loading (UNIX time in milliseconds).
    pub loaded_ms: u64,
    /// Policy as parsed; packets are decided by `compiled`.
    pub policy: Policy,
    pub compiled: Compiled,
    pub flow: Flow,
    began: Mutex<LoadedBegan>,
}

/// Initial values of a policy's counters and logs: from its text (0 for logs). For rules that the previous policy has,
/// too, migration::end replaces them by the final values in the previous policy. The indexes are those of compile.
#[derive(Clone, Debug)]
pub struct LoadedBegan {
    pub counters: Vec<FlowCounter>,
    pub logged: Vec<u64>,
}

/// Returns the initial values of a policy's counters and logs, under their lock.
pub fn began(loaded: &Loaded) -> MutexGuard<'_, LoadedBegan> {
    lock::lock(&loaded.began)
}

/// Returns the requirement of the policy: the packet data that it needs.
pub fn requirement(loaded: &Loaded) -> &Requirement {
    compile::requirement(&loaded.compiled)
}

/// Creates the state of a compiled policy: its counters begin with the values in the policy's text.
fn make_state(policy: Policy, compiled: Compiled, loaded_ms: u64) -> Loaded {
    let start = |counter| {
        let start = compile::counter_start(&compiled, counter);
        FlowCounter {
            packets: start.packets,
            bytes: start.bytes,
        }
    };
    let began = LoadedBegan {
        counters: (0..compile::counters(&compiled)).map(start).collect(),
        logged: vec![0; compile::logs(&compiled) as usize],
    };
    Loaded {
        generation: 1,
        loaded_ms,
        began: Mutex::new(began),
        flow: flow::make(&compiled),
        policy,
        compiled,
    }
}

fn compile(policy: &Policy) -> Result<Compiled, Failure> {
    let settings = CompileSettings {
        linear: false,
        interface_index: &|name| interface::index(name.as_bytes()),
        interfaces_must_exist: true,
    };
    compile::policy(policy, &settings)
}

/// Sets the table of addresses that the policy's sets learn: the previous policy's table, if it has one; otherwise an
/// empty table, if this policy learns addresses.
/// - before: previous policy; None = none.
pub fn learn(loaded: &mut Loaded, options: &Options, before: Option<&Loaded>) {
    let known = before.and_then(|before| before.compiled.learned.clone());
    let learns = requirement(loaded).learns;
    let room = || learns.then(|| Arc::new(learned::make(options.learned)));
    loaded.compiled.learned = known.or_else(room);
}

/// Loads the policy file options.policy, and logs the report and the warnings of `advice`. Returns None if
/// options.policy is not set. Fails for an invalid policy, for a missing interface, and if the options don't provide
/// the packet data that the policy needs.
pub fn load(options: &Options) -> Result<Option<Loaded>, Failure> {
    let Some(path) = &options.policy else {
        return Ok(None);
    };
    let loaded_ms = clock::unix_ms();
    let policy = parse::file(path)?;
    let compiled = compile(&policy)?;
    options::require(options, compile::requirement(&compiled))?;
    advice::report(&policy, &mut |text| log::info(text));
    advice::advise(&policy, &mut |text| log::warn(text));
    Ok(Some(make_state(policy, compiled, loaded_ms)))
}
