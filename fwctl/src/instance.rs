// SPDX-License-Identifier: GPL-2.0-or-later
//! Selects the firewall if no socket is named: the only one in the runtime folders, or an instance by its name.

use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::client;
use crate::failure::{Exit, Failure};

/// Parent of the runtime folders, one per instance, which systemd creates (RuntimeDirectory=).
const FOLDER: &str = "/run/twinwall";
/// Name of a control socket, in FOLDER or in a runtime folder.
const SOCKET: &str = "control";
/// Names of the two programs in units and runtime folders.
const KINDS: [&str; 2] = ["rust", "c"];
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A control socket found in the runtime folders.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    /// Name of the socket's folder, e.g. "rust-web". None: the socket is directly in FOLDER.
    name: Option<String>,
    socket: PathBuf,
}

impl Found {
    /// Returns fwctl's option that selects this firewall.
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

/// Checks that only root can create files in the folder: no other user's socket is then mistaken for an instance's.
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

/// Returns the control sockets in FOLDER and in the folders directly in it, sorted by name. Links are not followed.
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

/// Returns the sockets without those that refuse connections: a killed firewall leaves such a socket.
fn alive(found: Vec<Found>) -> Vec<Found> {
    let listens = |one: &Found| match client::connect_in_time(&one.socket) {
        Ok(_) => true,
        Err(error) => error.kind() != ErrorKind::ConnectionRefused,
    };
    found.into_iter().filter(listens).collect()
}

/// Returns true if `given` names the instance of a runtime folder: "web", "rust-web", "twinwall-rust@web" or
/// "twinwall-rust@web.service" for "rust-web".
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

/// Returns the socket of the named instance. Fails if there is none, or if the name fits several running firewalls.
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

/// Returns the control socket of the selected firewall: by -i, --socket, TWINWALL_CONTROL, or the only one in
/// FOLDER. Fails if several firewalls run and none is selected. If there is no socket, returns FOLDER/SOCKET.
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
