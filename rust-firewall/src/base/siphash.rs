// SPDX-License-Identifier: GPL-2.0-or-later
//! SipHash-1-3 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012, with one round per word and three
//! rounds at the end): a hash that is unpredictable without its key.
//!
//! Each hash uses a new hasher: the compiler knows that a new hasher is empty, but not that a copy of a stored hasher
//! is.
// seccomp: getrandom
#![deny(clippy::indexing_slicing)]

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiphashKey {
    pub words: [u64; 2],
}

/// Draws a random key. Ends the program if the kernel returns no random bytes, which does not happen (getrandom(2)
/// returns up to 256 bytes at once, and is older than the kernels that the firewall needs).
pub fn draw() -> SiphashKey {
    let mut words = [[0; 8]; 2];
    getrandom::fill(words.as_flattened_mut()).expect("the kernel gives random bytes");
    SiphashKey {
        words: words.map(u64::from_le_bytes),
    }
}

#[inline(always)]
fn begin(key: &SiphashKey) -> SipHasher13 {
    let [first, second] = key.words;
    SipHasher13::new_with_keys(first, second)
}

/// Returns the hash of the four bytes of a value, the lowest first.
#[inline(always)]
pub fn narrow(key: &SiphashKey, value: u32) -> u64 {
    let mut hasher = begin(key);
    hasher.write_u32(value);
    hasher.finish()
}

/// Returns the hash of the bytes of words, the lowest byte of each word first.
#[inline]
pub fn words(key: &SiphashKey, words: &[u64]) -> u64 {
    let mut hasher = begin(key);
    for &word in words {
        hasher.write_u64(word);
    }
    hasher.finish()
}

/// Returns the hash of bytes followed by the byte `last`.
pub fn bytes(key: &SiphashKey, bytes: &[u8], last: u8) -> u64 {
    let mut hasher = begin(key);
    hasher.write(bytes);
    hasher.write_u8(last);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SiphashKey = SiphashKey {
        words: [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908],
    };

    /// Values from the tests of the library (siphasher): the key is the bytes 0 to 15, the message the bytes from 0 on.
    #[test]
    fn gives_the_known_values() {
        let message = [
            0x0706_0504_0302_0100,
            0x0f0e_0d0c_0b0a_0908,
            0x1716_1514_1312_1110,
        ];
        assert_eq!(words(&KEY, &[]), 0xabac_0158_050f_c4dc);
        assert_eq!(words(&KEY, &message[..1]), 0x3690_9511_8d29_9a8e);
        assert_eq!(words(&KEY, &message[..2]), 0xcc4f_dd1a_7d90_8b66);
        assert_eq!(words(&KEY, &message), 0xf464_aeb2_6734_9c8c);
        assert_eq!(narrow(&KEY, 0x0302_0100), 0xcf75_5760_88d3_8328);
    }

    /// Tests that `bytes`, which appends the byte `last`, returns the same hash as `narrow` for the same 4 bytes, and
    /// as `words` for the same 8 and 16 bytes.
    #[test]
    fn bytes_are_hashed_as_words() {
        let up_to = |last: u8| bytes(&KEY, &Vec::from_iter(0..last), last);
        assert_eq!(up_to(3), narrow(&KEY, 0x0302_0100));
        assert_eq!(up_to(7), 0x3690_9511_8d29_9a8e);
        assert_eq!(up_to(15), 0xcc4f_dd1a_7d90_8b66);
    }

    #[test]
    fn draws_another_key_each_time() {
        assert_ne!(draw(), draw());
    }
}
