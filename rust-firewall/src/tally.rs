// SPDX-License-Identifier: GPL-2.0-or-later
//! The counters and logs of a policy, summed over all workers, for the ledger.

use crate::compile::{self, Compiled};
use crate::flow::{self, FlowCounter, FlowCounters};
use crate::policy::Policy;

pub struct Tally<'a> {
    pub policy: &'a Policy,
    pub compiled: &'a Compiled,
    /// compile::counters of them.
    pub counters: Vec<FlowCounter>,
    /// compile::logs of them.
    pub logged: Vec<u64>,
}

/// A tally whose counters stand at what they start with.
pub fn begin<'a>(policy: &'a Policy, compiled: &'a Compiled) -> Tally<'a> {
    let start = |counter| {
        let start = compile::counter_start(compiled, counter);
        FlowCounter {
            packets: start.packets,
            bytes: start.bytes,
        }
    };
    Tally {
        policy,
        compiled,
        counters: (0..compile::counters(compiled)).map(start).collect(),
        logged: vec![0; compile::logs(compiled) as usize],
    }
}

/// Adds a worker's. Its thread may run.
pub fn add(tally: &mut Tally, counters: &FlowCounters) {
    for (counter, sum) in (0..).zip(&mut tally.counters) {
        flow::sum(counters, counter, sum);
    }
    for (log, logged) in (0..).zip(&mut tally.logged) {
        *logged += flow::logged(counters, log);
    }
}
