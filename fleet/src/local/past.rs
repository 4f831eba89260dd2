// SPDX-License-Identifier: GPL-2.0-or-later
//! Trial on recorded packets: the host decides the packets that it has recorded (about the last minute) by both
//! policies, names included.
//!
//! The record is kept by the unit twinwall-record: capture files in a folder of another user, which is not trusted. So
//! root opens regular files only, follows no link, and passes whole blocks to `fwctl diff`, which gives up root's
//! rights before it parses a packet.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::trial::FLIPS_MAX;
use crate::clock::unix_seconds;
use crate::failure::{at, request, system, Result};
use crate::report::{Flip, Trial};

/// Folder in which the unit twinwall-record records packets.
pub const RECORD: &str = "/run/twinwall-record";
/// Maximum number of bytes that are read of the record (the capture files of the unit twinwall-record), newest files
/// first.
const RECORD_MAX: u64 = 128 << 20;
/// Size in bytes of the type and length with which a pcapng block begins.
const BLOCK_HEAD: usize = 8;
/// Maximum number of characters of a rule's text in a trial's outcome.
const TEXT_MAX: usize = 200;
/// Policy without rules, for a host without a policy.
const NOTHING: &str = "table inet nothing {\n}\n";

/// Opens a file of the record. Returns the file and its length; None if it is no regular file, or can't be opened.
fn open(path: &Path) -> Option<(File, u64)> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.ok()?;
    let data = file.metadata().ok()?;
    data.is_file().then_some((file, data.len()))
}

/// Opens the newest files of the record, RECORD_MAX bytes at most. Returns each file with its length, the oldest first;
/// their names begin with their time.
fn files(record: &Path) -> Vec<(File, u64)> {
    let entries = fs::read_dir(record).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    let mut bytes = 0;
    let newest = paths.iter().rev().filter_map(|path| open(path));
    let mut files: Vec<(File, u64)> = newest
        .take_while(|(_, length)| {
            bytes += length;
            bytes <= RECORD_MAX
        })
        .collect();
    files.reverse();
    files
}

/// Returns the length of the complete pcapng blocks at the start of `bytes`. The last block may be incomplete, because
/// it is being written.
fn whole(bytes: &[u8]) -> usize {
    let mut end = 0;
    loop {
        let head = bytes.get(end + 4..end + BLOCK_HEAD);
        let Some(length) = head.and_then(|head| head.first_chunk::<4>()) else {
            return end;
        };
        let length = u32::from_ne_bytes(*length) as usize;
        if length < BLOCK_HEAD || bytes.len() - end < length {
            return end;
        }
        end += length;
    }
}

/// Runs `fwctl diff` on the record. Returns its lines of JSON.
/// - seconds: only packets of the last `seconds` are compared.
/// - files: files of the record with their lengths, the oldest first.
fn compare(
    fwctl: &Path,
    old: &Path,
    new: &Path,
    seconds: u32,
    files: Vec<(File, u64)>,
) -> Result<String> {
    let fail = |error: std::io::Error| system(format_args!("{}: {error}", fwctl.display()));
    let mut command = Command::new(fwctl);
    command
        .args(["--json", "diff", "--last", &seconds.to_string(), "--old"])
        .args([old, new, Path::new("-")])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(fail)?;
    if let Some(mut stdin) = child.stdin.take() {
        // `fwctl diff` prints its lines after the last packet. If it ends earlier, it prints the reason.
        for (file, length) in files {
            let mut bytes = Vec::new();
            file.take(length).read_to_end(&mut bytes).map_err(fail)?;
            if stdin.write_all(&bytes[..whole(&bytes)]).is_err() {
                break;
            }
        }
    }
    let output = child.wait_with_output().map_err(fail)?;
    // Exit code 1: some verdicts differ.
    match output.status.code() {
        Some(0 | 1) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            let line = said.lines().next().unwrap_or("fwctl diff failed");
            let line = line.trim_start_matches("error: ");
            Err(request(format_args!("the policy can't be tried: {line}")))
        }
    }
}

/// Returns the name of a rule, "FILE:LINE", with its text. Returns `by` itself if it is no place in a file of
/// `folders`.
/// - by: origin of a verdict, as `fwctl diff` prints it.
/// - folders: folders of both policies. Other files are not read, because `by` comes from a process that has parsed
///   packets.
fn rule(by: &str, folders: &[&Path]) -> String {
    let Some((path, line)) = by.rsplit_once(':') else {
        return by.to_owned();
    };
    let path = Path::new(path);
    let is_within = folders.iter().any(|folder| path.starts_with(folder));
    if !is_within || path.components().any(|one| one == Component::ParentDir) {
        return by.to_owned();
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let number = line.parse::<usize>().unwrap_or(0);
    let text = text.lines().nth(number.wrapping_sub(1)).unwrap_or_default();
    let text: String = text.trim().chars().take(TEXT_MAX).collect();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!("{name}:{line}: {text}")
}

/// Sums of packets and flows with different verdicts, by the origin of the drop or reject ("/path/policy.nft:7",
/// "policy inet t input"): (packets, flows).
#[derive(Default)]
struct Sums(BTreeMap<String, (u64, u64)>);

impl Sums {
    fn add(&mut self, by: &Value, packets: u64) {
        let by = by.as_str().unwrap_or_default().to_owned();
        let sum = self.0.entry(by).or_default();
        *sum = (sum.0 + packets, sum.1 + 1);
    }

    fn flips(self, folders: &[&Path]) -> Vec<Flip> {
        let flip = |(by, (packets, flows)): (String, (u64, u64))| Flip {
            rule: rule(&by, folders),
            packets,
            flows: Some(flows),
        };
        let mut flips: Vec<Flip> = self.0.into_iter().map(flip).collect();
        flips.sort_by_key(|one| std::cmp::Reverse(one.packets));
        flips.truncate(FLIPS_MAX);
        flips
    }
}

/// Parses the lines of `fwctl diff --json`: one per flow, then the totals.
/// - folders: folders of both policies.
/// - now: present time in seconds since 1970.
/// - into: in/out: the trial, which gets its outcome.
fn read(lines: &str, folders: &[&Path], now: u64, into: &mut Trial) -> Result<()> {
    let (mut drops, mut passes) = (Sums::default(), Sums::default());
    let mut sums = Value::Null;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line)
            .map_err(|error| system(format_args!("fwctl diff: {error}: update fwctl")))?;
        let packets = line["packets"].as_u64().unwrap_or(0);
        match (
            line["was"]["verdict"].as_str(),
            line["will"]["verdict"].as_str(),
        ) {
            (Some("accept"), Some(_)) => drops.add(&line["will"]["by"], packets),
            (Some(_), Some("accept")) => passes.add(&line["was"]["by"], packets),
            (Some(_), _) => {}
            (None, _) => sums = line,
        }
    }
    let first = sums["first_ns"].as_u64().map(|first| first / 1_000_000_000);
    let age = first.map_or(0, |first| now.saturating_sub(first));
    into.recorded = Some(u32::try_from(age).unwrap_or(u32::MAX).min(into.seconds));
    into.drops = drops.flips(folders);
    into.passes = passes.flips(folders);
    Ok(())
}

/// Decides the recorded packets by two policies. Returns false if the host has no record.
/// - old: present policy; None: no policy is applied.
/// - nothing: path at which a policy without rules is written.
/// - into: in/out: the trial, which gets its outcome.
pub fn decide(
    fwctl: &Path,
    record: &Path,
    (old, new): (Option<&Path>, &Path),
    nothing: &Path,
    into: &mut Trial,
) -> Result<bool> {
    let files = files(record);
    if files.is_empty() {
        return Ok(false);
    }
    fs::write(nothing, NOTHING).map_err(at(nothing))?;
    let old = old.unwrap_or(nothing);
    let lines = compare(fwctl, old, new, into.seconds, files)?;
    let folders: Vec<&Path> = [old, new].into_iter().filter_map(Path::parent).collect();
    read(&lines, &folders, unix_seconds(), into)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(length: u32) -> Vec<u8> {
        let mut block = vec![0; length as usize];
        block[4..8].copy_from_slice(&length.to_ne_bytes());
        block
    }

    #[test]
    fn only_whole_blocks_count() {
        let two = [block(28), block(12)].concat();
        assert_eq!(whole(&two), 40);
        for cut in 28..40 {
            assert_eq!(whole(&two[..cut]), 28);
        }
        assert_eq!(whole(&[0; 64]), 0);
        assert_eq!(whole(&[]), 0);
    }

    #[test]
    fn files_that_are_links_or_pipes_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("2"), "two").unwrap();
        fs::write(path("1"), "one!").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", path("3")).unwrap();
        nix::unistd::mkfifo(&path("4"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let lengths: Vec<u64> = files(folder.path()).iter().map(|file| file.1).collect();
        assert_eq!(lengths, [4, 3]);
        assert!(files(&path("none")).is_empty());
    }

    #[test]
    fn flips_are_summed_by_their_rule() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.nft");
        fs::write(&policy, "table inet t {\n  udp dport 53 drop\n").unwrap();
        let rule = format!("{}:2", policy.display());
        let line = |was: &str, will: &str, packets: u64| {
            serde_json::json!({"packets": packets, "was": {"verdict": was, "by": rule},
                "will": {"verdict": will, "by": "policy inet t input"}})
        };
        let lines = [
            line("accept", "drop", 3),
            line("accept", "reject", 4),
            line("drop", "accept", 2),
            line("drop", "reject", 9),
            serde_json::json!({"packets": 99, "first_ns": 970_000_000_000u64}),
        ];
        let lines = lines.map(|line| line.to_string()).join("\n");
        let mut trial = Trial {
            seconds: 60,
            ..Trial::default()
        };
        read(&lines, &[folder.path()], 1000, &mut trial).unwrap();
        assert_eq!(trial.recorded, Some(30));
        let flip = |rule: &str, packets, flows| Flip {
            rule: rule.to_owned(),
            packets,
            flows: Some(flows),
        };
        assert_eq!(trial.drops, [flip("policy inet t input", 7, 2)]);
        assert_eq!(
            trial.passes,
            [flip("policy.nft:2: udp dport 53 drop", 2, 1)]
        );
        let outside = format!("{}/../x:1", folder.path().display());
        assert_eq!(super::rule(&outside, &[folder.path()]), outside);
        assert_eq!(
            super::rule("/etc/passwd:1", &[folder.path()]),
            "/etc/passwd:1"
        );
    }
}
