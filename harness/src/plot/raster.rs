// SPDX-License-Identifier: GPL-2.0-or-later
//! A backend of plotters that makes a PNG with smooth edges: every pixel gets as much of a colour as a shape
//! covers of it. plotters' own bitmaps have hard edges, and their letters stand without their bearings.

use std::convert::Infallible;

use ab_glyph_rasterizer::{point, Rasterizer};
use plotters::style::text_anchor::HPos;
use plotters::style::{FontStyle, FontTransform};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

use super::font;

/// plotters takes a font's size for 1.24 times its em.
pub const SIZE_PER_EM: f64 = 1.24;
/// Corners of what stands for a circle.
const CIRCLE_CORNERS: usize = 32;

type Done = Result<(), DrawingErrorKind<Infallible>>;
type Point = (f64, f64);

/// A picture in memory, white at first.
pub struct Raster {
    width: usize,
    height: usize,
    /// Pixels for one unit of plotters' coordinates.
    scale: f64,
    /// Rows from the top, three bytes a pixel: red, green, blue.
    bytes: Vec<u8>,
}

impl Raster {
    pub fn new(width: usize, height: usize, scale: f64) -> Raster {
        Raster {
            width,
            height,
            scale,
            bytes: vec![255; width * height * 3],
        }
    }

    /// The picture as a PNG file.
    pub fn png(&self) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Balanced);
        let written = encoder
            .write_header()
            .and_then(|mut writer| writer.write_image_data(&self.bytes));
        written.expect("a PNG in memory");
        file
    }

    fn to_pixels(&self, (x, y): BackendCoord) -> Point {
        (f64::from(x) * self.scale, f64::from(y) * self.scale)
    }

    /// Mixes a colour into a pixel; those beyond the picture are left out.
    fn blend(&mut self, x: i32, y: i32, colour: BackendColor, coverage: f64) {
        let inside = |at: i32, size: usize| usize::try_from(at).ok().filter(|at| *at < size);
        let (Some(x), Some(y)) = (inside(x, self.width), inside(y, self.height)) else {
            return;
        };
        let share = colour.alpha * coverage.min(1.0);
        let at = (y * self.width + x) * 3;
        let (red, green, blue) = colour.rgb;
        for (byte, wanted) in self.bytes[at..at + 3].iter_mut().zip([red, green, blue]) {
            let mixed = f64::from(*byte) * (1.0 - share) + f64::from(wanted) * share;
            *byte = mixed.round() as u8;
        }
    }

    /// Fills polygons of the same orientation as one shape: where they overlap they cover once.
    fn fill(&mut self, polygons: &[Vec<Point>], colour: BackendColor) {
        let all = || polygons.iter().flatten();
        let low = |low: Point, p: &Point| (low.0.min(p.0), low.1.min(p.1));
        let high = |high: Point, p: &Point| (high.0.max(p.0), high.1.max(p.1));
        let (left, top) = all().fold((f64::MAX, f64::MAX), low);
        let (right, bottom) = all().fold((f64::MIN, f64::MIN), high);
        if left > right || colour.alpha == 0.0 {
            return;
        }
        let (left, top) = (left.floor(), top.floor());
        let size = |from: f64, to: f64| (to - from).ceil() as usize + 1;
        let mut rasterizer = Rasterizer::new(size(left, right), size(top, bottom));
        let local = |p: &Point| point((p.0 - left) as f32, (p.1 - top) as f32);
        for polygon in polygons {
            let next = polygon.iter().cycle().skip(1);
            for (from, to) in polygon.iter().zip(next) {
                rasterizer.draw_line(local(from), local(to));
            }
        }
        rasterizer.for_each_pixel_2d(|x, y, coverage| {
            if coverage > 0.0 {
                let (x, y) = (left as i32 + x as i32, top as i32 + y as i32);
                self.blend(x, y, colour, f64::from(coverage));
            }
        });
    }
}

impl DrawingBackend for Raster {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        let units = |pixels: usize| (pixels as f64 / self.scale) as u32;
        (units(self.width), units(self.height))
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, at: BackendCoord, colour: BackendColor) -> Done {
        let (x, y) = self.to_pixels(at);
        self.blend(x as i32, y as i32, colour, 1.0);
        Ok(())
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Done {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (left, top): BackendCoord,
        (right, bottom): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        let corners = [(left, top), (right, top), (right, bottom), (left, bottom)];
        match fill {
            true => self.fill_polygon(corners, style),
            false => self.draw_path(corners.into_iter().chain([(left, top)]), style),
        }
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        let points: Vec<Point> = path.into_iter().map(|at| self.to_pixels(at)).collect();
        let half = f64::from(style.stroke_width()) * self.scale / 2.0;
        let segments = points
            .windows(2)
            .filter_map(|pair| stroke(pair[0], pair[1], half));
        // Round corners; the two ends stay straight.
        let corners = points.iter().skip(1).take(points.len().saturating_sub(2));
        let corners = corners.map(|corner| circle(*corner, half));
        let polygons: Vec<Vec<Point>> = segments.chain(corners).collect();
        self.fill(&polygons, style.color());
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        centre: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done {
        let outline = circle(self.to_pixels(centre), f64::from(radius) * self.scale);
        if fill {
            self.fill(&[outline], style.color());
            return Ok(());
        }
        let half = f64::from(style.stroke_width()) * self.scale / 2.0;
        let next = outline.iter().cycle().skip(1);
        let pieces = outline
            .iter()
            .zip(next)
            .filter_map(|(a, b)| stroke(*a, *b, half));
        self.fill(&pieces.collect::<Vec<_>>(), style.color());
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> Done {
        let polygon: Vec<Point> = corners.into_iter().map(|at| self.to_pixels(at)).collect();
        self.fill(&[polygon], style.color());
        Ok(())
    }

    /// As plotters' SVG has it: middled at half the height of small letters, turned around `at`.
    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Done {
        let em = style.size() / SIZE_PER_EM * self.scale;
        let bold = matches!(style.style(), FontStyle::Bold);
        let (x, y) = self.to_pixels(at);
        let before = match style.anchor().h_pos {
            HPos::Left => 0.0,
            HPos::Center => font::width(text, em, bold) / 2.0,
            HPos::Right => font::width(text, em, bold),
        };
        let down = em * font::HALF_X_HEIGHT;
        let (colour, turn) = (style.color(), style.transform());
        font::draw(text, em, bold, |dx, dy, coverage| {
            let along = (f64::from(dx) - before).round() as i32;
            let across = (f64::from(dy) + down).round() as i32;
            let (turned_x, turned_y) = match turn {
                FontTransform::None => (along, across),
                FontTransform::Rotate90 => (-across, along),
                FontTransform::Rotate180 => (-along, -across),
                FontTransform::Rotate270 => (across, -along),
            };
            let (x, y) = (x.round() as i32 + turned_x, y.round() as i32 + turned_y);
            self.blend(x, y, colour, f64::from(coverage));
        });
        Ok(())
    }
}

/// The rectangle around a piece of a line; None for a piece without length.
fn stroke(from: Point, to: Point, half: f64) -> Option<Vec<Point>> {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return None;
    }
    let (nx, ny) = (-dy / length * half, dx / length * half);
    // All strokes and circles turn the same way: see `Raster::fill`.
    Some(vec![
        (from.0 - nx, from.1 - ny),
        (to.0 - nx, to.1 - ny),
        (to.0 + nx, to.1 + ny),
        (from.0 + nx, from.1 + ny),
    ])
}

fn circle((x, y): Point, radius: f64) -> Vec<Point> {
    let turn = std::f64::consts::TAU / CIRCLE_CORNERS as f64;
    let corner = |index: usize| (turn * index as f64).sin_cos();
    let corners = (0..CIRCLE_CORNERS).map(corner);
    corners
        .map(|(sin, cos)| (x + radius * cos, y + radius * sin))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::style::{Color, RGBColor, ShapeStyle};

    fn pen(alpha: f64) -> ShapeStyle {
        let color = RGBColor(0, 0, 0).mix(alpha);
        ShapeStyle {
            color,
            filled: true,
            stroke_width: 2,
        }
    }

    fn shares(raster: &Raster, y: usize) -> Vec<u8> {
        let row = &raster.bytes[y * raster.width * 3..][..raster.width * 3];
        row.chunks(3).map(|pixel| pixel[0]).collect()
    }

    #[test]
    fn an_edge_between_pixels_covers_each_by_its_share() {
        let mut raster = Raster::new(4, 2, 0.1);
        let style = pen(1.0);
        raster.draw_rect((15, 0), (30, 10), &style, true).unwrap();
        assert_eq!(shares(&raster, 0), [255, 128, 0, 255]);
        assert_eq!(shares(&raster, 1), [255; 4]);
    }

    #[test]
    fn pieces_of_a_line_that_overlap_cover_once() {
        let mut raster = Raster::new(8, 8, 1.0);
        let style = pen(0.5);
        raster.draw_path([(1, 2), (6, 2), (6, 7)], &style).unwrap();
        let darkest = raster.bytes.iter().min();
        assert_eq!(darkest, Some(&128));
        assert_eq!(shares(&raster, 1)[1..5], [128; 4]);
        assert_eq!(shares(&raster, 4)[4..8], [255, 128, 128, 255]);
    }

    #[test]
    fn what_lies_beyond_the_picture_is_left_out() {
        let mut raster = Raster::new(4, 4, 1.0);
        let style = pen(1.0);
        raster.draw_path([(-9, -9), (90, 90)], &style).unwrap();
        raster.draw_circle((-5, 2), 3, &style, true).unwrap();
        assert_eq!(shares(&raster, 0)[0], 0);
        assert_eq!(shares(&raster, 0)[3], 255);
    }

    #[test]
    fn the_png_is_one() {
        let png = Raster::new(3, 2, 1.0).png();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png))
            .read_info()
            .unwrap();
        let mut bytes = vec![0; 3 * 2 * 3];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!((info.width, info.height, bytes), (3, 2, vec![255; 18]));
    }
}
