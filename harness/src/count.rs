// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts the system calls of a firewall under a load with strace, in a separate run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::experiment::RunnerName;
use crate::interrupt;
use crate::measure::{packets_between, Ground, Site};
use crate::program::{total_calls, Counter};
use crate::runner::Metric;
use crate::schedule::{Cell, COUNTED};
use crate::slices;
use crate::subject::{Kind, Subject};

/// Start of the names of metrics that count system calls; the unit of work follows.
pub const CALLS_PER: &str = "syscalls_per_";

impl Site<'_> {
    /// Returns the system calls per packet of a firewall under a load, or per exchange of a program of exchanges. No
    /// other metric is measured in this run, because strace distorts the times.
    /// - table: file to which strace writes its counts.
    pub fn count_calls(
        &self,
        subject: &Subject,
        cell: &Cell,
        runner: RunnerName,
        table: &Path,
    ) -> Result<Metric> {
        if subject.kind == Kind::Exchange {
            return self.exchanges.count_calls(subject, cell, table);
        }
        let packets = match cell.is_sliced() {
            true => self.count_sliced(subject, cell, table)?,
            false => self.count_run(subject, cell, runner, table)?,
        };
        let text = fs::read_to_string(table).with_context(|| table.display().to_string())?;
        let calls = total_calls(&text).context("strace printed no total")?;
        Ok(Metric {
            name: "syscalls_per_packet",
            unit: "calls",
            value: calls as f64 / packets,
        })
    }

    /// Attaches strace to a firewall under a load in slices. Returns the number of packets that passed the firewall.
    /// - table: file to which strace writes its counts.
    fn count_sliced(&self, subject: &Subject, cell: &Cell, table: &Path) -> Result<f64> {
        let mut counter = None;
        let packets = slices::run_one(self, subject, cell, COUNTED, |lane| {
            let program = lane.program().context("there is no firewall to count")?;
            let server = lane.ground().place().server;
            counter = Some(Counter::attach(server, program, table)?);
            Ok(())
        })?;
        interrupt::check()?;
        counter.context("nothing was counted")?.finish()?;
        Ok(packets as f64)
    }

    fn count_run(
        &self,
        subject: &Subject,
        cell: &Cell,
        runner: RunnerName,
        table: &Path,
    ) -> Result<f64> {
        let ground = Ground::new(self, cell.route)?;
        let _rules = self.load_rules(&ground, subject, cell)?;
        let mut program = self
            .start(&ground, subject, cell)?
            .context("there is no firewall to count")?;
        let counter = Counter::attach(ground.place().server, &program, table)?;
        let before = program.read_settled()?;
        let outcome = self.run_load(&ground, cell, runner, COUNTED.as_secs() as u32);
        interrupt::check()?;
        program.check_running()?;
        outcome?;
        let packets = packets_between(before, program.read_settled()?)?;
        program.stop()?;
        counter.finish()?;
        Ok(packets)
    }
}
