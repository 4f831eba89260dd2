// SPDX-License-Identifier: GPL-2.0-or-later
//! Loss over the size of a load (a delay's factor or a ring's MiB): one line per subject, the predicted loss dashed.

use super::axis::Axis;
use super::data::{Data, Line, LinePoint};
use super::frame::{self, Entry};
use super::growth::line;
use super::lines::{draw_with_intervals, plot_area};
use super::palette::DASHED;
use super::scene::{Point, Scene};
use crate::store::CellName;

const FORETOLD: &str = "foretold";
const FORETOLD_WIDTH: f64 = 1.2;

/// Draws a loss over the size of the load (factor of the reader's delays, or MiB of the ring), one line per subject,
/// and the predicted loss as a dashed line. Returns None without data.
/// - cells: loads, which differ only in that size.
pub fn draw(data: &Data, cells: &[CellName], metric: &str, title: &str) -> Option<Scene> {
    let lines_of = |metric: &str| -> Vec<Line> {
        let subjects = data.metadata.subjects.iter();
        subjects
            .filter_map(|subject| line(data, cells, subject, metric))
            .collect()
    };
    let (lines, foretold) = (lines_of(metric), lines_of(FORETOLD));
    let first = cells.first()?;
    let points = || lines.iter().chain(&foretold).flat_map(|line| &line.points);
    let highest = points().map(|point| point.high).reduce(f64::max)?;
    let unit = lines.iter().find_map(|line| {
        let summary = data.summary(first, &line.subject, metric)?;
        Some(summary.unit.clone())
    })?;
    let entries: Vec<Entry> = lines
        .iter()
        .map(|line| {
            let medians = line.points.iter().map(|point| point.median);
            let most = medians.fold(0.0, f64::max);
            let detail = format!("up to {}", frame::with_unit(most, metric, &unit));
            Entry::subject(&line.subject, detail, data.look(&line.subject))
        })
        .collect();
    let subtitle = frame::subtitle(&data.metadata, first, &[first.payload_bytes]);
    let intervals = data.intervals_in_words(first, metric);
    let note =
        format!("Markers and bars: median and {intervals}. Dashed: foretold from work and ring.");
    let (mut scene, area) = plot_area(title, &subtitle, &note, data, &entries);
    let y = Axis::from_zero(highest.max(1.0), (area.bottom, area.top));
    let mut sizes: Vec<f64> = points().map(|point| point.x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let across = (area.left, area.right);
    let (x, size) = match first.workload.as_str() {
        "frames-ring" => (Axis::at_values(&sizes, across), "MiB of the ring"),
        _ => {
            let largest = sizes.last().map_or(1.0, |largest| largest.max(1.0));
            (Axis::from_zero(largest, across), "factor of the delays")
        }
    };
    y.draw_left(&mut scene, across, &frame::axis_title(metric, &unit));
    x.draw_below(&mut scene, (area.top, area.bottom), size);
    for line in &foretold {
        let at = |point: &LinePoint| (x.at(point.x), y.at(point.median));
        let path: Vec<Point> = line.points.iter().map(at).collect();
        let colour = data.look(&line.subject).colour;
        scene.path(&path, FORETOLD_WIDTH, colour, DASHED);
    }
    draw_with_intervals(&mut scene, data, &lines, &x, &y);
    Some(scene)
}
