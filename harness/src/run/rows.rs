// SPDX-License-Identifier: GPL-2.0-or-later
//! Converts measurements to the rows of the CSV files.

use crate::runner::Outcome;
use crate::schedule::Cell;
use crate::store::{CellName, PercentileRow, Round, Sample, SeriesRow};
use crate::subject::Subject;
use crate::summary::main_metric;

/// Columns that the rows of one run share. Only samples have the column `position`.
pub struct SampleOf<'a> {
    pub round: u32,
    pub position: u32,
    pub subject: &'a Subject,
    pub cell: &'a Cell,
}

impl SampleOf<'_> {
    pub fn sample(&self, metric: &str, unit: &str, value: f64) -> Sample {
        let CellName {
            workload,
            path,
            payload_bytes,
            policy,
        } = self.cell.name();
        let (round, position, subject) = (self.round, self.position, self.subject.name());
        let (metric, unit) = (metric.to_string(), unit.to_string());
        Sample {
            round,
            position,
            subject,
            workload,
            path,
            payload_bytes,
            policy,
            metric,
            unit,
            value,
        }
    }

    pub fn second(&self, second: f64, value: f64, unit: &str) -> SeriesRow {
        let CellName {
            workload,
            path,
            payload_bytes,
            policy,
        } = self.cell.name();
        let (round, subject, unit) = (self.round, self.subject.name(), unit.to_string());
        SeriesRow {
            round,
            subject,
            workload,
            path,
            payload_bytes,
            policy,
            second,
            value,
            unit,
        }
    }

    pub fn percentile(&self, percentile: f64, value: f64) -> PercentileRow {
        let CellName {
            workload,
            path,
            payload_bytes,
            policy,
        } = self.cell.name();
        let (round, subject, unit) = (self.round, self.subject.name(), "us".to_string());
        PercentileRow {
            round,
            subject,
            workload,
            path,
            payload_bytes,
            policy,
            percentile,
            value,
            unit,
        }
    }

    /// Adds a run's samples, series and percentiles to `rows`.
    pub fn keep(&self, outcome: &Outcome, rows: &mut Round) {
        let main = main_metric(&self.cell.workload.to_string());
        let unit = outcome
            .metrics
            .iter()
            .find(|m| m.name == main)
            .map_or("", |m| m.unit);
        let samples = outcome
            .metrics
            .iter()
            .map(|m| self.sample(m.name, m.unit, m.value));
        rows.samples.extend(samples);
        rows.series
            .extend(outcome.series.iter().map(|&(x, y)| self.second(x, y, unit)));
        rows.percentiles.extend(
            outcome
                .percentiles
                .iter()
                .map(|&(x, y)| self.percentile(x, y)),
        );
    }
}
