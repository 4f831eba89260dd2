// SPDX-License-Identifier: GPL-2.0-or-later
//! Names of numbers. rules/policy/GRAMMAR.md, "Values", lists them.

use crate::policy::RejectKind;

pub use crate::spec::symbols::*;

/// Returns the number of a name.
pub fn find(symbols: &[Symbol], text: &str) -> Option<u32> {
    let found = symbols.iter().find(|(name, _)| *name == text);
    found.map(|(_, number)| *number)
}

/// Returns the name of a number.
pub fn name_of(symbols: &[Symbol], value: u128) -> Option<&'static str> {
    let found = symbols
        .iter()
        .find(|(_, number)| u128::from(*number) == value);
    found.map(|(name, _)| *name)
}

/// Returns the names of a reject's codes.
pub fn symbols_of_reject(kind: RejectKind) -> &'static [Symbol] {
    match kind {
        RejectKind::TcpReset => &[],
        RejectKind::Icmp => REJECT_ICMP,
        RejectKind::Icmpv6 => ICMPV6_CODES,
        RejectKind::Icmpx => REJECT_ICMPX,
    }
}
