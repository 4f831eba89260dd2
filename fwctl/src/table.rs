// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables in text: columns as wide as their widest cell.

/// Which side a column's cells lean to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// The lines of a table whose columns are two blanks apart, without blanks at their ends.
pub fn lines<const N: usize>(sides: [Side; N], rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).zip(sides);
        let cells: Vec<String> = cells
            .map(|((cell, width), side)| match side {
                Side::Left => format!("{cell:<width$}"),
                Side::Right => format!("{cell:>width$}"),
            })
            .collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["bcd", "200"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            lines([Side::Left, Side::Right], &rows),
            ["a      1", "bcd  200"]
        );
    }
}
