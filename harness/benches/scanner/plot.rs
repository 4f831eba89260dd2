// SPDX-License-Identifier: GPL-2.0-or-later
//! The two figures: wall time and CPU time over the number of targets, both logarithmic.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

/// Subject, and its points: targets and seconds.
pub type Curve = (String, Vec<(f64, f64)>);

const SIZE: (u32, u32) = (900, 560);

pub fn draw(file: &Path, title: &str, unit: &str, curves: &[Curve]) -> anyhow::Result<()> {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points().map(|point| point.1).fold(0.0, f64::max);
    let failed = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", file.display());
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let (first, last) = (2f64.powi(8), 2f64.powi(16));
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(
            (first..last).log_scale().base(2.0),
            (low * 0.8..high * 1.3).log_scale(),
        )
        .map_err(|error| failed(&error))?;
    chart
        .configure_mesh()
        .x_desc("targets")
        .y_desc(unit)
        .x_label_formatter(&|targets| format!("{targets:.0}"))
        .y_label_formatter(&|seconds| format!("{seconds:.3}"))
        .light_line_style(WHITE)
        .draw()
        .map_err(|error| failed(&error))?;
    for (at, (name, points)) in curves.iter().enumerate() {
        let colour = Palette99::pick(at).to_rgba();
        chart
            .draw_series(
                LineSeries::new(points.iter().copied(), colour.stroke_width(2)).point_size(3),
            )
            .map_err(|error| failed(&error))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()
        .map_err(|error| failed(&error))?;
    area.present().map_err(|error| failed(&error))
}
