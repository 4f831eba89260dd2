// SPDX-License-Identifier: GPL-2.0-or-later
//! Formats numbers and dates for people.

use chrono::{DateTime, Local};

/// Formats 1234567 as "1,234,567".
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

const STEPS: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];

/// Formats a number below 10^15 in at most five characters: 999, 12.3k, 4.56M.
pub fn short(number: f64) -> String {
    for (step, name) in STEPS {
        // A number that rounds up to the next step is shown in that step.
        if number >= step * 0.9995 {
            let scaled = number / step;
            let decimals = match scaled {
                _ if scaled >= 99.95 => 0,
                _ if scaled >= 9.995 => 1,
                _ => 2,
            };
            return format!("{scaled:.decimals$}{name}");
        }
    }
    if number > 0.0 && number < 9.95 && number.fract() > 0.0 {
        return format!("{number:.1}");
    }
    format!("{number:.0}")
}

/// Formats a time span: "42 s", "12 min 5 s", "3 h 5 min", "2 d 4 h".
pub fn span(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{minutes} min {} s", seconds % 60),
        3600..86400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Formats a date in local time: "2026-11-24 13:05:09".
pub fn date(unix_ms: u64) -> String {
    let time = DateTime::from_timestamp_millis(unix_ms as i64).unwrap_or_default();
    time.with_timezone(&Local)
        .format("%Y-%m-%d %H:%M:%S")
        .to_string()
}

/// Formats a count: "1 packet", "2 packets".
pub fn count(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", thousands(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1234567, "1,234,567"),
        ] {
            assert_eq!(thousands(number), text);
        }
    }

    #[test]
    fn short_numbers_stay_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (999.0, "999"),
            (999.7, "1.00k"),
            (12_345.0, "12.3k"),
            (99_960.0, "100k"),
            (999_960.0, "1.00M"),
            (4_560_000.0, "4.56M"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn spans_have_two_units() {
        for (seconds, text) in [
            (59, "59 s"),
            (61, "1 min 1 s"),
            (7_500, "2 h 5 min"),
            (180_000, "2 d 2 h"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
