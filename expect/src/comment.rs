// SPDX-License-Identifier: GPL-2.0-or-later
//! Comments of a text that begin with `expect:`.

const BEGINNING: &str = "expect:";

/// Expectation's text without `# expect:`, and the byte offset of its comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    pub at: usize,
    pub text: &'a str,
}

/// Returns the byte offset of the `#` that begins a line's comment; None if the line has no comment.
fn hash(line: &str) -> Option<usize> {
    let mut quoted = false;
    line.bytes().position(|byte| {
        quoted ^= byte == b'"';
        byte == b'#' && !quoted
    })
}

/// Finds all expectations of a text.
pub fn find(text: &str) -> Vec<Comment<'_>> {
    let mut start = 0;
    let mut found = Vec::new();
    for line in text.split_inclusive('\n') {
        let comment = hash(line).and_then(|at| {
            let text = line[at + 1..].trim().strip_prefix(BEGINNING)?;
            Some(Comment {
                at: start + at,
                text: text.trim(),
            })
        });
        found.extend(comment);
        start += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_wherever_they_stand() {
        let text =
            "#expect: a\n\taccept #  expect: b c \n# other\ncomment \"# expect: no\" # expect: d";
        let found: Vec<&str> = find(text).iter().map(|comment| comment.text).collect();
        assert_eq!(found, ["a", "b c", "d"]);
        assert_eq!(find(text)[1].at, 19);
    }
}
