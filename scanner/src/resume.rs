// SPDX-License-Identifier: GPL-2.0-or-later
//! Where an interrupted scan goes on.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher;

use crate::failure::{Failure, Result};
use crate::plan::Plan;
use crate::syn::runs::Runs;

const VERSION: u32 = 1;
/// The largest that is ever written, of --syn's most targets, has less.
const LARGEST_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    version: u32,
    /// What was asked, as the command line says it: a file of another question is refused.
    probe: String,
    /// Of targets, ports and order: as is a file of other targets.
    scan: String,
    pub seed: Option<u64>,
    /// The place that was not taken yet.
    start: u64,
    left: Left,
    /// Of all the above: a file that was changed is refused.
    check: String,
}

/// What is left of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Left {
    /// Indices of targets that were begun and not ended, before those from `start` on.
    Begun(Vec<u64>),
    /// --syn: indices of all targets that have no answer. Those from `start` on come first.
    Unanswered(Runs),
}

fn digest(plan: &Plan, seed: Option<u64>) -> String {
    let mut hasher = SipHasher::new();
    for range in plan.targets.ranges() {
        (range.family as u8, range.scope, range.first, range.last).hash(&mut hasher);
    }
    plan.ports.text().hash(&mut hasher);
    seed.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl Resume {
    pub fn new(plan: &Plan, probe: &str, seed: Option<u64>, start: u64, left: Left) -> Resume {
        let mut resume = Resume {
            version: VERSION,
            probe: probe.into(),
            scan: digest(plan, seed),
            seed,
            start,
            left,
            check: String::new(),
        };
        resume.check = resume.sum();
        resume
    }

    fn sum(&self) -> String {
        let mut hasher = SipHasher::new();
        (&self.probe, &self.scan, self.seed, self.start).hash(&mut hasher);
        self.left.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// None if there is no such file: the scan begins.
    pub fn read(file: &str) -> Result<Option<Resume>> {
        let opened = match File::open(file) {
            Ok(opened) => opened,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(file, &error)),
        };
        let mut text = String::new();
        opened
            .take(LARGEST_BYTES)
            .read_to_string(&mut text)
            .map_err(|error| unreadable(file, &error))?;
        let resume: Resume = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "{file}: is no file of --resume: {error}: remove it to begin anew"
            ))
        })?;
        if resume.version != VERSION {
            return Err(Failure::usage(format!(
                "{file}: is of version {}, this program of {VERSION}: remove it to begin anew",
                resume.version
            )));
        }
        match resume.check == resume.sum() {
            true => Ok(Some(resume)),
            false => Err(damaged(file)),
        }
    }

    /// Lets a plan go on from here. Gives what --syn has no answer of.
    pub fn apply(self, plan: &mut Plan, probe: &str, file: &str) -> Result<Option<Runs>> {
        if self.probe != probe {
            return Err(Failure::usage(format!(
                "{file}: is of a scan by {}, this one is by {probe}: ask the same as then, or remove it to begin anew",
                self.probe
            )));
        }
        if self.scan != digest(plan, self.seed) {
            return Err(Failure::usage(format!(
                "{file}: is of a scan of other targets, ports or order: ask the same as then, or remove it to begin anew"
            )));
        }
        let len = plan.len();
        let fits = match &self.left {
            Left::Begun(begun) => begun.iter().all(|&index| index < len),
            Left::Unanswered(runs) => runs.count(len).is_some(),
        };
        if !fits || self.start > len {
            return Err(damaged(file));
        }
        Ok(match self.left {
            Left::Begun(begun) => {
                plan.resume(self.start, begun);
                None
            }
            Left::Unanswered(runs) => {
                plan.resume(self.start, Vec::new());
                Some(runs)
            }
        })
    }

    /// Replaces the file as a whole.
    pub fn write(&self, file: &str) -> Result<()> {
        let beside = beside(file);
        let written = File::create(&beside).and_then(|file| {
            let mut to = io::BufWriter::new(file);
            serde_json::to_writer(&mut to, self)?;
            to.into_inner()?.sync_all()
        });
        let written = written.and_then(|()| fs::rename(&beside, file));
        written.map_err(|error| {
            let _ = fs::remove_file(&beside);
            Failure::system(&format!("{file}: cannot be written"), &error)
        })
    }
}

/// Fails now where a file could not be written at the end of a long scan.
pub fn check_writable(file: &str) -> Result<()> {
    let beside = beside(file);
    File::create(&beside)
        .and_then(|_| fs::remove_file(&beside))
        .map_err(|error| {
            Failure::usage(format!(
                "--resume {file}: cannot be written: {error}: name a file in a folder that can be written to"
            ))
        })
}

fn beside(file: &str) -> String {
    format!("{file}.new")
}

fn unreadable(file: &str, error: &io::Error) -> Failure {
    Failure::usage(format!(
        "{file}: cannot be read: {error}: remove it to begin anew"
    ))
}

fn damaged(file: &str) -> Failure {
    Failure::usage(format!("{file}: is damaged: remove it to begin anew"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Ports;
    use crate::targets::set::Set;
    use crate::targets::{Family, Range};

    fn plan(ports: &str) -> Plan {
        let range = Range {
            family: Family::V4,
            scope: 0,
            first: 0x0a00_0000,
            last: 0x0a00_00ff,
        };
        Plan::new(
            Set::new([range]).unwrap(),
            Ports::parse(ports).unwrap(),
            Some(5),
            1,
        )
    }

    fn connect(left: Vec<u64>) -> Resume {
        Resume::new(&plan("22"), "connections", Some(5), 100, Left::Begun(left))
    }

    /// In a file of its own, which is removed at the end.
    fn with_file(name: &str, test: impl Fn(&str)) {
        let name = format!("scanner-resume-{name}-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        test(file.to_str().unwrap());
        let _ = fs::remove_file(file);
    }

    fn refusal(text: &str, file: &str) -> String {
        fs::write(file, text).unwrap();
        let read = Resume::read(file).and_then(|resume| {
            resume
                .unwrap()
                .apply(&mut plan("22"), "connections", file)
                .map(|_| ())
        });
        read.unwrap_err().text
    }

    #[test]
    fn a_file_fits_its_scan_only() {
        with_file("fits", |file| {
            assert_eq!(Resume::read(file), Ok(None));
            let written = connect(vec![1, 2, 3]);
            written.write(file).unwrap();
            let read = Resume::read(file).unwrap().unwrap();
            assert_eq!(read, written);
            let mut same = plan("22");
            let apply = |plan: &mut Plan, probe| read.clone().apply(plan, probe, file);
            assert_eq!(apply(&mut same, "connections"), Ok(None));
            assert_eq!(same.left(), 256 - 100 + 3);
            let refused = apply(&mut plan("23"), "connections").unwrap_err();
            assert!(refused.text.contains("other targets"), "{refused}");
            let refused = apply(&mut plan("22"), "--syn").unwrap_err();
            assert!(
                refused
                    .text
                    .contains("by connections, this one is by --syn"),
                "{refused}"
            );
        });
    }

    #[test]
    fn what_syns_have_no_answer_of_is_kept() {
        with_file("syn", |file| {
            let runs = Runs::of((0..256).map(|index| index % 3 == 0));
            let left = Left::Unanswered(runs.clone());
            Resume::new(&plan("22"), "--syn", Some(5), 7, left)
                .write(file)
                .unwrap();
            let read = Resume::read(file).unwrap().unwrap();
            assert_eq!(read.apply(&mut plan("22"), "--syn", file), Ok(Some(runs)));
            let other = Left::Unanswered(Runs::of((0..255).map(|_| true)));
            let refused = Resume::new(&plan("22"), "--syn", Some(5), 7, other)
                .apply(&mut plan("22"), "--syn", file)
                .unwrap_err();
            assert!(refused.text.contains("damaged"), "{refused}");
        });
    }

    #[test]
    fn a_damaged_file_is_refused() {
        with_file("damaged", |file| {
            let good = serde_json::to_string(&connect(vec![10, 20])).unwrap();
            assert!(refusal("{\"version\": 1}", file).contains("no file of --resume"));
            assert!(refusal(&good[..good.len() / 2], file).contains("no file of --resume"));
            let other = good.replace("\"version\":1", "\"version\":9");
            assert!(refusal(&other, file).contains("of version 9"));
            for (from, to) in [("100", "101"), ("20]", "21]"), ("[10", "[11")] {
                let changed = good.replace(from, to);
                assert_ne!(changed, good);
                assert!(refusal(&changed, file).contains("is damaged"), "{changed}");
            }
            let beyond = serde_json::to_string(&connect(vec![256])).unwrap();
            assert!(refusal(&beyond, file).contains("is damaged"));
        });
    }

    #[test]
    fn a_file_that_cannot_be_written_is_refused_at_once() {
        let refused = check_writable("/nonexistent/file").unwrap_err();
        assert!(
            refused.text.contains("--resume /nonexistent/file"),
            "{refused}"
        );
        with_file("writable", |file| {
            check_writable(file).unwrap();
            assert_eq!(Resume::read(file), Ok(None));
            assert!(!fs::exists(beside(file)).unwrap());
        });
    }
}
