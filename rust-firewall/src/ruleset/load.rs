// SPDX-License-Identifier: GPL-2.0-or-later
//! The policy of a running program: read, compiled, with its state.

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

/// State shared by all workers.
pub struct Loaded {
    /// Counts up from 1 with each policy that takes the place of another.
    pub generation: u32,
    /// UNIX time.
    pub loaded_ms: u64,
    /// For reports.
    pub policy: Policy,
    pub compiled: Compiled,
    pub flow: Flow,
    began: Mutex<LoadedBegan>,
}

/// Initial values of counters and logs of a policy: those of its text, or those that they had counted
/// before a reload. Numbered as compile numbers them.
#[derive(Clone, Debug)]
pub struct LoadedBegan {
    pub counters: Vec<FlowCounter>,
    pub logged: Vec<u64>,
}

/// Initial values of counters and logs.
pub fn began(loaded: &Loaded) -> MutexGuard<'_, LoadedBegan> {
    lock::lock(&loaded.began)
}

/// Requirement of the policy: the fields that it reads.
pub fn requirement(loaded: &Loaded) -> &Requirement {
    compile::requirement(&loaded.compiled)
}

/// A compiled policy with its state, as its text says.
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

/// Copies into the policy's learning sets what the sets of the policy before have learned, or reserves room.
pub fn learn(loaded: &mut Loaded, options: &Options, before: Option<&Loaded>) {
    let known = before.and_then(|before| before.compiled.learned.clone());
    let learns = requirement(loaded).learns;
    let room = || learns.then(|| Arc::new(learned::make(options.learned)));
    loaded.compiled.learned = known.or_else(room);
}

/// Loads options.policy, if there is one, and warns of what in it does less than it seems to. Fails for a policy that is wrong or names an interface
/// that is missing, and for too few --copy-bytes.
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
