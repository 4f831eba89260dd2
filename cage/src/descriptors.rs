// SPDX-License-Identifier: GPL-2.0-or-later
//! Descriptors that the command would inherit. Pipes and files are allowed, as with env(1); a socket of the host's
//! network, or a descriptor of its namespace, would lead out of the cage.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{sockopt, AddressFamily};
use rustix::process::{getpid, pidfd_getfd, pidfd_open, PidfdFlags, PidfdGetfdFlags};

use crate::failure::Failure;

const OWN: &str = "/proc/self/fd";
/// Descriptor number of stderr, the last standard stream. Descriptors up to this number are not checked, because the
/// caller has chosen them for the command.
const STREAMS: i32 = 2;

/// Returns the family of a socket with this descriptor number in this process. None if the descriptor is no socket.
/// - own: pidfd of this process.
fn family(own: &OwnedFd, number: i32) -> Option<AddressFamily> {
    let socket = pidfd_getfd(own, number, PidfdGetfdFlags::empty()).ok()?;
    sockopt::socket_domain(socket).ok()
}

/// Fails if a descriptor that the command would inherit leads out of the cage: a socket other than a Unix socket, or a
/// network namespace.
pub fn check() -> Result<(), Failure> {
    let own = pidfd_open(getpid(), PidfdFlags::empty()).map_err(Failure::at("pidfd_open"))?;
    for entry in fs::read_dir(OWN).map_err(Failure::at(OWN))?.flatten() {
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number > STREAMS) else {
            continue;
        };
        let target = fs::read_link(entry.path()).unwrap_or_default();
        let is_socket = target.to_string_lossy().starts_with("socket:");
        let is_other = is_socket && family(&own, number) != Some(AddressFamily::UNIX);
        let is_namespace = target.to_string_lossy().starts_with("net:[") || is_below_ns(&target);
        if is_other || is_namespace {
            return Err(Failure::new(format_args!(
                "descriptor {number} is open and leads to the host's network: close it for the command ({number}>&-)"
            )));
        }
    }
    Ok(())
}

/// Returns true if a path is in the folder of the named network namespaces (`ip netns`).
fn is_below_ns(target: &Path) -> bool {
    target.starts_with("/run/netns") || target.starts_with("/var/run/netns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_the_network_is_found() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let failure = check().unwrap_err();
        assert!(
            failure.text.contains("leads to the host's network"),
            "{}",
            failure.text
        );
        drop(socket);
    }
}
