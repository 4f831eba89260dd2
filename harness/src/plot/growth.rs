// SPDX-License-Identifier: GPL-2.0-or-later
//! A metric over a size (of the policy or the scanned network), one line per subject.

use super::axis::Axis;
use super::data::{Data, Line, LinePoint};
use super::frame::{self, Entry};
use super::lines::{draw_with_intervals, plot_area};
use super::scene::Scene;
use crate::store::CellName;
use crate::table::number;

/// Draws a metric over the size of the policy or of the scanned network, one line per subject. Returns None without
/// data.
/// - cells: loads, which differ only in that size.
pub fn draw(data: &Data, cells: &[CellName], metric: &str, title: &str) -> Option<Scene> {
    let lines: Vec<Line> = data
        .metadata
        .subjects
        .iter()
        .filter_map(|subject| line(data, cells, subject, metric))
        .collect();
    let first = cells.first()?;
    let points = || lines.iter().flat_map(|line| &line.points);
    let lowest = points().map(|point| point.low).reduce(f64::min)?;
    let highest = points().map(|point| point.high).fold(lowest, f64::max);
    let unit = lines.iter().find_map(|line| {
        let of = |cell| data.summary(cell, &line.subject, metric);
        Some(of(first)?.unit.clone())
    })?;
    let entries: Vec<Entry> = lines
        .iter()
        .map(|line| {
            let ends = [line.points.first(), line.points.last()];
            let ends = ends.map(|end| end.map_or(0.0, |point| point.median));
            let detail = format!(
                "{} to {}",
                number(ends[0]),
                frame::with_unit(ends[1], metric, &unit)
            );
            Entry::subject(&line.subject, detail, data.look(&line.subject))
        })
        .collect();
    let subtitle = frame::subtitle(&data.metadata, first, &[first.payload_bytes]);
    let intervals = data.intervals_in_words(first, metric);
    let note = format!("Markers and bars: median and {intervals}.");
    let (mut scene, area) = plot_area(title, &subtitle, &note, data, &entries);
    let y = Axis::for_values(&[lowest, highest], (area.bottom, area.top));
    let mut sizes: Vec<f64> = points().map(|point| point.x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let x = Axis::at_values(&sizes, (area.left, area.right));
    y.draw_left(
        &mut scene,
        (area.left, area.right),
        &frame::axis_title(metric, &unit),
    );
    let counts = first
        .policy
        .map_or("targets", |policy| policy.kind.counts());
    x.draw_below(&mut scene, (area.top, area.bottom), counts);
    draw_with_intervals(&mut scene, data, &lines, &x, &y);
    Some(scene)
}

pub(super) fn line(data: &Data, cells: &[CellName], subject: &str, metric: &str) -> Option<Line> {
    let point = |cell: &CellName| {
        let summary = data.summary(cell, subject, metric)?;
        Some(LinePoint {
            x: cell
                .policy
                .map_or(cell.payload_bytes as f64, |policy| f64::from(policy.size)),
            median: summary.median,
            low: summary.low,
            high: summary.high,
        })
    };
    let mut points: Vec<LinePoint> = cells.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    (!points.is_empty()).then(|| Line {
        subject: subject.into(),
        points,
    })
}
