// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables as text, and the format of their numbers.

use std::fmt::Write;

/// Table of one load, or of several loads that differ in their policy's size.
pub struct Table {
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Lines with the ratios of each A/A pair (two copies of one program); empty if the rows contain them.
    pub copies: Vec<String>,
}

/// Returns the placeholder for a missing value.
pub fn absent() -> String {
    "-".into()
}

/// Formats a value with up to three decimals: 123, 12.3, 1.23, 0.123; below 0.001 with one significant digit.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 1e-3 => format!("{value:.3}"),
        size => {
            let digits = (-size.log10()).ceil() as usize;
            format!("{value:.digits$}")
        }
    }
}

/// Aligns the first column to the left, the other columns to the right.
pub fn aligned(head: &[String], rows: &[Vec<String>]) -> String {
    let lines: Vec<&[String]> = std::iter::once(head)
        .chain(rows.iter().map(|r| r.as_slice()))
        .collect();
    let width = |column: usize| {
        lines
            .iter()
            .map(|line| line[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let _ = write!(text, "  {:<1$}", line[0], widths[0]);
        for (cell, width) in line[1..].iter().zip(&widths[1..]) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        let texts = [0.0, 0.00005, 0.1234, 1.234, 12.34, 1234.5].map(number);
        assert_eq!(texts, ["0", "0.00005", "0.123", "1.23", "12.3", "1234"]);
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(String::from).to_vec();
        let text = aligned(
            &row(["subject", "x"]),
            &[row(["a", "10"]), row(["±b", "7"])],
        );
        assert_eq!(text, "  subject   x\n  a        10\n  ±b        7\n");
    }
}
