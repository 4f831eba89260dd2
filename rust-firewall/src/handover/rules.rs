// SPDX-License-Identifier: GPL-2.0-or-later
//! Rules of the old firewall's policy, in their order. The new firewall pairs them with its own rules.
//!
//! Format, in little-endian numbers: the number of rules (32 bits), then for each rule: the lengths of its chain,
//! comment and text (32 bits each; all bits of the comment's length are set if there is no comment); its numbers of
//! counters, logs, limits and quotas (8 bits each); the size of each of its limits (64 bits, FlowLimit); the bytes of
//! chain, comment and text.

use nix::errno::Errno;

use crate::engine::compiled::LIMIT_SIZE_MAX;
use crate::handover;
use crate::handover::memory::HandoverMemory;
use crate::policy::parse::state::STATEMENTS_MAX;
use crate::policy::RULES_MAX;
use crate::ruleset::load::Loaded;
use crate::ruleset::migration::{
    self, MigrationKind, MigrationPlace, MigrationRule, MigrationSide, KIND_COUNT,
};

/// Maximum size of the serialized rules, in bytes.
pub const BYTES_MAX: u64 = 512 << 20;

const NO_COMMENT: u32 = u32::MAX;
/// Maximum number of rules that are written in one step of the transfer. A step takes some milliseconds.
const AT_A_TIME: u32 = 2048;

/// State of writing the rules. They are written in steps, so that the main thread can do other work in between.
pub struct HandoverRules {
    pub memory: HandoverMemory,
    at: MigrationPlace,
    next_limit: usize,
}

fn append_length(memory: &mut HandoverMemory, bytes: &[u8]) -> Result<(), Errno> {
    handover::memory::append(memory, &(bytes.len() as u32).to_le_bytes())
}

fn append_rule(
    writing: &mut HandoverRules,
    loaded: &Loaded,
    rule: &MigrationRule,
) -> Result<(), Errno> {
    let memory = &mut writing.memory;
    append_length(memory, &rule.chain)?;
    match &rule.comment {
        Some(comment) => append_length(memory, comment)?,
        None => handover::memory::append(memory, &NO_COMMENT.to_le_bytes())?,
    }
    append_length(memory, &rule.text)?;
    handover::memory::append(memory, &rule.count)?;
    for _ in 0..rule.count[MigrationKind::Limits as usize] {
        let limit = loaded.compiled.limits.get(writing.next_limit);
        handover::memory::append_number(memory, limit.map_or(0, |limit| limit.size as u64))?;
        writing.next_limit += 1;
    }
    handover::memory::append(memory, &rule.chain)?;
    handover::memory::append(memory, rule.comment.as_deref().unwrap_or_default())?;
    handover::memory::append(memory, &rule.text)
}

/// Starts writing the rules of a policy; None = there is no policy.
pub fn begin(loaded: Option<&Loaded>) -> Result<HandoverRules, Errno> {
    let mut memory = handover::memory::make()?;
    let rules = loaded.map_or(0, |loaded| loaded.compiled.rules.len() as u32);
    handover::memory::append(&mut memory, &rules.to_le_bytes())?;
    Ok(HandoverRules {
        memory,
        at: MigrationPlace::default(),
        next_limit: 0,
    })
}

/// Writes the next rules of the policy that was passed to `begin`. Returns true if more may be left; otherwise the
/// memory is sealed.
pub fn write(writing: &mut HandoverRules, loaded: Option<&Loaded>) -> Result<bool, Errno> {
    for _ in 0..AT_A_TIME {
        let rule = loaded.and_then(|loaded| {
            let rule = migration::next_rule(loaded, &mut writing.at)?;
            Some((loaded, rule))
        });
        let Some((loaded, rule)) = rule else {
            handover::memory::seal(&mut writing.memory)?;
            return Ok(false);
        };
        append_rule(writing, loaded, &rule)?;
    }
    Ok(true)
}

/// Removes bytes from the front of `left`, and returns them; None if fewer are left.
fn consume<'a>(left: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, rest) = left.split_at_checked(bytes)?;
    *left = rest;
    Some(taken)
}

fn decode_length(left: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(consume(left, 4)?.try_into().ok()?))
}

/// Parses a text; None if it is incomplete or contains a NUL.
fn decode_text(left: &mut &[u8], bytes: u32) -> Option<Vec<u8>> {
    let text = consume(left, bytes as usize)?;
    (!text.contains(&0)).then(|| text.to_vec())
}

fn decode_limit_size(left: &mut &[u8]) -> Option<i64> {
    let size = i64::from_le_bytes(consume(left, 8)?.try_into().ok()?);
    (1..=LIMIT_SIZE_MAX).contains(&size).then_some(size)
}

fn parse_rule(left: &mut &[u8], side: &mut MigrationSide) -> Option<MigrationRule> {
    let lengths = [
        decode_length(left)?,
        decode_length(left)?,
        decode_length(left)?,
    ];
    let [chain, comment, text] = lengths;
    let count: [u8; KIND_COUNT] = consume(left, KIND_COUNT)?.try_into().ok()?;
    let statements: usize = count.iter().map(|count| usize::from(*count)).sum();
    if statements > STATEMENTS_MAX {
        return None;
    }
    for _ in 0..count[MigrationKind::Limits as usize] {
        side.limit_sizes.push(decode_limit_size(left)?);
    }
    for (total, count) in side.totals.iter_mut().zip(count) {
        *total += u32::from(count);
    }
    Some(MigrationRule {
        chain: decode_text(left, chain)?,
        comment: match comment {
            NO_COMMENT => None,
            bytes => Some(decode_text(left, bytes)?),
        },
        text: decode_text(left, text)?,
        count,
    })
}

/// Parses rules. Returns None unless all bytes are valid.
pub fn parse(bytes: &[u8]) -> Option<MigrationSide> {
    let left = &mut &*bytes;
    let mut side = MigrationSide::default();
    let rules = decode_length(left)? as usize;
    if rules > RULES_MAX {
        return None;
    }
    for _ in 0..rules {
        let rule = parse_rule(left, &mut side)?;
        side.rules.push(rule);
    }
    left.is_empty().then_some(side)
}
