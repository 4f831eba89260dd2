// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the data of figures: only the files of one result folder.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::palette::{self, Look};
use crate::experiment::Reference;
use crate::metadata::Metadata;
use crate::statistics::{interval_in_words, median, percentile};
use crate::store::{CellName, PercentileRow, Sample, SeriesRow, Store, Summary, UNTIMED};
use crate::summary::summarize;

/// Number of rounds from which a band excludes the outer quarters, so that one disturbed round has no effect.
const ENOUGH_FOR_QUARTERS: usize = 5;
/// Step to which x values are rounded: rows with the same rounded value belong to the same point.
const SAME_X: f64 = 1e-6;

pub struct Data {
    pub metadata: Metadata,
    pub samples: Vec<Sample>,
    pub series: Vec<SeriesRow>,
    pub percentiles: Vec<PercentileRow>,
    pub summaries: Vec<Summary>,
}

/// Line of one subject; it combines all rounds.
pub struct Line {
    pub subject: String,
    pub points: Vec<LinePoint>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePoint {
    pub x: f64,
    pub median: f64,
    /// `low` and `high`: edges of the band ([`band_in_words`]), or of the median's interval in figures with intervals.
    pub low: f64,
    pub high: f64,
}

impl Data {
    pub fn read(folder: &Path) -> Result<Data> {
        let metadata = Metadata::read(folder)?;
        let store = Store::open(folder);
        let samples: Vec<Sample> = store.read()?;
        let mut summaries: Vec<Summary> = store.read()?;
        if summaries.is_empty() {
            summaries = summarize(&samples, &metadata.baseline);
        }
        Ok(Data {
            series: store.read()?,
            percentiles: store.read()?,
            samples: samples
                .into_iter()
                .filter(|sample| sample.round != UNTIMED)
                .collect(),
            summaries,
            metadata,
        })
    }

    pub fn look(&self, subject: &str) -> Look {
        palette::look(subject, &self.metadata.subjects)
    }

    /// Returns the measured loads, in the order of the samples.
    pub fn cells(&self) -> Vec<CellName> {
        let mut cells: Vec<CellName> = Vec::new();
        for sample in &self.samples {
            let cell = sample.cell();
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
        cells
    }

    pub fn summary(&self, cell: &CellName, subject: &str, metric: &str) -> Option<&Summary> {
        self.summaries.iter().find(|summary| {
            summary.subject == subject && summary.metric == metric && summary.cell() == *cell
        })
    }

    /// Returns the coverage of a load's intervals in words ([`interval_in_words`]), for the subject with the fewest
    /// rounds.
    pub fn intervals_in_words(&self, cell: &CellName, metric: &str) -> String {
        let of_it = |row: &&Summary| row.metric == metric && row.rounds > 0 && row.cell() == *cell;
        let rounds = self.summaries.iter().filter(of_it).map(|row| row.rounds);
        interval_in_words(rounds.min().unwrap_or(0))
    }

    /// Returns the subjects that have this metric, in the experiment's order.
    pub fn subjects_with(&self, cell: &CellName, metric: &str) -> Vec<&str> {
        let subjects = self
            .metadata
            .subjects
            .iter()
            .map(|subject| subject.as_str());
        subjects
            .filter(|subject| self.summary(cell, subject, metric).is_some())
            .collect()
    }

    /// Returns the value of each round.
    pub fn rounds(&self, cell: &CellName, subject: &str, metric: &str) -> Vec<f64> {
        let of_it = self.samples.iter().filter(|sample| {
            sample.subject == subject && sample.metric == metric && sample.cell() == *cell
        });
        of_it.map(|sample| sample.value).collect()
    }

    /// Returns the reference values (from other sources) that the experiment lists for a metric of a workload.
    pub fn references(&self, workload: &str, metric: &str) -> Vec<&Reference> {
        let references = self.metadata.references.iter();
        references
            .filter(|reference| {
                reference.workload.to_string() == workload && reference.metric == metric
            })
            .collect()
    }

    /// Returns each subject's line of the main metric over the seconds of a load, and the metric's unit.
    pub fn series_lines(&self, cell: &CellName) -> (Vec<Line>, String) {
        let rows = self.series.iter().filter(|row| row.cell() == *cell);
        let unit = rows
            .clone()
            .next()
            .map_or(String::new(), |row| row.unit.clone());
        let values: Vec<_> = rows
            .map(|row| (row.subject.as_str(), row.second, row.value))
            .collect();
        (self.lines(&values), unit)
    }

    /// Returns each subject's line of the latency over the percentile, and the latency's unit.
    pub fn percentile_lines(&self, cell: &CellName) -> (Vec<Line>, String) {
        let rows = self.percentiles.iter().filter(|row| row.cell() == *cell);
        let unit = rows
            .clone()
            .next()
            .map_or(String::new(), |row| row.unit.clone());
        let values: Vec<_> = rows
            .map(|row| (row.subject.as_str(), row.percentile, row.value))
            .collect();
        (self.lines(&values), unit)
    }

    /// Returns one line per subject from the (subject, x, value) of all rounds.
    fn lines(&self, values: &[(&str, f64, f64)]) -> Vec<Line> {
        let line = |subject: &String| {
            let own = values.iter().filter(|(name, _, _)| name == subject);
            let points = points(own.map(|(_, x, value)| (*x, *value)));
            (!points.is_empty()).then(|| Line {
                subject: subject.clone(),
                points,
            })
        };
        self.metadata.subjects.iter().filter_map(line).collect()
    }
}

/// Combines the values of all rounds at each x. Omits each x for which fewer than half of the rounds have a value.
/// - values: (x, value) of all rounds.
fn points(values: impl Iterator<Item = (f64, f64)>) -> Vec<LinePoint> {
    let mut by_x: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (x, value) in values {
        by_x.entry((x / SAME_X).round() as i64)
            .or_default()
            .push(value);
    }
    let rounds = by_x.values().map(Vec::len).max().unwrap_or(0);
    let (low, high) = band(rounds);
    let common = by_x
        .into_iter()
        .filter(|(_, values)| 2 * values.len() >= rounds);
    let point = |(key, values): (i64, Vec<f64>)| LinePoint {
        x: key as f64 * SAME_X,
        median: median(&values),
        low: percentile(&values, low),
        high: percentile(&values, high),
    };
    common.map(point).collect()
}

/// Returns the lower and upper percentile of the rounds that bound a band.
fn band(rounds: usize) -> (f64, f64) {
    match rounds >= ENOUGH_FOR_QUARTERS {
        true => (25.0, 75.0),
        false => (0.0, 100.0),
    }
}

/// Returns a note for the figure's reader that explains lines without bands.
pub fn lines_in_words(rounds: usize) -> String {
    match rounds {
        0 | 1 => "Lines: the only round.".into(),
        _ => format!("Lines: median of {rounds} rounds."),
    }
}

/// Returns a note for the figure's reader that explains lines and bands.
pub fn band_in_words(rounds: usize) -> String {
    match rounds {
        0 | 1 => "Lines: the only round.".into(),
        _ if rounds >= ENOUGH_FOR_QUARTERS => {
            format!("Lines: median of {rounds} rounds; bands: their middle half.")
        }
        _ => format!("Lines: median of {rounds} rounds; bands: from the smallest to the largest."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rounds_give_their_range_and_more_their_middle_half() {
        let of = |values: &[f64]| points(values.iter().map(|value| (0.1, *value)))[0];
        let few = of(&[3.0, 1.0, 9.0]);
        assert_eq!((few.low, few.median, few.high), (1.0, 3.0, 9.0));
        let many = of(&[1.0, 2.0, 3.0, 4.0, 99.0]);
        assert_eq!((many.low, many.median, many.high), (2.0, 3.0, 4.0));
        assert!((many.x - 0.1).abs() < 1e-9);
    }

    #[test]
    fn an_x_that_few_rounds_reached_is_left_out() {
        let values = [
            (50.0, 1.0),
            (50.0, 2.0),
            (50.0, 3.0),
            (99.0, 5.0),
            (99.0, 6.0),
            (99.9, 7.0),
        ];
        let xs: Vec<f64> = points(values.into_iter())
            .iter()
            .map(|point| point.x)
            .collect();
        assert_eq!(xs, [50.0, 99.0]);
    }
}
