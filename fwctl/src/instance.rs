// SPDX-License-Identifier: GPL-2.0-or-later
//! Which firewall is meant where no socket is named: the only one in the runtime folders, or an instance by its name.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::failure::{Exit, Failure};

/// Where the runtime folders lie, one an instance: systemd makes them (RuntimeDirectory=).
const FOLDER: &str = "/run/twinwall";
/// The name of a control socket, in there or in such a folder.
const SOCKET: &str = "control";
/// What a unit and a runtime folder say of the program that runs.
const KINDS: [&str; 2] = ["rust", "c"];
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A control socket that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    /// The name of its folder, e.g. "rust-web". None = it lies in FOLDER itself.
    name: Option<String>,
    socket: PathBuf,
}

impl Found {
    /// The option that chooses it.
    fn option(&self) -> String {
        match &self.name {
            Some(name) => format!("-i {name}"),
            None => format!("--socket {}", self.socket.display()),
        }
    }
}

fn fail(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Unreachable, text)
}

fn options_of(found: &[Found]) -> String {
    let options: Vec<String> = found.iter().map(Found::option).collect();
    options.join(", ")
}

/// Checks that only root lays anything into the folder: nobody else's socket is then taken for an instance's.
fn check_folder(data: &Metadata) -> Result<(), Failure> {
    if data.is_dir() && data.uid() == 0 && data.mode() & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    Err(fail(format_args!(
        "{FOLDER} is no folder of root's alone, so that no socket in it is believed: name one with --socket, or: chown \
         root:root {FOLDER}; chmod 755 {FOLDER}"
    )))
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket())
}

/// Every control socket in the folder and the folders in it; links are not followed. Sorted by name.
fn all() -> Result<Vec<Found>, Failure> {
    let Ok(data) = fs::symlink_metadata(FOLDER) else {
        return Ok(Vec::new());
    };
    check_folder(&data)?;
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut found: Vec<Found> = folders
        .map(|entry| Found {
            name: Some(entry.file_name().to_string_lossy().into_owned()),
            socket: entry.path().join(SOCKET),
        })
        .collect();
    found.push(Found {
        name: None,
        socket: Path::new(FOLDER).join(SOCKET),
    });
    found.retain(|one| is_socket(&one.socket));
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Leaves those out that nobody listens at any more, as a kill leaves them.
fn alive(found: Vec<Found>) -> Vec<Found> {
    let listens = |one: &Found| match UnixStream::connect(&one.socket) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::ConnectionRefused,
    };
    found.into_iter().filter(listens).collect()
}

/// Whether an instance is meant by "web", "rust-web", "twinwall-rust@web" or "twinwall-rust@web.service".
fn is_meant(folder: &str, given: &str) -> bool {
    let unit = given.strip_suffix(".service").unwrap_or(given);
    KINDS.iter().any(|kind| {
        let instance = folder
            .strip_prefix(kind)
            .and_then(|rest| rest.strip_prefix('-'));
        instance.is_some_and(|name| name == given || unit == format!("twinwall-{kind}@{name}"))
    }) || folder == given
}

fn choose(found: &[Found]) -> Result<Option<PathBuf>, Failure> {
    let found = match found {
        [] => return Ok(None),
        [only] => return Ok(Some(only.socket.clone())),
        several => alive(several.to_vec()),
    };
    match found.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(only.socket.clone())),
        several => Err(fail(format_args!(
            "several firewalls run: choose one with {}",
            options_of(several)
        ))),
    }
}

/// The socket of the instance that is named.
fn named(given: &str) -> Result<PathBuf, Failure> {
    let all = all()?;
    let is_it = |one: &&Found| {
        one.name
            .as_deref()
            .is_some_and(|name| is_meant(name, given))
    };
    let meant: Vec<Found> = all.iter().filter(is_it).cloned().collect();
    choose(&meant)?.ok_or_else(|| {
        let there = match all.as_slice() {
            [] => "none".to_owned(),
            some => options_of(some),
        };
        fail(format_args!(
            "no instance \"{given}\" has a control socket below {FOLDER} (there: {there}): start it, or name its \
             socket with --socket"
        ))
    })
}

/// The control socket of the firewall that is meant: by -i, --socket, TWINWALL_CONTROL, or the only one that runs. Without
/// any it is the one that a firewall would have which is started by hand.
pub fn socket(arguments: &Arguments) -> Result<PathBuf, Failure> {
    if let Some(name) = &arguments.instance {
        return named(name);
    }
    if let Some(path) = &arguments.given {
        return Ok(path.clone());
    }
    let only = choose(&all()?)?;
    Ok(only.unwrap_or_else(|| Path::new(FOLDER).join(SOCKET)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_meant_by_its_name_its_folder_and_its_unit() {
        for given in [
            "web",
            "rust-web",
            "twinwall-rust@web",
            "twinwall-rust@web.service",
        ] {
            assert!(is_meant("rust-web", given), "{given}");
        }
        for given in ["we", "c-web", "twinwall-c@web", "rust-", "", "web.service"] {
            assert!(!is_meant("rust-web", given), "{given}");
        }
        assert!(is_meant("c-rust-web", "rust-web"));
        assert!(is_meant("mine", "mine"));
        assert!(!is_meant("mine", "twinwall-c@mine"));
    }

    #[test]
    fn a_folder_of_another_is_not_believed() {
        assert!(check_folder(&fs::metadata("/").unwrap()).is_ok());
        assert!(check_folder(&fs::metadata("/tmp").unwrap()).is_err());
        assert!(check_folder(&fs::metadata("/dev/null").unwrap()).is_err());
    }
}
