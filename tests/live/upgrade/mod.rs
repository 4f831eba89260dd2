// SPDX-License-Identifier: GPL-2.0-or-later
//! One firewall takes over from another under load, between all twins and with each backend that can take over, without
//! losing a packet. Other cases have an invalid old or new firewall.

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

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let rows = [give::ROWS, take::ROWS, connections::ROWS, learned::ROWS].concat();
    let chains = chain::ROWS.iter().chain(many::ROWS);
    let mut cases: Vec<Case> = chains.map(|(name, body)| Case::new(*name, body)).collect();
    cases.extend(for_each_twin(&rows));
    cases
}
