// SPDX-License-Identifier: GPL-2.0-or-later
//! CSV: one row per result, after a header row.

use std::io::{self, Write};

use super::{printable, End, Head, Line, Output};

pub struct Csv;

const COLUMNS: [&str; 11] = [
    "address", "name", "port", "protocol", "state", "reason", "attempts", "rtt_us", "finding",
    "matched", "answer",
];

fn row(to: &mut dyn Write, fields: [&str; COLUMNS.len()]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(fields)?;
    writer.flush()
}

impl Output for Csv {
    fn begin(&mut self, _head: &Head, to: &mut dyn Write) -> io::Result<()> {
        row(to, COLUMNS)
    }

    fn result(&mut self, line: &Line, to: &mut dyn Write) -> io::Result<()> {
        let matched = line
            .matched
            .map_or(String::new(), |matched| matched.to_string());
        row(
            to,
            [
                &line.address.to_string(),
                line.name.unwrap_or(""),
                &line.port.to_string(),
                "tcp",
                line.state.name(),
                line.reason.name(),
                &line.attempts.to_string(),
                &line.rtt_us.to_string(),
                line.finding.name(),
                &matched,
                &printable(line.answer),
            ],
        )
    }

    fn end(&mut self, _end: &End, _to: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}
