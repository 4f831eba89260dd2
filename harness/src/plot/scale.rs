// SPDX-License-Identifier: GPL-2.0-or-later
//! A metric over the size of a load (of its payload, for example), and over the number of queues for each size.

use super::axis::Axis;
use super::data::Data;
use super::frame::{self, Entry, BOTTOM, MARGIN, TOP};
use super::palette::{base_name, queues, Look, DASHED, SOLID};
use super::scene::{Anchor, Point, Scene, Text};
use crate::store::{CellName, Summary};

const WIDTH: f64 = 1060.0;
const BY_SIZE_HEIGHT: f64 = 300.0;
const BY_QUEUES_HEIGHT: f64 = 190.0;
/// Width left of an area, for the tick labels and title of its vertical axis.
const LEFT: f64 = 82.0;
/// Height below an area, for the tick labels and title of its horizontal axis.
const BELOW: f64 = 52.0;
/// Height for the name above each area of the lower row.
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

/// Contents of one figure.
struct Figure<'a> {
    data: &'a Data,
    /// Loads in the figure, sorted by size (`payload_bytes`), in which alone they differ.
    cells: Vec<&'a CellName>,
    subjects: Vec<&'a str>,
    metric: &'a str,
    unit: &'a str,
}

/// Draws a metric over the size of the loads (if there are several sizes), and over the number of queues for each size
/// (if a subject has several queues). Returns None without data.
/// - cells: loads, which differ only in that size.
pub fn draw(data: &Data, cells: &[CellName], metric: &str, title: &str) -> Option<Scene> {
    let figure = Figure::new(data, cells, metric)?;
    let (by_size, by_queues) = (figure.is_by_size(), figure.is_by_queues());
    let part = |there: bool, height: f64| if there { height } else { 0.0 };
    let height = TOP
        + part(by_size, BY_SIZE_HEIGHT + BELOW)
        + part(by_size && by_queues, NAME)
        + part(by_queues, BY_QUEUES_HEIGHT + BELOW)
        + BOTTOM;
    let sizes: Vec<usize> = figure.cells.iter().map(|cell| cell.payload_bytes).collect();
    let subtitle = frame::subtitle(&data.metadata, figure.cells[0], &sizes);
    let note = figure.note();
    let mut scene = frame::scene((WIDTH, height), title, &subtitle, &note, &data.metadata);
    let entries = figure.entries();
    let right = WIDTH - MARGIN - frame::legend_width(&entries);
    frame::draw_legend(&mut scene, (right, TOP - 4.0), &entries);
    let edges = (LEFT, right - 24.0);
    let mut top = TOP;
    if by_size {
        figure.draw_by_size(&mut scene, edges, top);
        top += BY_SIZE_HEIGHT + BELOW + NAME;
    }
    if by_queues {
        figure.draw_by_queues(&mut scene, edges, top);
    }
    Some(scene)
}

impl<'a> Figure<'a> {
    fn new(data: &'a Data, cells: &'a [CellName], metric: &'a str) -> Option<Figure<'a>> {
        let mut cells: Vec<&CellName> = cells.iter().collect();
        cells.retain(|cell| !data.subjects_with(cell, metric).is_empty());
        cells.sort_by_key(|cell| cell.payload_bytes);
        let shown = |subject: &&str| {
            let there = |cell: &&CellName| data.summary(cell, subject, metric).is_some();
            original(subject) && cells.iter().any(there)
        };
        let subjects = data.metadata.subjects.iter().map(String::as_str);
        let subjects: Vec<&str> = subjects.filter(shown).collect();
        let unit = subjects
            .iter()
            .find_map(|subject| data.summary(cells.first()?, subject, metric))
            .map_or("", |summary| summary.unit.as_str());
        (!cells.is_empty()).then_some(Figure {
            data,
            cells,
            subjects,
            metric,
            unit,
        })
    }

    fn is_by_size(&self) -> bool {
        self.cells.len() > 1
    }

    fn is_by_queues(&self) -> bool {
        self.subjects.iter().any(|subject| queues(subject) > 1)
    }

    /// Returns the legend entries of everything drawn: one per subject. In a figure over the number of queues only, a
    /// program has one entry for all its numbers of queues.
    fn entries(&self) -> Vec<Entry> {
        let entry = |subject: &str| {
            let look = self.data.look(subject);
            Entry::subject(subject, String::new(), look)
        };
        if self.is_by_size() {
            return self.subjects.iter().map(|subject| entry(subject)).collect();
        }
        let level = |subject: &str| Entry {
            dash: DASHED,
            look: None,
            ..entry(subject)
        };
        let levels = self.without_queues().into_iter().map(level);
        levels
            .chain(self.programs().into_iter().map(entry))
            .collect()
    }

    fn note(&self) -> String {
        let data = self.data;
        let levels = self.without_queues();
        let dashed = match self.is_by_queues() && !levels.is_empty() {
            true => format!(" Dashed, by queues: {}.", levels.join(", ")),
            false => String::new(),
        };
        let mut all = data.metadata.subjects.iter();
        let copies = match all.all(|subject| original(subject)) {
            true => "",
            false => " Copies (#2) are left out.",
        };
        let intervals = data.intervals_in_words(self.cells[0], self.metric);
        format!("Markers and bars: median and {intervals}.{dashed}{copies}")
    }

    /// Returns the names of programs that were measured with more than one queue.
    fn programs(&self) -> Vec<&'a str> {
        let mut programs: Vec<&str> = Vec::new();
        for subject in self.subjects.iter().filter(|subject| queues(subject) > 1) {
            if !programs.contains(&base_name(subject)) {
                programs.push(base_name(subject));
            }
        }
        programs
    }

    /// Returns the subjects whose program was measured with one queue at most.
    fn without_queues(&self) -> Vec<&'a str> {
        let programs = self.programs();
        let subjects = self.subjects.iter().copied();
        let level = |subject: &&str| !programs.contains(&base_name(subject));
        subjects.filter(level).collect()
    }

    /// Returns a vertical axis for all values.
    fn axis(&self, (bottom, top): (f64, f64)) -> Axis {
        let all = self.cells.iter().flat_map(|cell| {
            let summary = |subject: &&str| self.data.summary(cell, subject, self.metric);
            self.subjects.iter().filter_map(summary)
        });
        let values: Vec<f64> = all.flat_map(|s| [s.low, s.median, s.high]).collect();
        Axis::for_values(&values, (bottom, top))
    }

    fn draw_by_size(&self, scene: &mut Scene, (left, right): (f64, f64), top: f64) {
        let bottom = top + BY_SIZE_HEIGHT;
        let y = self.axis((bottom, top));
        let sizes = self.cells.iter().map(|cell| cell.payload_bytes as f64);
        let mut x = Axis::at_values(&sizes.collect::<Vec<_>>(), (left, right));
        x.thin_out(6.0);
        let label = frame::axis_title(self.metric, self.unit);
        y.draw_left(scene, (left, right), &label);
        x.draw_below(scene, (top, bottom), size_label(&self.cells[0].workload));
        let lines = self.subjects.iter().map(|subject| self.size_line(subject));
        draw_lines(scene, &lines.collect::<Vec<_>>(), &x, &y);
    }

    fn size_line(&self, subject: &str) -> Line<'a> {
        let point = |cell: &&CellName| {
            let summary = self.data.summary(cell, subject, self.metric)?;
            Some((cell.payload_bytes as f64, summary))
        };
        Line {
            look: self.data.look(subject),
            points: self.cells.iter().filter_map(point).collect(),
        }
    }

    /// Draws a row of small areas, one per size, with the same vertical axis.
    fn draw_by_queues(&self, scene: &mut Scene, (left, right): (f64, f64), top: f64) {
        let bottom = top + BY_QUEUES_HEIGHT;
        let mut counts: Vec<u16> = self.subjects.iter().map(|name| queues(name)).collect();
        counts.sort_unstable();
        counts.dedup();
        let counts: Vec<f64> = counts.into_iter().map(f64::from).collect();
        let y = self.axis((bottom, top));
        let count = self.cells.len() as f64;
        let width = (right - left - GAP * (count - 1.0)) / count;
        for (index, cell) in self.cells.iter().enumerate() {
            let from = left + (width + GAP) * index as f64;
            let edges = (from, from + width);
            let x = Axis::at_values(&counts, edges);
            // Only the first area of a row has the numbers.
            match index {
                0 => y.draw_left(scene, edges, &frame::short_title(self.metric, self.unit)),
                _ => y.draw_grid(scene, edges),
            }
            let middle = index == self.cells.len() / 2;
            let label = if middle { "queues" } else { "" };
            x.draw_below(scene, (top, bottom), label);
            if self.is_by_size() {
                let name = format!("{} bytes", cell.payload_bytes);
                let name = Text::new(name, (from + width / 2.0, top - 11.0), NAME_SIZE);
                scene.text(name.anchor(Anchor::Middle));
            }
            self.draw_levels(scene, cell, edges, &y);
            let programs = self.programs().into_iter();
            let lines = programs.map(|program| self.queue_line(cell, program));
            draw_lines(scene, &lines.collect::<Vec<_>>(), &x, &y);
        }
    }

    /// Draws each subject of `without_queues` as a horizontal line through the whole area.
    fn draw_levels(&self, scene: &mut Scene, cell: &CellName, edges: (f64, f64), y: &Axis) {
        for subject in self.without_queues() {
            if let Some(summary) = self.data.summary(cell, subject, self.metric) {
                let at = y.at(summary.median);
                let colour = self.data.look(subject).colour;
                scene.path(&[(edges.0, at), (edges.1, at)], 1.4, colour, DASHED);
            }
        }
    }

    fn queue_line(&self, cell: &CellName, program: &str) -> Line<'a> {
        let own = self
            .subjects
            .iter()
            .filter(|name| base_name(name) == program);
        let point = |subject: &&str| {
            let summary = self.data.summary(cell, subject, self.metric)?;
            Some((f64::from(queues(subject)), summary))
        };
        Line {
            look: self.data.look(program),
            points: own.filter_map(point).collect(),
        }
    }
}

/// Returns the label of the axis of sizes: the meaning of a size in the load.
fn size_label(workload: &str) -> &'static str {
    match workload {
        "udp-flood" | "tcp-stream" => "payload of a datagram or write (bytes)",
        "dump" | "dump-slow" | "dump-gone" | "dump-interrupted" => "parts of an answer",
        "verdict" | "verdicts" | "packet" => "bytes of a packet",
        _ => "bytes of a message",
    }
}

/// Returns true if the subject is no copy. A copy shows the noise of a run and would only clutter many lines.
fn original(subject: &str) -> bool {
    !subject.contains('#')
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

#[cfg(test)]
mod tests {
    use super::size_label;

    #[test]
    fn sizes_are_named_by_what_they_are_of() {
        assert!(size_label("udp-flood").starts_with("payload of a datagram"));
        assert_eq!(size_label("dump"), "parts of an answer");
        assert_eq!(size_label("dump-gone"), "parts of an answer");
        assert_eq!(size_label("verdicts"), "bytes of a packet");
        assert_eq!(size_label("echo"), "bytes of a message");
    }
}
