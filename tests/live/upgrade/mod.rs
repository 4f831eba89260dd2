// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes the place of another under load: from each twin to each, by each backend that can, without losing
//! a packet; and what becomes of it when one of them is not what it should be.

use twinwall_tests::case::{for_each_twin, Case};

mod between;
mod chain;
mod connections;
mod give;
mod learned;
mod many;
mod peer;
mod setting;
mod take;

/// All cases of the part.
pub fn cases() -> Vec<Case> {
    let rows = [give::ROWS, take::ROWS, connections::ROWS, learned::ROWS].concat();
    let chains = chain::ROWS.iter().chain(many::ROWS);
    let mut cases: Vec<Case> = chains
        .map(|(name, limit_s, body)| Case::new(*name, *limit_s, body))
        .collect();
    cases.extend(for_each_twin(&rows));
    cases
}
