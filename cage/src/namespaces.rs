// SPDX-License-Identifier: GPL-2.0-or-later
//! The outer namespaces, owned by the caller: a user namespace in which the caller is root, a mount namespace, and a
//! pid namespace whose first process ends all others when it ends. The command gets inner namespaces.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use nix::mount::{mount, MsFlags};
use nix::sched::{unshare, CloneFlags};
use nix::unistd::{getegid, geteuid};

use crate::failure::Failure;
use crate::{refused, stage};

/// User and group of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
    /// True if the caller is root. Then all users are mapped, otherwise only the caller.
    pub is_root: bool,
}

impl Caller {
    pub fn new() -> Caller {
        Caller {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            is_root: geteuid().is_root(),
        }
    }
}

impl Default for Caller {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a map of every user of this namespace to itself. The first user has a separate line: with a single line for
/// all, programs would believe that they are in the initial user namespace.
/// - map: map of this namespace, as in /proc/self/uid_map or gid_map.
fn same(map: &str) -> String {
    let mut lines = String::new();
    for line in map.lines() {
        let mut numbers = line
            .split_whitespace()
            .map(|word| word.parse::<u64>().unwrap_or(0));
        let (begin, count) = (numbers.next().unwrap_or(0), numbers.nth(1).unwrap_or(0));
        lines += &format!("{begin} {begin} 1\n");
        if count > 1 {
            lines += &format!("{0} {0} {1}\n", begin + 1, count - 1);
        }
    }
    lines
}

/// Writes the user and group maps of a process's user namespace.
/// - pid: process id as in /proc, or "self".
/// - is_root: true if the cage's caller is root; otherwise setgroups(2) is denied first.
pub fn write_maps(pid: &str, is_root: bool, uid_map: &str, gid_map: &str) -> io::Result<()> {
    let folder = Path::new("/proc").join(pid);
    if !is_root {
        // The kernel accepts a group map from an ordinary user only if setgroups(2) is denied.
        fs::write(folder.join("setgroups"), "deny")?;
    }
    fs::write(folder.join("gid_map"), gid_map)?;
    fs::write(folder.join("uid_map"), uid_map)
}

/// Returns maps of all ids to themselves: (users, groups).
pub fn same_maps() -> io::Result<(String, String)> {
    let (users, groups) = (
        fs::read_to_string("/proc/self/uid_map")?,
        fs::read_to_string("/proc/self/gid_map")?,
    );
    Ok((same(&users), same(&groups)))
}

/// Starts the stage `map` (a process that runs this program again), which writes root's maps from outside of the new
/// user namespace.
fn start_mapper() -> io::Result<Child> {
    let mut command = stage::command(stage::MAP, [std::process::id().to_string()])?;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
}

/// Runs the stage `map`: writes the maps of a process when a byte arrives on stdin.
/// - pid: process id as in /proc.
pub fn map(pid: &str) -> Result<(), Failure> {
    let told = io::stdin().read(&mut [0]).map_err(Failure::at("mapping"))?;
    if told == 0 {
        return Ok(()); // there is no namespace; the caller reports it
    }
    let (users, groups) = same_maps().map_err(Failure::at("/proc/self/uid_map"))?;
    write_maps(pid, true, &users, &groups).map_err(Failure::at("/proc/PID/uid_map"))
}

fn finish_mapper(mut mapper: Child) -> io::Result<()> {
    if let Some(mut stdin) = mapper.stdin.take() {
        stdin.write_all(b".")?;
    }
    match mapper.wait()?.success() {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Enters the outer user and mount namespaces. The calling process must have one thread.
pub fn enter(caller: &Caller) -> Result<(), Failure> {
    let mapper = match caller.is_root {
        true => Some(start_mapper().map_err(Failure::at("a process for the maps of users"))?),
        false => None,
    };
    unshare(CloneFlags::CLONE_NEWUSER).map_err(refused::user_namespace)?;
    let mapped = match mapper {
        Some(mapper) => finish_mapper(mapper),
        None => write_maps(
            "self",
            false,
            &format!("0 {} 1", caller.uid),
            &format!("0 {} 1", caller.gid),
        ),
    };
    mapped.map_err(refused::maps)?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(refused::namespaces)?;
    // Later mounts are invisible in the caller's mount namespace.
    mount(
        None::<&str>,
        "/",
        None::<&str>,
        MsFlags::MS_REC | MsFlags::MS_PRIVATE,
        None::<&str>,
    )
    .map_err(refused::namespaces)
}

/// Mounts a private tmpfs over an unused folder.
pub fn mount_private(place: &Path) -> Result<(), Failure> {
    mount(
        Some("cage"),
        place,
        Some("tmpfs"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        Some("mode=0700"),
    )
    .map_err(Failure::at(format_args!(
        "{}: mounting a tmpfs",
        place.display()
    )))
}

/// Returns the place of the private folder: an existing folder that contains none of these paths.
pub fn place(paths: &[&Path]) -> Result<&'static Path, Failure> {
    let places = ["/mnt", "/media", "/srv", "/opt", "/dev/shm"].map(Path::new);
    let is_free =
        |place: &&&Path| place.is_dir() && !paths.iter().any(|path| path.starts_with(place));
    let found = places.iter().find(is_free).copied();
    found.ok_or_else(|| {
        Failure::new("none of /mnt, /media, /srv, /opt and /dev/shm is there and unused: make /mnt")
    })
}

/// Returns a description of the cage's namespaces, in lines.
pub fn describe(caller: &Caller) -> Vec<String> {
    let who = if caller.is_root {
        "all users"
    } else {
        "the caller as root"
    };
    vec![
        format!("outer user namespace: {who}; owns the network namespace; holds the firewall and the uplink's tap"),
        "outer mount and pid namespaces: everything in them ends with fwctl".to_owned(),
        "network namespace: lo, and the uplink's tap".to_owned(),
        format!("inner user namespace: user {} for the command; no capability over the network", caller.uid),
        "inner mount and pid namespaces: own /proc and resolv.conf, sockets of the host covered".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_keep_everybody() {
        assert_eq!(
            same("         0          0 4294967295\n"),
            "0 0 1\n1 1 4294967294\n"
        );
        assert_eq!(
            same("0 1000 1\n1 100000 65536\n"),
            "0 0 1\n1 1 1\n2 2 65535\n"
        );
    }

    #[test]
    fn a_place_holds_nothing_that_is_needed() {
        let found = place(&[Path::new("/mnt/policy.nft")]).unwrap();
        assert_ne!(found, Path::new("/mnt"));
    }
}
