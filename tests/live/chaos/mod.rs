// SPDX-License-Identifier: GPL-2.0-or-later
//! Causes each situation of the failure contract (the table that a firewall prints at its start), and checks that the
//! outcome is as the contract says.

use twinwall_tests::case::{for_each_twin, Case};

mod contract;
mod crash;
mod flips;
mod odd;
mod overload;
mod preload;
pub mod scene;
mod spoilt;
mod stall;
mod unsent;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let rows = [
        contract::ROWS,
        stall::ROWS,
        crash::ROWS,
        overload::ROWS,
        odd::ROWS,
        flips::ROWS,
        spoilt::ROWS,
        unsent::ROWS,
    ]
    .concat();
    for_each_twin(&rows)
}
