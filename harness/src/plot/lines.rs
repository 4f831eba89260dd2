// SPDX-License-Identifier: GPL-2.0-or-later
//! Parts shared by line figures: the area with a legend on its right, lines, intervals and markers.

use super::axis::Axis;
use super::data::{Data, Line, LinePoint};
use super::frame::{self, Entry, BOTTOM, MARGIN, TOP};
use super::palette::SOLID;
use super::scene::{Point, Scene};

const WIDTH: f64 = 1060.0;
const HEIGHT: f64 = 500.0;
/// Width left of an area, for the tick labels and title of its vertical axis.
const LEFT: f64 = 82.0;
/// Height below an area, for the tick labels and title of its horizontal axis.
const BELOW: f64 = 48.0;
/// Width of the line that is drawn first, beneath all other lines, and of the line that is drawn last, on top.
const LINE_WIDTHS: (f64, f64) = (3.2, 1.7);
/// Distance between the markers of two subjects at the same point.
const BESIDE: f64 = 7.0;
const MARKER_RADIUS: f64 = 4.6;
/// Approximate number of markers per line.
const MARKERS: usize = 8;

/// Area for the lines of a figure, in pixels.
pub struct Area {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// Returns an empty figure with its legend, and the area for the lines.
pub fn plot_area(
    title: &str,
    subtitle: &str,
    note: &str,
    data: &Data,
    entries: &[Entry],
) -> (Scene, Area) {
    let legend = frame::legend_width(entries);
    let height = HEIGHT.max(TOP + frame::legend_height(entries) + BELOW + BOTTOM);
    let mut scene = frame::scene((WIDTH, height), title, subtitle, note, &data.metadata);
    let right = WIDTH - MARGIN - legend;
    frame::draw_legend(&mut scene, (right, TOP - 4.0), entries);
    let area = Area {
        left: LEFT,
        right: right - 22.0,
        top: TOP,
        bottom: height - BOTTOM - BELOW,
    };
    (scene, area)
}

/// Draws the lines. A line that is drawn later is thinner, so that the lines beneath it stay visible.
pub fn draw_lines(scene: &mut Scene, data: &Data, lines: &[Line], x: &Axis, y: &Axis) {
    for (index, line) in lines.iter().enumerate() {
        let look = data.look(&line.subject);
        let at = |point: &LinePoint| (x.at(point.x), y.at(point.median));
        let points: Vec<Point> = line.points.iter().map(at).collect();
        let up = index as f64 / (lines.len() as f64 - 1.0).max(1.0);
        let width = LINE_WIDTHS.0 + (LINE_WIDTHS.1 - LINE_WIDTHS.0) * up;
        scene.path(&points, width, look.colour, look.dash);
    }
    for (index, line) in lines.iter().enumerate() {
        let look = data.look(&line.subject);
        // Each line has its markers at different points, so that the markers of overlapping lines don't collide.
        let step = line.points.len().div_ceil(MARKERS).max(1);
        let first = index * step / lines.len();
        for point in line.points.iter().skip(first).step_by(step) {
            scene.marker((x.at(point.x), y.at(point.median)), MARKER_RADIUS, &look);
        }
    }
}

/// Draws lines with an interval and a marker at each point. Points of different subjects are side by side.
pub fn draw_with_intervals(scene: &mut Scene, data: &Data, lines: &[Line], x: &Axis, y: &Axis) {
    let aside = |index: usize| BESIDE * (index as f64 - (lines.len() as f64 - 1.0) / 2.0);
    for (index, line) in lines.iter().enumerate() {
        let look = data.look(&line.subject);
        let at = |point: &LinePoint| (x.at(point.x) + aside(index), y.at(point.median));
        let points: Vec<Point> = line.points.iter().map(at).collect();
        scene.path(&points, LINE_WIDTHS.1, look.colour, look.dash);
        for point in &line.points {
            let x = x.at(point.x) + aside(index);
            let interval = [(x, y.at(point.low)), (x, y.at(point.high))];
            scene.path(&interval, LINE_WIDTHS.1, look.colour, SOLID);
        }
        for point in points {
            scene.marker(point, MARKER_RADIUS, &look);
        }
    }
}
