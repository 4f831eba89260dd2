// SPDX-License-Identifier: GPL-2.0-or-later
//! Receives the results from the rings, matches answers, and writes the chosen format.

use std::io::{self, BufWriter, Write};

use crate::failure::{Failure, Result};
use crate::matcher::Matcher;
use crate::output::{End, Head, Line, Output};
use crate::plan::Plan;
use crate::record::Batch;
use crate::state::{Finding, State};
use crate::targets::read::Targets;

pub struct Writer<'a> {
    plan: &'a Plan,
    targets: &'a Targets,
    matcher: &'a Matcher,
    only_matched: bool,
    /// Number of answers that all expressions match.
    pub matched: u64,
    /// True if a write to the output failed, e.g. because its reader closed the pipe: later results are lost.
    pub is_gone: bool,
    output: Box<dyn Output>,
    to: BufWriter<io::Stdout>,
}

impl<'a> Writer<'a> {
    /// Creates a writer.
    /// - only_matched: true if an open target is reported only if its answer matches.
    pub fn new(
        plan: &'a Plan,
        targets: &'a Targets,
        matcher: &'a Matcher,
        only_matched: bool,
        output: Box<dyn Output>,
    ) -> Writer<'a> {
        Writer {
            plan,
            targets,
            matcher,
            only_matched,
            matched: 0,
            is_gone: false,
            output,
            to: BufWriter::with_capacity(1 << 16, io::stdout()),
        }
    }

    pub fn begin(&mut self, head: &Head) -> Result<()> {
        let begun = self.output.begin(head, &mut self.to);
        self.ended(begun)
    }

    pub fn take(&mut self, batch: &Batch) -> io::Result<()> {
        let written = self.write(batch);
        self.is_gone |= written.is_err();
        written
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        for (record, answer) in batch.iter() {
            let matched = match record.finding {
                Finding::Answer => self.matcher.matches(answer),
                _ => None,
            };
            self.matched += u64::from(matched == Some(true));
            let is_open = record.state == State::Open;
            if self.only_matched && is_open && matched != Some(true) {
                continue;
            }
            let (address, port) = self.plan.target(record.index);
            let line = Line {
                address,
                name: self.targets.names.get(&address).map(|name| name.as_str()),
                port,
                state: record.state,
                reason: record.reason,
                errno: record.errno,
                attempts: record.attempts,
                rtt_us: record.rtt_us,
                finding: record.finding,
                answer,
                matched,
            };
            self.output.result(&line, &mut self.to)?;
        }
        self.to.flush()
    }

    pub fn end(&mut self, end: &End) -> Result<()> {
        let written = match self.is_gone {
            true => Ok(()),
            false => self.output.end(end, &mut self.to),
        };
        let written = written.and_then(|()| self.to.flush());
        self.ended(written)
    }

    /// Sets `is_gone` if a write failed. Fails with the write's error, unless the reader closed the pipe.
    fn ended(&mut self, written: io::Result<()>) -> Result<()> {
        self.is_gone |= written.is_err();
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::system("the results cannot be written", &error))
            }
            _ => Ok(()),
        }
    }
}
