// SPDX-License-Identifier: GPL-2.0-or-later
//! Axes: conversion of values to pixels, and positions of the numbers.

use super::font;
use super::palette::{AXIS, GRID};
use super::scene::{Anchor, Scene, Text};

pub const TICK_SIZE: f64 = 13.0;
pub const LABEL_SIZE: f64 = 13.5;
/// Approximate pixels between two tick labels of a linear axis.
const STEP_PIXELS: f64 = 50.0;
/// Minimum and maximum number of steps of a linear axis.
const STEPS: (f64, f64) = (2.0, 7.0);
/// Largest number of decades of a logarithmic axis with all its tick labels (1, 2 and 5 times powers of ten). A longer
/// axis has tick labels only at powers of ten, unless a decade has at least WIDE_DECADE pixels.
const FEW_DECADES: f64 = 2.2;
/// Pixels per decade from which a logarithmic axis has all its tick labels, whatever its number of decades.
const WIDE_DECADE: f64 = 55.0;
/// Ratio of the largest to the smallest value from which an axis is logarithmic.
const WIDE: f64 = 30.0;
/// Percentiles with a tick label.
const PERCENTILES: [f64; 6] = [0.0, 50.0, 90.0, 99.0, 99.9, 99.99];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
    /// Scaled by log10(100 / (100 - percentile)): each further nine has the same width.
    Percentile,
}

/// Axis of a chart. Its ticks, and the values passed to its functions, have the unit of the tick labels. `low` and
/// `high` are stored transformed, for example as logarithms.
#[derive(Clone, Debug)]
pub struct Axis {
    kind: Kind,
    /// Values at the two ends, transformed by the kind of axis (logarithmic: their log10).
    low: f64,
    high: f64,
    /// Pixels of the lowest value (`from`) and of the highest value (`to`).
    from: f64,
    to: f64,
    ticks: Vec<Tick>,
}

/// Tick of an axis: a value with a grid line, and a tick label unless `label` is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

impl Axis {
    /// Returns an axis from 0 to at least `largest`, in round steps. `from` and `to` are the pixels of its lowest and
    /// highest value.
    pub fn from_zero(largest: f64, (from, to): (f64, f64)) -> Axis {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        let steps = ((to - from).abs() / STEP_PIXELS).clamp(STEPS.0, STEPS.1);
        let step = round_step(largest / steps);
        let steps = (largest / step - 1e-9).ceil();
        let places = decimal_places(step);
        let tick = |index: u32| {
            let value = step * f64::from(index);
            Tick {
                value,
                label: format!("{value:.places$}"),
            }
        };
        Axis {
            kind: Kind::Linear,
            low: 0.0,
            high: step * steps,
            from,
            to,
            ticks: (0..=steps as u32).map(tick).collect(),
        }
    }

    /// Returns a logarithmic axis that contains both values, which are above 0. `from` and `to` are the pixels of its
    /// lower and upper end.
    pub fn log(smallest: f64, largest: f64, (from, to): (f64, f64)) -> Axis {
        let decades = smallest.log10().floor() as i32..=largest.log10().ceil() as i32;
        let digits = |decade: i32| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade));
        let all: Vec<f64> = decades.flat_map(digits).collect();
        let below = |value: &&f64| **value <= smallest * 1.0001;
        let low = all.iter().rev().find(below).copied().unwrap_or(smallest);
        let above = |value: &&f64| **value >= largest * 0.9999 && **value > low;
        let high = all.iter().find(above).copied().unwrap_or(largest);
        let count = (high / low).log10();
        let few = count <= FEW_DECADES || (to - from).abs() / count >= WIDE_DECADE;
        let is_power = |value: f64| (value.log10() - value.log10().round()).abs() < 1e-6;
        let label = |value: f64| match few || is_power(value) {
            true => plain(value),
            false => String::new(),
        };
        let shown = all.into_iter().filter(|value| (low..=high).contains(value));
        Axis {
            kind: Kind::Log,
            low: low.log10(),
            high: high.log10(),
            from,
            to,
            ticks: shown
                .map(|value| Tick {
                    value,
                    label: label(value),
                })
                .collect(),
        }
    }

    /// Returns an axis from zero, or a logarithmic axis if the values differ too much for a linear one.
    /// - range: pixels of the axis's lowest and highest value.
    pub fn for_values(values: &[f64], range: (f64, f64)) -> Axis {
        Axis::for_medians(values, values, range)
    }

    /// Returns an axis for scattered values. It is logarithmic if the largest value is more than WIDE times the
    /// smallest median and all values are above 0; otherwise it starts at zero.
    /// - range: pixels of the axis's lowest and highest value.
    pub fn for_medians(medians: &[f64], values: &[f64], range: (f64, f64)) -> Axis {
        let smallest = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let largest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        let wide = largest(values) / smallest(medians) > WIDE;
        match smallest(values) > 0.0 && wide {
            true => Axis::log(smallest(values), largest(values), range),
            false => Axis::from_zero(largest(values), range),
        }
    }

    /// Returns an axis from 0 to exactly `largest`: for time, without room after the end.
    /// - range: pixels of the axis's lowest and highest value.
    pub fn until(largest: f64, range: (f64, f64)) -> Axis {
        let mut axis = Axis::from_zero(largest, range);
        if largest > 0.0 {
            axis.high = largest;
            axis.ticks.retain(|tick| tick.value <= largest * 1.0001);
        }
        axis
    }

    /// Returns the pixel of the axis's lowest value.
    pub fn start(&self) -> f64 {
        self.from
    }

    /// Returns a logarithmic axis with tick labels at exactly these values, which ascend. `from` and `to` are the
    /// pixels of its lower and upper end.
    pub fn at_values(values: &[f64], (from, to): (f64, f64)) -> Axis {
        let (first, last) = (values[0].log2(), values[values.len() - 1].log2());
        // Room on both sides, so that markers don't touch the frame.
        let room = ((last - first) * 0.05).max(0.2);
        let scale = std::f64::consts::LOG10_2;
        Axis {
            kind: Kind::Log,
            low: (first - room) * scale,
            high: (last + room) * scale,
            from,
            to,
            ticks: values
                .iter()
                .map(|v| Tick {
                    value: *v,
                    label: plain(*v),
                })
                .collect(),
        }
    }

    /// Returns an axis from percentile 0 to `highest` (below 100), at least to 50. `from` and `to` are the pixels of
    /// its lowest and highest value.
    pub fn percentiles(highest: f64, (from, to): (f64, f64)) -> Axis {
        let highest = highest.max(50.0);
        let shown = PERCENTILES
            .into_iter()
            .filter(|percentile| *percentile <= highest + 1e-9);
        Axis {
            kind: Kind::Percentile,
            low: 0.0,
            high: nines(highest),
            from,
            to,
            ticks: shown
                .map(|value| Tick {
                    value,
                    label: plain(value),
                })
                .collect(),
        }
    }

    /// Returns the pixel of a value.
    pub fn at(&self, value: f64) -> f64 {
        let transformed = match self.kind {
            Kind::Linear => value,
            // Values below the axis, such as zero, are at its lower edge.
            Kind::Log => value.log10().max(self.low),
            Kind::Percentile => nines(value),
        };
        self.from + (transformed - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// Removes tick labels that would be closer than `room` pixels to the next tick label. The label of the largest
    /// value stays.
    pub fn thin_out(&mut self, room: f64) {
        let (from, to) = (self.from.min(self.to), self.from.max(self.to));
        let mut free_up_to = to + (to - from);
        for index in (0..self.ticks.len()).rev() {
            let tick = &self.ticks[index];
            if tick.label.is_empty() {
                continue;
            }
            let half = font::width(&tick.label, TICK_SIZE, false) / 2.0;
            let at = self.at(tick.value);
            match at + half <= free_up_to {
                true => free_up_to = at - half - room,
                false => self.ticks[index].label.clear(),
            }
        }
    }

    /// Draws a horizontal axis without tick labels: its line at `bottom`, and its vertical grid lines up to `top`.
    pub fn draw_upright(&self, scene: &mut Scene, (top, bottom): (f64, f64)) {
        for tick in &self.ticks {
            let x = self.at(tick.value);
            scene.line((x, top), (x, bottom), 1.0, GRID);
        }
        scene.line((self.from, bottom), (self.to, bottom), 1.2, AXIS);
    }

    /// Draws the horizontal axis at `bottom`, with tick labels and `label` below it, and grid lines up to `top`.
    pub fn draw_below(&self, scene: &mut Scene, (top, bottom): (f64, f64), label: &str) {
        self.draw_upright(scene, (top, bottom));
        for tick in &self.ticks {
            let at = (self.at(tick.value), bottom + 15.0);
            let text = Text::new(&tick.label, at, TICK_SIZE);
            scene.text(text.anchor(Anchor::Middle).colour(AXIS));
        }
        let middle = ((self.from + self.to) / 2.0, bottom + 37.0);
        scene.text(Text::new(label, middle, LABEL_SIZE).anchor(Anchor::Middle));
    }

    /// Draws only the grid lines of a vertical axis, from `left` to `right`.
    pub fn draw_grid(&self, scene: &mut Scene, (left, right): (f64, f64)) {
        for tick in &self.ticks {
            let y = self.at(tick.value);
            scene.line((left, y), (right, y), 1.0, GRID);
        }
    }

    /// Draws a vertical axis without its line: tick labels and `label` on the left side of `left`, and grid lines up to
    /// `right`.
    pub fn draw_left(&self, scene: &mut Scene, (left, right): (f64, f64), label: &str) {
        let mut widest: f64 = 0.0;
        self.draw_grid(scene, (left, right));
        for tick in &self.ticks {
            let y = self.at(tick.value);
            widest = widest.max(font::width(&tick.label, TICK_SIZE, false));
            let text = Text::new(&tick.label, (left - 7.0, y), TICK_SIZE);
            scene.text(text.anchor(Anchor::End).colour(AXIS));
        }
        let middle = (left - widest - 20.0, (self.from + self.to) / 2.0);
        scene.text(
            Text::new(label, middle, LABEL_SIZE)
                .anchor(Anchor::Middle)
                .upright(),
        );
    }
}

fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).log10()
}

/// Rounds up to 1, 2, 2.5 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digits = [1.0, 2.0, 2.5, 5.0, 10.0];
    let digit = digits
        .into_iter()
        .find(|digit| digit * power >= step * 0.999_999);
    digit.unwrap_or(10.0) * power
}

/// Returns the number of decimal places that multiples of a step need.
fn decimal_places(step: f64) -> usize {
    let whole = |places: &usize| {
        let scaled = step * 10f64.powi(*places as i32);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    };
    (0..9).find(whole).unwrap_or(9)
}

/// Formats a value with at most six decimal places, without trailing zeros.
fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn a_linear_axis_has_round_numbers() {
        let axis = Axis::from_zero(31.2, (400.0, 0.0));
        assert_eq!(
            labels(&axis),
            ["0", "5", "10", "15", "20", "25", "30", "35"]
        );
        assert_eq!(
            (axis.at(0.0), axis.at(35.0), axis.at(17.5)),
            (400.0, 0.0, 200.0)
        );
        let labels_of = |largest| {
            let axis = Axis::from_zero(largest, (0.0, 250.0));
            labels(&axis)
                .iter()
                .map(|label| label.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels_of(12.0),
            ["0.0", "2.5", "5.0", "7.5", "10.0", "12.5"]
        );
        assert_eq!(labels_of(0.9), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels_of(120.0), ["0", "25", "50", "75", "100", "125"]);
        assert_eq!(labels_of(390.0), ["0", "100", "200", "300", "400"]);
        assert_eq!(labels_of(0.0).last().unwrap(), "1.0");
    }

    #[test]
    fn a_short_axis_has_few_numbers() {
        assert_eq!(
            labels(&Axis::from_zero(52.0, (0.0, 90.0))),
            ["0", "50", "100"]
        );
    }

    #[test]
    fn a_log_axis_holds_both_values() {
        let axis = Axis::log(13.0, 61.0, (0.0, 100.0));
        assert_eq!(labels(&axis), ["10", "20", "50", "100"]);
        let axis = Axis::log(13.0, 4500.0, (0.0, 100.0));
        assert_eq!(labels(&axis), ["10", "", "", "100", "", "", "1000", "", ""]);
        assert_eq!((axis.at(10.0), axis.at(5000.0).round()), (0.0, 100.0));
        assert_eq!(labels(&Axis::log(10.0, 10.0, (0.0, 100.0))), ["10", "20"]);
    }

    #[test]
    fn scattered_values_leave_their_medians_apart() {
        let is_log = |medians: &[f64], values: &[f64]| {
            Axis::for_medians(medians, values, (0.0, 300.0)).kind == Kind::Log
        };
        assert!(!is_log(&[30.0, 50.0], &[28.0, 30.0, 50.0, 80.0]));
        // One slow request would make all medians coincide.
        assert!(is_log(&[30.0, 50.0], &[28.0, 30.0, 50.0, 2_900.0]));
        // A slow slice with a rate near zero has no effect.
        assert!(!is_log(&[150.0, 300.0], &[0.1, 150.0, 300.0, 400.0]));
        assert!(is_log(&[1.0, 300.0], &[1.0, 300.0]));
    }

    #[test]
    fn each_nine_is_as_wide_as_the_one_before() {
        let axis = Axis::percentiles(99.99, (0.0, 400.0));
        assert_eq!(labels(&axis), ["0", "50", "90", "99", "99.9", "99.99"]);
        for (nines, percentile) in [90.0, 99.0, 99.9, 99.99].into_iter().enumerate() {
            assert!((axis.at(percentile) - 100.0 * (nines + 1) as f64).abs() < 1e-6);
        }
    }

    #[test]
    fn crowded_numbers_are_thinned_out() {
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0];
        let mut axis = Axis::at_values(&sizes, (0.0, 120.0));
        axis.thin_out(6.0);
        assert_eq!(labels(&axis), ["1", "2", "4", "8", "16"]);
        let sizes = [64.0, 1400.0, 1472.0, 65507.0];
        let mut axis = Axis::at_values(&sizes, (0.0, 400.0));
        axis.thin_out(6.0);
        assert_eq!(labels(&axis), ["64", "", "1472", "65507"]);
        let mut wide = Axis::from_zero(1.0, (0.0, 600.0));
        wide.thin_out(6.0);
        assert_eq!(labels(&wide).len(), 6);
        assert!(labels(&wide).iter().all(|label| !label.is_empty()));
    }
}
