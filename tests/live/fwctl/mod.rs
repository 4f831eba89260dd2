// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of build/fwctl with both twins, through their real sockets, queues and files.

use twinwall_tests::case::{for_each_twin, Case};

mod before;
pub mod ctl;
mod cured;
mod decide;
mod doctor;
mod errors;
mod find;
mod hostile;
mod literal;
mod recorded;
mod show;
mod split;
pub mod standin;
mod top;
mod upgrade;

/// Test case that runs once, not for each twin: name, test.
pub type LoneRow = (&'static str, fn() -> anyhow::Result<()>);

/// Returns all test cases of the part `fwctl`.
pub fn cases() -> Vec<Case> {
    let rows = [
        show::ROWS,
        errors::ROWS,
        cured::ROWS,
        decide::ROWS,
        recorded::ROWS,
        top::ROWS,
        doctor::ROWS,
        before::ROWS,
        find::ROWS,
        upgrade::ROWS,
    ]
    .concat();
    let mut cases = for_each_twin(&rows);
    cases.extend(literal::cases());
    let lone = [
        errors::LONE_ROWS,
        doctor::LONE_ROWS,
        hostile::LONE_ROWS,
        split::LONE_ROWS,
    ];
    for (name, body) in lone.concat() {
        cases.push(Case::new(name, body));
    }
    cases
}
