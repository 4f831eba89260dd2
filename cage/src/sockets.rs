// SPDX-License-Identifier: GPL-2.0-or-later
//! Unix sockets of the host's services. A service that acts for its clients (a session bus, a container engine, a
//! resolver) would act outside the cage, so these sockets are covered.

use std::collections::{BTreeSet, VecDeque};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::failure::{words, Failure};

/// Kernel's list of the Unix sockets of this network namespace, with the names by which they were bound. A search of
/// FOLDERS finds the sockets of other namespaces.
const BOUND: &str = "/proc/net/unix";
/// Folders in which services create sockets, and the depth of the search.
const FOLDERS: [(&str, usize); 4] = [("/run", 4), ("/var/run", 4), ("/tmp", 2), ("/var/lib", 2)];
/// Depth of the search in HOME and in the current folder.
const WORKING_DEPTH: usize = 3;
/// Depth of the search in the folder of RUNTIME, the same as for /run/user/UID below /run: it may contain mounted
/// network folders.
const RUNTIME_DEPTH: usize = 2;
/// Maximum number of folder entries that one search visits.
const ENTRIES_MAX: usize = 20_000;
const HOME: &str = "HOME";
/// Variable with the path of the caller's own socket folder (XDG Base Directory Specification).
const RUNTIME: &str = "XDG_RUNTIME_DIR";

/// Name of the list, in the private folder, of sockets that are covered for the command.
pub const COVERED: &str = "covered";
/// Name of the list, in the private folder, of folders that are covered whole.
pub const EMPTIED: &str = "emptied";

/// Returns the path in a line of BOUND: the rest from the eighth word on. None if the socket has no path.
fn path_of(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line;
    for _ in 0..7 {
        let begin = rest.iter().position(|byte| *byte != b' ')?;
        let end = rest[begin..].iter().position(|byte| *byte == b' ')? + begin;
        rest = &rest[end..];
    }
    let begin = rest.iter().position(|byte| *byte != b' ')?;
    let path = &rest[begin..];
    let is_abstract = path.starts_with(b"@");
    (!is_abstract).then(|| PathBuf::from(OsStr::from_bytes(path)))
}

/// Adds the sockets in folders to `found`. Visits at most ENTRIES_MAX entries, those of the highest folders first.
/// - folders: folders, each with the depth of its search.
fn search(folders: impl IntoIterator<Item = (PathBuf, usize)>, found: &mut BTreeSet<PathBuf>) {
    let mut folders: VecDeque<(PathBuf, usize)> = folders.into_iter().collect();
    let mut left = ENTRIES_MAX;
    while let Some((folder, depth)) = folders.pop_front() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if left == 0 {
                return;
            }
            left -= 1;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_socket() {
                found.insert(entry.path());
            } else if kind.is_dir() && depth > 1 {
                folders.push_back((entry.path(), depth - 1));
            }
        }
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket())
}

/// Returns the folder in an environment variable, without symbolic links.
fn folder_of(variable: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(env::var_os(variable)?);
    folder.canonicalize().ok()
}

/// Returns HOME and the current folder.
fn working() -> Vec<PathBuf> {
    let folders = [folder_of(HOME), env::current_dir().ok()];
    folders.into_iter().flatten().collect()
}

/// Returns the caller's own folders to search, each with the depth of its search.
/// - has_relative: true if a socket was bound by a relative path, which may be in any folder.
fn own_folders(has_relative: bool) -> Vec<(PathBuf, usize)> {
    let ssh = folder_of(HOME).map(|home| (home.join(".ssh"), 1));
    let runtime = folder_of(RUNTIME).map(|folder| (folder, RUNTIME_DEPTH));
    let mut folders: Vec<(PathBuf, usize)> = ssh.into_iter().chain(runtime).collect();
    if has_relative {
        let working = working().into_iter();
        folders.extend(working.map(|folder| (folder, WORKING_DEPTH)));
    }
    folders
}

/// Returns true if a path is one of the paths `left`, or is below one of them.
fn is_left(path: &Path, left: &[PathBuf]) -> bool {
    left.iter().any(|one| path.starts_with(one))
}

/// Returns the paths of `--host-socket` without symbolic links. Fails if a path does not exist.
pub fn left_open(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let resolve = |path: &PathBuf| {
        path.canonicalize().map_err(|error| {
            Failure::new(format_args!(
                "--host-socket {}: {}: start the service, or omit the option",
                path.display(),
                words(&error)
            ))
        })
    };
    paths.iter().map(resolve).collect()
}

/// Returns the Unix sockets that must be covered, so that the command can't connect to them: all sockets that the
/// search finds, except those left open.
/// - left_open: sockets that stay open, and folders whose sockets stay open, without symbolic links.
pub fn covered(left_open: &[PathBuf]) -> Vec<PathBuf> {
    let bound = fs::read(BOUND).unwrap_or_default();
    let lines = bound.split(|byte| *byte == b'\n').skip(1); // after the heading
    let paths = lines.filter_map(path_of);
    let (mut found, relative): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        paths.partition(|path| path.is_absolute());
    // Programs such as ssh bind a socket under a temporary name, and then rename it in its folder.
    let renamed = found.iter().filter(|path| !is_socket(path));
    let folders: BTreeSet<PathBuf> = renamed
        .filter_map(|path| path.parent().map(Path::to_owned))
        .collect();
    search(folders.into_iter().map(|folder| (folder, 1)), &mut found);
    search(own_folders(!relative.is_empty()), &mut found);
    let folders = FOLDERS.map(|(folder, depth)| (PathBuf::from(folder), depth));
    search(folders, &mut found);
    let resolved = found.iter().filter_map(|path| path.canonicalize().ok());
    let sockets: BTreeSet<PathBuf> = resolved
        .filter(|path| is_socket(path) && !is_left(path, left_open))
        .collect();
    sockets.into_iter().collect()
}

/// Returns true if a folder is the caller's own and closed to other users, and contains none of the paths `kept`.
fn can_be_emptied(folder: &Path, kept: &[PathBuf]) -> bool {
    let is_own = fs::metadata(folder).is_ok_and(|data| {
        data.is_dir() && data.uid() == geteuid().as_raw() && data.mode() & 0o777 == 0o700
    });
    is_own && !kept.iter().any(|path| path.starts_with(folder))
}

/// Returns those of the caller's own socket folders that are covered whole, because new sockets may appear in them at
/// any time. Leaves out a folder that other users can enter, or that contains a socket left open, HOME or the current
/// folder.
/// - left_open: as for `covered`.
pub fn emptied(uid: u32, left_open: &[PathBuf]) -> Vec<PathBuf> {
    let standard = PathBuf::from(format!("/run/user/{uid}")).canonicalize();
    let mut folders: Vec<PathBuf> = standard.into_iter().chain(folder_of(RUNTIME)).collect();
    folders.dedup();
    let kept = [left_open, &working()[..]].concat();
    folders.retain(|folder| can_be_emptied(folder, &kept));
    folders
}

/// Writes a list of paths, each with a NUL after it.
pub fn write_list(file: &Path, paths: &[PathBuf]) -> io::Result<()> {
    let mut text = Vec::new();
    for path in paths {
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    fs::write(file, text)
}

/// Reads a list of paths that `write_list` wrote.
pub fn read_list(file: &Path) -> io::Result<Vec<PathBuf>> {
    let text = fs::read(file)?;
    let paths = text.split(|byte| *byte == 0);
    Ok(paths
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
        .collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{symlink, PermissionsExt};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Creates a folder for a test, whose path has no symbolic links.
    fn folder(name: &str) -> PathBuf {
        let name = format!("cage-sockets-{name}-{}", std::process::id());
        let folder = env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap()
    }

    #[test]
    fn a_line_gives_its_path() {
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b/bus";
        assert_eq!(path_of(line), Some(PathBuf::from("/run/a b/bus")));
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 a/bus";
        assert_eq!(path_of(line), Some(PathBuf::from("a/bus")));
        let line = b"0000000000000000: 00000002 00000000 00010000 0001 01 12345 @abstract";
        assert_eq!(path_of(line), None);
        assert_eq!(
            path_of(b"0000000000000000: 00000003 00000000 00000000 0001 03 12345"),
            None
        );
    }

    #[test]
    fn a_socket_is_covered_unless_it_is_left_open() {
        let folder = folder("bound");
        let (path, link) = (folder.join("bus"), folder.join("link"));
        let listener = UnixListener::bind(&path).unwrap();
        symlink(&path, &link).unwrap();
        assert!(covered(&[]).contains(&path));
        for one in [&folder, &path, &link] {
            let left_open = left_open(std::slice::from_ref(one)).unwrap();
            assert!(!covered(&left_open).contains(&path), "{}", one.display());
        }
        let failure = left_open(&[folder.join("missing")]).unwrap_err();
        assert_eq!(failure.code, crate::failure::CAGE);
        drop(listener);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_renamed_socket_is_covered() {
        let folder = folder("renamed");
        // Deeper than the search of FOLDERS.
        let deep = folder.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let listener = UnixListener::bind(deep.join("master.temporary")).unwrap();
        fs::rename(deep.join("master.temporary"), deep.join("master")).unwrap();
        assert!(covered(&[]).contains(&deep.join("master")));
        drop(listener);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_search_ends_at_its_depth() {
        let folder = folder("depth");
        fs::create_dir_all(folder.join("a/b")).unwrap();
        let (near, far) = (folder.join("a/near"), folder.join("a/b/far"));
        let _listeners = [&near, &far].map(|path| UnixListener::bind(path).unwrap());
        let mut found = BTreeSet::new();
        search([(folder.clone(), 2)], &mut found);
        assert_eq!(found, BTreeSet::from([near]));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn only_a_private_folder_is_emptied() {
        let folder = folder("private");
        let set = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        set(0o700);
        assert!(can_be_emptied(&folder, &[PathBuf::from("/elsewhere")]));
        for kept in [folder.clone(), folder.join("project")] {
            assert!(!can_be_emptied(&folder, &[kept]));
        }
        set(0o755);
        assert!(!can_be_emptied(&folder, &[]));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_list_contains_any_number_of_any_paths() {
        let folder = folder("list");
        let mut paths = vec![PathBuf::from(OsStr::from_bytes(b"/tmp/\xff\n \""))];
        let numbered = (0..10_000).map(|number| PathBuf::from(format!("/tmp/socket-{number}")));
        paths.extend(numbered);
        let file = folder.join(COVERED);
        for paths in [&paths[..], &[]] {
            write_list(&file, paths).unwrap();
            assert_eq!(read_list(&file).unwrap(), paths);
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
