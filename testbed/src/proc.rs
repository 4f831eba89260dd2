// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads properties of processes from /proc (proc(5)). Reading and parsing are separate.

use std::fs;

use anyhow::Context;
use nix::unistd::{sysconf, SysconfVar};

use crate::wait::{until, PATIENCE};

/// Returns the fields of a stat line after the process's name: state first.
fn parse_stat(text: &str) -> Option<Vec<&str>> {
    // The name may hold spaces and parentheses; the last parenthesis ends it.
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().collect())
}

/// Returns the sum of user and system time (utime, stime) in a stat line, in clock ticks.
fn parse_ticks(text: &str) -> Option<u64> {
    let fields = parse_stat(text)?;
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(number(11)? + number(12)?)
}

/// Returns the value of a key in a status file.
fn parse_status<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(value.trim())
}

/// Returns the number at the start of a value in a status file; a unit may follow.
fn parse_number(text: &str, key: &str) -> Option<u64> {
    parse_status(text, key)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Reads a file of /proc as text. An error contains its name.
fn read(path: String) -> anyhow::Result<String> {
    fs::read_to_string(&path).context(path)
}

/// Returns a field of a stat line after the process's name, by its index from 0.
fn stat_field(path: String, index: usize) -> anyhow::Result<String> {
    let text = read(path.clone())?;
    let fields = parse_stat(&text).unwrap_or_default();
    let field = fields.get(index).context(path)?;
    Ok((*field).to_owned())
}

/// Returns the state of a process: `R`, `S`, `T` (stopped), `t` (stopped by a tracer), `Z`, … Fails if there is no such
/// process.
pub fn state(pid: u32) -> anyhow::Result<char> {
    state_of(pid, pid)
}

fn state_of(pid: u32, thread: u32) -> anyhow::Result<char> {
    let field = stat_field(format!("/proc/{pid}/task/{thread}/stat"), 0)?;
    field.chars().next().context("an empty state")
}

/// Returns the parent of a process. Fails if there is no such process.
pub fn parent(pid: u32) -> anyhow::Result<u32> {
    Ok(stat_field(format!("/proc/{pid}/stat"), 1)?.parse()?)
}

/// Returns the sum of user and system time of all threads, in clock ticks. Fails if there is no such process.
pub fn ticks(pid: u32) -> anyhow::Result<u64> {
    let file = format!("/proc/{pid}/stat");
    parse_ticks(&read(file.clone())?).with_context(|| format!("{file}: not of the known form"))
}

/// Returns the sum of user and system time of all threads, in seconds; the resolution is a clock tick (10 ms). Fails if
/// there is no such process.
pub fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.context("no clock tick")?;
    Ok(ticks(pid)? as f64 / ticks_per_second as f64)
}

/// Returns a process's peak resident memory (VmHWM), in MiB. Fails if there is no such process.
pub fn peak_memory_mib(pid: u32) -> anyhow::Result<f64> {
    let file = format!("/proc/{pid}/status");
    let kib = parse_number(&read(file.clone())?, "VmHWM");
    Ok(kib.with_context(|| format!("{file}: no VmHWM"))? as f64 / 1024.0)
}

/// Returns true if every thread of a process is being traced; false if there is no such process.
pub fn is_traced(pid: u32) -> bool {
    let Ok(threads) = threads(pid) else {
        return false;
    };
    let is_traced = |thread| {
        let tracer = status(pid, thread, "TracerPid");
        tracer.is_ok_and(|tracer| tracer != "0")
    };
    threads.into_iter().all(is_traced)
}

/// Returns the ids of all visible processes.
pub fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

/// Returns the ids of the processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let is_child = |child: &u32| parent(*child).is_ok_and(|parent| parent == pid);
    processes().into_iter().filter(is_child).collect()
}

/// Returns the thread ids of a process, in ascending order.
pub fn threads(pid: u32) -> anyhow::Result<Vec<u32>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
        threads.push(entry?.file_name().to_string_lossy().parse()?);
    }
    threads.sort_unstable();
    Ok(threads)
}

/// Returns a value of a thread's status. Fails if there is no such thread or key.
pub fn status(pid: u32, thread: u32, key: &str) -> anyhow::Result<String> {
    let text = read(format!("/proc/{pid}/task/{thread}/status"))?;
    let value = parse_status(&text, key).with_context(|| format!("no {key} in status"))?;
    Ok(value.to_owned())
}

/// Returns the number of voluntary context switches of all threads of a process.
pub fn sleeps(pid: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for thread in threads(pid)? {
        sum += status(pid, thread, "voluntary_ctxt_switches")?.parse::<u64>()?;
    }
    Ok(sum)
}

/// Returns true if a thread sleeps in poll(2) or epoll_wait(2), or in restart_syscall(2), which continues them after a
/// stop. Returns false if a tracer has stopped the thread there.
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

/// Returns the first process of this name that is `ancestor` or its descendant, if any.
pub fn descendant(ancestor: u32, name: &str) -> Option<u32> {
    // The kernel truncates names to 15 bytes.
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
    let mut pids = processes().into_iter();
    pids.find(|pid| named(*pid) && below(*pid))
}

/// Stops a process (SIGSTOP) and waits until all its threads are stopped.
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

/// Sends a signal; the process may have ended.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill(2) touches no memory. An error (the process has ended) is ignored: the caller notices it later.
    unsafe { libc::kill(pid as i32, signal) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn cpu_ticks_are_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 250 30 7 8 20 0 1 0 5 6 7";
        assert_eq!(parse_ticks(stat), Some(280));
        assert_eq!(parse_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn status_fields() {
        let status = "Name:\tx\nPPid:\t17\nVmHWM:\t    2048 kB\n";
        assert_eq!(parse_number(status, "VmHWM"), Some(2048));
        assert_eq!(parse_number(status, "PPid"), Some(17));
        assert_eq!(parse_status(status, "VmRSS"), None);
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let pid = std::process::id();
        let (before, end) = (cpu_seconds(pid).unwrap(), Instant::now() + PATIENCE);
        while cpu_seconds(pid).unwrap() - before < 0.05 {
            assert!(Instant::now() < end);
        }
        assert!(peak_memory_mib(pid).unwrap() > 1.0);
    }

    #[test]
    fn a_child_is_found_and_is_not_traced() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let found = children(std::process::id());
        let traced = is_traced(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&child.id()));
        assert!(!traced);
    }
}
