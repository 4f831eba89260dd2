// SPDX-License-Identifier: GPL-2.0-or-later
//! A fleet: etcd, agents, and root's services that apply policies. Each host is a namespace with the kernel's
//! nf_tables.

use twinwall_tests::case::Case;
use twinwall_tests::fleet::Row;

mod fault;
mod hostile;
mod long;
mod past;
mod prometheus;
mod status;
mod taken;
mod transport;
mod trial;
mod waves;
mod way;

fn of(rows: &[Row]) -> Vec<Case> {
    let case = |(name, body): &Row| Case::new(*name, *body);
    rows.iter().map(case).collect()
}

/// Returns all test cases of the part `fleet-long`, which `make fleet-test` runs.
pub fn long_cases() -> Vec<Case> {
    of(&[long::ROWS, transport::ROWS, prometheus::ROWS].concat())
}

/// Returns all test cases of the part `fleet`.
pub fn cases() -> Vec<Case> {
    let rows = [
        way::ROWS,
        trial::ROWS,
        past::ROWS,
        taken::ROWS,
        fault::ROWS,
        hostile::ROWS,
        status::ROWS,
        waves::ROWS,
    ]
    .concat();
    of(&rows)
}
