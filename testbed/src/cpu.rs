// SPDX-License-Identifier: GPL-2.0-or-later
//! Binding of threads to a CPU.

use anyhow::{ensure, Context};
use nix::sched::{sched_getaffinity, sched_setaffinity, CpuSet};
use nix::unistd::Pid;

/// Binds this thread, and the threads and processes that it starts, to one of the CPUs that it may use. Packets that
/// one CPU sends by veth interfaces arrive in order.
/// - number: position of the CPU among these CPUs, from 0, modulo their number.
pub fn bind_thread(number: usize) -> anyhow::Result<()> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).context("sched_getaffinity")?;
    let is_allowed = |cpu: &usize| allowed.is_set(*cpu).unwrap_or(false);
    let cpus: Vec<usize> = (0..CpuSet::count()).filter(is_allowed).collect();
    ensure!(!cpus.is_empty(), "a thread has no CPU");
    let mut own = CpuSet::new();
    own.set(cpus[number % cpus.len()])?;
    sched_setaffinity(Pid::from_raw(0), &own).context("sched_setaffinity")
}
