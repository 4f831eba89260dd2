// SPDX-License-Identifier: GPL-2.0-or-later
//! A fleet: etcd, agents and root's services, each host in a namespace with the kernel's nf_tables.

use twinwall_tests::case::Case;

mod fault;
mod hostile;
mod place;
mod way;

/// All cases of the part.
pub fn cases() -> Vec<Case> {
    let rows = [way::ROWS, fault::ROWS, hostile::ROWS].concat();
    let case = |(name, limit_s, body): place::Row| Case::new(name, limit_s, body);
    rows.into_iter().map(case).collect()
}
