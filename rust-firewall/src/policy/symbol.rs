// SPDX-License-Identifier: GPL-2.0-or-later
//! Symbols: names that a policy may use in place of numbers, such as ssh for port 22. rules/policy/GRAMMAR.md lists
//! them in "Values" and "Rules".

use crate::policy::RejectKind;

pub use crate::spec::symbols::*;

/// Returns the number that a name stands for; None if the list lacks the name.
pub fn find(symbols: &[Symbol], text: &str) -> Option<u32> {
    let found = symbols.iter().find(|(name, _)| *name == text);
    found.map(|(_, number)| *number)
}

/// Returns the first name of a number in the list.
pub fn name_of(symbols: &[Symbol], value: u128) -> Option<&'static str> {
    let found = symbols
        .iter()
        .find(|(_, number)| u128::from(*number) == value);
    found.map(|(name, _)| *name)
}

/// Returns the symbols for the codes of a kind of reject; none for a TCP reset.
pub fn symbols_of_reject(kind: RejectKind) -> &'static [Symbol] {
    match kind {
        RejectKind::TcpReset => &[],
        RejectKind::Icmp => REJECT_ICMP,
        RejectKind::Icmpv6 => ICMPV6_CODES,
        RejectKind::Icmpx => REJECT_ICMPX,
    }
}
