// SPDX-License-Identifier: GPL-2.0-or-later
//! A set of addresses whose members are numbered from 0: sorted ranges that neither touch nor overlap.

use super::{number, Address, Family, Range};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    ranges: Vec<Range>,
    /// Number of the first member of each range.
    starts: Vec<u64>,
    len: u64,
}

/// Maximum number of members. Their product with the number of ports then fits into 64 bits.
pub const MOST_MEMBERS: u128 = 1 << 44;

impl Set {
    /// Creates a set from ranges in any order. None if it has more than [`MOST_MEMBERS`].
    pub fn new(ranges: impl IntoIterator<Item = Range>) -> Option<Set> {
        let ranges = merge(ranges.into_iter().collect());
        let mut set = Set::default();
        for range in ranges {
            let members = (range.last - range.first).checked_add(1)?;
            let len = members.checked_add(u128::from(set.len))?;
            if len > MOST_MEMBERS {
                return None;
            }
            set.ranges.push(range);
            set.starts.push(set.len);
            set.len = len as u64;
        }
        Some(set)
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the member with the number `member`, from 0.
    ///
    /// # Panics
    /// If `member` is not below the number of members.
    pub fn get(&self, member: u64) -> Address {
        assert!(member < self.len);
        let at = self.starts.partition_point(|&start| start <= member) - 1;
        let range = &self.ranges[at];
        range.address(range.first + u128::from(member - self.starts[at]))
    }

    pub fn position(&self, address: Address) -> Option<u64> {
        let (family, value) = number(address.ip);
        let key = (family, address.scope, value);
        let at = self
            .ranges
            .partition_point(|range| (range.family, range.scope, range.first) <= key)
            .checked_sub(1)?;
        let range = &self.ranges[at];
        let inside = range.family == family && range.scope == address.scope && value <= range.last;
        inside.then(|| self.starts[at] + (value - range.first) as u64)
    }

    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }
}

/// Sorts ranges, and joins those that overlap or touch.
fn merge(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(before) if joins(before, &range) => before.last = before.last.max(range.last),
            _ => merged.push(range),
        }
    }
    merged
}

fn joins(before: &Range, range: &Range) -> bool {
    before.family == range.family
        && before.scope == range.scope
        && range.first <= before.last.saturating_add(1)
}

/// Returns the addresses in `ranges` but not in `out`. A range of `out` without a scope applies to every interface.
pub fn subtract(ranges: &[Range], out: &[Range]) -> Vec<Range> {
    let mut left = ranges.to_vec();
    for out in out {
        left = left.iter().flat_map(|range| without(range, out)).collect();
    }
    left
}

fn without(range: &Range, out: &Range) -> Vec<Range> {
    let elsewhere = out.scope != 0 && out.scope != range.scope;
    if out.family != range.family || elsewhere || out.last < range.first || out.first > range.last {
        return vec![*range];
    }
    let mut left = Vec::new();
    if range.first < out.first {
        left.push(Range {
            last: out.first - 1,
            ..*range
        });
    }
    if out.last < range.last {
        left.push(Range {
            first: out.last + 1,
            ..*range
        });
    }
    left
}

/// Returns the number of addresses in some ranges, which may overlap, for a message.
pub fn count(ranges: &[Range]) -> u128 {
    merge(ranges.to_vec()).iter().fold(0, |sum: u128, range| {
        sum.saturating_add((range.last - range.first).saturating_add(1))
    })
}

impl Family {
    pub fn domain(self) -> i32 {
        match self {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(first: u128, last: u128) -> Range {
        Range {
            family: Family::V4,
            scope: 0,
            first,
            last,
        }
    }

    #[test]
    fn members_have_numbers() {
        let v6 = Range {
            family: Family::V6,
            scope: 2,
            first: 5,
            last: 6,
        };
        let set = Set::new([v6, v4(10, 12), v4(12, 15), v4(20, 20), v4(16, 16)]).unwrap();
        assert_eq!(set.ranges(), [v4(10, 16), v4(20, 20), v6]);
        assert_eq!(set.len(), 10);
        for member in 0..set.len() {
            assert_eq!(set.position(set.get(member)), Some(member));
        }
        for absent in [v4(9, 9), v4(17, 17), v4(21, 21)] {
            assert_eq!(set.position(absent.address(absent.first)), None);
        }
        let other_scope = Address {
            scope: 1,
            ..v6.address(5)
        };
        assert_eq!(set.position(other_scope), None);
    }

    #[test]
    fn exclusions_cut() {
        let cut = subtract(
            &[v4(0, 100)],
            &[v4(10, 19), v4(0, 0), v4(95, 200), v4(300, 400)],
        );
        assert_eq!(cut, [v4(1, 9), v4(20, 94)]);
        assert_eq!(count(&cut), 84);
        assert!(subtract(&[v4(5, 6)], &[v4(0, 10)]).is_empty());
    }

    #[test]
    fn everything_is_too_much() {
        let all = Range {
            family: Family::V6,
            scope: 0,
            first: 0,
            last: u128::MAX,
        };
        assert_eq!(Set::new([all]), None);
    }
}
