// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl apply` and its revert, with the kernel of a network namespace.

use twinwall_tests::case::Case;

mod boot;
mod death;
mod flows;
mod init;
mod learned;
mod names;
mod place;
mod queues;
mod refusal;
mod restart;
mod way;

/// Returns all cases of the part.
pub fn cases() -> Vec<Case> {
    let rows = [
        way::ROWS,
        refusal::ROWS,
        death::ROWS,
        flows::ROWS,
        boot::ROWS,
        names::ROWS,
        queues::ROWS,
        init::ROWS,
        learned::ROWS,
        restart::ROWS,
    ]
    .concat();
    let case = |(name, body): place::Row| Case::new(name, body);
    rows.into_iter().map(case).collect()
}
