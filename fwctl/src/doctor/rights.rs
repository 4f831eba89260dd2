// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks who may start a firewall: capabilities of this process, and of the programs' files.

use std::path::{Path, PathBuf};

use super::finding::Findings;

/// linux/capability.h
const CAP_NET_ADMIN: u32 = 12;
/// The offset of the permitted set in the xattr security.capability (struct vfs_cap_data).
const PERMITTED_AT: usize = 4;

/// Returns the effective capabilities of this process.
fn effective() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

pub fn has_net_admin() -> bool {
    effective() & 1 << CAP_NET_ADMIN != 0
}

/// Returns true if a file grants CAP_NET_ADMIN to its user.
fn gives_net_admin(path: &Path) -> bool {
    let mut value = [0; 64];
    let read = rustix::fs::getxattr(path, "security.capability", &mut value[..]);
    let permitted = value.get(PERMITTED_AT..PERMITTED_AT + 4);
    let permitted = permitted.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    read.is_ok_and(|bytes| bytes >= PERMITTED_AT + 4)
        && permitted.is_some_and(|set| u32::from_le_bytes(set) & 1 << CAP_NET_ADMIN != 0)
}

/// Returns the firewalls next to this program, otherwise those in PATH.
fn programs() -> Vec<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .collect();
    let find = |name: &&str| {
        let mut places = folders.iter().map(|folder| folder.join(name));
        places.find(|place| place.is_file())
    };
    ["rust-firewall", "c-firewall"]
        .iter()
        .filter_map(find)
        .collect()
}

pub fn check(findings: &mut Findings, is_running: bool) {
    if has_net_admin() {
        findings.ok("this user has CAP_NET_ADMIN, which a firewall needs");
        return;
    }
    for program in programs() {
        let shown = program.display();
        if gives_net_admin(&program) {
            findings.ok(format!("{shown} gives CAP_NET_ADMIN to who runs it"));
        } else if !is_running {
            findings.warning(
                format!("{shown}: you may not start it: it needs CAP_NET_ADMIN"),
                format!("sudo {shown}, or once: sudo setcap cap_net_admin+ep {shown}"),
            );
        }
    }
}
