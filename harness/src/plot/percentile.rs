// SPDX-License-Identifier: GPL-2.0-or-later
//! Latency over the percentile; each further nine has the same width.

use super::axis::Axis;
use super::data::{lines_in_words, Data, Line};
use super::frame::{self, Entry};
use super::lines::{draw_lines, plot_area};
use super::scene::Scene;
use crate::store::CellName;
use crate::table::number;

/// Highest percentile that a curve shows; the data may contain higher ones.
const HIGHEST: f64 = 99.99;

/// Draws the figure; None without data.
pub fn draw(data: &Data, cell: &CellName, title: &str) -> Option<Scene> {
    let (mut lines, unit) = data.percentile_lines(cell);
    for line in &mut lines {
        line.points
            .retain(|point| point.x <= HIGHEST + 1e-9 && point.median > 0.0);
    }
    lines.retain(|line| !line.points.is_empty());
    let points = || lines.iter().flat_map(|line| &line.points);
    let lowest = points().map(|point| point.median).reduce(f64::min)?;
    let highest = points().map(|point| point.median).fold(lowest, f64::max);
    let last = points().map(|point| point.x).fold(0.0, f64::max);
    let entries: Vec<Entry> = lines
        .iter()
        .map(|line| entry(data, cell, line, &unit))
        .collect();
    let subtitle = frame::subtitle(&data.metadata, cell, &[cell.payload_bytes]);
    let note = match data.metadata.slices_of(&cell.workload) {
        Some(_) => "Lines: all requests of all slices.".into(),
        None => lines_in_words(data.metadata.rounds_done as usize),
    };
    let (mut scene, area) = plot_area(title, &subtitle, &note, data, &entries);
    let y = Axis::log(lowest, highest, (area.bottom, area.top));
    let x = Axis::percentiles(last, (area.left, area.right));
    y.draw_left(
        &mut scene,
        (area.left, area.right),
        &format!("latency ({})", frame::unit_title("p50", &unit)),
    );
    x.draw_below(
        &mut scene,
        (area.top, area.bottom),
        "percentile of the requests (%)",
    );
    draw_lines(&mut scene, data, &lines, &x, &y);
    Some(scene)
}

fn entry(data: &Data, cell: &CellName, line: &Line, unit: &str) -> Entry {
    let value = |metric| {
        data.summary(cell, &line.subject, metric)
            .map(|s| number(s.median))
    };
    let detail = match (value("p50"), value("p99")) {
        (Some(p50), Some(p99)) => {
            format!(
                "50 %: {p50}, 99 %: {p99} {}",
                frame::unit_title("p50", unit)
            )
        }
        _ => String::new(),
    };
    Entry::subject(&line.subject, detail, data.look(&line.subject))
}
