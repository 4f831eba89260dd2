// SPDX-License-Identifier: GPL-2.0-or-later
//! Tables in text: columns as wide as their widest cell.

/// Alignment of a column's cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// Returns the lines of a table whose columns are two blanks apart, without trailing blanks.
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

/// Breaks a line at blanks if it is longer than `width` characters; continuation lines are indented. A longer word
/// stays whole.
pub fn fit(line: &str, width: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut left = line.to_owned();
    while left.chars().count() > width {
        let begins = left.chars().take_while(|c| *c == ' ').count();
        let at = |(number, (at, c)): (usize, (usize, char))| {
            (c == ' ' && number > begins && number <= width).then_some(at)
        };
        let Some(at) = left.char_indices().enumerate().filter_map(at).last() else {
            break;
        };
        let rest = left.split_off(at);
        lines.push(left.trim_end().to_owned());
        left = format!("{:indent$}{}", "", rest.trim_start());
    }
    lines.push(left);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_at_blanks() {
        assert_eq!(fit("a bc", 4, 2), ["a bc"]);
        assert_eq!(fit("ab  cd ef gh", 6, 2), ["ab  cd", "  ef", "  gh"]);
        assert_eq!(fit("abcdefgh ij", 4, 2), ["abcdefgh ij"]);
        assert_eq!(fit("ab abcdefgh", 4, 2), ["ab", "  abcdefgh"]);
        assert_eq!(fit("", 4, 2), [""]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["bcd", "200"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            lines([Side::Left, Side::Right], &rows),
            ["a      1", "bcd  200"]
        );
    }
}
