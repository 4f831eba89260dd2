// SPDX-License-Identifier: GPL-2.0-or-later
//! Random numbers that depend on the seed only: splitmix64, by Vigna.

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns a separate stream of random numbers for a numbered part of a run.
    pub fn split(seed: u64, part: u64) -> Random {
        let mut random = Random(seed ^ part.wrapping_mul(0xd134_2543_de82_ef95));
        random.word();
        random
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn next_u128(&mut self) -> u128 {
        u128::from(self.word()) << 64 | u128::from(self.word())
    }

    /// Returns a number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u128, high: u128) -> u128 {
        match (high - low).checked_add(1) {
            Some(count) => low + self.next_u128() % count,
            None => self.next_u128(),
        }
    }

    /// Returns true in `chance` percent of calls.
    pub fn percent(&mut self, chance: u32) -> bool {
        self.word() % 100 < u64::from(chance)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Returns the index of a weight, with a probability proportional to the weight.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().sum::<u32>() as usize) as u32;
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("a number below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_others_do_not() {
        let first = |mut random: Random| [random.word(), random.word()];
        assert_eq!(first(Random::new(7)), first(Random::new(7)));
        assert_ne!(first(Random::new(7)), first(Random::new(8)));
        assert_ne!(first(Random::split(7, 0)), first(Random::split(7, 1)));
    }

    #[test]
    fn numbers_stay_between_their_ends() {
        let mut random = Random::new(1);
        let mut seen = [false; 3];
        for _ in 0..200 {
            seen[(random.between(5, 7) - 5) as usize] = true;
            random.between(0, u128::MAX);
        }
        assert_eq!(seen, [true; 3]);
        assert!((0..200).all(|_| random.weighted(&[0, 1, 0]) == 1));
    }
}
