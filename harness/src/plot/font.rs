// SPDX-License-Identifier: GPL-2.0-or-later
//! Measures the width of texts in figures with the embedded font Noto Sans (SIL Open Font License 1.1); no installed
//! font is needed.

use std::sync::OnceLock;

use ab_glyph::{Font, FontRef, PxScale, ScaleFont};

/// Font families of an SVG. Noto Sans may be missing on the viewer's machine; the fallbacks have similar widths.
pub const FAMILIES: &str = "Noto Sans, DejaVu Sans, Arial, sans-serif";
/// Half the x-height of Noto Sans, in ems: the meaning of `0.5ex` in an SVG.
pub const HALF_X_HEIGHT: f64 = 0.268;
/// Half the height of capitals and digits of Noto Sans, in ems.
pub const HALF_CAPITAL: f64 = 0.357;

/// Returns the regular or the bold face.
fn face(bold: bool) -> &'static FontRef<'static> {
    static FACES: OnceLock<[FontRef<'static>; 2]> = OnceLock::new();
    let faces = FACES.get_or_init(|| {
        [notosans::REGULAR_TTF, notosans::BOLD_TTF]
            .map(|bytes| FontRef::try_from_slice(bytes).expect("an embedded font is a font"))
    });
    &faces[usize::from(bold)]
}

/// Converts an em to ab_glyph's scale, which refers to the face's height.
fn scale(face: &FontRef, em: f64) -> PxScale {
    let units_per_em = face.units_per_em().expect("Noto Sans has it");
    PxScale::from((em * f64::from(face.height_unscaled() / units_per_em)) as f32)
}

/// Returns the width of a text at this size (its em), in the unit of the size.
pub fn width(text: &str, em: f64, bold: bool) -> f64 {
    let face = face(bold).as_scaled(scale(face(bold), em));
    let mut last = None;
    let mut width = 0.0;
    for character in text.chars() {
        let glyph = face.glyph_id(character);
        width += last.map_or(0.0, |last| face.kern(last, glyph)) + face.h_advance(glyph);
        last = Some(glyph);
    }
    f64::from(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_that_figures_use_has_a_glyph() {
        for character in "µ–±×≤…·%/@#".chars() {
            for bold in [false, true] {
                assert_ne!(face(bold).glyph_id(character).0, 0, "{character}");
            }
        }
    }

    #[test]
    fn widths_grow_with_text_and_size() {
        let short = width("12", 10.0, false);
        assert!((width("1212", 10.0, false) - 2.0 * short).abs() < 0.01);
        assert!((width("12", 20.0, false) - 2.0 * short).abs() < 0.01);
        // A digit of Noto Sans is 572 of 1000 units wide.
        assert!((short - 11.44).abs() < 0.01, "{short}");
    }
}
