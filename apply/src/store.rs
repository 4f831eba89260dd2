// SPDX-License-Identifier: GPL-2.0-or-later
//! The state folder, by default /var/lib/twinwall/apply: `state.json`, the lock, and a folder for each generation, all
//! for root alone; and the lists of names, which a firewall's user can read.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::failure::{at, policy, system, Result};
use crate::firewall::Firewall;
use crate::lists::{self, List};
use crate::lock::{self, Lock};
use crate::nft;
use crate::source::{self, Source};
use crate::state::State;

/// Default state folder of `fwctl apply`.
pub const FOLDER: &str = "/var/lib/twinwall/apply";
/// File names of a generation's texts: the policy, and the nft transactions that load it, undo it, and remove it
/// (`fwctl unapply`).
pub const POLICY: &str = "policy.nft";
pub const KERNEL: &str = "kernel.nft";
pub const UNDO: &str = "undo.nft";
pub const REMOVAL: &str = "removal.nft";
/// File name of a generation's latest transaction that was changed to keep base chains.
pub const SWAP: &str = "swap.nft";
/// File name of a generation's latest transaction with addresses that sets had learned.
pub const KEPT: &str = "kept.nft";
/// File name of the addresses that sets had learned before the generation was loaded.
pub const LEARNED: &str = "learned.json";
/// File name of the firewall's policy, in a generation with names.
pub const NAMES: &str = "names.nft";

const STATE: &str = "state.json";
const LOCK: &str = "lock";
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// File modes: for root alone; readable by a firewall's user.
const PRIVATE: u32 = 0o600;
const READABLE: u32 = 0o644;

/// State folder and firewall of the generations, and the options of fwctl that name both.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    pub folder: &'a Path,
    /// Options of fwctl by which another fwctl finds the folder and the firewall.
    pub places: &'a [&'a OsStr],
    pub firewall: &'a dyn Firewall,
}

/// State folder of `fwctl apply`, locked, with the state that was read from it.
pub struct Store<'a> {
    host: Host<'a>,
    pub state: State,
    lock: Lock,
}

/// Creates a folder and the missing folders above it with a mode, whatever the umask is. Existing folders don't change.
pub fn create_folder(folder: &Path, mode: u32) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    for path in missing.iter().rev() {
        DirBuilder::new().recursive(true).mode(mode).create(path)?;
        fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Creates the folder if it does not exist. Fails if another user can change it. All users may enter a new folder: a
/// firewall's user reads lists there.
fn prepare(folder: &Path) -> Result<()> {
    create_folder(folder, 0o711).map_err(at(folder))?;
    let data = fs::symlink_metadata(folder).map_err(at(folder))?;
    let is_own = data.uid() == geteuid().as_raw() && data.mode() & WRITABLE_BY_OTHERS == 0;
    if data.is_dir() && is_own {
        return Ok(());
    }
    Err(system(format_args!(
        "{0} is no folder that only root can change: chown root: {0}; chmod 711 {0}",
        folder.display()
    )))
}

/// Writes a file atomically: after a power cut it has its old or its new content.
fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    let part = path.with_extension("part");
    let write = || {
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(mode);
        let mut file = options.open(&part)?;
        // The umask may have cleared bits.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&part, path)?;
        File::open(path.parent().unwrap_or(path))?.sync_all()
    };
    write().map_err(at(path))
}

/// Reads the state of a folder. None if no policy was ever applied.
pub fn read(folder: &Path) -> Result<Option<State>> {
    let path = folder.join(STATE);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.map_err(at(&path))?,
    };
    let state = serde_json::from_str(&text);
    state.map(Some).map_err(|error| {
        system(format_args!(
            "{}: {error}: unsupported state: move the folder away and apply the policy again",
            path.display()
        ))
    })
}

/// Returns the policy of a generation, as it was applied.
pub fn source(folder: &Path, number: u64) -> Result<Source> {
    let state = read(folder)?.unwrap_or_default();
    let Some(generation) = state.generation(number) else {
        return Err(policy(format_args!(
            "there is no generation {number}: choose one of fwctl history"
        )));
    };
    let path = folder.join(number.to_string()).join(POLICY);
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    let text = stage::text(&generation.file, &text).map_err(at(&path))?;
    source::parse(PathBuf::from(&generation.file), text)
}

/// Returns the path of the lock in a state folder.
pub fn lock_path(folder: &Path) -> PathBuf {
    folder.join(LOCK)
}

impl<'a> Store<'a> {
    fn with(host: Host<'a>, take: fn(&Path) -> Result<Lock>) -> Result<Store<'a>> {
        prepare(host.folder)?;
        let lock = take(&lock_path(host.folder))?;
        Ok(Store {
            host,
            state: read(host.folder)?.unwrap_or_default(),
            lock,
        })
    }

    /// Opens a state folder; waits for the end of a running operation.
    pub fn open(host: Host<'a>) -> Result<Store<'a>> {
        Store::with(host, lock::wait)
    }

    /// Opens a state folder; kills a running operation.
    pub fn seize(host: Host<'a>) -> Result<Store<'a>> {
        Store::with(host, lock::seize)
    }

    pub fn folder(&self) -> &'a Path {
        self.host.folder
    }

    pub fn places(&self) -> &'a [&'a OsStr] {
        self.host.places
    }

    pub fn firewall(&self) -> &'a dyn Firewall {
        self.host.firewall
    }

    /// Returns a descriptor of the lock for a started program. If this process is killed, the lock is held until that
    /// program closes the descriptor.
    pub fn share_lock(&self) -> Result<File> {
        self.lock.share()
    }

    /// Writes the state to `state.json`: the commit of an operation.
    pub fn commit(&self) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.state).unwrap_or_default();
        replace(&self.folder().join(STATE), text.as_bytes(), PRIVATE)
    }

    fn place(&self, number: u64) -> PathBuf {
        self.folder().join(number.to_string())
    }

    /// Writes a file of a generation.
    pub fn write(&self, number: u64, name: &str, text: &str) -> Result<()> {
        let place = self.place(number);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&place);
        made.map_err(at(&place))?;
        replace(&place.join(name), text.as_bytes(), PRIVATE)
    }

    /// Writes lists that are not stored yet. If there are lists, allows all users to enter the state folder.
    pub fn write_lists(&self, lists: &[List]) -> Result<()> {
        let place = self.folder().join(lists::FOLDER);
        if !lists.is_empty() {
            create_folder(&place, 0o755).map_err(at(&place))?;
            let passable = Permissions::from_mode(0o711);
            fs::set_permissions(self.folder(), passable).map_err(at(self.folder()))?;
        }
        let is_new = |list: &&List| !place.join(&list.name).exists();
        lists
            .iter()
            .filter(is_new)
            .try_for_each(|list| replace(&place.join(&list.name), &list.content, READABLE))
    }

    /// Reads a file of a generation.
    pub fn text(&self, number: u64, name: &str) -> Result<String> {
        let path = self.place(number).join(name);
        fs::read_to_string(&path).map_err(at(&path))
    }

    /// Loads a file of a generation into the kernel. The lock is held until nft has ended, even if this process is
    /// killed.
    pub fn load(&self, number: u64, name: &str) -> Result<()> {
        self.lock.set_inherited(true)?;
        let loaded = nft::load(&self.place(number).join(name));
        self.lock.set_inherited(false)?;
        loaded
    }

    /// Removes the files of generations that are no longer in the history, and lists that no generation reads.
    pub fn remove(&self, numbers: &[u64]) {
        for number in numbers {
            let _ = fs::remove_dir_all(self.place(*number));
        }
        let kept = self.state.generations.iter();
        let texts = kept.map(|one| self.text(one.number, POLICY).ok());
        // A policy that can't be read may need any of the lists.
        let Some(texts) = texts.collect::<Option<Vec<String>>>() else {
            return;
        };
        for list in lists::unused(self.folder(), &texts) {
            let _ = fs::remove_file(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn the_umask_changes_no_mode() {
        let folder = tempfile::tempdir().unwrap();
        let (parent, place) = (folder.path().join("a"), folder.path().join("a/b"));
        // Modes with bits that usual umasks clear.
        create_folder(&place, 0o777).unwrap();
        assert_eq!((mode(&parent), mode(&place)), (0o777, 0o777));
        create_folder(&place, 0o700).unwrap();
        assert_eq!(mode(&place), 0o777);
        let file = place.join("file");
        replace(&file, b"", 0o666).unwrap();
        assert_eq!(mode(&file), 0o666);
    }
}
