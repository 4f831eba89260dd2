// SPDX-License-Identifier: GPL-2.0-or-later
//! Each end of a load on a CPU of its own.
//!
//! Where the scheduler puts two processes that talk decides more than what is measured: on one CPU a
//! request over loopback is answered in 14 us, across two in 50 us, and it changes its mind from run to
//! run. The client gets the first CPU and the server the last, as if they were two hosts; the
//! firewall may run on any.

use anyhow::Context;
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// Binds this process: `server` to the last CPU that it may use, anything else to the first.
pub fn bind(end: &str) -> anyhow::Result<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this).context("sched_getaffinity")?;
    let mut cpus = (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu).unwrap_or(false));
    let cpu = match end {
        "server" => cpus.next_back(),
        _ => cpus.next(),
    };
    let mut own = CpuSet::new();
    own.set(cpu.context("a process may use a CPU")?)?;
    sched_setaffinity(this, &own).context("sched_setaffinity")
}
