// SPDX-License-Identifier: GPL-2.0-or-later
//! A value over the seconds of a load, one area per subject: for lines that would cover each other.

use super::axis::Axis;
use super::data::{band_in_words, Data, Line, LinePoint};
use super::frame::{self, BOTTOM, MARGIN, TOP};
use super::palette::{BLACK, DASHED, FAINT, REFERENCE, REFERENCE_DASHES, SOLID};
use super::scene::{Anchor, Point, Scene, Text};
use crate::store::CellName;
use crate::summary::main_metric;

const WIDTH: f64 = 1060.0;
const COLUMNS: usize = 2;
const HEIGHT: f64 = 140.0;
/// Height above an area, for the name of its subject.
const NAME: f64 = 30.0;
const NAME_SIZE: f64 = 13.5;
const VALUE_SIZE: f64 = 12.5;
/// Width left of the areas, for the tick labels and title of the vertical axis.
const LEFT: f64 = 82.0;
const GAP: f64 = 26.0;
/// Height below the last row of areas, for the tick labels and title of the horizontal axis.
const BELOW: f64 = 52.0;
const BAND_ALPHA: f64 = 0.22;
/// Number of a line's points above which the line is thinner: the points are so close that it would look like a band.
const MANY_POINTS: usize = 400;

/// Draws the figure; None without data.
pub fn draw(data: &Data, cell: &CellName, title: &str) -> Option<Scene> {
    let (lines, unit) = data.series_lines(cell);
    if lines.is_empty() {
        return None;
    }
    let metric = main_metric(&cell.workload);
    let rows = lines.len().div_ceil(COLUMNS);
    let bottom = TOP + (NAME + HEIGHT) * rows as f64;
    let subtitle = frame::subtitle(&data.metadata, cell, &[cell.payload_bytes]);
    let note = note(data, cell, metric, &unit);
    let size = (WIDTH, bottom + BELOW + BOTTOM);
    let mut scene = frame::scene(size, title, &subtitle, &note, &data.metadata);
    let references = data.references(&cell.workload, metric);
    let values: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .flat_map(|point| [point.low, point.median, point.high])
        .chain(references.iter().map(|reference| reference.value))
        .filter(|value| *value > 0.0)
        .collect();
    let seconds = lines.iter().flat_map(|line| &line.points);
    let seconds = seconds.map(|point| point.x).fold(0.0, f64::max);
    let width = (WIDTH - MARGIN - LEFT - GAP * (COLUMNS as f64 - 1.0)) / COLUMNS as f64;
    for (index, line) in lines.iter().enumerate() {
        let (row, column) = (index / COLUMNS, index % COLUMNS);
        let left = LEFT + (width + GAP) * column as f64;
        let top = TOP + NAME + (NAME + HEIGHT) * row as f64;
        let y = Axis::for_values(&values, (top + HEIGHT, top));
        let x = Axis::until(seconds, (left, left + width));
        match column {
            0 => {
                let label = frame::short_title(metric, &unit);
                y.draw_left(&mut scene, (left, left + width), &label);
            }
            _ => y.draw_grid(&mut scene, (left, left + width)),
        }
        match index + COLUMNS >= lines.len() {
            true => x.draw_below(&mut scene, (top, top + HEIGHT), "time (s)"),
            false => x.draw_upright(&mut scene, (top, top + HEIGHT)),
        }
        for (reference, dash) in references.iter().zip(REFERENCE_DASHES.iter().cycle()) {
            let at = y.at(reference.value);
            scene.path(&[(left, at), (left + width, at)], 1.5, REFERENCE, dash);
        }
        draw_baseline(&mut scene, data, cell, metric, ((left, left + width), &y));
        draw_name(
            &mut scene,
            data,
            cell,
            line,
            (left, left + width, top - 12.0),
        );
        draw_line(&mut scene, data, line, &x, &y);
    }
    Some(scene)
}

fn note(data: &Data, cell: &CellName, metric: &str, unit: &str) -> String {
    let mut words = match data.metadata.slices_of(&cell.workload) {
        Some(_) => "Lines: the slices.".to_string(),
        None => band_in_words(data.metadata.rounds_done as usize),
    };
    let baseline = &data.metadata.baseline;
    if data.summary(cell, baseline, metric).is_some() {
        words += &format!(" Dashed: median of {baseline}.");
    }
    let references = data.references(&cell.workload, metric).into_iter();
    let value = |value| frame::with_unit(value, metric, unit);
    let named = references.map(|r| format!("{} ({})", r.label, value(r.value)));
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        words += &format!(" Grey: {}.", named.join(", "));
    }
    words
}

fn draw_baseline(
    scene: &mut Scene,
    data: &Data,
    cell: &CellName,
    metric: &str,
    ((left, right), y): ((f64, f64), &Axis),
) {
    if let Some(summary) = data.summary(cell, &data.metadata.baseline, metric) {
        let at = y.at(summary.median);
        scene.path(&[(left, at), (right, at)], 1.2, BLACK, DASHED);
    }
}

/// Draws the subject's name with its marker, and its median at the other end.
fn draw_name(
    scene: &mut Scene,
    data: &Data,
    cell: &CellName,
    line: &Line,
    (left, right, y): (f64, f64, f64),
) {
    let look = data.look(&line.subject);
    scene.marker((left + 6.0, y), 5.0, &look);
    scene.text(Text::new(&line.subject, (left + 18.0, y), NAME_SIZE));
    let metric = main_metric(&cell.workload);
    if let Some(summary) = data.summary(cell, &line.subject, metric) {
        let value = frame::with_unit(summary.median, metric, &summary.unit);
        let text = Text::new(value, (right, y), VALUE_SIZE);
        scene.text(text.anchor(Anchor::End).colour(FAINT));
    }
}

fn draw_line(scene: &mut Scene, data: &Data, line: &Line, x: &Axis, y: &Axis) {
    let look = data.look(&line.subject);
    let edge = |value: fn(&LinePoint) -> f64| {
        let point = move |point: &LinePoint| (x.at(point.x), y.at(value(point)));
        line.points.iter().map(point)
    };
    let band: Vec<Point> = edge(|p| p.high).chain(edge(|p| p.low).rev()).collect();
    scene.area(band, look.colour, BAND_ALPHA);
    let middle: Vec<Point> = edge(|p| p.median).collect();
    let width = if middle.len() > MANY_POINTS { 0.8 } else { 1.6 };
    scene.path(&middle, width, look.colour, SOLID);
}
