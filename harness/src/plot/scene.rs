// SPDX-License-Identifier: GPL-2.0-or-later
//! A figure as a list of shapes, and its SVG, made by plotters.
//!
//! Lengths are in pixels of the figure at its normal size, y downwards.

use std::io;

use plotters::backend::SVGBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::TextStyle;
use plotters::style::{Color, FontStyle, FontTransform, IntoFont, RGBAColor, RGBColor, ShapeStyle};
use plotters_backend::{DrawingBackend, DrawingErrorKind};

use super::font;
use super::palette::{Dash, Look, Marker, Rgb, SOLID, WHITE};
pub use super::text::{Anchor, Point, Text};

/// plotters uses whole units, so a pixel has several units.
const UNITS_PER_PIXEL: f64 = 10.0;
/// plotters treats a font's size as 1.24 times its em.
const SIZE_PER_EM: f64 = 1.24;

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Line {
        points: Vec<Point>,
        width: f64,
        colour: Rgb,
    },
    Area {
        points: Vec<Point>,
        colour: Rgb,
        alpha: f64,
    },
    Disc {
        centre: Point,
        radius: f64,
        colour: Rgb,
        alpha: f64,
    },
    Text(Text),
}

/// Shapes of a figure, the last on top.
pub struct Scene {
    pub width: f64,
    pub height: f64,
    shapes: Vec<Shape>,
}

impl Scene {
    pub fn new(width: f64, height: f64) -> Scene {
        Scene {
            width,
            height,
            shapes: Vec::new(),
        }
    }

    /// Returns the texts in drawing order.
    #[cfg(test)]
    pub fn texts(&self) -> impl Iterator<Item = &Text> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Text(text) => Some(text),
            _ => None,
        })
    }

    pub fn line(&mut self, from: Point, to: Point, width: f64, colour: Rgb) {
        self.path(&[from, to], width, colour, SOLID);
    }

    /// Draws a line through all points.
    pub fn path(&mut self, points: &[Point], width: f64, colour: Rgb, dash: Dash) {
        for points in strokes(points, dash) {
            self.shapes.push(Shape::Line {
                points,
                width,
                colour,
            });
        }
    }

    pub fn area(&mut self, points: Vec<Point>, colour: Rgb, alpha: f64) {
        self.shapes.push(Shape::Area {
            points,
            colour,
            alpha,
        });
    }

    pub fn disc(&mut self, centre: Point, radius: f64, colour: Rgb, alpha: f64) {
        self.shapes.push(Shape::Disc {
            centre,
            radius,
            colour,
            alpha,
        });
    }

    /// Draws the marker of a subject, about 2 `radius` wide, with a white rim that separates it from lines.
    pub fn marker(&mut self, at: Point, radius: f64, look: &Look) {
        self.marker_shape(at, radius + 1.2, look.marker, WHITE);
        self.marker_shape(at, radius, look.marker, look.colour);
        if look.hollow {
            self.marker_shape(at, radius - 1.8, look.marker, WHITE);
        }
    }

    fn marker_shape(&mut self, (x, y): Point, r: f64, marker: Marker, colour: Rgb) {
        let corners: &[Point] = match marker {
            Marker::Circle => return self.disc((x, y), r, colour, 1.0),
            Marker::Square => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            Marker::Diamond => &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
            Marker::Up => &[(0.0, -1.25), (1.2, 0.9), (-1.2, 0.9)],
            Marker::Down => &[(0.0, 1.25), (-1.2, -0.9), (1.2, -0.9)],
            Marker::Cross => &[
                (-0.4, -1.2),
                (0.4, -1.2),
                (0.4, -0.4),
                (1.2, -0.4),
                (1.2, 0.4),
                (0.4, 0.4),
                (0.4, 1.2),
                (-0.4, 1.2),
                (-0.4, 0.4),
                (-1.2, 0.4),
                (-1.2, -0.4),
                (-0.4, -0.4),
            ],
        };
        let corner = |(dx, dy): &Point| (x + r * dx, y + r * dy);
        self.area(corners.iter().map(corner).collect(), colour, 1.0);
    }

    pub fn text(&mut self, text: Text) {
        if !text.text.is_empty() {
            self.shapes.push(Shape::Text(text));
        }
    }

    /// Returns the figure as an SVG of its normal size.
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        let units = |pixels: f64| (pixels * UNITS_PER_PIXEL) as u32;
        let size = (units(self.width), units(self.height));
        let mut backend = SVGBackend::with_string(&mut svg, size);
        // Without a background the picture would be black on black for some readers.
        let corner = (unit(self.width), unit(self.height));
        in_memory(backend.draw_rect((0, 0), corner, &style(WHITE, 1.0, 0.0), true));
        self.draw_on(&mut backend);
        drop(backend);
        // plotters writes the size in units.
        let written = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
        let wanted = format!("<svg width=\"{}\" height=\"{}\"", self.width, self.height);
        dots(&svg.replacen(&written, &wanted, 1))
    }

    fn draw_on(&self, backend: &mut SVGBackend) {
        for shape in &self.shapes {
            let done = match shape {
                Shape::Line {
                    points,
                    width,
                    colour,
                } => backend.draw_path(points.iter().map(units), &style(*colour, 1.0, *width)),
                Shape::Area {
                    points,
                    colour,
                    alpha,
                } => backend.fill_polygon(points.iter().map(units), &style(*colour, *alpha, 0.0)),
                Shape::Disc {
                    centre,
                    radius,
                    colour,
                    alpha,
                } => {
                    let radius = unit(*radius).max(0) as u32;
                    backend.draw_circle(units(centre), radius, &style(*colour, *alpha, 0.0), true)
                }
                Shape::Text(text) => draw_text(backend, text),
            };
            in_memory(done);
        }
        in_memory(backend.present());
    }
}

/// Replaces each circle by a shorter element: a stroke without length and with a round end. Their common attributes are
/// in a group. Most shapes of a figure of rounds are circles. Each circle remains an element, so that overlaps are
/// darker.
fn dots(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut group = None;
    for line in svg.lines() {
        let circle = circle(line);
        let attributes = circle.as_ref().map(|(_, attributes)| attributes.clone());
        if group != attributes {
            if group.is_some() {
                out.push_str("</g>\n");
            }
            if let Some(attributes) = &attributes {
                out.push_str(attributes);
                out.push('\n');
            }
            group = attributes;
        }
        match circle {
            Some((at, _)) => out.push_str(&format!("<path d=\"M{at}h0\"/>\n")),
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// Parses a line of plotters' SVG. Returns a circle's centre, and the start tag of a group with the circle's
/// attributes; None if the line is no circle.
fn circle(line: &str) -> Option<(String, String)> {
    let mut values = line.strip_prefix("<circle ")?.split('"').skip(1).step_by(2);
    let (x, y) = (values.next()?, values.next()?);
    let radius: u32 = values.next()?.parse().ok()?;
    let (opacity, fill) = (values.next()?, values.next()?);
    let group = format!(
        "<g stroke=\"{fill}\" stroke-opacity=\"{opacity}\" stroke-width=\"{}\" stroke-linecap=\"round\">",
        2 * radius
    );
    Some((format!("{x} {y}"), group))
}

fn draw_text(backend: &mut SVGBackend, text: &Text) -> Result<(), DrawingErrorKind<io::Error>> {
    // plotters centres a text at half of its x-height.
    let down = text.size * (font::HALF_CAPITAL - font::HALF_X_HEIGHT);
    let (x, y) = text.at;
    let (at, turn) = match text.upright {
        true => ((x + down, y), FontTransform::Rotate270),
        false => ((x, y + down), FontTransform::None),
    };
    let anchor = match text.anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    let face = if text.bold {
        FontStyle::Bold
    } else {
        FontStyle::Normal
    };
    let size = text.size * SIZE_PER_EM * UNITS_PER_PIXEL;
    let font = (font::FAMILIES, size).into_font().style(face);
    let colour = colour(text.colour, 1.0);
    let style = TextStyle::from(font)
        .color(&colour)
        .pos(Pos::new(anchor, VPos::Center))
        .transform(turn);
    backend.draw_text(&text.text, &style, units(&at))
}

/// Unwraps the result of drawing into memory, which can't fail.
fn in_memory(done: Result<(), DrawingErrorKind<io::Error>>) {
    done.expect("drawing into memory");
}

fn unit(pixels: f64) -> i32 {
    (pixels * UNITS_PER_PIXEL).round() as i32
}

fn units((x, y): &Point) -> (i32, i32) {
    (unit(*x), unit(*y))
}

fn colour((red, green, blue): Rgb, alpha: f64) -> RGBAColor {
    RGBColor(red, green, blue).mix(alpha)
}

fn style(rgb: Rgb, alpha: f64, width: f64) -> ShapeStyle {
    ShapeStyle {
        color: colour(rgb, alpha),
        filled: true,
        stroke_width: unit(width) as u32,
    }
}

/// Splits a line into the strokes of a dash pattern; a solid line is one stroke.
fn strokes(points: &[Point], dash: Dash) -> Vec<Vec<Point>> {
    if dash.is_empty() || points.len() < 2 {
        return vec![points.to_vec()];
    }
    let mut strokes = Vec::new();
    let mut stroke = vec![points[0]];
    let (mut turn, mut left) = (0, dash[0]);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        loop {
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = dx.hypot(dy);
            if length < left {
                left -= length;
                stroke.push(to);
                break;
            }
            from = (from.0 + dx * left / length, from.1 + dy * left / length);
            stroke.push(from);
            // Every second part is a gap.
            let done = std::mem::replace(&mut stroke, vec![from]);
            if turn % 2 == 0 {
                strokes.push(done);
            }
            turn += 1;
            left = dash[turn % dash.len()];
        }
    }
    if turn % 2 == 0 && stroke.len() > 1 {
        strokes.push(stroke);
    }
    strokes
}

#[cfg(test)]
mod tests {
    use super::super::palette::DASHED;
    use super::*;

    #[test]
    fn a_dash_goes_round_corners_and_ends_with_the_line() {
        let line = [(0.0, 0.0), (5.0, 0.0), (5.0, 20.0)];
        let strokes = strokes(&line, DASHED);
        assert_eq!(strokes[0], [(0.0, 0.0), (5.0, 0.0), (5.0, 2.0)]);
        assert_eq!(strokes[1], [(5.0, 6.0), (5.0, 13.0)]);
        assert_eq!(strokes[2], [(5.0, 17.0), (5.0, 20.0)]);
        assert_eq!(strokes.len(), 3);
    }

    #[test]
    fn discs_of_one_look_share_a_group() {
        let mut scene = Scene::new(120.0, 80.0);
        for (x, alpha) in [(10.0, 0.5), (20.0, 0.5), (30.0, 1.0)] {
            scene.disc((x, 40.0), 2.0, (0, 0, 0), alpha);
        }
        let svg = scene.svg();
        let group = |opacity| {
            format!("<g stroke=\"#000000\" stroke-opacity=\"{opacity}\" stroke-width=\"40\" stroke-linecap=\"round\">\n")
        };
        let wanted = group("0.5")
            + "<path d=\"M100 400h0\"/>\n<path d=\"M200 400h0\"/>\n</g>\n"
            + &group("1")
            + "<path d=\"M300 400h0\"/>\n</g>\n";
        assert!(svg.contains(&wanted), "{svg}");
        assert!(!svg.contains("<circle"), "{svg}");
    }

    #[test]
    fn an_svg_has_its_normal_size_and_its_text() {
        let mut scene = Scene::new(120.0, 80.0);
        scene.text(Text::new("a < b", (10.0, 40.0), 12.0).bold());
        let svg = scene.svg();
        let head = "<svg width=\"120\" height=\"80\" viewBox=\"0 0 1200 800\"";
        assert!(svg.starts_with(head), "{svg}");
        assert!(
            svg.contains("a &lt; b") && svg.contains("font-weight=\"bold\""),
            "{svg}"
        );
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
    }
}
