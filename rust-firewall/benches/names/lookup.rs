// SPDX-License-Identifier: GPL-2.0-or-later
//! Search for names among a million names of a policy, a quarter of which are wildcards.

use std::hint::black_box;
use std::sync::Arc;

use rust_firewall::engine::hostnames::{self, HostNumbers};
use rust_firewall::policy::forest;
use rust_firewall::policy::hostname::{self, Hostnames};

use crate::cases::{PACKETS, STRIDE};

const NAMES: u32 = 1_000_000;
/// Number of names that are searched in turn: so many that a name's memory has left the processor's caches before the
/// name is searched again.
const ASKED: u32 = 1 << 17;

/// Names of a policy, and the names that are searched.
pub struct Lookups {
    numbers: HostNumbers,
    asked: Vec<String>,
    next: usize,
}

/// Returns a name of the policy, and whether it is a wildcard, whose `*.` is left out.
fn listed(index: u32) -> (String, bool) {
    let scattered = index.wrapping_mul(STRIDE);
    match index % 8 {
        0 => (format!("w{scattered:08x}.example"), true),
        4 => (format!("w{scattered:08x}.cdn.example"), true),
        _ => (
            format!("n{scattered:08x}.s{:02x}.example", index % 251),
            false,
        ),
    }
}

/// Returns a name to search: a quarter of these names is in the policy, a quarter matches a wildcard of the policy,
/// half is not in the policy.
fn asked(count: u32) -> String {
    let index = count.wrapping_mul(STRIDE) % NAMES;
    match count % 4 {
        0 => listed(index | 1).0,
        1 => format!("a.b.{}", listed(index & !3).0),
        _ => format!(
            "m{:08x}.s{:02x}.example",
            index.wrapping_mul(STRIDE),
            index % 251
        ),
    }
}

pub fn make() -> Lookups {
    let mut names = Hostnames::default();
    for index in 0..NAMES {
        let (name, wildcard) = listed(index);
        hostname::add(&mut names, name.as_bytes(), wildcard);
    }
    forest::make(&mut names);
    Lookups {
        numbers: hostnames::make(&Arc::new(names)),
        asked: (0..ASKED).map(asked).collect(),
        next: 0,
    }
}

/// Searches the next PACKETS names. Returns the number of names that were found.
pub fn round(lookups: &mut Lookups) -> u32 {
    let names = lookups.asked.iter().skip(lookups.next).take(PACKETS);
    let is_found = |name: &String| hostnames::find(&lookups.numbers, black_box(name.as_bytes()));
    let found = names.map(|name| u32::from(is_found(name) > 0)).sum();
    lookups.next = (lookups.next + PACKETS) % ASKED as usize;
    found
}
