// SPDX-License-Identifier: GPL-2.0-or-later
//! Which system calls a firewall makes, as strace(1) saw them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A file for strace's output that is removed with the value.
pub struct Trace {
    path: PathBuf,
}

/// How often each system call was made.
pub type Calls = BTreeMap<String, u64>;

impl Trace {
    /// `name` must be unlike that of other traces of this process.
    pub fn new(name: &str) -> Trace {
        let file = format!("twinwall-{}-{name}.strace", std::process::id());
        Trace {
            path: std::env::temp_dir().join(file),
        }
    }

    /// The program and arguments to start a firewall under.
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

    /// The calls of the worker, from its first poll on and up to its last: what it does for packets, and not what it
    /// does to start or, being told to in the last poll, to end.
    pub fn calls_between_polls(&self) -> anyhow::Result<Calls> {
        let text =
            std::fs::read_to_string(&self.path).with_context(|| self.path.display().to_string())?;
        calls_between_polls(&text).context("no thread of the firewall received and polled")
    }

    /// The file that strace writes.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A line is `PID name(arguments) = result`, or `PID name(arguments <unfinished ...>` and later
/// `PID <... name resumed>`, of which only the first begins a call.
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

/// The main thread receives too, answers to configuration requests, but the worker receives most.
fn busiest_receiver<'a>(calls: &[(&'a str, &str)]) -> Option<&'a str> {
    let mut received = BTreeMap::<&str, u64>::new();
    for (thread, name) in calls {
        if name.starts_with("recv") {
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
10 poll([], 3, 0) = 0
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
