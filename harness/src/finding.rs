// SPDX-License-Identifier: GPL-2.0-or-later
//! Turns intervals into words: whether two subjects differ, by how much, or that this run could not show it.

use std::fmt::Write;

use crate::statistics::{better, Better, Interval};

/// Minimum number of rounds of a finding: with fewer, the intervals cover less than 95 %.
pub const LEAST_ROUNDS: usize = 6;
/// Largest undetected difference (0.1 is 10 %) that is still reported as "no difference"; above it, the finding is
/// inconclusive.
const INCONCLUSIVE_FROM: f64 = 0.1;
/// Ratio from which "by a factor of" is easier to read than percent.
const FACTOR_FROM: f64 = 2.0;

/// Comparison of two subjects in one metric.
pub struct Comparison<'a> {
    pub a: &'a str,
    pub b: &'a str,
    pub metric: &'a str,
    /// Number of rounds with a value of both subjects.
    pub rounds: usize,
    /// Ratio a / b of the two subjects, with its interval; None without rounds, or if a value of b is zero.
    pub ratio: Option<Interval>,
    /// Ratio of two copies of one subject (the A/A pair) in the same rounds; None without copies that have LEAST_ROUNDS
    /// rounds in common.
    pub noise: Option<Interval>,
}

impl Comparison<'_> {
    /// Returns the noise floor (see [`noise_floor`]); None without two copies of one subject.
    pub fn noise_floor(&self) -> Option<f64> {
        self.noise.map(noise_floor)
    }

    /// Returns true if a difference was shown: the rounds are at least LEAST_ROUNDS, the interval excludes 1, and the
    /// distance of the estimate from 1 exceeds the noise floor. Without a noise floor, the last condition does not
    /// apply.
    pub fn shows_difference(&self) -> bool {
        let beyond_noise = |ratio: Interval| {
            self.noise_floor()
                .is_none_or(|floor| distance(ratio.estimate) > floor)
        };
        self.rounds >= LEAST_ROUNDS
            && self
                .ratio
                .is_some_and(|ratio| (ratio.low > 1.0 || ratio.high < 1.0) && beyond_noise(ratio))
    }

    /// Returns the result of the comparison in words.
    pub fn finding(&self) -> String {
        if self.rounds < LEAST_ROUNDS {
            return format!(
                "no finding on {} of at least {LEAST_ROUNDS} rounds: run more with --rounds",
                self.rounds
            );
        }
        let Some(ratio) = self.ratio else {
            return format!("no finding: {} has a value of zero", self.b);
        };
        let mut words = if self.shows_difference() {
            self.difference(ratio)
        } else {
            let within = format!(
                "{:+.1} to {:+.1} %",
                percent(ratio.low),
                percent(ratio.high)
            );
            // An undetected difference can be as large as the interval's distance from 1.
            let unknown = noise_floor(ratio).max(self.noise_floor().unwrap_or(0.0));
            let word = match unknown > INCONCLUSIVE_FROM {
                true => "inconclusive",
                false => "no difference",
            };
            match self.noise_floor() {
                Some(floor) => {
                    let floor = 100.0 * floor;
                    format!("{word} (within {within}; noise floor ±{floor:.1} %)")
                }
                None => format!("{word} (within {within})"),
            }
        };
        if self.noise.is_none() {
            words.push_str("; there is no A/A pair to tell the noise");
        }
        words
    }

    fn difference(&self, ratio: Interval) -> String {
        let above = ratio.estimate > 1.0;
        let (word, tail) = match (better(self.metric), above) {
            (Better::Higher, true) => ("faster", ""),
            (Better::Higher, false) => ("slower", ""),
            (Better::Lower, true) => ("higher", ", which is worse"),
            (Better::Lower, false) => ("lower", ", which is better"),
            (Better::Neither, true) => ("higher", ""),
            (Better::Neither, false) => ("lower", ""),
        };
        let mut words = format!("{} is ", self.a);
        let factor = |x: f64| if above { x } else { 1.0 / x };
        let (near, far) = if above {
            (ratio.low, ratio.high)
        } else {
            (ratio.high, ratio.low)
        };
        let written = if factor(ratio.estimate) >= FACTOR_FROM {
            let (middle, near, far) = (factor(ratio.estimate), factor(near), factor(far));
            write!(
                words,
                "{word} by a factor of {middle:.1} ({near:.1} to {far:.1}){tail}"
            )
        } else {
            let size = |x: f64| percent(x).abs();
            let (middle, near, far) = (size(ratio.estimate), size(near), size(far));
            write!(words, "{middle:.1} % {word} ({near:.1} to {far:.1}){tail}")
        };
        written.expect("writing to a string");
        words
    }
}

/// Returns the largest difference between two copies of one program: 0.05 if one copy may be 5 % above the other.
/// `noise` is the interval of their ratio.
pub fn noise_floor(noise: Interval) -> f64 {
    distance(noise.low).max(distance(noise.high))
}

/// Returns the part by which the larger of two values exceeds the smaller: 1.0 for the ratios 2 and 1/2.
fn distance(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

/// Converts a ratio to its difference from 1 in percent.
fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::statistics::ratio_interval;

    /// Returns the sum of twelve uniform values: approximately normal, mean 0, deviation 1.
    fn normal(random: &mut StdRng) -> f64 {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    }

    fn compare<'a>(metric: &'a str, ratio: (f64, f64, f64), noise: (f64, f64)) -> Comparison<'a> {
        Comparison {
            a: "A",
            b: "B",
            metric,
            rounds: 9,
            ratio: Some(Interval {
                estimate: ratio.0,
                low: ratio.1,
                high: ratio.2,
            }),
            noise: Some(Interval {
                estimate: 1.0,
                low: noise.0,
                high: noise.1,
            }),
        }
    }

    #[test]
    fn a_difference_in_words() {
        let noise = (0.995, 1.005);
        let words = |metric, ratio| compare(metric, ratio, noise).finding();
        assert_eq!(
            words("throughput", (1.031, 1.02, 1.042)),
            "A is 3.1 % faster (2.0 to 4.2)"
        );
        assert_eq!(
            words("throughput", (0.969, 0.958, 0.98)),
            "A is 3.1 % slower (2.0 to 4.2)"
        );
        assert_eq!(
            words("p99", (0.969, 0.958, 0.98)),
            "A is 3.1 % lower (2.0 to 4.2), which is better"
        );
        assert_eq!(
            words("cpu_per_packet", (3.0, 2.0, 4.0)),
            "A is higher by a factor of 3.0 (2.0 to 4.0), which is worse"
        );
        assert_eq!(
            words("throughput", (0.25, 0.2, 0.5)),
            "A is slower by a factor of 4.0 (2.0 to 5.0)"
        );
    }

    #[test]
    fn no_difference_in_words() {
        assert_eq!(
            compare("throughput", (0.998, 0.988, 1.008), (0.985, 1.01)).finding(),
            "no difference (within -1.2 to +0.8 %; noise floor ±1.5 %)"
        );
        // The interval excludes 1, but two copies of one program were as far apart.
        let within_noise = compare("throughput", (1.03, 1.02, 1.04), (0.99, 1.05));
        assert!(!within_noise.shows_difference());
        assert!(within_noise.finding().contains("noise floor ±5.0 %"));
        // The two copies differ so much that a real difference could be hidden.
        let noisy = compare("throughput", (0.998, 0.9, 1.1), (0.88, 1.02)).finding();
        assert!(noisy.starts_with("inconclusive (within"), "{noisy}");
        // Copies were alike, but this pair may differ by half.
        let wide = compare("p50", (1.0, 0.96, 1.5), (0.99, 1.01)).finding();
        assert!(wide.starts_with("inconclusive (within -4.0"), "{wide}");
        // Far from 1, but so uncertain that 1 is in the interval.
        assert!(!compare("throughput", (1.05, 0.99, 1.08), (0.99, 1.01)).shows_difference());
    }

    #[test]
    fn noise_hides_as_much_below_as_above() {
        let shows = |ratio: f64| {
            compare("rate", (ratio, 0.99 * ratio, 1.01 * ratio), (0.9, 2.5)).shows_difference()
        };
        assert_eq!([2.4, 2.6].map(shows), [false, true]);
        assert_eq!([1.0 / 2.4, 1.0 / 2.6].map(shows), [false, true]);
    }

    #[test]
    fn the_noise_is_asked_for() {
        let lone = Comparison {
            noise: None,
            ..compare("rate", (1.5, 1.4, 1.6), (1.0, 1.0))
        };
        assert_eq!(
            lone.finding(),
            "A is 50.0 % faster (40.0 to 60.0); there is no A/A pair to tell the noise"
        );
    }

    #[test]
    fn few_rounds_give_no_verdict() {
        let few = Comparison {
            rounds: 2,
            ..compare("rate", (1.5, 1.4, 1.6), (1.0, 1.0))
        };
        assert!(!few.shows_difference());
        assert!(few
            .finding()
            .starts_with("no finding on 2 of at least 6 rounds"));
        let zero = Comparison {
            ratio: None,
            ..compare("rate", (1.0, 1.0, 1.0), (1.0, 1.0))
        };
        assert_eq!(zero.finding(), "no finding: B has a value of zero");
    }

    #[test]
    fn the_same_distribution_rarely_shows_a_difference() {
        let mut random = StdRng::seed_from_u64(3);
        let mut draw = || 100.0 + 3.0 * normal(&mut random);
        let wrong = (0..100)
            .filter(|_| {
                let mut ratio = || {
                    let rounds: Vec<(f64, f64)> = (0..9).map(|_| (draw(), draw())).collect();
                    ratio_interval(&rounds)
                };
                let (ratio, noise) = (ratio(), ratio());
                Comparison {
                    a: "A",
                    b: "B",
                    metric: "rate",
                    rounds: 9,
                    ratio,
                    noise,
                }
                .shows_difference()
            })
            .count();
        assert!(wrong <= 8, "{wrong} of 100");
    }
}
