// SPDX-License-Identifier: GPL-2.0-or-later
//! System calls of a firewall, as recorded by strace(1).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A file for strace's output, removed on drop.
pub struct Trace {
    path: PathBuf,
}

/// Number of calls, by system call.
pub type Calls = BTreeMap<String, u64>;

impl Trace {
    /// Creates a path from `name`, which must be unique among the traces of this process.
    pub fn new(name: &str) -> Trace {
        let file = format!("twinwall-{}-{name}.strace", std::process::id());
        Trace {
            path: std::env::temp_dir().join(file),
        }
    }

    /// Returns the command line of strace, to which the firewall's command line is appended.
    pub fn wrapper(&self) -> Vec<&str> {
        let path = self
            .path
            .to_str()
            .expect("the folder for temporary files has a name in UTF-8");
        vec![
            "strace",
            "--follow-forks",
            "--quiet=all",
            "--string-limit=0",
            "--output",
            path,
        ]
    }

    /// Counts the worker's system calls from its first poll up to its last poll, without the last. They are its work on
    /// packets, without its start and its end, which begins in the last poll.
    pub fn calls_between_polls(&self) -> anyhow::Result<Calls> {
        let text =
            std::fs::read_to_string(&self.path).with_context(|| self.path.display().to_string())?;
        calls_between_polls(&text).context("no thread of the firewall received and polled")
    }

    /// Returns the path of strace's output.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Counts the worker's calls between its polls in strace's output. A line is `PID name(arguments) = result`, or `PID
/// name(arguments <unfinished ...>` and later `PID <... name resumed>`; only the first line of such a pair counts.
fn calls_between_polls(text: &str) -> Option<Calls> {
    let calls: Vec<(&str, &str)> = text.lines().filter_map(begun_call).collect();
    let thread = busiest_receiver(&calls)?;
    let calls: Vec<_> = calls.into_iter().filter(|call| call.0 == thread).collect();
    let is_poll = |call: &(&str, &str)| matches!(call.1, "poll" | "ppoll");
    let first = calls.iter().position(is_poll)?;
    let last = calls.iter().rposition(is_poll)?;
    let mut counts = Calls::new();
    for (_, name) in &calls[first..last] {
        *counts.entry(name.to_string()).or_default() += 1;
    }
    Some(counts)
}

/// Returns the thread with most receive calls, without the main thread, which executed the firewall: the worker. The
/// main thread receives replies to configuration requests, and on a busy machine many for its reports.
fn busiest_receiver<'a>(calls: &[(&'a str, &str)]) -> Option<&'a str> {
    let mut received = BTreeMap::<&str, u64>::new();
    let main = calls.iter().find(|call| call.1 == "execve");
    for (thread, name) in calls {
        if name.starts_with("recv") && main.is_none_or(|main| main.0 != *thread) {
            *received.entry(thread).or_default() += 1;
        }
    }
    received
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(thread, _)| thread)
}

fn begun_call(line: &str) -> Option<(&str, &str)> {
    let (thread, rest) = line.split_once(' ')?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some((thread, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_worker_between_its_polls_counts() {
        let text = "\
10 execve(\"\"..., [], 0x7ffc) = 0
10 poll([], 3, 0) = 0
10 recvmmsg(4, [], 64, MSG_WAITFORONE, NULL) = 1
10 recvmmsg(4, [], 64, MSG_WAITFORONE, NULL) = 1
10 recvmmsg(4, [], 64, MSG_WAITFORONE, NULL) = 1
10 rt_sigtimedwait([INT], NULL, NULL, 8 <unfinished ...>
11 recvmmsg(4, [], 64, MSG_DONTWAIT, NULL) = -1 EAGAIN (Resource temporarily unavailable)
11 poll([], 2, -1 <unfinished ...>
10 <... rt_sigtimedwait resumed>) = 10 (SIGUSR1)
10 write(1, \"\"..., 200) = 200
11 <... poll resumed>) = 1
11 recvmmsg(4, [], 64, MSG_DONTWAIT, NULL) = 1
11 sendto(4, \"\"..., 32, 0, {}, 12) = 32
11 poll([], 2, -1) = 1
11 read(5, \"\"..., 8) = 8
11 +++ exited with 0 +++
";
        let calls = calls_between_polls(text).unwrap();
        let expected = [("poll", 1), ("recvmmsg", 1), ("sendto", 1)];
        assert_eq!(
            calls,
            expected
                .map(|(name, count)| (name.to_string(), count))
                .into()
        );
    }
}
