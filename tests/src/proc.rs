// SPDX-License-Identifier: GPL-2.0-or-later
//! What /proc says of processes: proc(5).

use std::fs;

use anyhow::Context;

use crate::case::{until, PATIENCE};

/// The fields of /proc/PID/stat behind the name: state first.
fn stat_fields(path: &str) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| path.to_string())?;
    // The name may hold spaces and parentheses; the last parenthesis ends it.
    let (_, fields) = text
        .rsplit_once(')')
        .context("a stat line without a name")?;
    Ok(fields.split_whitespace().map(str::to_string).collect())
}

/// `R`, `S`, `T` (stopped), `t` (stopped by a tracer), `Z`, …
pub fn state(pid: u32) -> anyhow::Result<char> {
    state_of(pid, pid)
}

fn state_of(pid: u32, thread: u32) -> anyhow::Result<char> {
    let fields = stat_fields(&format!("/proc/{pid}/task/{thread}/stat"))?;
    fields[0].chars().next().context("an empty state")
}

pub fn parent(pid: u32) -> anyhow::Result<u32> {
    Ok(stat_fields(&format!("/proc/{pid}/stat"))?[1].parse()?)
}

/// User and system time of all threads, in clock ticks.
pub fn ticks(pid: u32) -> anyhow::Result<u64> {
    let fields = stat_fields(&format!("/proc/{pid}/stat"))?;
    Ok(fields[11].parse::<u64>()? + fields[12].parse::<u64>()?)
}

/// The thread numbers of a process, in order of their start.
pub fn threads(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        threads.push(entry?.file_name().to_string_lossy().parse()?);
    }
    threads.sort_unstable();
    Ok(threads)
}

/// A value of /proc/PID/task/TID/status.
pub fn status(pid: u32, thread: u32, key: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status"))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    Ok(line
        .with_context(|| format!("no {key} in status"))?
        .trim()
        .to_string())
}

/// How often the threads of a process have gone to sleep by themselves.
pub fn sleeps(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in threads(pid)? {
        sum += status(pid, thread, "voluntary_ctxt_switches")?.parse::<u64>()?;
    }
    Ok(sum)
}

/// Whether a thread sleeps in poll(2) or epoll_wait(2), which goes on as restart_syscall(2) if the process was stopped meanwhile; not if a
/// tracer holds it there.
pub fn sleeps_in_poll(pid: u32, thread: u32) -> bool {
    let asleep = state_of(pid, thread).is_ok_and(|state| state == 'S');
    let current = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall"));
    let number = current.map(|text| text.split(' ').next().map(str::parse));
    let polls = [
        libc::SYS_poll,
        libc::SYS_epoll_wait,
        libc::SYS_restart_syscall,
    ];
    asleep && matches!(number, Ok(Some(Ok(number))) if polls.contains(&number))
}

/// The first process that has the name and is `ancestor` or below it.
pub fn descendant(ancestor: u32, name: &str) -> Option<u32> {
    // A name is cut to 15 bytes by the kernel.
    let name = &name[..name.len().min(15)];
    let named = |pid: u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    let below = |mut pid: u32| loop {
        match pid {
            0 | 1 => return false,
            _ if pid == ancestor => return true,
            _ => pid = parent(pid).unwrap_or(0),
        }
    };
    let entries = fs::read_dir("/proc").ok()?;
    let mut pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.find(|pid| named(*pid) && below(*pid))
}

/// Stops a process (SIGSTOP) and waits until it is stopped: each thread is, at its own time.
pub fn stop(pid: u32) -> anyhow::Result<()> {
    signal(pid, libc::SIGSTOP);
    until("all threads are stopped", PATIENCE, || {
        for thread in threads(pid)? {
            if state_of(pid, thread)? != 'T' {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill(2) touches no memory. A process that has ended meanwhile is what a caller then finds out.
    unsafe { libc::kill(pid as i32, signal) };
}
