// SPDX-License-Identifier: GPL-2.0-or-later
//! What root's service keeps on disk: `state.json` in its folder, replaced as a whole.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

use crate::failure::{at, system, Result};
use crate::file;
use crate::report::{Phase, Trial};

const STATE: &str = "state.json";
const LOCK: &str = "lock";
const STATE_MAX: usize = 1 << 20;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Keys that replace those of the keys file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotated {
    pub serial: u64,
    /// The text of the new keys file.
    pub keys: String,
    /// SHA-256 of the keys file that they began with. Once root writes another one, that counts.
    pub anchor: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// The highest generation that was taken.
    pub generation: u64,
    pub digest: String,
    pub phase: Phase,
    pub why: Option<String>,
    /// How often the generation was applied.
    pub attempts: u32,
    /// The generation that was confirmed last.
    pub confirmed: u64,
    /// When the policy was applied, milliseconds since 1970.
    pub applied_ms: u64,
    /// Seconds for which the policy is watched before it may be confirmed.
    pub observe_seconds: u32,
    /// The pointer's bound, packets a second for each rule.
    pub drops_per_second: Option<u64>,
    /// The number of the latest question that was taken up.
    pub question: u64,
    /// When the trial that runs ends, seconds since 1970.
    pub trial_ends: Option<u64>,
    /// The latest trial, which may still run.
    pub trial: Option<Trial>,
    pub rotated: Option<Rotated>,
}

/// The folder, locked.
pub struct Folder {
    path: PathBuf,
    pub record: Record,
    _lock: Flock<File>,
}

impl Folder {
    /// Opens the folder when no other request is served. Fails if others than its user can change it.
    pub fn open(path: &Path) -> Result<Folder> {
        file::make_folder(path)?;
        let data = fs::symlink_metadata(path).map_err(at(path))?;
        let is_own = data.uid() == geteuid().as_raw() && data.mode() & WRITABLE_BY_OTHERS == 0;
        if !data.is_dir() || !is_own {
            return Err(system(format_args!(
                "{0} is no folder that only root can change: chown root: {0}; chmod 700 {0}",
                path.display()
            )));
        }
        let lock = path.join(LOCK);
        let opened = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock);
        let lock = Flock::lock(opened.map_err(at(&lock))?, FlockArg::LockExclusive)
            .map_err(|(_, error)| at(&lock)(error.into()))?;
        let state = path.join(STATE);
        let record = match state.exists() {
            false => Record::default(),
            true => {
                let bytes = file::read_at_most(&state, STATE_MAX)?;
                serde_json::from_slice(&bytes).map_err(|error| {
                    system(format_args!(
                        "{}: {error}: move the file away, and push a newer generation",
                        state.display()
                    ))
                })?
            }
        };
        Ok(Folder {
            path: path.to_owned(),
            record,
            _lock: lock,
        })
    }

    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.record).unwrap_or_default();
        file::replace(&self.path.join(STATE), text.as_bytes())
    }

    /// The folder of the bundle that is tried, the file of its tables, and that of a policy that decides nothing.
    pub fn tried(&self) -> [PathBuf; 3] {
        ["tried", "trial.json", "nothing.nft"].map(|name| self.path.join(name))
    }

    /// The folder of a generation's bundle.
    pub fn bundle(&self, generation: u64) -> PathBuf {
        self.path.join("bundles").join(generation.to_string())
    }

    /// Removes the bundles of other generations than these.
    pub fn keep(&self, generations: [u64; 2]) {
        for entry in fs::read_dir(self.path.join("bundles"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if number.is_some_and(|number| !generations.contains(&number)) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
