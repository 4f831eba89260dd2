// SPDX-License-Identifier: GPL-2.0-or-later
//! A metric over the size of the packets, and over the number of queues for each size.

use super::axis::Axis;
use super::data::Data;
use super::frame::{self, Entry, BOTTOM, MARGIN, TOP};
use super::palette::{base_name, queues, Look, BLACK, DASHED, SOLID};
use super::scene::{Anchor, Point, Scene, Text};
use crate::store::{CellName, Summary};

const WIDTH: f64 = 1060.0;
const BY_SIZE_HEIGHT: f64 = 300.0;
const BY_QUEUES_HEIGHT: f64 = 190.0;
/// Left of an area: its numbers and the axis label.
const LEFT: f64 = 82.0;
/// Below an area: its numbers and the axis label.
const BELOW: f64 = 52.0;
/// Above an area of the lower row: its name.
const NAME: f64 = 24.0;
const NAME_SIZE: f64 = 13.0;
const GAP: f64 = 14.0;
const LINE_WIDTH: f64 = 1.8;
const MARKER_RADIUS: f64 = 4.6;

/// A line with an interval at each point.
struct Line<'a> {
    look: Look,
    points: Vec<(f64, &'a Summary)>,
}

/// Draws `cells`, which differ in the size only. None without data.
pub fn draw(data: &Data, cells: &[CellName], metric: &str, title: &str) -> Option<Scene> {
    let mut cells: Vec<&CellName> = cells.iter().collect();
    cells.retain(|cell| !data.subjects_with(cell, metric).is_empty());
    cells.sort_by_key(|cell| cell.payload_bytes);
    let first = *cells.first()?;
    let shown = |subject: &&String| {
        let there = |cell: &&CellName| data.summary(cell, subject, metric).is_some();
        original(subject) && cells.iter().any(there)
    };
    let subjects: Vec<&String> = data.metadata.subjects.iter().filter(shown).collect();
    let summaries = || {
        let all = cells
            .iter()
            .flat_map(|cell| subjects.iter().map(move |s| (cell, s)));
        all.filter_map(|(cell, subject)| data.summary(cell, subject, metric))
    };
    let unit = summaries()
        .next()
        .map_or("", |summary| summary.unit.as_str());
    let largest = summaries().map(|summary| summary.high).fold(0.0, f64::max);
    let by_size = cells.len() > 1;
    let by_queues = subjects.iter().any(|subject| queues(subject) > 1);
    let sizes: Vec<usize> = cells.iter().map(|cell| cell.payload_bytes).collect();
    let entries: Vec<Entry> = subjects
        .iter()
        .map(|subject| Entry::subject(subject, String::new(), data.look(subject)))
        .collect();
    let part = |there: bool, height: f64| if there { height } else { 0.0 };
    let height = TOP
        + part(by_size, BY_SIZE_HEIGHT + BELOW)
        + part(by_queues, NAME + BY_QUEUES_HEIGHT + BELOW)
        + BOTTOM;
    let subtitle = frame::subtitle(&data.metadata, first, &sizes);
    let baseline = &data.metadata.baseline;
    let dashed = match by_queues && subjects.contains(&baseline) {
        true => format!(" Dashed line below: {baseline}."),
        false => String::new(),
    };
    let copies = match data
        .metadata
        .subjects
        .iter()
        .all(|subject| original(subject))
    {
        true => "",
        false => " Copies (#2) are left out.",
    };
    let note = format!(
        "Markers and bars: median and {}.{dashed}{copies}",
        data.intervals_in_words(first, metric)
    );
    let mut scene = frame::scene((WIDTH, height), title, &subtitle, &note, &data.metadata);
    let right = WIDTH - MARGIN - frame::legend_width(&entries);
    frame::draw_legend(&mut scene, (right, TOP - 4.0), &entries);
    let label = frame::axis_title(metric, unit);
    let mut top = TOP;
    if by_size {
        let bottom = top + BY_SIZE_HEIGHT;
        let y = Axis::from_zero(largest, (bottom, top));
        let values: Vec<f64> = sizes.iter().map(|bytes| *bytes as f64).collect();
        let mut x = Axis::at_values(&values, (LEFT, right - 24.0));
        x.thin_out(6.0);
        y.draw_left(&mut scene, (LEFT, right - 24.0), &label);
        x.draw_below(
            &mut scene,
            (top, bottom),
            "payload of a datagram or write (bytes)",
        );
        let lines = subjects
            .iter()
            .map(|subject| size_line(data, &cells, subject, metric));
        draw_lines(&mut scene, &lines.collect::<Vec<_>>(), &x, &y);
        top = bottom + BELOW + NAME;
    }
    if by_queues {
        let area = (LEFT, right - 24.0);
        draw_by_queues(
            &mut scene,
            data,
            &cells,
            &subjects,
            metric,
            (area, top, &frame::short_title(metric, unit)),
        );
    }
    Some(scene)
}

/// A copy of a subject shows the noise of a run. Among many lines it would be one of them only.
fn original(subject: &str) -> bool {
    !subject.contains('#')
}

fn size_line<'a>(data: &'a Data, cells: &[&CellName], subject: &str, metric: &str) -> Line<'a> {
    let point = |cell: &&CellName| {
        let summary = data.summary(cell, subject, metric)?;
        Some((cell.payload_bytes as f64, summary))
    };
    Line {
        look: data.look(subject),
        points: cells.iter().filter_map(point).collect(),
    }
}

/// A row of small areas, one for each size, with the same vertical axis.
fn draw_by_queues(
    scene: &mut Scene,
    data: &Data,
    cells: &[&CellName],
    subjects: &[&String],
    metric: &str,
    ((left, right), top, label): ((f64, f64), f64, &str),
) {
    let bottom = top + BY_QUEUES_HEIGHT;
    let mut counts: Vec<u16> = subjects.iter().map(|subject| queues(subject)).collect();
    counts.sort_unstable();
    counts.dedup();
    let counts: Vec<f64> = counts.into_iter().map(f64::from).collect();
    let programs = programs(subjects);
    let baseline = &data.metadata.baseline;
    let in_rows = subjects
        .iter()
        .filter(|subject| *subject == &baseline || programs.contains(&base_name(subject)));
    let in_rows: Vec<_> = in_rows.collect();
    let highs = cells.iter().flat_map(|cell| {
        in_rows
            .iter()
            .filter_map(|subject| data.summary(cell, subject, metric))
            .map(|s| s.high)
    });
    let y = Axis::from_zero(highs.fold(0.0, f64::max), (bottom, top));
    let width = (right - left - GAP * (cells.len() as f64 - 1.0)) / cells.len() as f64;
    for (index, cell) in cells.iter().enumerate() {
        let from = left + (width + GAP) * index as f64;
        let x = Axis::at_values(&counts, (from, from + width));
        draw_left(
            scene,
            &y,
            (from, from + width),
            if index == 0 { label } else { "" },
        );
        x.draw_below(
            scene,
            (top, bottom),
            if index == cells.len() / 2 {
                "queues"
            } else {
                ""
            },
        );
        let name = format!("{} bytes", cell.payload_bytes);
        let name = Text::new(name, (from + width / 2.0, top - 11.0), NAME_SIZE);
        scene.text(name.anchor(Anchor::Middle));
        if let Some(summary) = data.summary(cell, baseline, metric) {
            let at = y.at(summary.median);
            scene.path(&[(from, at), (from + width, at)], 1.4, BLACK, DASHED);
        }
        let lines = programs.iter().map(|program| {
            let own = subjects
                .iter()
                .filter(|subject| base_name(subject) == *program);
            let point = |subject: &&String| {
                let summary = data.summary(cell, subject, metric)?;
                Some((f64::from(queues(subject)), summary))
            };
            Line {
                look: data.look(program),
                points: own.filter_map(point).collect(),
            }
        });
        draw_lines(scene, &lines.collect::<Vec<_>>(), &x, &y);
    }
}

/// The numbers stand at the first area of a row only.
fn draw_left(scene: &mut Scene, y: &Axis, edges: (f64, f64), label: &str) {
    match label {
        "" => y.draw_grid(scene, edges),
        label => y.draw_left(scene, edges, label),
    }
}

/// The names of what was measured with several numbers of queues.
fn programs<'a>(subjects: &[&'a String]) -> Vec<&'a str> {
    let mut programs: Vec<&str> = Vec::new();
    for subject in subjects.iter().filter(|subject| queues(subject) > 1) {
        if !programs.contains(&base_name(subject)) {
            programs.push(base_name(subject));
        }
    }
    programs
}

fn draw_lines(scene: &mut Scene, lines: &[Line], x: &Axis, y: &Axis) {
    for line in lines {
        let at = |(value, summary): &(f64, &Summary)| (x.at(*value), y.at(summary.median));
        let points: Vec<Point> = line.points.iter().map(at).collect();
        scene.path(&points, LINE_WIDTH, line.look.colour, line.look.dash);
        for (value, summary) in &line.points {
            let x = x.at(*value);
            let interval = [(x, y.at(summary.low)), (x, y.at(summary.high))];
            scene.path(&interval, 1.6, line.look.colour, SOLID);
        }
    }
    for line in lines {
        for (value, summary) in &line.points {
            scene.marker(
                (x.at(*value), y.at(summary.median)),
                MARKER_RADIUS,
                &line.look,
            );
        }
    }
}
