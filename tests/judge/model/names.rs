// SPDX-License-Identifier: GPL-2.0-or-later
//! Adds matches of names to handwritten policies.

use super::random::Random;

/// Returns the offsets of a line's rule and of its last verdict. None if the line is no whole rule.
fn places(line: &str) -> Option<(usize, usize)> {
    let start = line.len() - line.trim_start().len();
    let rule = line.trim_end();
    let words: Vec<&str> = rule.split_whitespace().collect();
    let first = *words.first()?;
    let is_none = |word: &str| {
        [
            "type", "policy", "elements", "define", "add", "insert", "chain", "table", "#",
        ]
        .contains(&word)
    };
    let is_whole =
        rule.matches('{').count() == rule.matches('}').count() && !rule.contains([';', '#']);
    let verdict = words
        .iter()
        .rposition(|word| ["accept", "drop", "reject", "jump", "goto", "return"].contains(word))?;
    let behind = words.len() - verdict - 1;
    let is_verdict = behind == usize::from(["jump", "goto"].contains(&words[verdict]))
        && !first.starts_with(['}', '"', '#']);
    let end = rule.rfind(words.get(verdict)?)?;
    (!is_none(first) && is_whole && is_verdict).then_some((start, end))
}

/// Returns a handwritten policy with one to three added name matches, each before or after a rule's matches. None if no
/// line is a whole rule.
/// - names: matches to choose from.
pub fn written(text: &str, names: &[&str], random: &mut Random) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let rules: Vec<usize> = (0..lines.len())
        .filter(|at| places(&lines[*at]).is_some())
        .collect();
    if rules.is_empty() {
        return None;
    }
    for _ in 0..1 + random.below(3) {
        let at = *random.pick(&rules);
        let (start, end) = places(&lines[at])?;
        let name = random.pick(names);
        let place = if random.below(2) == 0 { start } else { end };
        lines[at].insert_str(place, &format!("{name} "));
    }
    Some(lines.join("\n") + "\n")
}
