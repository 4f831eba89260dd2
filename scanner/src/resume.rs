// SPDX-License-Identifier: GPL-2.0-or-later
//! The resume file: state of an interrupted scan.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io::{self, Read};

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher;

use crate::failure::{Failure, Result};
use crate::plan::Plan;
use crate::syn::runs::Runs;

const VERSION: u32 = 1;
/// Maximum file size; the largest file, of a --syn scan with the most targets, is smaller.
const LARGEST_BYTES: u64 = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    version: u32,
    /// Name of the probe (see [`Question::by`]): a file of a different probe is refused.
    probe: String,
    /// Hash of the targets, ports, seed and probe's options: a file of a different scan is refused. A hash, since
    /// header fields may be secret.
    scan: String,
    seed: Option<u64>,
    /// First place in the plan's order that no ring had taken.
    start: u64,
    left: Left,
    /// Hash of the fields above except `version`: a modified file is refused.
    check: String,
}

/// Unfinished targets of a scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Left {
    /// Indices of targets that rings took and did not finish; they come before the places from `start` on.
    Begun(Vec<u64>),
    /// --syn: indices of all targets without an answer. Those with a place from `start` on come first.
    Unanswered(Runs),
}

/// Question that each target is asked: the probe and its options.
#[derive(Debug)]
pub struct Question<'a> {
    /// Name of the probe: its options (`--syn`, `--http --tls`), or `connections`.
    pub by: &'static str,
    /// Options of the probe with their values (--ssh, --match, --path, --header). The resume file contains only their
    /// hash.
    pub words: Vec<(&'static str, &'a str)>,
}

fn digest(plan: &Plan, question: &Question, seed: Option<u64>) -> String {
    let mut hasher = SipHasher::new();
    for range in plan.targets.ranges() {
        (range.family as u8, range.scope, range.first, range.last).hash(&mut hasher);
    }
    plan.ports.text().hash(&mut hasher);
    question.words.hash(&mut hasher);
    seed.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

impl Resume {
    pub fn new(
        plan: &Plan,
        question: &Question,
        seed: Option<u64>,
        start: u64,
        left: Left,
    ) -> Resume {
        let mut resume = Resume {
            version: VERSION,
            probe: question.by.into(),
            scan: digest(plan, question, seed),
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

    /// Reads the file; None if it does not exist, so that the scan begins anew.
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

    /// Returns the seed of the order to continue in; None means by address, then by port. Fails if the command line
    /// demands a different order.
    /// - sequential, seed: order that the command line demands, if any.
    pub fn order(&self, sequential: bool, seed: Option<u64>, file: &str) -> Result<Option<u64>> {
        let other = seed.is_some() && seed != self.seed;
        if other || sequential && self.seed.is_some() {
            return Err(Failure::usage(format!(
                "{file}: is of another order: leave --seed and --sequential out, or remove it to begin anew"
            )));
        }
        Ok(self.seed)
    }

    /// Continues a plan from this state. Returns the unanswered targets of a --syn scan, None for a scan by
    /// connections. Fails if the state belongs to a different question or plan, or is damaged.
    pub fn apply(self, plan: &mut Plan, question: &Question, file: &str) -> Result<Option<Runs>> {
        if self.probe != question.by {
            return Err(Failure::usage(format!(
                "{file}: is of a scan by {}, this one is by {}: ask the same as then, or remove it to begin anew",
                self.probe, question.by
            )));
        }
        if self.scan != digest(plan, question, self.seed) {
            return Err(Failure::usage(format!(
                "{file}: is of a scan of other targets, ports, request or expressions: ask the same as then, or remove \
                 it to begin anew"
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

    /// Writes this state to a file, which it replaces atomically.
    pub fn write(&self, file: &str) -> Result<()> {
        let beside = beside(file);
        let write = |to: File| {
            let mut to = io::BufWriter::new(to);
            serde_json::to_writer(&mut to, self)?;
            to.into_inner()?.sync_all()?;
            fs::rename(&beside, file)
        };
        // Removes only a file that was created here.
        let written = File::create_new(&beside).and_then(|to| {
            write(to).inspect_err(|_| {
                let _ = fs::remove_file(&beside);
            })
        });
        written.map_err(|error| Failure::system(&format!("{file}: cannot be written"), &error))
    }
}

/// Fails early if the file could not be written at the end of a long scan.
pub fn check_writable(file: &str) -> Result<()> {
    let beside = beside(file);
    File::create_new(&beside)
        .and_then(|_| fs::remove_file(&beside))
        .map_err(|error| {
            Failure::usage(format!(
                "--resume {file}: cannot be written: {error}: name a file in a folder that can be written to"
            ))
        })
}

/// Returns a temporary name with the process id, so that it does not collide with other files.
fn beside(file: &str) -> String {
    format!("{file}.{}.new", std::process::id())
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

    fn by(by: &'static str) -> Question<'static> {
        Question {
            by,
            words: vec![("--match", "nginx")],
        }
    }

    fn connect(left: Vec<u64>) -> Resume {
        let question = by("connections");
        Resume::new(&plan("22"), &question, Some(5), 100, Left::Begun(left))
    }

    /// Runs a test with a file of its own, and removes the file.
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
                .apply(&mut plan("22"), &by("connections"), file)
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
            let apply =
                |plan: &mut Plan, question: &Question| read.clone().apply(plan, question, file);
            assert_eq!(apply(&mut same, &by("connections")), Ok(None));
            assert_eq!(same.left(), 256 - 100 + 3);
            let refused = apply(&mut plan("23"), &by("connections")).unwrap_err();
            assert!(refused.text.contains("other targets"), "{refused}");
            for words in [
                vec![],
                vec![("--match", "apache")],
                vec![("--ssh", "nginx")],
            ] {
                let by = "connections";
                let refused = apply(&mut plan("22"), &Question { by, words }).unwrap_err();
                assert!(refused.text.contains("or expressions"), "{refused}");
            }
            let refused = apply(&mut plan("22"), &by("--syn")).unwrap_err();
            assert!(
                refused
                    .text
                    .contains("by connections, this one is by --syn"),
                "{refused}"
            );
        });
    }

    #[test]
    fn an_order_is_that_of_the_file() {
        let (keyed, question) = (connect(Vec::new()), by("connections"));
        let in_order = Resume::new(&plan("22"), &question, None, 0, Left::Begun(Vec::new()));
        for (resume, sequential, seed, is_same) in [
            (&keyed, false, None, true),
            (&keyed, false, Some(5), true),
            (&keyed, false, Some(6), false),
            (&keyed, true, None, false),
            (&in_order, false, None, true),
            (&in_order, true, None, true),
            (&in_order, false, Some(5), false),
        ] {
            match resume.order(sequential, seed, "f") {
                Ok(order) => assert_eq!((order, is_same), (resume.seed, true)),
                Err(refused) => {
                    assert!(!is_same && refused.text.starts_with("f: is of another order: "));
                }
            }
        }
    }

    #[test]
    fn what_syns_have_no_answer_of_is_kept() {
        with_file("syn", |file| {
            let runs = Runs::of((0..256).map(|index| index % 3 == 0));
            let left = Left::Unanswered(runs.clone());
            Resume::new(&plan("22"), &by("--syn"), Some(5), 7, left)
                .write(file)
                .unwrap();
            let read = Resume::read(file).unwrap().unwrap();
            assert_eq!(
                read.apply(&mut plan("22"), &by("--syn"), file),
                Ok(Some(runs))
            );
            let other = Left::Unanswered(Runs::of((0..255).map(|_| true)));
            let refused = Resume::new(&plan("22"), &by("--syn"), Some(5), 7, other)
                .apply(&mut plan("22"), &by("--syn"), file)
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

    #[test]
    fn no_other_file_is_touched() {
        with_file("others", |file| {
            let others = [format!("{file}.new"), beside(file)];
            fs::write(&others[0], "another's").unwrap();
            check_writable(file).unwrap();
            connect(vec![1]).write(file).unwrap();
            // Writing also fails if a file of the temporary name exists, which could be a link.
            std::os::unix::fs::symlink(&others[0], &others[1]).unwrap();
            assert!(check_writable(file).is_err());
            assert!(connect(vec![2]).write(file).is_err());
            assert_eq!(fs::read_to_string(&others[0]).unwrap(), "another's");
            assert_eq!(Resume::read(file), Ok(Some(connect(vec![1]))));
            assert!(fs::symlink_metadata(&others[1]).unwrap().is_symlink());
            others
                .iter()
                .for_each(|other| fs::remove_file(other).unwrap());
        });
    }
}
