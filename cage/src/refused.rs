// SPDX-License-Identifier: GPL-2.0-or-later
//! Reasons why a kernel refuses namespaces to an ordinary user, and the cure: one line.

use std::fs;
use std::io;

use nix::errno::Errno;

use crate::failure::{words, Failure};

/// The system's settings for user namespaces; None = the system does not have this setting.
#[derive(Clone, Debug, Default)]
struct Facts {
    apparmor: Option<u64>,
    clone: Option<u64>,
    max: Option<u64>,
    /// True if a system call filter applies to this process, as in containers.
    is_filtered: bool,
}

fn figure(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl Facts {
    fn read() -> Facts {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let filter = status
            .lines()
            .find_map(|line| line.strip_prefix("Seccomp:"));
        Facts {
            apparmor: figure("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            clone: figure("/proc/sys/kernel/unprivileged_userns_clone"),
            max: figure("/proc/sys/user/max_user_namespaces"),
            is_filtered: filter.is_some_and(|mode| mode.trim() == "2"),
        }
    }

    fn cure(&self, error: Errno) -> Option<&'static str> {
        const APPARMOR: &str = "AppArmor allows no user namespaces to ordinary users: as root `sysctl -w \
            kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile with `userns,` for fwctl";
        const CLONE: &str = "this kernel allows no user namespaces to ordinary users: as root `sysctl -w kernel.unprivileged_userns_clone=1`";
        const MAX: &str =
            "user.max_user_namespaces is 0: as root `sysctl -w user.max_user_namespaces=10000`";
        const MANY: &str = "too many user namespaces: as root raise user.max_user_namespaces";
        const KERNEL: &str = "this kernel has no user namespaces (CONFIG_USER_NS)";
        const FILTER: &str = "a filter of system calls forbids it, as in most containers: start the container with --security-opt \
            seccomp=unconfined, or with a profile that allows unshare, mount and setns";
        match error {
            Errno::EINVAL | Errno::ENOSYS => Some(KERNEL),
            Errno::ENOSPC | Errno::EUSERS if self.max == Some(0) => Some(MAX),
            Errno::ENOSPC | Errno::EUSERS => Some(MANY),
            Errno::EPERM | Errno::EACCES if self.clone == Some(0) => Some(CLONE),
            Errno::EPERM | Errno::EACCES if self.apparmor == Some(1) => Some(APPARMOR),
            Errno::EPERM | Errno::EACCES if self.is_filtered => Some(FILTER),
            Errno::EPERM => Some("a process in a chroot can create no user namespace: start fwctl outside the chroot"),
            _ => None,
        }
    }
}

fn fail(what: &str, error: Errno) -> Failure {
    let error_words = words(&io::Error::from(error));
    match Facts::read().cure(error) {
        Some(cure) => Failure::new(format_args!("{what} ({error_words}): {cure}")),
        None => Failure::new(format_args!("{what}: {error_words}")),
    }
}

pub fn user_namespace(error: Errno) -> Failure {
    fail("no user namespace", error)
}

/// Returns the failure for an error of writing a user namespace's maps. A possible cause: AppArmor allows the user
/// namespace without rights in it.
pub fn maps(error: io::Error) -> Failure {
    let number = Errno::from_raw(error.raw_os_error().unwrap_or(0));
    fail("no rights in the user namespace", number)
}

pub fn namespaces(error: Errno) -> Failure {
    fail("no mount, pid or network namespace", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_cure() {
        let nothing = Facts::default();
        let filtered = Facts {
            is_filtered: true,
            ..Facts::default()
        };
        let apparmor = Facts {
            apparmor: Some(1),
            max: Some(100),
            ..Facts::default()
        };
        let debian = Facts {
            clone: Some(0),
            ..Facts::default()
        };
        let none = Facts {
            max: Some(0),
            ..Facts::default()
        };
        for (facts, error, expected) in [
            (
                &apparmor,
                Errno::EACCES,
                "apparmor_restrict_unprivileged_userns=0",
            ),
            (&apparmor, Errno::ENOSPC, "raise user.max_user_namespaces"),
            (&debian, Errno::EPERM, "unprivileged_userns_clone=1"),
            (&none, Errno::ENOSPC, "user.max_user_namespaces=10000"),
            (&filtered, Errno::EPERM, "seccomp=unconfined"),
            (&nothing, Errno::EPERM, "chroot"),
            (&nothing, Errno::EINVAL, "CONFIG_USER_NS"),
        ] {
            let cure = facts.cure(error).unwrap_or_default();
            assert!(cure.contains(expected), "{error}: {cure}");
        }
        assert_eq!(nothing.cure(Errno::ENOMEM), None);
    }
}
