// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds programs: in the system's folders, and in PATH.

use std::env;
use std::path::{Path, PathBuf};

use rustix::fs::{access, Access};

const SYSTEM_FOLDERS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Finds a program of the system; None if it is not installed. Searches the system's folders, because the PATH of an
/// ordinary user often lacks the sbin folders, and then PATH.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = SYSTEM_FOLDERS.iter().map(PathBuf::from);
    let mut folders = folders.chain(env::split_paths(&path).filter(|folder| folder.is_absolute()));
    folders.find_map(|folder| Some(folder.join(name)).filter(|path| is_program(path)))
}

/// Finds a program of this project: in the folder of the running program, as in a build; in the folder `../sbin` from
/// it; otherwise among the system's programs.
pub fn find_beside(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let folder = own.parent()?;
    let beside = [folder.join(name), folder.join("../sbin").join(name)];
    beside
        .into_iter()
        .find(|path| is_program(path))
        .or_else(|| find(name))
}
