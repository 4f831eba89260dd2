// SPDX-License-Identifier: GPL-2.0-or-later
//! The running twins compared: their starts, failures and reports, and their system calls for a packet.

use twinwall_tests::case::Case;

mod calls;
mod failures;
mod policy;
mod reports;
mod start;

/// Returns all test cases of this folder, which is one part of the tests.
pub fn cases() -> Vec<Case> {
    let parts = [
        start::cases(),
        failures::cases(),
        policy::cases(),
        reports::cases(),
        calls::cases(),
    ];
    parts.into_iter().flatten().collect()
}
