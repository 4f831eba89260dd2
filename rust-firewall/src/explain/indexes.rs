// SPDX-License-Identifier: GPL-2.0-or-later
//! Index numbers for interfaces that are known by name only: one for each name in the policy, and two for the current
//! packet's interfaces, if the policy does not name them.

use std::cell::RefCell;

const IIF: u32 = 1;
const OIF: u32 = 2;
/// Index number of the first interface name in the policy.
const FIRST: u32 = 3;

/// Names of interfaces in the policy, in the order of their first lookup.
#[derive(Default)]
pub struct Indexes {
    known: RefCell<Vec<Vec<u8>>>,
}

fn number_of(indexes: &Indexes, name: &[u8]) -> Option<u32> {
    let known = indexes.known.borrow();
    let at = known.iter().position(|known| known == name)?;
    Some(FIRST + at as u32)
}

/// Returns the index number of an interface name in the policy; adds the name if it is new. The number is this
/// program's own, not the kernel's.
pub fn add(indexes: &Indexes, name: &[u8]) -> u32 {
    number_of(indexes, name).unwrap_or_else(|| {
        let mut known = indexes.known.borrow_mut();
        known.push(name.to_vec());
        FIRST + known.len() as u32 - 1
    })
}

/// Returns the index number of the interface at which a packet arrived; 0 = none. A name that the policy does not have
/// has a reserved number.
/// - name: name of the interface; empty = none.
pub fn iif(indexes: &Indexes, name: &[u8]) -> u32 {
    match name {
        [] => 0,
        name => number_of(indexes, name).unwrap_or(IIF),
    }
}

/// Returns the index number of the interface by which a packet leaves; 0 = none. A name that the policy does not have
/// has a reserved number: the same as that of the arrival interface if both names are equal.
/// - name: name of the interface; empty = none.
/// - iif: name of the interface at which the packet arrived.
pub fn oif(indexes: &Indexes, name: &[u8], iif: &[u8]) -> u32 {
    match name {
        [] => 0,
        name => number_of(indexes, name).unwrap_or(if name == iif { IIF } else { OIF }),
    }
}

/// Returns the interface name for an index number; empty = none.
/// - iif, oif: names of the current packet's interfaces, for the reserved numbers.
pub fn name_of(indexes: &Indexes, number: u32, iif: &[u8], oif: &[u8]) -> Vec<u8> {
    match number {
        0 => Vec::new(),
        IIF => iif.to_vec(),
        OIF => oif.to_vec(),
        _ => {
            let known = indexes.known.borrow();
            known
                .get((number - FIRST) as usize)
                .cloned()
                .unwrap_or_default()
        }
    }
}
