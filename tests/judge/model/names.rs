// SPDX-License-Identifier: GPL-2.0-or-later
//! Adds matches of names to handwritten policies.

use super::random::Random;

/// Returns a text without its comments: from a `#` outside of quotes to the end of the line. Its lines keep their numbers.
pub fn without_comments(text: &str) -> String {
    let code = |line: &str| {
        let mut is_quoted = false;
        let end = line.find(|character| {
            is_quoted ^= character == '"';
            character == '#' && !is_quoted
        });
        line[..end.unwrap_or(line.len())].to_owned() + "\n"
    };
    text.lines().map(code).collect()
}

/// Returns the offsets of a line's rule and of the rule's last verdict. None if the line is no whole rule that ends
/// with a verdict.
fn places(line: &str) -> Option<(usize, usize)> {
    let start = line.len() - line.trim_start().len();
    let rule = line.trim_end();
    let words: Vec<&str> = rule.split_whitespace().collect();
    let first = *words.first()?;
    let is_none = |word: &str| {
        [
            "type", "policy", "elements", "define", "add", "insert", "chain", "table",
        ]
        .contains(&word)
    };
    let is_whole = rule.matches('{').count() == rule.matches('}').count() && !rule.contains(';');
    let verdict = words
        .iter()
        .rposition(|word| ["accept", "drop", "reject", "jump", "goto", "return"].contains(word))?;
    let behind = words.len() - verdict - 1;
    let is_verdict = behind == usize::from(["jump", "goto"].contains(&words[verdict]))
        && !first.starts_with(['}', '"']);
    let end = rule.rfind(words.get(verdict)?)?;
    (!is_none(first) && is_whole && is_verdict).then_some((start, end))
}

/// Returns a handwritten policy, without its comments, with one to three added name matches, each before or after a
/// rule's matches. None if no line is a whole rule that ends with a verdict.
/// - names: matches to choose from.
pub fn written(text: &str, names: &[&str], random: &mut Random) -> Option<String> {
    let text = without_comments(text);
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

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "table inet f {\n\tchain c {\n\t\ttcp dport 80 accept\n\t\tudp dport 53 comment \"#1\" drop\n\t}\n}\n";
    const COMMENTED: &str = "# include \"a\"\ntable inet f {\n\tchain c { # a; chain\n\t\ttcp dport 80 accept# drop\n\t\t# ip ttl 3 drop\n\t\tudp dport 53 comment \"#1\" drop # \"accept\n\t}\n}\n";

    #[test]
    fn a_comment_changes_nothing() {
        for seed in 0..50 {
            let lines = |text| {
                let made =
                    written(text, &["tls sni \"a.example\""], &mut Random::new(seed)).unwrap();
                let lines = made.lines().map(|line| line.trim_end().to_owned());
                lines.filter(|line| !line.is_empty()).collect::<Vec<_>>()
            };
            assert_eq!(lines(POLICY), lines(COMMENTED), "{seed}");
        }
        assert!(!without_comments(COMMENTED).contains("include"));
        assert!(without_comments(COMMENTED).contains("\"#1\" drop"));
    }
}
