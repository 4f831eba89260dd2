// SPDX-License-Identifier: GPL-2.0-or-later
//! From samples to intervals.
//!
//! Medians, because a disturbed round must not move the result. Intervals by the percentile
//! bootstrap (Efron 1979), because nothing is known of the distribution. Ratios of the two values
//! of one round, because what slows the machine down slows both.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// How often the rounds are drawn anew.
pub const RESAMPLES: usize = 10_000;
/// The same samples give the same interval, whenever a report is written.
const SEED: u64 = 9999;

/// An estimate and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
    /// It describes the run and not the subject.
    Neither,
}

/// Which way a metric is better, by its name in the CSV files.
pub fn better(metric: &str) -> Better {
    match metric {
        "throughput" | "rate" | "connections" | "delivered" | "delivered_rate" => Better::Higher,
        "p50"
        | "p99"
        | "p999"
        | "lost"
        | "lost_percent"
        | "cpu_per_packet"
        | "rss"
        | "queue_drops"
        | "syscalls_per_packet" => Better::Lower,
        _ => Better::Neither,
    }
}

/// The middle value, or the mean of the two middle ones. NaN without values.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// The value below which `percent` (0 to 100) of the values lie, interpolated between neighbours
/// (type 7 of Hyndman and Fan 1996). NaN without values.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile_of_sorted(&sorted, percent)
}

fn percentile_of_sorted(sorted: &[f64], percent: f64) -> f64 {
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = percent / 100.0 * (sorted.len() - 1) as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + part * (sorted[above] - sorted[below])
}

/// The median with the 95 % interval of the bootstrap. NaN without values.
pub fn median_interval(values: &[f64]) -> Interval {
    if values.is_empty() {
        return Interval {
            estimate: f64::NAN,
            low: f64::NAN,
            high: f64::NAN,
        };
    }
    let mut random = StdRng::seed_from_u64(SEED);
    let mut drawn = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            drawn.fill_with(|| values[random.random_range(0..values.len())]);
            drawn.sort_by(f64::total_cmp);
            percentile_of_sorted(&drawn, 50.0)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    Interval {
        estimate: median(values),
        low: percentile_of_sorted(&medians, 2.5),
        high: percentile_of_sorted(&medians, 97.5),
    }
}

/// The median of the ratios a / b, one for each round that has both. None without such a round, and
/// when a b is zero.
pub fn ratio_interval(pairs: &[(f64, f64)]) -> Option<Interval> {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    let meaningful = !ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_finite());
    meaningful.then(|| median_interval(&ratios))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum of twelve uniform values: near enough to normal, mean 0, deviation 1.
    fn normal(random: &mut StdRng) -> f64 {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn percentiles_of_known_values() {
        let values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&values), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert_eq!(percentile(&values, 0.0), 1.0);
        assert_eq!(percentile(&values, 100.0), 4.0);
        let hundred: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, 99.0), 99.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_interval_has_the_width_that_theory_gives() {
        // The median of n normal values has the standard error 1.2533 / sqrt(n).
        let mut random = StdRng::seed_from_u64(1);
        let values: Vec<f64> = (0..100).map(|_| normal(&mut random)).collect();
        let interval = median_interval(&values);
        let expected = 1.96 * 1.2533 / 10.0;
        let sides = [
            interval.estimate - interval.low,
            interval.high - interval.estimate,
        ];
        for side in sides {
            assert!(
                (0.6 * expected..1.6 * expected).contains(&side),
                "{sides:?} {expected}"
            );
        }
        assert_eq!(
            median_interval(&values),
            interval,
            "the same samples, another interval"
        );
    }

    #[test]
    fn about_95_of_100_intervals_hold_the_true_median() {
        let mut random = StdRng::seed_from_u64(2);
        let held = (0..100)
            .filter(|_| {
                let values: Vec<f64> = (0..15).map(|_| 10.0 + normal(&mut random)).collect();
                let interval = median_interval(&values);
                interval.low <= 10.0 && 10.0 <= interval.high
            })
            .count();
        assert!((88..=100).contains(&held), "{held}");
    }

    #[test]
    fn equal_samples_leave_no_doubt() {
        let same = median_interval(&[2.0; 5]);
        assert_eq!(
            same,
            Interval {
                estimate: 2.0,
                low: 2.0,
                high: 2.0
            }
        );
    }

    #[test]
    fn ratios_are_those_of_paired_rounds() {
        // Both swing by a factor of ten together; the ratio is steady.
        let ratio = ratio_interval(&[(1.1, 1.0), (11.0, 10.0), (5.5, 5.0)]).unwrap();
        assert!(
            (ratio.low - 1.1).abs() < 1e-9 && (ratio.high - 1.1).abs() < 1e-9,
            "{ratio:?}"
        );
        assert_eq!(ratio_interval(&[]), None);
        assert_eq!(ratio_interval(&[(1.0, 1.0), (1.0, 0.0)]), None);
        assert_eq!(ratio_interval(&[(0.0, 0.0)]), None);
    }
}
