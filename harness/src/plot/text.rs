// SPDX-License-Identifier: GPL-2.0-or-later
//! A text on a figure, and the space that it occupies.

use super::font;
use super::palette::{Rgb, BLACK};

/// A position in pixels of the figure at its normal size, y downwards.
pub type Point = (f64, f64);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    pub text: String,
    /// Position of the text's start, middle or end, at half the height of its capitals.
    pub at: Point,
    /// Size of the font's em in pixels.
    pub size: f64,
    pub anchor: Anchor,
    pub bold: bool,
    pub colour: Rgb,
    /// True if the text reads upwards.
    pub upright: bool,
}

impl Text {
    /// Returns a black, regular text that starts at `at`.
    pub fn new(text: impl Into<String>, at: Point, size: f64) -> Text {
        Text {
            text: text.into(),
            at,
            size,
            anchor: Anchor::Start,
            bold: false,
            colour: BLACK,
            upright: false,
        }
    }

    pub fn anchor(self, anchor: Anchor) -> Text {
        Text { anchor, ..self }
    }

    pub fn colour(self, colour: Rgb) -> Text {
        Text { colour, ..self }
    }

    pub fn bold(self) -> Text {
        Text { bold: true, ..self }
    }

    pub fn upright(self) -> Text {
        Text {
            upright: true,
            ..self
        }
    }

    /// Returns the left, top, right and bottom of the covered area.
    pub fn bounds(&self) -> (f64, f64, f64, f64) {
        let width = font::width(&self.text, self.size, self.bold);
        let before = match self.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => width / 2.0,
            Anchor::End => width,
        };
        let (x, y) = self.at;
        let half = self.size * font::HALF_CAPITAL;
        match self.upright {
            true => (x - half, y + before - width, x + half, y + before),
            false => (x - before, y - half, x - before + width, y + half),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turned_text_covers_a_turned_box() {
        let text = Text::new("12", (100.0, 100.0), 10.0).anchor(Anchor::Middle);
        let (left, top, right, bottom) = text.bounds();
        let (l, t, r, b) = text.upright().bounds();
        assert!((right - left - (b - t)).abs() < 1e-9 && (bottom - top - (r - l)).abs() < 1e-9);
        assert!((left + right - 200.0).abs() < 1e-9 && (t + b - 200.0).abs() < 1e-9);
    }
}
