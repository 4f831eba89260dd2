// SPDX-License-Identifier: GPL-2.0-or-later
//! A dot plot with one row per subject: every round as a dot, the median with its interval, and both as numbers.
//!
//! The row contains the numbers, because 0.023 Gbit/s beside 12 Gbit/s can't be read from an axis.

use super::columns::{columns, number_text, ratio_head, ratio_text, Column, Value};
use super::columns::{HEAD_SIZE, MAIN_HEAD, VALUE_SIZE};
use super::data::Data;
use super::font;
use super::frame::{self, Entry, BOTTOM, MARGIN, NOTE_LINE, TOP};
use super::palette::{Look, Rgb, BLACK, DASHED, FAINT, REFERENCE, REFERENCE_DASHES};
use super::scene::{Anchor, Scene, Text};
use crate::statistics::{better, Better};
use crate::store::CellName;

/// Explanation of a ratio above 1.
const FASTER: &str = "\nA ratio above 1 is no merit of filtering: with a queue, half of a packet's way is walked on another CPU; \
                      without one the sender walks all of it.";
const WIDTH: f64 = 1060.0;
const ROW: f64 = 38.0;
/// Height above the rows, for the names of the columns.
const HEAD: f64 = 24.0;
const NAME_SIZE: f64 = 14.5;
const STRIPE: Rgb = (246, 246, 246);
/// Space left of a name and right of the last number.
const INSET: f64 = 10.0;
const GAP: f64 = 22.0;
/// Height below the rows, for an axis's tick labels and title.
const BELOW: f64 = 52.0;
/// Height of the row with the reference lines' names.
const KEY: f64 = 24.0;
/// Distance of the median above the middle of its row.
const MEDIAN_UP: f64 = 4.5;
/// Distance of the rounds below the middle of their row.
const ROUNDS_DOWN: f64 = 10.0;
const ROUND_RADIUS: f64 = 2.7;
const ROUND_ALPHA: f64 = 0.5;
/// Vertical distance between dots of one row, so that equal rounds are distinguishable.
const JITTER: f64 = 2.2;

/// Draws the figure; None without data.
pub fn draw(data: &Data, cell: &CellName, metric: &str, title: &str) -> Option<Scene> {
    let subjects = data.subjects_with(cell, metric);
    if subjects.is_empty() {
        return None;
    }
    let names = subjects
        .iter()
        .map(|name| font::width(name, NAME_SIZE, false));
    let left = MARGIN + INSET + names.fold(0.0, f64::max) + GAP;
    let columns = columns(
        data,
        cell,
        metric,
        &subjects,
        (left, WIDTH - MARGIN - INSET),
    );
    let references = references(data, cell, &columns[0]);
    let key = if references.is_empty() { 0.0 } else { KEY };
    let note = frame::wrapped(&note(data, cell, metric, &columns[0]), WIDTH);
    let notes = NOTE_LINE * (note.lines().count() as f64 - 1.0);
    let (top, bottom) = (TOP + HEAD, TOP + HEAD + ROW * subjects.len() as f64);
    let size = (WIDTH, bottom + BELOW + key + BOTTOM + notes);
    let subtitle = frame::subtitle(&data.metadata, cell, &[cell.payload_bytes]);
    let mut scene = frame::scene(size, title, &subtitle, &note, &data.metadata);
    draw_names(&mut scene, &subjects, top);
    for column in &columns {
        draw_head(&mut scene, column, data);
        let label = match column.main {
            true => frame::axis_title(column.metric, column.unit),
            false => String::new(),
        };
        column.axis.draw_below(&mut scene, (top, bottom), &label);
    }
    draw_baseline(&mut scene, &columns[0], data, &subjects, (top, bottom));
    for (value, entry) in &references {
        let x = columns[0].axis.at(*value);
        scene.path(&[(x, top), (x, bottom)], 1.8, entry.colour, entry.dash);
    }
    let entries: Vec<&Entry> = references.iter().map(|(_, entry)| entry).collect();
    frame::draw_legend_row(
        &mut scene,
        (MARGIN + INSET, bottom + BELOW + KEY / 2.0),
        &entries,
    );
    for column in &columns {
        for (index, (subject, value)) in subjects.iter().zip(&column.values).enumerate() {
            let y = top + ROW * (index as f64 + 0.5);
            draw_value(&mut scene, column, value, y, &data.look(subject));
        }
    }
    Some(scene)
}

fn note(data: &Data, cell: &CellName, metric: &str, main: &Column) -> String {
    let baseline = &data.metadata.baseline;
    let line = match data.summary(cell, baseline, metric) {
        Some(_) => format!(" Dashed: {baseline}."),
        None => String::new(),
    };
    let intervals = data.intervals_in_words(cell, metric);
    let mut words = format!("Marker and bar: median and {intervals}; dots: the rounds.{line}");
    if main.ratio_right.is_some() {
        words += &format!(" × {baseline}: median of the ratios to {baseline} in the same round.");
    }
    if is_faster_with_a_queue(data, cell, metric) {
        words += FASTER;
    }
    words
}

/// Returns true if a higher value of the metric is better, and the interval of a program's ratio to the baseline is
/// above 1.
fn is_faster_with_a_queue(data: &Data, cell: &CellName, metric: &str) -> bool {
    let faster = |subject: &String| {
        let program = data.summary(cell, subject, "cpu_per_packet").is_some();
        let summary = data.summary(cell, subject, metric);
        program && summary.is_some_and(|s| s.ratio_low.is_some_and(|low| low > 1.0))
    };
    better(metric) == Better::Higher && data.metadata.subjects.iter().any(faster)
}

/// Returns the reference values of the main column, each with its legend entry.
fn references(data: &Data, cell: &CellName, column: &Column) -> Vec<(f64, Entry)> {
    let references = data.references(&cell.workload, column.metric).into_iter();
    let entry = |(index, reference): (usize, &crate::experiment::Reference)| {
        let value = frame::with_unit(reference.value, column.metric, column.unit);
        let entry = Entry {
            name: format!("{} ({value})", reference.label),
            detail: String::new(),
            colour: REFERENCE,
            dash: REFERENCE_DASHES[index % REFERENCE_DASHES.len()],
            look: None,
        };
        (reference.value, entry)
    };
    references.enumerate().map(entry).collect()
}

fn draw_names(scene: &mut Scene, subjects: &[&str], top: f64) {
    let (left, right) = (MARGIN, WIDTH - MARGIN);
    for (index, subject) in subjects.iter().enumerate() {
        let (from, to) = (top + ROW * index as f64, top + ROW * (index as f64 + 1.0));
        if index % 2 == 0 {
            let stripe = vec![(left, from), (right, from), (right, to), (left, to)];
            scene.area(stripe, STRIPE, 1.0);
        }
        let at = (left + INSET, (from + to) / 2.0);
        scene.text(Text::new(*subject, at, NAME_SIZE));
    }
}

/// Draws the names of the columns. A side column has its name above its axis, because the column is narrow.
fn draw_head(scene: &mut Scene, column: &Column, data: &Data) {
    let y = TOP + HEAD / 2.0;
    if !column.main {
        let head = frame::short_title(column.metric, column.unit);
        scene.text(Text::new(head, (column.axis.start(), y), HEAD_SIZE));
        return;
    }
    scene.text(number_at(MAIN_HEAD, column.value_right, y, HEAD_SIZE).colour(FAINT));
    if let Some(right) = column.ratio_right {
        scene.text(number_at(&ratio_head(data), right, y, HEAD_SIZE).colour(FAINT));
    }
}

/// Draws the baseline's median through all rows of the main column.
fn draw_baseline(
    scene: &mut Scene,
    column: &Column,
    data: &Data,
    subjects: &[&str],
    (top, bottom): (f64, f64),
) {
    let row = subjects
        .iter()
        .position(|subject| *subject == data.metadata.baseline);
    if let Some(summary) = row.and_then(|row| column.values[row].summary) {
        let x = column.axis.at(summary.median);
        scene.path(&[(x, top), (x, bottom)], 1.3, BLACK, DASHED);
    }
}

/// Draws one subject's value in one column: rounds, interval, median and numbers, or a dash without a value.
fn draw_value(scene: &mut Scene, column: &Column, value: &Value, y: f64, look: &Look) {
    let Some(summary) = value.summary else {
        scene.text(number_at("–", column.value_right, y, VALUE_SIZE).colour(FAINT));
        return;
    };
    let at = |value: f64| column.axis.at(value);
    for (round, value) in value.rounds.iter().enumerate() {
        let offset = ROUNDS_DOWN + JITTER * ((round % 3) as f64 - 1.0);
        scene.disc(
            (at(*value), y + offset),
            ROUND_RADIUS,
            look.colour,
            ROUND_ALPHA,
        );
    }
    let middle = y - MEDIAN_UP;
    let (low, high) = (at(summary.low), at(summary.high));
    scene.line((low, middle), (high, middle), 2.4, look.colour);
    for end in [low, high] {
        scene.line((end, middle - 5.0), (end, middle + 5.0), 1.6, look.colour);
    }
    scene.marker((at(summary.median), middle), 4.8, look);
    let text = number_text(summary, column.main);
    scene.text(number_at(&text, column.value_right, y, VALUE_SIZE));
    if let (Some(right), Some(ratio)) = (column.ratio_right, summary.ratio) {
        scene.text(number_at(&ratio_text(ratio), right, y, VALUE_SIZE));
    }
}

/// Returns a number aligned to the right end of its column.
fn number_at(text: &str, right: f64, y: f64, size: f64) -> Text {
    Text::new(text, (right, y), size).anchor(Anchor::End)
}
