// SPDX-License-Identifier: GPL-2.0-or-later
//! State of root's service on disk: `state.json` in its folder, replaced as a whole.

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

/// Keys that replace the keys of the keys file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotated {
    pub serial: u64,
    /// Text of the new keys file.
    pub keys: String,
    /// SHA-256 of the keys file when the keys were rotated. After root has changed this file, its keys count again.
    pub anchor: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Highest generation that the host has begun to apply, or has refused because of its trial; 0 = none.
    pub generation: u64,
    pub digest: String,
    pub phase: Phase,
    pub why: Option<String>,
    /// Number of attempts to apply the generation that was applied last.
    pub attempts: u32,
    /// Generation that was confirmed last; 0 = none.
    pub confirmed: u64,
    /// Time at which a generation was last applied, or at which this has begun (ms since 1970).
    pub applied_ms: u64,
    /// Seconds for which the policy is observed before it may be confirmed.
    pub observe_seconds: u32,
    /// Maximum number of packets per second that each rule may drop before the confirmation, from the pointer. None: no
    /// limit.
    pub drops_per_second: Option<u64>,
    /// Number of the latest accepted question (a signed request to try a policy); 0 = none.
    pub question: u64,
    /// End of the running trial (seconds since 1970); None: no trial runs.
    pub trial_ends: Option<u64>,
    /// Latest trial, which may still run.
    pub trial: Option<Trial>,
    pub rotated: Option<Rotated>,
}

/// State folder of root's service, locked against other requests.
pub struct Folder {
    path: PathBuf,
    pub record: Record,
    _lock: Flock<File>,
}

impl Folder {
    /// Locks the folder, and reads its state. Waits while another request has the lock. Creates a missing folder. Fails
    /// if another user can change the folder.
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
            // `fwctl apply` stores paths without symbolic links.
            path: fs::canonicalize(path).map_err(at(path))?,
            record,
            _lock: lock,
        })
    }

    pub fn write(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.record).unwrap_or_default();
        file::replace(&self.path.join(STATE), text.as_bytes())
    }

    /// Returns the paths of three items: the folder of the tried bundle, the file of the trial's tables, and the file
    /// of a policy without rules.
    pub fn tried(&self) -> [PathBuf; 3] {
        ["tried", "trial.json", "nothing.nft"].map(|name| self.path.join(name))
    }

    /// Returns the folder of a generation's bundle.
    pub fn bundle(&self, generation: u64) -> PathBuf {
        self.path.join("bundles").join(generation.to_string())
    }

    /// Removes all bundles except those of these generations.
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
