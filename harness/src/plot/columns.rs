// SPDX-License-Identifier: GPL-2.0-or-later
//! The columns of a dot plot: the metrics side by side, and their widths.

use super::axis::Axis;
use super::data::Data;
use super::font;
use crate::statistics::{better, Better};
use crate::store::{CellName, Summary};
use crate::summary::main_metric;
use crate::table::number;

pub const VALUE_SIZE: f64 = 13.5;
pub const HEAD_SIZE: f64 = 12.0;
pub const MAIN_HEAD: &str = "median [interval]";
/// Metrics beside a workload's main metric, where they were measured.
const SIDE: [&str; 3] = ["lost_percent", "p99", "cpu_per_packet"];
/// Pixels between a column's axis and the widest text of its values, and between the texts of values and ratios.
const GAP: f64 = 18.0;
/// Pixels between two columns.
const WIDE_GAP: f64 = 30.0;
/// Width of the first column's axis, relative to the axes of other columns.
const MAIN_SHARE: f64 = 2.6;

/// Column for one metric: an axis, and the values as text.
pub struct Column<'a> {
    pub metric: &'a str,
    pub unit: &'a str,
    /// True for the first column. Only this column shows intervals as numbers, ratios, and reference lines.
    pub main: bool,
    pub axis: Axis,
    /// Right end of the text of the values, in pixels.
    pub value_right: f64,
    /// Right end of the text of the ratios to the baseline, in pixels; None without ratios.
    pub ratio_right: Option<f64>,
    pub values: Vec<Value<'a>>,
}

/// Measured values of one subject that a column shows.
pub struct Value<'a> {
    pub summary: Option<&'a Summary>,
    pub rounds: Vec<f64>,
}

/// Lays the columns out between the pixels `left` and `right`. The first column is `metric`; side columns follow if
/// `metric` is the workload's main metric.
pub fn columns<'a>(
    data: &'a Data,
    cell: &CellName,
    metric: &'a str,
    subjects: &[&str],
    (left, right): (f64, f64),
) -> Vec<Column<'a>> {
    let mut metrics = vec![metric];
    if metric == main_metric(&cell.workload) {
        metrics.extend(
            SIDE.iter()
                .filter(|side| !data.subjects_with(cell, side).is_empty()),
        );
    }
    let contents: Vec<Vec<Value>> = metrics
        .iter()
        .map(|metric| values(data, cell, metric, subjects))
        .collect();
    let widths: Vec<Widths> = contents
        .iter()
        .enumerate()
        .map(|(index, values)| Widths::of(values, index == 0, data))
        .collect();
    let numbers: f64 = widths
        .iter()
        .map(|widths| widths.value + widths.ratio)
        .sum();
    let sides = metrics.len() as f64 - 1.0;
    let share = (right - left - numbers - WIDE_GAP * sides) / (MAIN_SHARE + sides);
    let mut x = left;
    let mut columns = Vec::new();
    for (index, ((metric, values), widths)) in
        metrics.into_iter().zip(contents).zip(widths).enumerate()
    {
        let main = index == 0;
        let end = x + if main { share * MAIN_SHARE } else { share };
        let references = data.references(&cell.workload, metric).into_iter();
        let references = references.filter(|_| main).map(|reference| reference.value);
        let ends = values
            .iter()
            .filter_map(|value| value.summary)
            .flat_map(|summary| [summary.low, summary.high]);
        let rounds = values.iter().flat_map(|value| value.rounds.iter().copied());
        let shown: Vec<f64> = rounds.chain(ends).chain(references).collect();
        // Zero loss is a valid value; zero throughput must not make all other values coincide.
        let zeros = better(metric) != Better::Higher;
        let shown: Vec<f64> = shown
            .into_iter()
            .filter(|value| zeros || *value > 0.0)
            .collect();
        // A wide column shows values far below its medians near zero. In a narrow column they would coincide.
        let medians = values
            .iter()
            .filter_map(|value| value.summary.map(|s| s.median));
        let mut axis = match main {
            true => Axis::for_medians(&medians.collect::<Vec<_>>(), &shown, (x, end)),
            false => Axis::for_values(&shown, (x, end)),
        };
        axis.thin_out(8.0);
        let summary = values.iter().find_map(|value| value.summary);
        columns.push(Column {
            metric,
            unit: summary.map_or("", |summary| &summary.unit),
            main,
            axis,
            value_right: end + widths.value,
            ratio_right: (widths.ratio > 0.0).then_some(end + widths.value + widths.ratio),
            values,
        });
        x = end + widths.value + widths.ratio + WIDE_GAP;
    }
    columns
}

fn values<'a>(data: &'a Data, cell: &CellName, metric: &str, subjects: &[&str]) -> Vec<Value<'a>> {
    let value = |subject: &&str| Value {
        summary: data.summary(cell, subject, metric),
        rounds: data.rounds(cell, subject, metric),
    };
    subjects.iter().map(value).collect()
}

/// Widths of the texts in a column, each with the gap before it, in pixels.
struct Widths {
    value: f64,
    ratio: f64,
}

impl Widths {
    fn of(values: &[Value], main: bool, data: &Data) -> Widths {
        let width = |text: &str| font::width(text, VALUE_SIZE, false);
        let head = |text: &str| font::width(text, HEAD_SIZE, false);
        let summaries = || values.iter().filter_map(|value| value.summary);
        let widest = summaries().map(|summary| width(&number_text(summary, main)));
        let widest = widest.fold(0.0, f64::max);
        if !main {
            return Widths {
                value: widest + GAP,
                ratio: 0.0,
            };
        }
        let ratios = summaries().filter_map(|summary| summary.ratio);
        let ratio = ratios
            .map(|ratio| width(&ratio_text(ratio)))
            .reduce(f64::max);
        let ratio = ratio.map_or(0.0, |ratio| ratio.max(head(&ratio_head(data))) + GAP);
        Widths {
            value: widest.max(head(MAIN_HEAD)) + GAP,
            ratio,
        }
    }
}

pub fn ratio_head(data: &Data) -> String {
    format!("× {}", data.metadata.baseline)
}

/// Returns the median, e.g. `12.3`; in the main column with its interval, e.g. `12.3 [11.9–12.8]`.
pub fn number_text(summary: &Summary, main: bool) -> String {
    let median = number(summary.median);
    match main {
        true => format!(
            "{median} [{}–{}]",
            number(summary.low),
            number(summary.high)
        ),
        false => median,
    }
}

pub fn ratio_text(ratio: f64) -> String {
    format!("{ratio:.3}")
}
