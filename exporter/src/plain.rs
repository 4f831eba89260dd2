// SPDX-License-Identifier: GPL-2.0-or-later
//! Negotiation of the metrics' format, and the older format: Prometheus' text format 0.0.4, converted from OpenMetrics.
//! Has no side effects.

use std::fmt::Write;

pub const OPENMETRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub const PLAIN_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// OpenMetrics type, suffix of its sample names, and its name in the older format (Prometheus' text format 0.0.4).
const TYPES: [(&str, &str, &str); 3] = [
    ("counter", "_total", "counter"),
    ("info", "_info", "gauge"),
    ("gauge", "", "gauge"),
];

/// Returns true if an Accept header requests the older format (Prometheus' text format 0.0.4): it names text/plain and
/// not OpenMetrics.
pub fn is_wanted(accept: &str) -> bool {
    accept.contains("text/plain") && !accept.contains("application/openmetrics-text")
}

/// Writes a HELP line with the name of the samples, and a TYPE line.
/// - help: name and text of the HELP line.
/// - next: the TYPE line.
fn put_family(out: &mut String, help: &str, next: &str) {
    let (name, help) = help.split_once(' ').unwrap_or((help, ""));
    let found = next.rsplit(' ').next();
    let known = TYPES.iter().find(|(kind, _, _)| found == Some(*kind));
    let (_, suffix, plain) = known.unwrap_or(&TYPES[2]);
    let _ = writeln!(out, "# HELP {name}{suffix} {help}");
    let _ = writeln!(out, "# TYPE {name}{suffix} {plain}");
}

/// Converts the output of `text` to the older format: families have the names of their samples, and other comments are
/// left out.
pub fn plain(openmetrics: &str) -> String {
    let mut out = String::new();
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            put_family(&mut out, help, lines.peek().unwrap_or(&""));
        } else if !line.starts_with("# ") {
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_format_of_anything() {
        for text in [
            "",
            "# HELP",
            "# HELP ",
            "# HELP a b",
            "# TYPE a counter",
            "a 1",
        ] {
            plain(text);
        }
    }

    #[test]
    fn the_accept_header_chooses() {
        for (accept, plain) in [
            ("", false),
            ("*/*", false),
            ("text/plain", true),
            ("text/plain;version=0.0.4, */*;q=0.1", true),
            ("application/openmetrics-text;version=1.0.0", false),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
                false,
            ),
        ] {
            assert_eq!(is_wanted(accept), plain, "{accept}");
        }
    }
}
