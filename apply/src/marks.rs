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
    /// Number of generations after which the values that identify them in marks repeat.
    pub generations: u32,
    /// Number of the first generation whose classes may be in the marks of connections.
    pub since: u64,
}

impl Marks {
    /// Returns the state of the marks after a change of the layout: connections may have classes of several layouts in
    /// the bits of `mask`. With this state, the result of `stale` includes all these bits.
    fn mixed(mask: u32) -> Marks {
        Marks {
            mask,
            generations: 0,
            since: 0,
        }
    }
}

/// Returns the layout of a generation's marks: their mask, and the number of generations, which determines the fields
/// within the mask.
fn layout(naming: &Naming) -> (u32, u32) {
    (naming.orders.mask, naming.generations)
}

/// Returns the mark bits to clear before a generation is loaded, or None if no bits must be cleared. Bits must be
/// cleared before the first generation, after a change of the layout, and before the generations' values repeat.
fn stale(known: Option<Marks>, naming: &Naming, number: u64) -> Option<u32> {
    let mask = naming.orders.mask;
    match known {
        Some(known) if (known.mask, known.generations) == layout(naming) => {
            let passed = number.saturating_sub(known.since);
            (passed + 1 >= u64::from(known.generations)).then_some(mask)
        }
        Some(known) => Some(known.mask | mask),
        None => Some(mask),
    }
}

/// Returns mask and value of the bits that identify a generation in its marks.
fn generation_bits(number: u64, naming: &Naming) -> (u32, u32) {
    // `settled` has one more bit, the highest of the mask.
    let mask = naming.settled.0 & (naming.orders.mask >> 1);
    let counted = number % u64::from(naming.generations.max(1)) + 1;
    let value = (counted as u32).checked_shl(mask.trailing_zeros());
    (mask, value.unwrap_or(0))
}

/// Returns true if a mark of generation `one` may have the bits that identify generation `other`. Classes and the bit
/// for settled have any value; bits outside the mask are 0.
fn may_pass_for(one: (u64, &Naming), other: (u64, &Naming)) -> bool {
    let (mask, value) = generation_bits(one.0, one.1);
    let (wanted_mask, wanted) = generation_bits(other.0, other.1);
    let fixed = mask | !one.1.orders.mask;
    (value ^ wanted) & fixed & wanted_mask == 0
}

/// Returns the first number from `number` on with which no mark of a generation can be interpreted as a class of the
/// applied generation, or the reverse: while one generation replaces the other, the firewall already has the new policy
/// and the kernel still the old rules, and connections have marks of both. None if there is no such number.
pub fn free_number(number: u64, naming: &Naming, applied: (u64, &Naming)) -> Option<u64> {
    let is_free = |number: &u64| {
        let own = (*number, naming);
        !may_pass_for(own, applied) && !may_pass_for(applied, own)
    };
    (number..number + u64::from(naming.generations)).find(is_free)
}

/// Clears the classes of former generations that could be interpreted as the new generation's, before it is loaded.
/// Returns the cleared bits, which must be cleared again after it is loaded; None: no bits.
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

/// Returns the mark bits to clear after a revert, or None if no bits must be cleared: the reverted and the previous
/// generation have the same layout, and so different bits that identify them.
fn mixed(undone: &Naming, before: &Naming) -> Option<u32> {
    let is_mixed = layout(undone) != layout(before);
    is_mixed.then_some(undone.orders.mask | before.orders.mask)
}

/// Clears the classes of a reverted generation that could be interpreted as classes of the previous generation.
/// - before: previous generation; None: there is none, or it has no names. Then all classes are cleared.
pub fn go_back(store: &mut Store, undone: &Naming, before: Option<(u64, &Naming)>) -> Result<()> {
    let Some((number, naming)) = before else {
        return end(store);
    };
    if let Some(mask) = mixed(undone, naming) {
        store.state.marks = Some(Marks::mixed(mask));
        conntrack::clear(mask)?;
    } else if let Some(marks) = &mut store.state.marks {
        marks.since = marks.since.min(number);
    }
    store.commit()
}

/// Clears all classes in the marks of connections, when no policy with names remains.
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
    }

    /// Three layouts of marks: bits 8 to 15 with 2 bits of classes; the same bits with 3 bits of classes; bits 16 to 23
    /// with 2 bits of classes.
    fn layouts() -> [Naming; 3] {
        let of = |mask, generations, settled| Naming {
            settled: (settled, 0),
            ..naming(mask, generations)
        };
        [
            of(0xff00, 30, 0xfc00),
            of(0xff00, 14, 0xf800),
            of(0xff_0000, 30, 0xfc_0000),
        ]
    }

    #[test]
    fn a_layout_is_more_than_its_mask() {
        let [two, three, beside] = layouts();
        assert_eq!(mixed(&three, &two), Some(0xff00));
        assert_eq!(mixed(&beside, &two), Some(0xff_ff00));
        assert_eq!(mixed(&two, &two), None);
        let known = Marks {
            mask: 0xff00,
            generations: 14,
            since: 25,
        };
        assert_eq!(stale(Some(known), &two, 26), Some(0xff00));
        assert_eq!(stale(Some(known), &three, 26), None);
    }

    #[test]
    fn a_number_is_left_out_whose_marks_can_be_taken_for_the_applied_ones() {
        let [two, three, beside] = layouts();
        assert_eq!(free_number(40, &two, (10, &two)), Some(41));
        assert_eq!(free_number(41, &two, (10, &two)), Some(41));
        // Generation 24 has 11001 in the highest bits but one; 25 with three bits of classes has 1100.
        assert_eq!(generation_bits(24, &two), (0x7c00, 0x6400));
        assert_eq!(generation_bits(25, &three), (0x7800, 0x6000));
        assert_eq!(free_number(25, &three, (24, &two)), Some(26));
        assert_eq!(free_number(24, &two, (25, &three)), Some(25));
        for number in 0..30 {
            assert_eq!(free_number(24, &beside, (number, &two)), Some(24));
        }
    }

    #[test]
    fn there_may_be_no_number_whose_marks_are_distinct() {
        // The generation of one layout is among the bits of classes of the other.
        let low = Naming {
            settled: (0x1c, 0),
            ..naming(0x1f, 2)
        };
        let high = Naming {
            settled: (0x1c0, 0),
            ..naming(0x1ff, 2)
        };
        assert_eq!(free_number(1, &high, (0, &low)), None);
    }
}
