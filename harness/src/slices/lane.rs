// SPDX-License-Identifier: GPL-2.0-or-later
//! One subject during a load with slices: its namespaces, its program, its traffic.

use std::time::Duration;

use anyhow::{bail, Result};

use super::outcome::{Slice, SlicedOutcome};
use crate::cost::Rest;
use crate::load::{self, Aim, Traffic};
use crate::measure::{incidents, Ground, Site};
use crate::program::Program;
use crate::schedule::Cell;
use crate::subject::Subject;
use testbed::proc;
use testbed::queue::{self, QueueTotal};

/// A subject during a load in slices, with its namespaces and its program.
pub struct Lane<'a> {
    subject: &'a Subject,
    guest: Option<Guest>,
    // Dropped last: the namespaces outlive the processes in them.
    ground: Ground,
}

/// The subject's program, and the method by which it uses no CPU between its slices.
struct Guest {
    program: Program,
    rest: Rest,
    before: QueueTotal,
}

impl Guest {
    fn queues(&self, subject: &Subject) -> Result<QueueTotal> {
        let rows = queue::queues(self.program.pid(), subject.queues)?;
        Ok(QueueTotal::of(&rows))
    }
}

impl<'a> Lane<'a> {
    /// Makes the namespaces and starts the program, which rests until its first slice.
    pub fn start(site: &Site, subject: &'a Subject, cell: &Cell) -> Result<Lane<'a>> {
        let ground = Ground::new(site, cell.route)?;
        site.load_rules(&ground, subject, cell)?;
        let guest = match site.start(&ground, subject, cell)? {
            None => None,
            Some(program) => {
                let rest = Rest::of(program.pid())?;
                rest.begin(program.pid())?;
                let mut guest = Guest {
                    program,
                    rest,
                    before: QueueTotal::default(),
                };
                guest.before = guest.queues(subject)?;
                Some(guest)
            }
        };
        Ok(Lane {
            subject,
            guest,
            ground,
        })
    }

    pub fn name(&self) -> String {
        self.subject.name()
    }

    /// Returns true if the subject may fail while the other subjects continue.
    pub fn is_optional(&self) -> bool {
        self.subject.is_optional()
    }

    pub fn ground(&self) -> &Ground {
        &self.ground
    }

    pub fn program(&self) -> Option<&Program> {
        self.guest.as_ref().map(|guest| &guest.program)
    }

    /// Stops the program, and adds to `outcome` its output, its incidents, and its dropped packets and memory over the
    /// whole load. Does nothing without a program.
    /// - index: index of the subject in the experiment.
    pub fn end(mut self, outcome: &mut SlicedOutcome, index: usize) -> Result<()> {
        let Some(mut guest) = self.guest.take() else {
            return Ok(());
        };
        guest.rest.end(guest.program.pid())?;
        guest.program.check_running()?;
        let after = guest.queues(self.subject)?;
        let dropped = after.dropped.saturating_sub(guest.before.dropped);
        let whole = &mut outcome.wholes[index];
        whole.queue_drops = Some(dropped);
        whole.memory_mib = Some(proc::peak_memory_mib(guest.program.pid())?);
        let ended = guest.program.stop()?;
        let name = self.name();
        let said = incidents(self.subject, &ended).into_iter();
        outcome
            .incidents
            .extend(said.map(|words| format!("{name}: {words}")));
        outcome
            .raw
            .push((index, "firewall.json".into(), ended.stdout));
        if !ended.stderr.is_empty() {
            outcome
                .raw
                .push((index, "firewall.txt".into(), ended.stderr));
        }
        Ok(())
    }
}

/// A lane and its traffic, on the thread that sends.
pub struct Sending<'a> {
    lane: &'a Lane<'a>,
    traffic: Box<dyn Traffic>,
}

impl<'a> Sending<'a> {
    pub fn open(site: &Site, lane: &'a Lane<'a>, cell: &Cell) -> Result<Sending<'a>> {
        let addresses = (0..site.flows(cell)).map(|flow| site.address(cell, flow));
        let aim = Aim {
            workload: cell.workload,
            addresses: addresses.collect(),
            port: cell.workload.port(),
            payload_bytes: cell.payload_bytes,
        };
        // Connecting requires a running program.
        let _running = lane.running()?;
        let traffic = load::open(&aim, &lane.ground.place())?;
        Ok(Sending { lane, traffic })
    }

    pub fn name(&self) -> String {
        self.lane.name()
    }

    pub fn is_optional(&self) -> bool {
        self.lane.is_optional()
    }

    pub fn receiver_drops(&self) -> Result<u64> {
        self.traffic.receiver_drops()
    }

    /// Sends for `settle` without counting, then for `duration`. The program rests before and after both.
    pub fn slice(&mut self, settle: Duration, duration: Duration) -> Result<Slice> {
        if !settle.is_zero() {
            self.burst(settle)?;
        }
        let before = self.lane.reading()?;
        let burst = self.burst(duration)?;
        let after = self.lane.reading()?;
        let mut slice = Slice::of(burst);
        if let (Some((cpu, queues)), Some((cpu_after, queues_after))) = (before, after) {
            let packets = queues_after.handed.saturating_sub(queues.handed);
            if packets == 0 && self.lane.subject.has_rules_of_load() {
                bail!("no packet reached the firewall: does the rule name its queue?");
            }
            slice.packets = Some(packets);
            slice.cpu_us = Some((cpu_after - cpu) as f64 / 1e3);
        }
        Ok(slice)
    }

    fn burst(&mut self, duration: Duration) -> Result<load::Burst> {
        let _running = self.lane.running()?;
        let emptied = || self.lane.emptied();
        let place = self.lane.ground.place();
        self.traffic.burst(&place, duration, &emptied)
    }
}

/// Holds the program in its running state until drop; then the program rests.
struct Running<'a>(Option<&'a Guest>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(guest) = self.0 {
            // The next reading reports a program that has ended or does not stop.
            let _ = guest.rest.begin(guest.program.pid());
        }
    }
}

impl Lane<'_> {
    fn running(&self) -> Result<Running<'_>> {
        if let Some(guest) = &self.guest {
            guest.rest.end(guest.program.pid())?;
        }
        Ok(Running(self.guest.as_ref()))
    }

    /// Waits until the program rests. Returns its CPU time in nanoseconds and its queue counts; None without a program.
    fn reading(&self) -> Result<Option<(u64, QueueTotal)>> {
        let reading = |guest: &Guest| {
            let cpu = guest.rest.begin(guest.program.pid())?;
            Ok((cpu, guest.queues(self.subject)?))
        };
        self.guest.as_ref().map(reading).transpose()
    }

    fn emptied(&self) -> Result<bool> {
        match &self.guest {
            None => Ok(true),
            Some(guest) => Ok(guest.queues(self.subject)?.waiting == 0),
        }
    }
}
