// SPDX-License-Identifier: GPL-2.0-or-later
//! Compares the failure contract (the table of the effects of failures in `status`) with the current rules. A firewall
//! lists the rules at its start only, because it can't list them any more after giving up its rights.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rust_firewall::options::Options;
use rust_firewall::state::contract::{self, ContractFacts};

use crate::answer::{Contract, Status};
use crate::doctor::rights;
use crate::queue_rules;

/// Situation of the failure contract (the table of the effects of failures) whose effect depends on the kernel's rules.
const BY_RULES: &str = "crash";

/// Returns true if this process and the firewall are in the same network namespace, and so see the same rules.
pub fn has_same_rules(status: &Status) -> bool {
    let of = |pid: &str| fs::metadata(format!("/proc/{pid}/ns/net")).map(|data| data.ino());
    match (of("self"), of(&status.pid.to_string())) {
        (Ok(own), Ok(other)) => own == other,
        _ => false,
    }
}

/// Returns the row about a crash in the failure contract (the table of the effects of failures), made from the current
/// rules, if its text differs from that of the firewall's row. Returns None as well if this process lacks CAP_NET_ADMIN
/// or is in another network namespace.
/// - options: options of the firewall.
pub fn changed(status: &Status, options: &Options) -> Option<Contract> {
    if !rights::has_net_admin() || !has_same_rules(status) {
        return None;
    }
    let facts = ContractFacts {
        receive_buffer: 0,
        figures: true,
        guard: status.guard != Some(false),
    };
    let rules = queue_rules::read(options.queue_first, options.queue_last);
    let made = contract::make(options, &rules, &facts);
    let now = made
        .rows
        .into_iter()
        .find(|row| row.situation == BY_RULES)?;
    let told = status
        .contract
        .iter()
        .find(|row| row.situation == BY_RULES)?;
    (now.really != told.really).then(|| Contract {
        really: now.really,
        ..told.clone()
    })
}
