// SPDX-License-Identifier: GPL-2.0-or-later
//! Attributes that a process passes on to its children: limits, priority, umask, control group. The new firewall gets
//! those of the old firewall and none of the shell's that started fwctl. They are read from the kernel.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::sys::stat::{umask, Mode};
use rustix::process::{getpriority_process, setpriority_process, setrlimit, Pid, Resource, Rlimit};
use serde::{Deserialize, Serialize};

use super::peer::Peer;
use crate::failure::{words, Failure};

/// Limits of a process: their names in /proc/PID/limits, and their resources.
const LIMITS: [(&str, Resource); 14] = [
    ("Max cpu time", Resource::Cpu),
    ("Max file size", Resource::Fsize),
    ("Max data size", Resource::Data),
    ("Max stack size", Resource::Stack),
    ("Max core file size", Resource::Core),
    ("Max processes", Resource::Nproc),
    ("Max open files", Resource::Nofile),
    ("Max locked memory", Resource::Memlock),
    ("Max address space", Resource::As),
    ("Max pending signals", Resource::Sigpending),
    ("Max msgqueue size", Resource::Msgqueue),
    ("Max nice priority", Resource::Nice),
    ("Max realtime priority", Resource::Rtprio),
    ("Max realtime timeout", Resource::Rttime),
];
/// Minimum umask: only the owner may write to the new firewall's files, whatever the old umask was.
const MASK_LEAST: u32 = 0o022;

#[derive(Debug, Serialize, Deserialize)]
struct Limit {
    name: String,
    /// Soft limit; None means unlimited.
    soft: Option<u64>,
    hard: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Surroundings {
    nice: i32,
    mask: u32,
    oom_score: String,
    limits: Vec<Limit>,
    /// Cgroups of the old process, in the format of /proc/PID/cgroup.
    cgroups: Vec<String>,
}

fn limits_of(text: &str) -> Vec<Limit> {
    let limits = LIMITS.iter().filter_map(|(name, _)| {
        let mut line = text.lines().filter_map(|line| line.strip_prefix(name));
        let mut values = line
            .next()?
            .split_whitespace()
            .map(|word| word.parse().ok());
        let (soft, hard) = (values.next()?, values.next()?);
        Some(Limit {
            name: (*name).to_owned(),
            soft,
            hard,
        })
    });
    limits.collect()
}

/// Returns the folder in /sys/fs/cgroup of the control group that a line of /proc/PID/cgroup names: "0::/a" (cgroup
/// v2), "5:cpu,cpuacct:/a" (v1). None if the control group is above the root of this process's hierarchy.
fn cgroup_folder(line: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    // A cgroup above the root of our own hierarchy can't be entered.
    let path = path.trim_start_matches('/');
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let root = Path::new("/sys/fs/cgroup");
    let hierarchy = match controllers {
        "" if root.join("cgroup.controllers").exists() => root.to_owned(),
        "" => root.join("unified"),
        _ => root.join(controllers.trim_start_matches("name=")),
    };
    Some(hierarchy.join(path))
}

/// Adds a warning if an attribute of the new process could not be set. The upgrade continues without the attribute.
fn note(notes: &mut Vec<String>, what: impl std::fmt::Display, result: io::Result<()>) {
    if let Err(error) = result {
        notes.push(format!("{what}: {}", words(&error)));
    }
}

/// Writes to an existing file of the kernel.
fn put(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.write_all(text.as_bytes())
}

impl Surroundings {
    pub fn of(peer: &Peer) -> Result<Surroundings, Failure> {
        let nice = getpriority_process(Pid::from_raw(peer.pid)).unwrap_or(0);
        let mask = u32::from_str_radix(&peer.status_line("Umask")?, 8).unwrap_or(MASK_LEAST);
        Ok(Surroundings {
            nice,
            mask,
            oom_score: peer.read("oom_score_adj")?,
            limits: limits_of(&peer.read("limits")?),
            cgroups: peer.read("cgroup")?.lines().map(str::to_owned).collect(),
        })
    }

    /// Moves this process to the control groups of the old firewall's process, so that the supervisor of the old
    /// firewall (for example systemd) recognises this process. Adds a warning to `notes` for each control group that
    /// can't be entered.
    fn enter_cgroups(&self, notes: &mut Vec<String>) {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own: Vec<&str> = own.lines().collect();
        for line in &self.cgroups {
            let folder = cgroup_folder(line).filter(|_| !own.contains(&line.as_str()));
            if let Some(folder) = folder {
                let entered = put(&folder.join("cgroup.procs"), "0");
                note(
                    notes,
                    format_args!("{}: not entered", folder.display()),
                    entered,
                );
            }
        }
    }

    /// Applies the attributes to this process, which must not have given up root's rights yet. Returns a warning for
    /// each attribute that could not be set.
    pub fn apply(&self) -> Vec<String> {
        let mut notes = Vec::new();
        self.enter_cgroups(&mut notes);
        for limit in &self.limits {
            let known = LIMITS.iter().find(|(name, _)| *name == limit.name);
            let new = Rlimit {
                current: limit.soft,
                maximum: limit.hard,
            };
            let set = known.map_or(Ok(()), |(_, resource)| setrlimit(*resource, new));
            let set = set.map_err(io::Error::from);
            note(&mut notes, format_args!("limit \"{}\"", limit.name), set);
        }
        let nice = setpriority_process(None, self.nice).map_err(io::Error::from);
        note(&mut notes, "nice", nice);
        let scored = put(Path::new("/proc/self/oom_score_adj"), &self.oom_score);
        note(&mut notes, "oom_score_adj", scored);
        umask(Mode::from_bits_truncate(self.mask | MASK_LEAST));
        notes
    }
}
