// SPDX-License-Identifier: GPL-2.0-or-later
//! A keyed permutation of the numbers below n that spreads neighbours, so that no host and no network sees a burst. A
//! Feistel network over the next even number of bits; results of n or more are permuted again (cycle walking), less
//! than four times on average.

const ROUNDS: usize = 4;

#[derive(Clone, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Creates the permutation of the numbers below `len` for a seed. It is equal on all machines, so that a scan can
    /// be resumed.
    pub fn new(len: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let key = |round: u64| mix(seed ^ mix(round + 1));
        Permutation {
            len,
            half_bits: bits.div_ceil(2).max(1),
            keys: [key(0), key(1), key(2), key(3)],
        }
    }

    /// Returns the number at a place (position in the permutation), which must be below the length.
    pub fn at(&self, place: u64) -> u64 {
        let mut value = place;
        loop {
            value = self.round_trip(value);
            if value < self.len {
                return value;
            }
        }
    }

    fn round_trip(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ mix(right ^ key) & mask);
        }
        left << self.half_bits | right
    }
}

/// Mixes the bits of a number as splitmix64 does: increment and finaliser (Steele, Lea, Flood 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_comes_once() {
        for len in [1, 2, 3, 4, 5, 255, 256, 257, 1000, 65536, 65537] {
            for seed in [0, 1, 99] {
                let order = Permutation::new(len, seed);
                let mut seen = vec![false; len as usize];
                for place in 0..len {
                    let number = order.at(place) as usize;
                    assert!(!seen[number], "{number} twice of {len}");
                    seen[number] = true;
                }
            }
        }
    }

    #[test]
    fn the_key_decides() {
        let order = |seed| (0..64).map(move |place| Permutation::new(1 << 20, seed).at(place));
        assert!(order(1).eq(order(1)));
        assert!(!order(1).eq(order(2)));
    }

    /// 100 successive targets never contain one of 1,000 hosts (of 100 ports each) more than a few times.
    #[test]
    fn no_host_sees_a_burst() {
        let order = Permutation::new(100_000, 7);
        let places: Vec<u64> = (0..100_000).collect();
        for window in places.chunks(100) {
            let mut met = [0u8; 1000];
            for &place in window {
                met[(order.at(place) % 1000) as usize] += 1;
            }
            assert!(met.iter().all(|&times| times <= 6));
        }
    }

    #[test]
    fn the_largest_number_of_targets_fits() {
        let len = (1u64 << 44) * 65535;
        let order = Permutation::new(len, 3);
        assert!(order.at(len - 1) < len && order.at(0) < len);
    }
}
