// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: getrandom
//! Names of hosts: reading one, and all of a policy, each once.
//!
//! Theory of operation: a name is written as people do and kept as DNS compares it: in lower case, as
//! A-labels (RFC 5890), without a dot at its end. `*.x` is kept as x and a mark. Who writes the names (a
//! block list from elsewhere) or asks for them (a client) must not choose how long a search takes: the
//! table is that of `engine/lookup_hash`, with a key of its own and a bound on what a search looks at.

use std::hash::Hasher;

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use siphasher::sip::SipHasher13;

use crate::names::HOST_BYTES;

/// Bytes of a label (RFC 1035, section 2.3.4).
const LABEL_BYTES: usize = 63;
/// Slots that a search looks at, at most.
const PROBES_MAX: usize = 128;
/// In a slot: it is empty.
const NONE: u32 = u32::MAX;
/// Slots of the first table.
const SLOTS_MIN: usize = 16;

/// A name that was read.
#[derive(Clone, Copy)]
pub struct Hostname {
    /// Of bytes.
    pub length: usize,
    /// Stands for the children of the name, at any depth.
    pub wildcard: bool,
    pub bytes: [u8; HOST_BYTES],
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The upper half of the hash.
    tag: u32,
    /// The name's number; NONE = empty.
    id: u32,
}

/// Names, numbered from 0 in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Hostnames {
    /// Of all names, one behind the other.
    bytes: Vec<u8>,
    /// Where a name ends in bytes, twice, and 1 more for a wildcard.
    ends: Vec<u32>,
    /// With its key, and nothing hashed.
    hasher: SipHasher13,
    /// A power of 2, at least twice as many as there are names; or none.
    slots: Vec<Slot>,
}

/// What a search ended at.
struct Probe {
    slot: usize,
    /// The name's number, if it is there.
    id: Option<u32>,
    /// Slots that were looked at before.
    passed: usize,
}

/// Makes A-labels of a name that has other letters than ASCII's.
fn to_ascii(text: &str) -> Result<String, &'static str> {
    let made = Uts46::new().to_ascii(
        text.as_bytes(),
        AsciiDenyList::EMPTY,
        Hyphens::Check,
        DnsLength::Ignore,
    );
    made.map(std::borrow::Cow::into_owned)
        .map_err(|_| "not a name that IDNA has (UTS 46)")
}

/// Whether a byte stands in names of hosts.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Whether a text is an address in brackets, as HTTP has them for a host.
fn is_bracketed(text: &[u8]) -> bool {
    let inner = text
        .strip_prefix(b"[")
        .and_then(|text| text.strip_suffix(b"]"));
    let is_of_address = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    inner.is_some_and(|inner| !inner.is_empty() && inner.iter().all(is_of_address))
}

/// Looks what is wrong with a name of ASCII, without `*.` and without a dot at its end.
fn check(text: &[u8]) -> Result<(), &'static str> {
    if text.contains(&b'*') {
        return Err("a `*` stands alone, in front, with a dot behind it: \"*.example.com\"");
    }
    if !is_bracketed(text) && !text.iter().copied().all(is_of_name) {
        return Err("not the name of a host: letters, digits, `-`, `_` and dots");
    }
    if text.len() > HOST_BYTES {
        return Err("longer than the 253 bytes of a host's name");
    }
    let mut labels = text.split(|byte| *byte == b'.');
    if labels.clone().any(<[u8]>::is_empty) {
        return Err("a host's name has no empty label");
    }
    match labels.any(|label| label.len() > LABEL_BYTES) {
        true => Err("a label of more than 63 bytes"),
        false => Ok(()),
    }
}

/// Keeps a name of ASCII, without `*.`, if it is one.
fn take(text: &str, name: &mut Hostname) -> Result<(), &'static str> {
    let text = text.strip_suffix('.').unwrap_or(text).as_bytes();
    check(text)?;
    name.length = text.len();
    for (to, byte) in name.bytes.iter_mut().zip(text) {
        *to = byte.to_ascii_lowercase();
    }
    Ok(())
}

/// Reads a name. Fails with why it is none, for `Lexer::wrong`.
pub fn read(text: &str) -> Result<Hostname, &'static str> {
    if text == "*" {
        return Err("this stands for every name: ask whether there is one, with `exists`");
    }
    let rest = text.strip_prefix("*.");
    let mut name = Hostname {
        length: 0,
        wildcard: rest.is_some(),
        bytes: [0; HOST_BYTES],
    };
    let rest = rest.unwrap_or(text);
    match rest.is_ascii() {
        true => take(rest, &mut name)?,
        false => take(&to_ascii(rest)?, &mut name)?,
    }
    Ok(name)
}

/// How many there are.
pub fn count(hostnames: &Hostnames) -> u32 {
    hostnames.ends.len() as u32
}

/// The bytes of a name, and whether it is a wildcard.
pub fn get(hostnames: &Hostnames, id: u32) -> (&[u8], bool) {
    let end_of = |id: u32| hostnames.ends.get(id as usize).copied().unwrap_or_default();
    let start = id.checked_sub(1).map_or(0, end_of) / 2;
    let end = end_of(id);
    let bytes = hostnames.bytes.get(start as usize..(end / 2) as usize);
    (bytes.unwrap_or_default(), end % 2 == 1)
}

/// A name as it is written, without quotes.
pub fn text(hostnames: &Hostnames, id: u32) -> String {
    let (bytes, wildcard) = get(hostnames, id);
    let front = if wildcard { "*." } else { "" };
    format!("{front}{}", String::from_utf8_lossy(bytes))
}

fn hash(hostnames: &Hostnames, name: &[u8], wildcard: bool) -> u64 {
    let mut hasher = hostnames.hasher;
    hasher.write(name);
    hasher.write_u8(u8::from(wildcard));
    hasher.finish()
}

fn is_name(hostnames: &Hostnames, id: u32, name: &[u8], wildcard: bool) -> bool {
    get(hostnames, id) == (name, wildcard)
}

/// Searches a table that is not empty.
fn probe(hostnames: &Hostnames, name: &[u8], wildcard: bool, hashed: u64) -> Probe {
    let mask = hostnames.slots.len() - 1;
    let mut slot = hashed as usize & mask;
    let mut passed = 0;
    loop {
        let Slot { tag, id } = hostnames.slots[slot];
        if id == NONE || tag == (hashed >> 32) as u32 && is_name(hostnames, id, name, wildcard) {
            let id = (id != NONE).then_some(id);
            return Probe { slot, id, passed };
        }
        slot = (slot + 1) & mask;
        passed += 1;
    }
}

/// The number of a name.
pub fn find(hostnames: &Hostnames, name: &[u8], wildcard: bool) -> Option<u32> {
    if hostnames.slots.is_empty() {
        return None;
    }
    probe(hostnames, name, wildcard, hash(hostnames, name, wildcard)).id
}

/// Puts all names into empty slots. Whether no search is too long then.
fn fill(hostnames: &mut Hostnames) -> bool {
    for id in 0..count(hostnames) {
        let (name, wildcard) = get(hostnames, id);
        let hashed = hash(hostnames, name, wildcard);
        let found = probe(hostnames, name, wildcard, hashed);
        if found.passed >= PROBES_MAX {
            return false;
        }
        let tag = (hashed >> 32) as u32;
        hostnames.slots[found.slot] = Slot { tag, id };
    }
    true
}

/// Makes a table of twice as many slots, with another key.
fn grow(hostnames: &mut Hostnames) {
    loop {
        let slots = (2 * hostnames.slots.len()).max(SLOTS_MIN);
        let mut key = [0; 16];
        getrandom::fill(&mut key).expect("the kernel gives random bytes");
        hostnames.hasher = SipHasher13::new_with_key(&key);
        hostnames.slots = vec![Slot { tag: 0, id: NONE }; slots];
        if fill(hostnames) {
            return;
        }
    }
}

/// The number of a name, which is added if it is new.
pub fn add(hostnames: &mut Hostnames, name: &[u8], wildcard: bool) -> u32 {
    if 2 * (hostnames.ends.len() + 1) > hostnames.slots.len() {
        grow(hostnames);
    }
    loop {
        let hashed = hash(hostnames, name, wildcard);
        let found = probe(hostnames, name, wildcard, hashed);
        if let Some(id) = found.id {
            return id;
        }
        if found.passed < PROBES_MAX {
            let id = count(hostnames);
            let tag = (hashed >> 32) as u32;
            hostnames.slots[found.slot] = Slot { tag, id };
            hostnames.bytes.extend_from_slice(name);
            let end = 2 * hostnames.bytes.len() + usize::from(wildcard);
            hostnames.ends.push(end as u32);
            return id;
        }
        grow(hostnames);
    }
}
