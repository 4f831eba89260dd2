// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks who may start a firewall: capabilities of this process, and of the programs' files. A policy that rejects
//! needs CAP_NET_RAW, by which the firewall opens the sockets of its replies at the start.

use std::fs;
use std::path::{Path, PathBuf};

use rust_firewall::policy::requirement;
use rust_firewall::queue::proc::is_socket;

use super::finding::Findings;
use super::Patient;
use crate::answer::Status;
use crate::running;
use crate::upgrade::unit;

/// Numbers of capabilities (linux/capability.h).
const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
/// The offset of the permitted set in the xattr security.capability (struct vfs_cap_data).
const PERMITTED_AT: usize = 4;

/// Returns the effective capabilities of this process.
fn effective() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .unwrap_or(0)
}

pub fn has_net_admin() -> bool {
    effective() & 1 << CAP_NET_ADMIN != 0
}

/// Returns the capabilities (bits 0 to 31) that a file grants to a process that executes it.
fn given(path: &Path) -> u32 {
    let mut value = [0; 64];
    let read = rustix::fs::getxattr(path, "security.capability", &mut value[..]);
    let permitted = value.get(PERMITTED_AT..PERMITTED_AT + 4);
    let permitted = permitted.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    match read.is_ok_and(|bytes| bytes >= PERMITTED_AT + 4) {
        true => permitted.map_or(0, u32::from_le_bytes),
        false => 0,
    }
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

/// Checks whether a program's file grants the capabilities that a firewall needs, since this process lacks
/// CAP_NET_ADMIN.
/// - is_running: true if a firewall runs: it is then no problem if the file grants no CAP_NET_ADMIN.
fn check_program(program: &Path, is_running: bool, findings: &mut Findings) {
    let shown = program.display();
    let cure = format!("sudo setcap cap_net_admin,cap_net_raw+ep {shown}");
    let given = given(program);
    if given & 1 << CAP_NET_ADMIN == 0 {
        if !is_running {
            findings.warning(
                format!("{shown}: you may not start it: it needs CAP_NET_ADMIN"),
                cure,
            );
        }
        return;
    }
    findings.ok(format!(
        "{shown} gives CAP_NET_ADMIN to every user who runs it"
    ));
    if given & 1 << CAP_NET_RAW == 0 {
        findings.note(
            format!(
                "{shown} gives no CAP_NET_RAW: started by you it refuses a policy that rejects"
            ),
            cure,
        );
    }
}

/// Returns whether a process has a raw IPv4 socket. None if this process may not see it.
pub fn has_raw_socket(pid: i32) -> Option<bool> {
    let table = fs::read_to_string(format!("/proc/{pid}/net/raw")).ok()?;
    let inodes = table.lines().filter_map(|line| {
        let inode = line.split_whitespace().nth(9)?;
        inode.parse().ok()
    });
    let inodes: Vec<u64> = inodes.collect();
    let mut entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    Some(entries.any(|entry| {
        let link = fs::read_link(entry.path()).unwrap_or_default();
        inodes
            .iter()
            .any(|inode| is_socket(link.as_os_str(), *inode))
    }))
}

/// Returns true if the policy in the running firewall's policy file rejects packets.
fn rejects(patient: &Patient, status: &Status) -> bool {
    running::read(status, patient.writer).is_ok_and(|read| {
        let of = |ipv6| requirement::of(&read.policy, ipv6).reject;
        of(false) || of(true)
    })
}

/// Returns a command that starts the running firewall anew with CAP_NET_RAW.
fn restart(pid: i32) -> String {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let service = unit::service_of(&cgroups).filter(|name| name.starts_with("twinwall-"));
    match service {
        Some(unit) => format!(
            "sudo systemctl edit {unit}  # AmbientCapabilities= and CapabilityBoundingSet= with CAP_NET_RAW; then: \
             fwctl upgrade"
        ),
        None => format!(
            "sudo fwctl upgrade {} -- …  # the arguments of its start; root has CAP_NET_RAW, also in a container with \
             --cap-add NET_RAW",
            program.display()
        ),
    }
}

/// Checks whether the running firewall can send the replies of a policy that rejects.
pub fn check_reject(patient: &Patient, status: &Status, findings: &mut Findings) {
    match has_raw_socket(status.pid) {
        None => findings.unseen("whether the firewall can reject: that needs root"),
        Some(true) => findings.ok("the firewall can reject: it had CAP_NET_RAW at its start"),
        Some(false) if rejects(patient, status) => findings.warning(
            "the next reload would fail: the policy rejects, and the firewall had no CAP_NET_RAW at its start",
            restart(status.pid),
        ),
        Some(false) => findings.note(
            "the firewall had no CAP_NET_RAW at its start: it refuses a policy that rejects",
            restart(status.pid),
        ),
    }
}

pub fn check(findings: &mut Findings, is_running: bool) {
    if !has_net_admin() {
        for program in programs() {
            check_program(&program, is_running, findings);
        }
        return;
    }
    findings.ok("this user has CAP_NET_ADMIN, which a firewall needs");
    if effective() & 1 << CAP_NET_RAW == 0 {
        findings.note(
            "this user has no CAP_NET_RAW: started here, a firewall refuses a policy that rejects",
            "docker run --cap-add NET_ADMIN --cap-add NET_RAW …  # or the same options of podman",
        );
    }
}
