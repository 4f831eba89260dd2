// SPDX-License-Identifier: GPL-2.0-or-later
//! Figure of a value over the seconds of a load, one line per subject.

use super::axis::Axis;
use super::data::{lines_in_words, Data, Line};
use super::frame::{self, Entry};
use super::lines::{draw_lines, plot_area, Area};
use super::palette::{REFERENCE, REFERENCE_DASHES};
use super::scene::Scene;
use crate::statistics::median;
use crate::store::CellName;
use crate::summary::main_metric;

/// Draws the figure of a value over the seconds of a load, one line per subject. Returns None without data.
pub fn draw(data: &Data, cell: &CellName, title: &str) -> Option<Scene> {
    let (lines, unit) = data.series_lines(cell);
    if lines.is_empty() {
        return None;
    }
    let metric = main_metric(&cell.workload);
    let references = data.references(&cell.workload, metric);
    let mut entries: Vec<Entry> = lines
        .iter()
        .map(|line| entry(data, cell, line, metric, &unit))
        .collect();
    for (index, reference) in references.iter().enumerate() {
        entries.push(Entry {
            name: reference.label.clone(),
            detail: frame::with_unit(reference.value, metric, &unit),
            colour: REFERENCE,
            dash: REFERENCE_DASHES[index % REFERENCE_DASHES.len()],
            look: None,
        });
    }
    let subtitle = frame::subtitle(&data.metadata, cell, &[cell.payload_bytes]);
    let note = match data.metadata.slices_of(&cell.workload) {
        Some(_) => "Lines: the slices, those of a round at the same time.".into(),
        None => lines_in_words(data.metadata.rounds_done as usize),
    };
    let (mut scene, area) = plot_area(title, &subtitle, &note, data, &entries);
    let highs = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|point| point.median));
    let largest = highs
        .chain(references.iter().map(|r| r.value))
        .fold(0.0, f64::max);
    let seconds = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|point| point.x));
    let y = Axis::from_zero(largest, (area.bottom, area.top));
    let x = Axis::until(seconds.fold(0.0, f64::max), (area.left, area.right));
    y.draw_left(
        &mut scene,
        (area.left, area.right),
        &frame::axis_title(metric, &unit),
    );
    x.draw_below(
        &mut scene,
        (area.top, area.bottom),
        "time since the start of the load (s)",
    );
    draw_references(
        &mut scene,
        &area,
        &y,
        &entries,
        &references.iter().map(|r| r.value).collect::<Vec<_>>(),
    );
    draw_lines(&mut scene, data, &lines, &x, &y);
    Some(scene)
}

/// Returns a legend entry with the subject's median: a line at 0.02 beside a line at 12 can't be read from the axis.
fn entry(data: &Data, cell: &CellName, line: &Line, metric: &str, unit: &str) -> Entry {
    let value = match data.summary(cell, &line.subject, metric) {
        Some(summary) => summary.median,
        None => median(
            &line
                .points
                .iter()
                .map(|point| point.median)
                .collect::<Vec<_>>(),
        ),
    };
    let detail = frame::with_unit(value, metric, unit);
    Entry::subject(&line.subject, detail, data.look(&line.subject))
}

fn draw_references(scene: &mut Scene, area: &Area, y: &Axis, entries: &[Entry], values: &[f64]) {
    let last = entries.iter().skip(entries.len() - values.len());
    for (entry, value) in last.zip(values) {
        let line = [(area.left, y.at(*value)), (area.right, y.at(*value))];
        scene.path(&line, 1.8, entry.colour, entry.dash);
    }
}
