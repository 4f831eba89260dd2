// SPDX-License-Identifier: GPL-2.0-or-later
//! Binds each end of a load to its own CPU.
//!
//! The scheduler's placement of two communicating ends matters more than the measured program: on one CPU a request
//! over loopback takes 14 us, across two CPUs 50 us, and the placement varies from run to run. The sender gets the
//! first CPU and the servers the last, as if they were two hosts; the firewall may run on any.

use anyhow::{Context, Result};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// Binds this thread, and threads that it starts, to the first CPU that the process may use.
pub fn bind_sender() -> Result<()> {
    bind(|cpus| cpus.min())
}

/// Binds this thread to the last CPU that the process may use.
pub fn bind_server() -> Result<()> {
    bind(|cpus| cpus.max())
}

fn bind(choose: impl Fn(&mut dyn Iterator<Item = usize>) -> Option<usize>) -> Result<()> {
    // The process's first thread has no binding, unlike the thread that may have started this thread.
    let process = Pid::from_raw(std::process::id() as i32);
    let allowed = sched_getaffinity(process).context("sched_getaffinity")?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let mut own = CpuSet::new();
    own.set(choose(&mut cpus).context("a process may use a CPU")?)?;
    sched_setaffinity(Pid::from_raw(0), &own).context("sched_setaffinity")
}
