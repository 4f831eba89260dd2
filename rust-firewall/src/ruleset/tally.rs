// SPDX-License-Identifier: GPL-2.0-or-later
//! Sums of a policy's counters and logs over all workers, for the ledger.

use crate::engine::compiled::Compiled;
use crate::engine::flow::{self, FlowCounter, FlowCounters};
use crate::policy::Policy;
use crate::ruleset::load::{self, Loaded};

pub struct Tally<'a> {
    pub policy: &'a Policy,
    pub compiled: &'a Compiled,
    /// Sum of each counter; compile::counters returns their number.
    pub counters: Vec<FlowCounter>,
    /// Sum of each log; compile::logs returns their number.
    pub logged: Vec<u64>,
}

/// Creates the sums of a policy, which begin with the initial values of its counters and logs.
pub fn make(loaded: &Loaded) -> Tally<'_> {
    let began = load::began(loaded).clone();
    Tally {
        policy: &loaded.policy,
        compiled: &loaded.compiled,
        counters: began.counters,
        logged: began.logged,
    }
}

/// Adds a worker's counters and logs to the sums. The worker's thread may run meanwhile.
pub fn add(tally: &mut Tally, counters: &FlowCounters) {
    for (counter, sum) in (0..).zip(&mut tally.counters) {
        flow::sum(counters, counter, sum);
    }
    for (log, logged) in (0..).zip(&mut tally.logged) {
        *logged += flow::logged(counters, log);
    }
}
