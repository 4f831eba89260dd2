// SPDX-License-Identifier: GPL-2.0-or-later
//! Tests of host names: how they are parsed and stored, and the table of names.

use crate::support::lines::{lines, unescape};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use rust_firewall::policy::hostname::{self, Hostnames};

/// Number of names for a table that grows often, at last to huge pages.
const NAMES: u32 = 100_000;
/// Number of random words that are parsed as host names.
const WORDS: u32 = 200_000;

fn read(text: &str) -> Result<String, &'static str> {
    let name = hostname::parse(text)?;
    let bytes = String::from_utf8_lossy(&name.bytes[..name.length]).into_owned();
    Ok(if name.wildcard {
        format!("*.{bytes}")
    } else {
        bytes
    })
}

#[test]
fn names_are_those_of_the_vectors() {
    let mut count = 0;
    for line in lines("hostnames.txt") {
        let Some(rest) = line.strip_prefix("read ") else {
            continue;
        };
        let text = |text: &str| String::from_utf8(unescape(text)).expect("a text");
        match (rest.split_once(" = "), rest.split_once(" ! ")) {
            (Some((from, to)), _) => assert_eq!(read(&text(from)), Ok(to.to_owned()), "{line}"),
            (_, Some((from, cause))) => assert_eq!(read(&text(from)), Err(cause), "{line}"),
            _ => panic!("not understood: {line}"),
        }
        count += 1;
    }
    assert!(count >= 30, "only {count} vectors");
}

/// Returns an expected hash from the test vectors in hostnames.txt.
/// - word: start of the line; the hash follows it in hexadecimal.
fn hash_of(word: &str) -> u64 {
    let hash = lines("hostnames.txt").into_iter().find_map(|line| {
        let hash = line.strip_prefix(word)?.strip_prefix(' ')?.to_owned();
        Some(u64::from_str_radix(&hash, 16).expect("a hash"))
    });
    hash.expect("a line with the hash")
}

/// Hashes the stored forms of names (or the errors), and compares the stored forms with those of the crate idna (UTS
/// 46), if both accept the name. Returns the hash and the number of comparisons.
fn hash_names(names: impl Iterator<Item = String>) -> (u64, usize) {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut held = 0;
    for name in names {
        let kept = read(&name);
        let bytes = kept
            .as_ref()
            .map_or_else(|cause| cause.as_bytes(), |kept| kept.as_bytes());
        for byte in bytes.iter().chain(b"\n") {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let other = Uts46::new().to_ascii(
            name.as_bytes(),
            AsciiDenyList::EMPTY,
            Hyphens::Allow,
            DnsLength::Ignore,
        );
        if let (Ok(kept), Ok(other)) = (kept, other) {
            assert_eq!(kept, other, "{name:?}");
            held += 1;
        }
    }
    (hash, held)
}

#[test]
fn each_letter_is_kept_as_by_the_other_twin_and_as_uts_46_has_it() {
    let names = ('\u{80}'..=char::MAX).map(|letter| format!("a{letter}b"));
    let (hash, held) = hash_names(names);
    assert!(held > 100_000, "only {held}");
    assert_eq!(hash, hash_of("letters"), "{hash:x}");
}

#[test]
fn words_are_kept_as_by_the_other_twin_and_as_uts_46_has_them() {
    let mut state = 1_u32;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    let names = (0..WORDS).map(|_| {
        let start = 0x80 + next() % 0x1f000;
        let length = 1 + next() % 8;
        let letter = |_| char::from_u32(start + next() % 0x60).unwrap_or('a');
        (0..length).map(letter).collect::<String>()
    });
    let (hash, held) = hash_names(names);
    assert!(held > 10_000, "only {held}");
    assert_eq!(hash, hash_of("words"), "{hash:x}");
}

#[test]
fn a_name_of_253_bytes_is_the_longest() {
    let label = "a".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "b".repeat(61));
    assert_eq!(longest.len(), 253);
    assert_eq!(read(&longest), Ok(longest.clone()));
    assert_eq!(read(&format!("{longest}.")), Ok(longest.clone()));
    let longer = read(&format!("{longest}b"));
    assert_eq!(longer, Err("longer than the 253 bytes of a host's name"));
}

#[test]
fn each_name_is_there_once() {
    let mut all = Hostnames::default();
    assert_eq!(hostname::find(&all, b"n1", false), None);
    for round in 0..2 {
        for n in 0..NAMES {
            let name = format!("n{n}.example");
            assert_eq!(hostname::add(&mut all, name.as_bytes(), false), 2 * n);
            assert_eq!(hostname::add(&mut all, name.as_bytes(), true), 2 * n + 1);
            if round == 0 {
                assert_eq!(hostname::count(&all), 2 * n + 2);
            }
        }
    }
    assert_eq!(hostname::count(&all), 2 * NAMES);
    assert_eq!(hostname::find(&all, b"n7.example", true), Some(15));
    assert_eq!(hostname::find(&all, b"n7.exampl", true), None);
    assert_eq!(hostname::get(&all, 15), (&b"n7.example"[..], true));
    assert_eq!(hostname::text(&all, 15), "*.n7.example");
    assert_eq!(hostname::text(&all, 0), "n0.example");
}

#[test]
fn of_many_names_each_is_found_and_no_other() {
    let mut all = Hostnames::default();
    for n in 0..NAMES {
        let id = hostname::add(&mut all, format!("n{n}.example").as_bytes(), n % 2 == 1);
        assert_eq!(id, n);
    }
    for n in 0..NAMES {
        let find = |name: String, wildcard| hostname::find(&all, name.as_bytes(), wildcard);
        let wildcard = n % 2 == 1;
        assert_eq!(find(format!("n{n}.example"), wildcard), Some(n));
        assert_eq!(find(format!("n{n}.example"), !wildcard), None);
        assert_eq!(find(format!("m{n}.example"), wildcard), None);
    }
}
