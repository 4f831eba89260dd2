// SPDX-License-Identifier: GPL-2.0-or-later
//! Names looked up among a million of a policy, a quarter of them wildcards.

use std::hint::black_box;
use std::sync::Arc;

use rust_firewall::engine::hostnames::{self, HostNumbers};
use rust_firewall::policy::forest;
use rust_firewall::policy::hostname::{self, Hostnames};

use crate::cases::{PACKETS, STRIDE};

const NAMES: u32 = 1_000_000;
/// That are asked for in turn: so many that what was read for the last ones is in no cache.
const ASKED: u32 = 1 << 17;

/// The names of a policy, and what is asked of it.
pub struct Lookups {
    numbers: HostNumbers,
    asked: Vec<String>,
    next: usize,
}

/// A name of the policy, and whether it is a wildcard.
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

/// The names looked up: a quarter is in the policy, a quarter below a wildcard of it, half not.
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

/// Looks up the next names. Returns their number.
pub fn round(lookups: &mut Lookups) -> u32 {
    let names = lookups.asked.iter().skip(lookups.next).take(PACKETS);
    let is_found = |name: &String| hostnames::find(&lookups.numbers, black_box(name.as_bytes()));
    let found = names.map(|name| u32::from(is_found(name) > 0)).sum();
    lookups.next = (lookups.next + PACKETS) % ASKED as usize;
    found
}
