// SPDX-License-Identifier: GPL-2.0-or-later
//! Classes in the marks of connections. A class of one policy must never be interpreted as a class of another policy.

use serde::{Deserialize, Serialize};

use crate::conntrack;
use crate::failure::Result;
use crate::firewall::Naming;
use crate::store::Store;

/// Bits of connection marks that may contain classes (the sets of name matches that hold for a connection), and the
/// generations from which these classes may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    pub mask: u32,
    /// Number of generations after which their values in marks repeat.
    pub generations: u32,
    /// First generation whose classes connections may have.
    pub since: u64,
}

impl Marks {
    /// Returns the state after a change of the layout: connections may have classes of several layouts in the bits of
    /// `mask`. With this state, the result of `stale` includes all these bits.
    fn mixed(mask: u32) -> Marks {
        Marks {
            mask,
            generations: 0,
            since: 0,
        }
    }
}

/// Returns the mark bits to clear before a generation is loaded, or None if no bits must be cleared. Bits must be
/// cleared before the first generation, after a change of the layout, and before the generations' values repeat.
fn stale(known: Option<Marks>, naming: &Naming, number: u64) -> Option<u32> {
    let mask = naming.orders.mask;
    match known {
        Some(known) if known.mask == mask && known.generations == naming.generations => {
            let passed = number.saturating_sub(known.since);
            (passed + 1 >= u64::from(known.generations)).then_some(mask)
        }
        Some(known) => Some(known.mask | mask),
        None => Some(mask),
    }
}

/// Returns true if marks have the same layout and the same value for two generations, so that their classes could be
/// confused.
pub fn are_alike(one: (u64, &Naming), other: (u64, &Naming)) -> bool {
    let layout = |naming: &Naming| (naming.orders.mask, naming.generations);
    let bits = |(number, naming): (u64, &Naming)| number % u64::from(naming.generations.max(1));
    layout(one.1) == layout(other.1) && bits(one) == bits(other)
}

/// Clears the classes of former generations that could be interpreted as the new generation's, before it is loaded.
/// Returns the cleared bits, which must be cleared again after it is loaded.
pub fn begin(store: &mut Store, naming: &Naming, number: u64) -> Result<Option<u32>> {
    let stale = stale(store.state.marks, naming, number);
    if let Some(mask) = stale {
        conntrack::clear(mask)?;
        store.state.marks = Some(Marks {
            mask: naming.orders.mask,
            generations: naming.generations,
            since: number,
        });
        store.commit()?;
    }
    Ok(stale)
}

/// Clears the classes of a reverted generation that could be interpreted as classes of the previous generation.
/// - before: previous generation; None: there is none, or it has no names. Then all classes are cleared.
pub fn go_back(store: &mut Store, undone: &Naming, before: Option<(u64, &Naming)>) -> Result<()> {
    let Some((number, naming)) = before else {
        return end(store);
    };
    let mask = undone.orders.mask | naming.orders.mask;
    if undone.orders.mask != naming.orders.mask {
        store.state.marks = Some(Marks::mixed(mask));
        conntrack::clear(mask)?;
    } else if let Some(marks) = &mut store.state.marks {
        marks.since = marks.since.min(number);
    }
    store.commit()
}

/// Clears all classes, when no policy with names remains.
pub fn end(store: &mut Store) -> Result<()> {
    if let Some(marks) = store.state.marks {
        conntrack::clear(marks.mask)?;
        store.state.marks = None;
        store.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::{Orders, Twin};

    fn naming(mask: u32, generations: u32) -> Naming {
        Naming {
            orders: Orders {
                twin: Twin::Rust,
                options: Vec::new(),
                mask,
            },
            generations,
            settled: (0, 0),
            rules: Vec::new(),
            learned: Vec::new(),
        }
    }

    #[test]
    fn classes_are_cleared_before_their_bits_come_again() {
        let known = Marks {
            mask: 0xff00,
            generations: 30,
            since: 10,
        };
        let own = naming(0xff00, 30);
        assert_eq!(stale(None, &own, 1), Some(0xff00));
        assert_eq!(stale(Some(known), &own, 11), None);
        assert_eq!(stale(Some(known), &own, 38), None);
        assert_eq!(stale(Some(known), &own, 39), Some(0xff00));
        assert_eq!(
            stale(Some(known), &naming(0xff_0000, 30), 11),
            Some(0xff_ff00)
        );
        let mixed = Some(Marks::mixed(0xff00));
        assert_eq!(stale(mixed, &own, 11), Some(0xff00));
        assert!(are_alike((10, &own), (40, &own)));
        assert!(!are_alike((10, &own), (41, &own)));
    }
}
