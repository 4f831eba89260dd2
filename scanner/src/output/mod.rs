// SPDX-License-Identifier: GPL-2.0-or-later
//! Output formats for people and for other tools. Each result is written as it arrives.

mod csv;
mod grepable;
mod human;
mod json;
mod nmap_xml;

pub use human::endpoint;

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::arguments::Format;
use crate::counts::Sum;
use crate::state::{Finding, Reason, State};
use crate::targets::Address;

/// Data of a scan that are known at its start.
#[derive(Clone, Debug)]
pub struct Head {
    /// The command line.
    pub command: String,
    pub started: SystemTime,
    pub ports: String,
    pub port_count: u64,
    pub hosts: u64,
    /// Service name (ssh, http, https), if the probe implies one.
    pub service: Option<&'static str>,
    pub syn: bool,
}

/// Result for one target, as the formats write it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    pub address: Address,
    /// Host name that was resolved to the address.
    pub name: Option<&'a str>,
    pub port: u16,
    pub state: State,
    pub reason: Reason,
    pub errno: i32,
    pub attempts: u8,
    pub rtt_us: u32,
    pub finding: Finding,
    pub answer: &'a [u8],
    pub matched: Option<bool>,
}

/// Totals at the end of a scan.
#[derive(Clone, Debug)]
pub struct End {
    pub targets: u64,
    pub sum: Sum,
    pub elapsed: Duration,
    pub cpu: Duration,
    pub engine: &'static str,
    pub rings: usize,
    pub matched: u64,
    pub interrupted: bool,
}

pub trait Output: Send {
    fn begin(&mut self, head: &Head, to: &mut dyn Write) -> io::Result<()>;
    fn result(&mut self, line: &Line, to: &mut dyn Write) -> io::Result<()>;
    fn end(&mut self, end: &End, to: &mut dyn Write) -> io::Result<()>;
}

pub fn output(format: Format) -> Box<dyn Output> {
    match format {
        Format::Human => Box::new(human::Human),
        Format::Json => Box::new(json::Json),
        Format::Csv => Box::new(csv::Csv),
        Format::Grepable => Box::new(grepable::Grepable::default()),
        Format::NmapXml => Box::new(nmap_xml::NmapXml::default()),
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Formats a time like nmap, in UTC: `Sat Nov 21 18:40:40 2026`.
fn date(time: SystemTime) -> String {
    let seconds = seconds(time);
    let (days, second) = (seconds / 86400, seconds % 86400);
    // Days since 0000-03-01 in eras of 400 years (Hinnant, "chrono-compatible low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    format!(
        "{} {} {day:2} {:02}:{:02}:{:02} {year}",
        DAYS[(days % 7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// Returns true for a control character, and for a mark that changes the writing direction (Unicode: Bidi_Control).
fn is_control(character: char) -> bool {
    let is_mark = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_mark || character.is_control()
}

/// Converts a peer's bytes to one line of text without terminal control characters.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let trimmed = text.trim_end_matches(['\r', '\n']);
    let mut made = String::with_capacity(trimmed.len());
    for character in trimmed.chars() {
        match character {
            '\r' => {}
            '\n' => made.push_str("\\n"),
            '\t' => made.push(' '),
            _ if is_control(character) => made.push('?'),
            _ => made.push(character),
        }
    }
    made
}

/// Formats the summary of a scan in a few lines.
pub fn summary(end: &End) -> String {
    let sum = &end.sum;
    let done = sum.done();
    let each = |value: f64| if done == 0 { 0.0 } else { value / done as f64 };
    let mut text = format!(
        "{}{} of {} targets in {:.2} s ({:.0} a second): open {}, closed {}, filtered {}, error {}\n",
        if end.interrupted { "interrupted: " } else { "" },
        done,
        end.targets,
        end.elapsed.as_secs_f64(),
        done as f64 / end.elapsed.as_secs_f64().max(1e-9),
        sum.state(State::Open),
        sum.state(State::Closed),
        sum.state(State::Filtered),
        sum.state(State::Error),
    );
    let named = |counts: &[u64], name: &dyn Fn(usize) -> &'static str| {
        let counted = counts.iter().enumerate().filter(|(_, &count)| count > 0);
        let words: Vec<String> = counted
            .map(|(at, count)| format!("{} {count}", name(at)))
            .collect();
        words.join(", ")
    };
    let reasons = named(&sum.reasons, &|at| crate::state::REASONS[at].name());
    if !reasons.is_empty() {
        text += &format!("  reasons: {reasons}\n");
    }
    if sum.findings[1..].iter().any(|&count| count > 0) {
        let findings = named(&sum.findings[1..], &|at| {
            crate::state::FINDINGS[at + 1].name()
        });
        text += &format!("  answers: {findings}; matched {}\n", end.matched);
    }
    let told = [
        (sum.retries, "asked again"),
        (sum.shortages, "put off (no port, memory or descriptor)"),
        (sum.slowdowns, "slow-downs"),
        (sum.overflows, "overflows of a ring"),
        (sum.ring_losses, "lost by the capture ring"),
        (sum.strangers, "frames that answered nothing"),
    ];
    let told: Vec<String> = told
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !told.is_empty() {
        text += &format!("  {}\n", told.join(", "));
    }
    text += &format!(
        "  {} x {}: CPU {:.1} us and {:.3} system calls a target\n",
        end.rings,
        end.engine,
        each(end.cpu.as_secs_f64() * 1e6),
        each(sum.calls as f64),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let at = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(at(951_782_400), "Tue Feb 29 00:00:00 2000");
        assert_eq!(at(1_795_286_440), "Sat Nov 21 18:40:40 2026");
    }

    #[test]
    fn nothing_of_a_peer_reaches_the_terminal() {
        assert_eq!(printable(b"SSH-2.0-x\x1b[31m\x07\r\n"), "SSH-2.0-x?[31m?");
        assert_eq!(printable("a\u{202e}b\nc".as_bytes()), "a?b\\nc");
        assert_eq!(printable("\u{61c}\u{9b}\u{7f}é".as_bytes()), "???é");
        assert_eq!(printable(b"\xff\xfe"), "\u{fffd}\u{fffd}");
    }
}
