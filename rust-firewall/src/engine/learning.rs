// SPDX-License-Identifier: GPL-2.0-or-later
//! Compilation of a policy's learning sets: sets to which DNS answers add addresses.

use crate::engine::compiled::{CompileKernelSet, CompileLearning, Compiled};
use crate::engine::hostnames;
use crate::engine::set;
use crate::policy::hostname;
use crate::policy::{self, Elements, Policy, Range, Set, Table, Type};

/// Parameters of the 64-bit hash FNV-1a.
const IDENTITY_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const IDENTITY_PRIME: u64 = 0x100_0000_01b3;

/// Adds bytes and a final 0 to a hash.
fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(IDENTITY_PRIME);
    }
    hash.wrapping_mul(IDENTITY_PRIME)
}

/// Returns the identity of a set's learned addresses: a hash of the table's family and name, the set's name and type,
/// and the names whose addresses the set learns.
fn identify(policy: &Policy, table: &Table, set: &Set) -> u64 {
    let words = [
        policy::family_name(table.family),
        &table.name,
        &set.name,
        policy::type_name(set.types[0]),
    ];
    let mut identity = IDENTITY_BASIS;
    for word in words {
        identity = hash(identity, word.as_bytes());
    }
    for range in &set.learned.ranges {
        let (name, wildcard) = hostname::get(&policy.hostnames, range.low as u32);
        identity = hash(identity, if wildcard { b"*" } else { b"" });
        identity = hash(identity, name);
    }
    identity
}

/// Adds the set that was compiled last to the learning sets, if it learns.
/// - table: table of the set.
pub fn add(out: &mut Compiled, policy: &Policy, table: &Table, set: &Set) {
    if !policy::set_learns(set) {
        return;
    }
    let number_of = |range: &Range| hostnames::interval(&out.hosts, range.low as u32);
    let names: Vec<Range> = set.learned.ranges.iter().map(number_of).collect();
    let found = set::make(&[Type::Hostname], &Elements::default(), &names, 0);
    out.learning.push(CompileLearning {
        set: out.sets.len() as u32 - 1,
        identity: identify(policy, table, set),
        kernel: CompileKernelSet {
            family: table.family,
            is_ipv6: set.types[0] == Type::Ipv6Addr,
            table: table.name.clone(),
            name: set.name.clone(),
        },
        names: found.single,
    });
}

/// Returns the index of a set in learning; None if the set does not learn.
pub fn find(out: &Compiled, set: u32) -> Option<u32> {
    let mut all = (0..).zip(&out.learning);
    let found = all.find(|(_, learning)| learning.set == set);
    found.map(|(number, _)| number)
}
