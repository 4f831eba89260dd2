// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel says of a process and of the queues in its namespace. Reading and parsing are
//! apart.

use std::fs;

use anyhow::{Context, Result};
use nix::unistd::{sysconf, SysconfVar};

/// One line of /proc/net/netfilter/nfnetlink_queue (seq_show in net/netfilter/nfnetlink_queue.c).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRow {
    pub number: u16,
    /// Netlink port of the owner.
    pub peer: u32,
    /// Packets that wait for a verdict.
    pub waiting: u32,
    /// Lost because the queue was full.
    pub queue_dropped: u32,
    /// Lost because the owner's socket was full.
    pub user_dropped: u32,
    /// How many packets were offered so far, modulo 2^32.
    pub id_sequence: u32,
}

/// The sum over some queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTotal {
    /// Packets that the owner was handed: the kernel numbers a packet before it finds the owner's
    /// socket full, so those that were lost there are taken off.
    pub handed: u64,
    pub dropped: u64,
    pub waiting: u64,
}

impl QueueTotal {
    pub fn of(rows: &[QueueRow]) -> QueueTotal {
        rows.iter()
            .fold(QueueTotal::default(), |sum, row| QueueTotal {
                handed: sum.handed + u64::from(row.id_sequence.wrapping_sub(row.user_dropped)),
                dropped: sum.dropped + u64::from(row.queue_dropped) + u64::from(row.user_dropped),
                waiting: sum.waiting + u64::from(row.waiting),
            })
    }
}

/// The queues 0 to `count` - 1 in the namespace of a process; those that don't exist are left out.
pub fn queues(pid: u32, count: u16) -> Result<Vec<QueueRow>> {
    // The process's own link: a thread's /proc/net would show the namespace of this program.
    let file = format!("/proc/{pid}/net/netfilter/nfnetlink_queue");
    let text = fs::read_to_string(&file).context(file)?;
    Ok(parse_queues(&text)
        .into_iter()
        .filter(|row| row.number < count)
        .collect())
}

fn parse_queues(text: &str) -> Vec<QueueRow> {
    let row = |line: &str| {
        let fields: Vec<u32> = line
            .split_whitespace()
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        let [number, peer, waiting, _mode, _range, queue_dropped, user_dropped, id_sequence, ..] =
            fields[..]
        else {
            return None;
        };
        let number = number.try_into().ok()?;
        Some(QueueRow {
            number,
            peer,
            waiting,
            queue_dropped,
            user_dropped,
            id_sequence,
        })
    };
    text.lines().filter_map(row).collect()
}

/// CPU time of a process with all its threads, user and system, in seconds. The kernel counts in
/// clock ticks (10 ms).
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let file = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&file).context(file.clone())?;
    let ticks = parse_cpu_ticks(&text).with_context(|| format!("{file}: not of the known form"))?;
    let ticks_per_second = sysconf(SysconfVar::CLK_TCK)?.context("no clock tick")?;
    Ok(ticks as f64 / ticks_per_second as f64)
}

/// Fields 14 and 15 (utime, stime) of proc_pid_stat(5). The second field may hold spaces and
/// brackets.
fn parse_cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The largest resident memory that a process has had, in MiB (VmHWM of proc_pid_status(5)).
pub fn peak_memory_mib(pid: u32) -> Result<f64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).context(file.clone())?;
    let kib = parse_status(&text, "VmHWM").with_context(|| format!("{file}: no VmHWM"))?;
    Ok(kib as f64 / 1024.0)
}

/// Whether every thread of a process is being traced.
pub fn is_traced(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        parse_status(&status, "TracerPid").is_some_and(|tracer| tracer > 0)
    })
}

/// The number behind `name:`; a unit behind it is left out.
fn parse_status(status: &str, name: &str) -> Option<u64> {
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|child| {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        parse_status(&status, "PPid") == Some(u64::from(pid))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

    #[test]
    fn queue_rows_are_parsed_as_the_kernel_prints_them() {
        let text = "    0   1234     7 2   128     3     5   999999  1\n\
                        1 4294963199     0 2 65531     0     0        0  1\n";
        let rows = parse_queues(text);
        assert_eq!(
            rows[0],
            QueueRow {
                number: 0,
                peer: 1234,
                waiting: 7,
                queue_dropped: 3,
                user_dropped: 5,
                id_sequence: 999_999
            }
        );
        assert_eq!(rows[1].peer, 4_294_963_199);
        assert_eq!(
            QueueTotal::of(&rows),
            QueueTotal {
                handed: 999_994,
                dropped: 8,
                waiting: 7
            }
        );
        assert_eq!(parse_queues("something else\n1 2 3\n"), []);
    }

    #[test]
    fn cpu_ticks_are_found_behind_any_name() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194304 100 0 0 0 250 30 7 8 20 0 1 0 5 6 7";
        assert_eq!(parse_cpu_ticks(stat), Some(280));
        assert_eq!(parse_cpu_ticks("42 (a) S 1"), None);
    }

    #[test]
    fn status_fields() {
        let status = "Name:\tx\nPPid:\t17\nVmHWM:\t    2048 kB\n";
        assert_eq!(parse_status(status, "VmHWM"), Some(2048));
        assert_eq!(parse_status(status, "PPid"), Some(17));
        assert_eq!(parse_status(status, "VmRSS"), None);
    }

    #[test]
    fn work_shows_as_cpu_time() {
        let pid = std::process::id();
        let (before, start) = (cpu_seconds(pid).unwrap(), Instant::now());
        while start.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(0);
        }
        assert!(cpu_seconds(pid).unwrap() - before >= 0.05);
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
