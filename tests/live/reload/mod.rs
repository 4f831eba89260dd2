// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies that are replaced while packets arrive.

use twinwall_tests::case::{for_each_twin, Case};

mod drain;
mod flood;
mod folder;
mod lists;
mod refused;
mod rules;

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let rows = [
        flood::ROWS,
        rules::ROWS,
        refused::ROWS,
        lists::ROWS,
        drain::ROWS,
    ]
    .concat();
    for_each_twin(&rows)
}
