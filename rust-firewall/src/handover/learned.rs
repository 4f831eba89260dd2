// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfer of the addresses that a policy's sets have learned.
//!
//! Format, in little-endian numbers: version of the format (32 bits); for each address: the identity of its set (64),
//! the address (128; an IPv4 address is less than 2^32), and the remaining lifetime in nanoseconds (64), at most a day;
//! the number of addresses (32). The identity of a set comes from its text, as in a reload: addresses of sets that the
//! new policy does not have are left out.

use nix::errno::Errno;

use crate::engine::compiled::{CompileLearning, Compiled};
use crate::engine::learned::{self, Learned, LearnedAddress};
use crate::engine::teach;
use crate::handover;
use crate::handover::memory::HandoverMemory;
use crate::handover::record::{self, RecordReading};

/// Maximum size of all transferred addresses, in bytes: more than --learned allows.
pub const BYTES_MAX: u64 = 64 << 20;

const FORM: u64 = 1;
const FORM_BYTES: usize = 4;
const WORD_BYTES: usize = 8;
/// Size of the record of an address, in bytes: set, address and lifetime.
const ADDRESS_BYTES: usize = 4 * WORD_BYTES;
/// Size of the address count after the last address, in bytes.
const COUNT_BYTES: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;

/// Numbers of learned addresses: transferred, left out, and of sets that the new policy does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LearnedTaken {
    pub taken: u64,
    /// Addresses that were left out because there was no room.
    pub left_out: u64,
    /// Addresses of sets that the new policy does not have.
    pub other: u64,
}

/// Returns the policy's set that has an identity (a number computed from the set's text).
fn set_of(compiled: &Compiled, identity: u64) -> Option<&CompileLearning> {
    let mut sets = compiled.learning.iter();
    sets.find(|set| set.identity == identity)
}

fn append_address(bytes: &mut Vec<u8>, address: &LearnedAddress, now_ns: u64) {
    record::append_number(bytes, address.set, WORD_BYTES);
    record::append_number(bytes, address.address as u64, WORD_BYTES);
    record::append_number(bytes, (address.address >> 64) as u64, WORD_BYTES);
    record::append_number(bytes, address.end_ns - now_ns, WORD_BYTES);
}

/// Writes the addresses of the policy's sets.
/// - count: in/out: number of written addresses.
fn write_addresses(
    memory: &mut HandoverMemory,
    compiled: &Compiled,
    now_ns: u64,
    count: &mut u32,
) -> Result<(), Errno> {
    let Some(learned) = &compiled.learned else {
        return Ok(());
    };
    let mut bytes = Vec::with_capacity(ADDRESS_BYTES);
    for place in 0..learned::places(learned) {
        let found = learned::at(learned, place, now_ns);
        let Some(address) = found.filter(|found| set_of(compiled, found.set).is_some()) else {
            continue;
        };
        bytes.clear();
        append_address(&mut bytes, &address, now_ns);
        handover::memory::append(memory, &bytes)?;
        *count += 1;
    }
    Ok(())
}

/// Writes the addresses that a policy's sets have learned. Must be called after the workers have stopped.
pub fn write(memory: &mut HandoverMemory, compiled: &Compiled, now_ns: u64) -> Result<(), Errno> {
    let mut bytes = Vec::new();
    let mut count = 0;
    record::append_number(&mut bytes, FORM, FORM_BYTES);
    handover::memory::append(memory, &bytes)?;
    write_addresses(memory, compiled, now_ns, &mut count)?;
    bytes.clear();
    record::append_number(&mut bytes, count.into(), COUNT_BYTES);
    handover::memory::append(memory, &bytes)
}

/// Parses an address and adds it to its set. An address of a set that the policy does not have is only counted. Fails
/// with the name of the invalid part.
fn decode_address(
    reading: &mut RecordReading,
    compiled: &Compiled,
    learned: &Learned,
    now_ns: u64,
    taken: &mut LearnedTaken,
) -> Result<(), &'static str> {
    let identity = record::number(reading, WORD_BYTES);
    let low = record::number(reading, WORD_BYTES);
    let high = record::number(reading, WORD_BYTES);
    let left_ns = record::number(reading, WORD_BYTES);
    let address = u128::from(high) << 64 | u128::from(low);
    if left_ns == 0 || left_ns > u64::from(teach::TTL_MAX) * SECOND_NS {
        return Err("time");
    }
    let Some(set) = set_of(compiled, identity) else {
        taken.other += 1;
        return Ok(());
    };
    if !set.kernel.is_ipv6 && address > u128::from(u32::MAX) {
        return Err("address");
    }
    if learned::find(learned, identity, address, now_ns) {
        return Err("address");
    }
    match learned::add(learned, identity, address, now_ns + left_ns, now_ns) {
        true => taken.left_out += 1,
        false => taken.taken += 1,
    }
    Ok(())
}

fn parse_all(
    bytes: &[u8],
    compiled: &Compiled,
    learned: &Learned,
    now_ns: u64,
) -> Result<LearnedTaken, &'static str> {
    let mut taken = LearnedTaken::default();
    let at = bytes.len().checked_sub(COUNT_BYTES).ok_or("length")?;
    let (bytes, end) = bytes.split_at_checked(at).ok_or("length")?;
    if bytes.len() < FORM_BYTES {
        return Err("length");
    }
    let told = record::number(&mut record::begin(end), COUNT_BYTES);
    let reading = &mut record::begin(bytes);
    if record::number(reading, FORM_BYTES) != FORM {
        return Err("form");
    }
    if reading.left.len() as u64 != told * ADDRESS_BYTES as u64 {
        return Err("count");
    }
    for _ in 0..told {
        decode_address(reading, compiled, learned, now_ns, &mut taken)?;
    }
    Ok(taken)
}

/// Parses learned addresses into the sets of a policy, which are empty. If there is no room, addresses are evicted as
/// for new DNS answers. Fails with the name of the invalid part; then the sets are empty.
pub fn parse(bytes: &[u8], compiled: &Compiled, now_ns: u64) -> Result<LearnedTaken, &'static str> {
    let Some(learned) = &compiled.learned else {
        return Ok(LearnedTaken::default()); // not reached: the policy learns
    };
    let result = parse_all(bytes, compiled, learned, now_ns);
    if result.is_err() {
        learned::forget_all(learned);
    }
    result
}
