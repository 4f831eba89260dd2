// SPDX-License-Identifier: GPL-2.0-or-later
//! JSON: one object per line for each result, and the summary at the end.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use super::{is_control, End, Head, Line, Output};
use crate::state::{FINDINGS, REASONS, STATES};

pub struct Json;

/// Formatter that also escapes the controls that JSON allows in a string: a terminal would obey them.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        let mut written = 0;
        let controls = fragment.char_indices().filter(|one| is_control(one.1));
        for (at, character) in controls {
            writer.write_all(&fragment.as_bytes()[written..at])?;
            // All these characters have at most four hexadecimal digits.
            write!(writer, "\\u{:04x}", u32::from(character))?;
            written = at + character.len_utf8();
        }
        writer.write_all(&fragment.as_bytes()[written..])
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    port: u16,
    protocol: &'static str,
    state: &'static str,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
    attempts: u8,
    rtt_us: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    finding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    matched: Option<bool>,
}

#[derive(Serialize)]
struct Summary {
    targets: u64,
    done: u64,
    interrupted: bool,
    seconds: f64,
    per_second: f64,
    states: BTreeMap<&'static str, u64>,
    reasons: BTreeMap<&'static str, u64>,
    findings: BTreeMap<&'static str, u64>,
    matched: u64,
    retries: u64,
    shortages: u64,
    slowdowns: u64,
    overflows: u64,
    ring_losses: u64,
    strangers: u64,
    engine: &'static str,
    rings: usize,
    cpu_us_per_target: f64,
    system_calls_per_target: f64,
}

fn named<T: Copy>(
    all: &[T],
    counts: &[u64],
    name: impl Fn(T) -> &'static str,
) -> BTreeMap<&'static str, u64> {
    let counted = all.iter().zip(counts).filter(|(_, &count)| count > 0);
    counted.map(|(&one, &count)| (name(one), count)).collect()
}

impl Output for Json {
    fn begin(&mut self, _head: &Head, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }

    fn result(&mut self, line: &Line, to: &mut dyn Write) -> io::Result<()> {
        let shown = Shown {
            address: line.address.to_string(),
            name: line.name,
            port: line.port,
            protocol: "tcp",
            state: line.state.name(),
            reason: line.reason.name(),
            errno: (line.errno != 0).then_some(line.errno),
            attempts: line.attempts,
            rtt_us: line.rtt_us,
            finding: line.finding.name(),
            answer: (!line.answer.is_empty()).then(|| String::from_utf8_lossy(line.answer).into()),
            matched: line.matched,
        };
        shown.serialize(&mut Serializer::with_formatter(&mut *to, Escaping))?;
        writeln!(to)
    }

    fn end(&mut self, end: &End, to: &mut dyn Write) -> io::Result<()> {
        let (sum, done) = (&end.sum, end.sum.done());
        let each = |value: f64| if done == 0 { 0.0 } else { value / done as f64 };
        let seconds = end.elapsed.as_secs_f64();
        let summary = Summary {
            targets: end.targets,
            done,
            interrupted: end.interrupted,
            seconds,
            per_second: done as f64 / seconds.max(1e-9),
            states: STATES
                .iter()
                .map(|&state| (state.name(), sum.state(state)))
                .collect(),
            reasons: named(&REASONS, &sum.reasons, |reason| reason.name()),
            findings: named(&FINDINGS[1..], &sum.findings[1..], |finding| finding.name()),
            matched: end.matched,
            retries: sum.retries,
            shortages: sum.shortages,
            slowdowns: sum.slowdowns,
            overflows: sum.overflows,
            ring_losses: sum.ring_losses,
            strangers: sum.strangers,
            engine: end.engine,
            rings: end.rings,
            cpu_us_per_target: each(end.cpu.as_secs_f64() * 1e6),
            system_calls_per_target: each(sum.calls as f64),
        };
        serde_json::to_writer(&mut *to, &serde_json::json!({ "summary": summary }))?;
        writeln!(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Finding, Reason, State};
    use crate::targets::Address;

    #[test]
    fn nothing_of_a_peer_reaches_the_terminal() {
        let answer = "\x1b[31m\u{7f}é\u{9b}2J\u{61c}\u{202e}\u{2069}\"\\end";
        let line = Line {
            address: Address {
                ip: [127, 0, 0, 1].into(),
                scope: 0,
            },
            name: None,
            port: 22,
            state: State::Open,
            reason: Reason::SynAck,
            errno: 0,
            attempts: 1,
            rtt_us: 1,
            finding: Finding::Answer,
            answer: answer.as_bytes(),
            matched: None,
        };
        let mut written = Vec::new();
        Json.result(&line, &mut written).unwrap();
        let text = String::from_utf8(written).unwrap();
        let text = text.strip_suffix('\n').unwrap();
        assert!(!text.contains(is_control), "{text:?}");
        let escaped = "\\u001b[31m\\u007fé\\u009b2J\\u061c\\u202e\\u2069\\\"\\\\end";
        assert!(text.contains(escaped), "{text}");
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(read["answer"], answer);
    }
}
