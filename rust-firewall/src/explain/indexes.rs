// SPDX-License-Identifier: GPL-2.0-or-later
//! Interfaces by numbers, where there are names only: a policy's have one each, and so have the two of the packet at
//! hand, if the policy does not name them.

use std::cell::RefCell;

const IIF: u32 = 1;
const OIF: u32 = 2;
/// The first name's.
const FIRST: u32 = 3;

/// The names that a policy has, in the order in which they were asked for.
#[derive(Default)]
pub struct Indexes {
    known: RefCell<Vec<Vec<u8>>>,
}

fn number_of(indexes: &Indexes, name: &[u8]) -> Option<u32> {
    let known = indexes.known.borrow();
    let at = known.iter().position(|known| known == name)?;
    Some(FIRST + at as u32)
}

/// The number of a name in the policy, which gets one if it has none.
pub fn add(indexes: &Indexes, name: &[u8]) -> u32 {
    number_of(indexes, name).unwrap_or_else(|| {
        let mut known = indexes.known.borrow_mut();
        known.push(name.to_vec());
        FIRST + known.len() as u32 - 1
    })
}

/// The number of a packet's interface by which it came; 0 = none. name: empty = none.
pub fn iif(indexes: &Indexes, name: &[u8]) -> u32 {
    match name {
        [] => 0,
        name => number_of(indexes, name).unwrap_or(IIF),
    }
}

/// The number of a packet's interface by which it leaves; 0 = none. iif: the name of the other one, which may be
/// the same.
pub fn oif(indexes: &Indexes, name: &[u8], iif: &[u8]) -> u32 {
    match name {
        [] => 0,
        name => number_of(indexes, name).unwrap_or(if name == iif { IIF } else { OIF }),
    }
}

/// The name that a number stands for; empty = none. iif, oif: of the packet at hand.
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
