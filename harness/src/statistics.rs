// SPDX-License-Identifier: GPL-2.0-or-later
//! Computes intervals from samples.
//! Results are medians, because a disturbed round must not move the result. Subjects are compared by the ratio of their
//! values in one round, because a slowdown of the machine affects both values; the logarithms are used, so that a / b
//! and b / a are equivalent.
//!
//! Intervals are order statistics: for independent values of any distribution, the binomial distribution gives the
//! probability that the value of a given rank is below the true median. With few rounds the coverage is limited. With
//! many rounds, successive rounds share disturbances and count as fewer; the frequency with which neighbours lie on the
//! same side of the median shows by how much. (A bootstrap of blocks of rounds, tried instead, covered the median of 60
//! values in 87 % of cases and not in 95 %.)

/// Number of rounds from which successive rounds are tested for correlation.
const MANY: usize = 60;
/// Share of cases in which an interval should cover the true median.
const WANTED_COVERAGE: f64 = 0.95;
/// Distance from the mean, in standard deviations, within which WANTED_COVERAGE of a normal distribution lies.
const DEVIATIONS: f64 = 1.96;

/// An estimate and its interval; [`coverage`] returns the interval's real coverage for a number of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// Direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
    /// Neither direction is better: the metric describes the run, not the measured program.
    Neither,
}

/// Returns the direction in which a metric is better, by its name in the CSV files.
pub fn better(metric: &str) -> Better {
    match metric {
        "throughput" | "rate" | "connections" | "queries" | "delivered" | "delivered_rate" => {
            Better::Higher
        }
        "p50"
        | "p99"
        | "p999"
        | "lost"
        | "lost_percent"
        | "cpu_per_packet"
        | "cpu_share"
        | "queued"
        | "cost"
        | "touch"
        | "mean"
        | "syscalls_per_exchange"
        | "rss"
        | "queue_drops"
        | "syscalls_per_packet" => Better::Lower,
        _ => Better::Neither,
    }
}

/// Returns the middle value, or the mean of the two middle values. NaN without values.
pub fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// Returns the value below which `percent` (0 to 100) of the values lie, interpolated between neighbours (type 7 of
/// Hyndman and Fan 1996). NaN without values.
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

/// Returns the median with its interval. NaN without values.
pub fn median_interval(values: &[f64]) -> Interval {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let estimate = percentile_of_sorted(&sorted, 50.0);
    let (low, high) = match values.len() {
        0 => (f64::NAN, f64::NAN),
        count => {
            let outer = match count < MANY {
                true => ends(count),
                false => ends_of_many(values, estimate),
            };
            (sorted[outer], sorted[count - 1 - outer])
        }
    };
    Interval {
        estimate,
        low,
        high,
    }
}

/// Returns the median of the ratios a / b with its interval. None without pairs, or if a ratio is not finite, for
/// example because b is zero.
/// - pairs: (a, b) of each round that has both values.
pub fn ratio_interval(pairs: &[(f64, f64)]) -> Option<Interval> {
    let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
    let meaningful = !ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_finite());
    if !meaningful {
        return None;
    }
    if ratios.iter().any(|ratio| *ratio <= 0.0) {
        return Some(median_interval(&ratios));
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let interval = median_interval(&logs);
    Some(Interval {
        estimate: interval.estimate.exp(),
        low: interval.low.exp(),
        high: interval.high.exp(),
    })
}

/// Returns the probability that the interval of `count` independent values contains the true median: 0.75 for three
/// values, below 0.95 for fewer than six.
pub fn coverage(count: usize) -> f64 {
    match count {
        0 => 0.0,
        few if few < MANY => coverage_without(few, ends(few)),
        _ => WANTED_COVERAGE,
    }
}

/// Returns the coverage in words, e.g. `75 % interval of 3 rounds` or `95 % interval of 120 rounds`.
pub fn interval_in_words(count: usize) -> String {
    match count {
        0 | 1 => "no interval of one round".into(),
        _ => format!("{} interval of {count} rounds", coverage_in_words(count)),
    }
}

/// Returns the coverage of an interval in percent, e.g. `93.8 %`.
pub fn coverage_in_words(count: usize) -> String {
    let percent = format!("{:.1}", 100.0 * coverage(count));
    format!("{} %", percent.strip_suffix(".0").unwrap_or(&percent))
}

/// Returns the number of values that are left out at each end: the most that preserve the wanted coverage, or none if
/// even all values don't reach it.
fn ends(count: usize) -> usize {
    let most = (count - 1) / 2;
    let covers = |outer: &usize| coverage_without(count, *outer) >= WANTED_COVERAGE;
    (0..=most).rev().find(covers).unwrap_or(0)
}

/// Returns the probability that the interval of `count` sorted values without the first and last `outer` values
/// contains the true median: 1 - 2 P(B <= outer), where B is binomial with `count` trials and probability 1/2.
fn coverage_without(count: usize, outer: usize) -> f64 {
    let mut term = 0.5f64.powi(count as i32);
    let mut below = 0.0;
    for k in 0..=outer {
        below += term;
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    1.0 - 2.0 * below
}

/// Returns the number of values that are left out at each end, for MANY or more values, which may be correlated.
fn ends_of_many(values: &[f64], median: f64) -> usize {
    let count = values.len() as f64;
    let deviation = (count * likeness(values, median)).sqrt() / 2.0;
    let outer = count / 2.0 - DEVIATIONS * deviation;
    (outer.floor() as usize).saturating_sub(1)
}

/// Returns the factor by which correlation of successive values increases the variance of a median: 1 for independent
/// values. Computed from the autocorrelation of the sides of the median on which they lie, weighted by Bartlett's
/// triangle.
fn likeness(values: &[f64], median: f64) -> f64 {
    let sides: Vec<f64> = values
        .iter()
        .map(|value| if *value < median { -1.0 } else { 1.0 })
        .collect();
    let farthest = (1.5 * (sides.len() as f64).cbrt()).round() as usize;
    let weighted = |lag: usize| {
        let products = sides.iter().zip(&sides[lag..]).map(|(a, b)| a * b);
        let correlation = products.sum::<f64>() / sides.len() as f64;
        correlation * (1.0 - lag as f64 / (farthest + 1) as f64)
    };
    (1.0 + 2.0 * (1..=farthest).map(weighted).sum::<f64>()).max(1.0)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    /// Returns the sum of twelve uniform values: approximately normal, mean 0, deviation 1.
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
        let width = (interval.high - interval.low) / 2.0;
        assert!(
            (0.6 * expected..1.6 * expected).contains(&width),
            "{width} {expected}"
        );
        assert_eq!(
            median_interval(&values),
            interval,
            "the same samples, another interval"
        );
    }

    /// Number of samples in a simulation.
    const CASES: u32 = 1_000;

    /// Returns the coverage of an interval in a simulation: the share of CASES samples whose interval contains the true
    /// median, which is 1.
    /// - count: number of values in a sample.
    /// - memory: correlation between the logarithms of consecutive values; 0 = the values are independent.
    fn held(count: usize, memory: f64, interval: fn(&[f64]) -> Interval) -> f64 {
        let mut random = StdRng::seed_from_u64(count as u64);
        let held = (0..CASES).filter(|_| {
            let mut state = normal(&mut random);
            let values: Vec<f64> = (0..count)
                .map(|_| {
                    state = memory * state + (1.0 - memory * memory).sqrt() * normal(&mut random);
                    // Skewed, with a median of 1.
                    (0.3 * state).exp()
                })
                .collect();
            let interval = interval(&values);
            interval.low <= 1.0 && 1.0 <= interval.high
        });
        held.count() as f64 / f64::from(CASES)
    }

    fn of_ratios(values: &[f64]) -> Interval {
        let pairs: Vec<(f64, f64)> = values.iter().map(|value| (3.0 * value, 3.0)).collect();
        ratio_interval(&pairs).unwrap()
    }

    #[test]
    fn every_interval_covers_what_is_said_of_it() {
        for count in [2, 3, 4, 5, 6, 7, 9, 12, 20, 40, 59, 60, 120] {
            for interval in [median_interval as fn(&[f64]) -> Interval, of_ratios] {
                let (said, held) = (coverage(count), held(count, 0.0, interval));
                // 3.5 standard deviations of the simulation. For many values the coverage may be a little higher.
                let room = 3.5 * (said * (1.0 - said) / f64::from(CASES)).sqrt();
                let above = if count < MANY { room } else { 0.04 };
                assert!(
                    said - room < held && held < said + above,
                    "{count}: {held}, said {said}"
                );
            }
        }
    }

    #[test]
    fn disturbances_that_last_for_rounds_cost_little_coverage() {
        // Treated as independent, the rounds would give less than 0.8.
        let held = held(120, 0.5, median_interval);
        assert!(held > 0.88, "{held}");
    }

    #[test]
    fn few_rounds_are_not_called_95_percent() {
        assert_eq!([1, 3, 5].map(coverage), [0.0, 0.75, 0.9375]);
        assert!((6..200).all(|count| coverage(count) >= 0.95));
        assert_eq!(interval_in_words(3), "75 % interval of 3 rounds");
        assert_eq!(interval_in_words(9), "96.1 % interval of 9 rounds");
        assert_eq!(interval_in_words(120), "95 % interval of 120 rounds");
        let nine = median_interval(&[9.0, 2.0, 3.0, 1.0, 5.0, 6.0, 8.0, 7.0, 4.0]);
        assert_eq!((nine.low, nine.estimate, nine.high), (2.0, 5.0, 8.0));
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
        // The two values vary together by a factor of ten; their ratio is steady.
        let ratio = ratio_interval(&[(1.1, 1.0), (11.0, 10.0), (5.5, 5.0)]).unwrap();
        assert!(
            (ratio.low - 1.1).abs() < 1e-9 && (ratio.high - 1.1).abs() < 1e-9,
            "{ratio:?}"
        );
        assert_eq!(ratio_interval(&[]), None);
        assert_eq!(ratio_interval(&[(1.0, 1.0), (1.0, 0.0)]), None);
        assert_eq!(ratio_interval(&[(0.0, 0.0)]), None);
        // Equally far above and below: the median of the logarithms is in the middle.
        let middle = ratio_interval(&[(2.0, 1.0), (1.0, 2.0)]).unwrap().estimate;
        assert!((middle - 1.0).abs() < 1e-9);
        assert_eq!(ratio_interval(&[(0.0, 1.0); 3]).unwrap().estimate, 0.0);
    }
}
