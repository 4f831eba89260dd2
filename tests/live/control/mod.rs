// SPDX-License-Identifier: GPL-2.0-or-later
//! The control sockets of running firewalls: their files and their replies. No client must delay a packet or another
//! client.

use twinwall_tests::case::{for_each_twin, Case};

mod abuse;
mod access;
mod connections;
mod files;
mod place;
mod requests;

/// Returns all test cases of the part `control`.
pub fn cases() -> Vec<Case> {
    let rows = [
        files::ROWS,
        access::ROWS,
        requests::ROWS,
        connections::ROWS,
        abuse::ROWS,
    ]
    .concat();
    let mut cases = vec![
        Case::new("both-refuse-the-same-paths", files::same_refusals),
        Case::new("both-answer-the-same", requests::same_answers),
    ];
    cases.extend(for_each_twin(&rows));
    cases
}
