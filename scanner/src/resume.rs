// SPDX-License-Identifier: GPL-2.0-or-later
//! Where an interrupted scan goes on.

use std::fs;
use std::io;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher;
use std::hash::{Hash, Hasher};

use crate::failure::{Failure, Result};
use crate::plan::Plan;

const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    version: u32,
    /// Of targets, ports and order: a file of another scan is refused.
    scan: String,
    pub seed: Option<u64>,
    /// The place that was not taken yet.
    pub start: u64,
    /// Indices of targets that were begun and not ended.
    pub begun: Vec<u64>,
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
    pub fn new(plan: &Plan, seed: Option<u64>, start: u64, begun: Vec<u64>) -> Resume {
        Resume {
            version: VERSION,
            scan: digest(plan, seed),
            seed,
            start,
            begun,
        }
    }

    /// None if there is no such file: the scan begins.
    pub fn read(file: &str) -> Result<Option<Resume>> {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Failure::usage(format!("{file}: cannot be read: {error}"))),
        };
        let resume: Resume = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "{file}: is no file of --resume: {error}: remove it to begin anew"
            ))
        })?;
        match resume.version {
            VERSION => Ok(Some(resume)),
            other => Err(Failure::usage(format!(
                "{file}: is of version {other}, this program of {VERSION}: remove it to begin anew"
            ))),
        }
    }

    /// Lets a plan go on from here.
    pub fn apply(self, plan: &mut Plan, file: &str) -> Result<()> {
        let fits = self.scan == digest(plan, self.seed)
            && self.start <= plan.len()
            && self.begun.iter().all(|&index| index < plan.len());
        if !fits {
            return Err(Failure::usage(format!(
                "{file}: is of a scan of other targets, ports or order: ask the same as then, or remove it"
            )));
        }
        plan.resume(self.start, self.begun);
        Ok(())
    }

    /// Replaces the file as a whole.
    pub fn write(&self, file: &str) -> Result<()> {
        let failed =
            |error: io::Error| Failure::system(&format!("{file}: cannot be written"), &error);
        let beside = format!("{file}.new");
        let text =
            serde_json::to_string(self).map_err(|error| Failure::failed(error.to_string()))?;
        fs::write(&beside, text + "\n").map_err(failed)?;
        fs::rename(&beside, file).map_err(failed)
    }
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

    #[test]
    fn a_file_fits_its_scan_only() {
        let folder = std::env::temp_dir().join(format!("scanner-resume-{}", std::process::id()));
        let file = folder.to_str().unwrap();
        let written = Resume::new(&plan("22"), Some(5), 100, vec![1, 2, 3]);
        written.write(file).unwrap();
        let read = Resume::read(file).unwrap().unwrap();
        assert_eq!(read, written);
        let mut same = plan("22");
        read.clone().apply(&mut same, file).unwrap();
        assert_eq!(same.left(), 256 - 100 + 3);
        assert!(read
            .clone()
            .apply(&mut plan("23"), file)
            .unwrap_err()
            .text
            .contains("other targets"));
        let beyond = Resume {
            begun: vec![256],
            ..read
        };
        assert!(beyond.apply(&mut plan("22"), file).is_err());
        fs::write(file, "{\"version\": 1}").unwrap();
        assert!(Resume::read(file)
            .unwrap_err()
            .text
            .contains("no file of --resume"));
        fs::remove_file(file).unwrap();
        assert_eq!(Resume::read(file), Ok(None));
    }
}
