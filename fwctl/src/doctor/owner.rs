// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of the owners of the queues.

use std::fs;

use nix::errno::Errno;
use rust_firewall::queue;
use rust_firewall::queue::proc::{QueueOwner, GUARD};

use super::finding::Findings;
use super::Patient;
use crate::upgrade::unit;

/// Names of the twins in /proc/PID/comm.
const TWINS: [&str; 2] = ["rust-firewall", "c-firewall"];

/// Returns a command that starts the firewall of a guard again.
/// - guard: process of the guard.
fn start_of(guard: u32, queue: u16) -> String {
    let cgroups = fs::read_to_string(format!("/proc/{guard}/cgroup")).unwrap_or_default();
    if let Some(unit) = unit::service_of(&cgroups).filter(|name| name.starts_with("twinwall-")) {
        return format!("sudo systemctl start {unit}");
    }
    let link = fs::read_link(format!("/proc/{guard}/exe")).unwrap_or_default();
    let link = link.to_string_lossy();
    let program = link.strip_suffix(" (deleted)").unwrap_or(&link);
    format!(
        "sudo {program} --queue {queue} …  # the options of its start; the start ends the guard"
    )
}

fn check_owner(patient: &Patient, queue: u16, owner: &QueueOwner, findings: &mut Findings) {
    let QueueOwner { pid, comm } = owner;
    if comm == GUARD {
        findings.warning(
            format!(
                "the firewall of queue {queue} has ended, and its guard (pid {pid}) accepts all \
                 packets: --fail crash=open"
            ),
            start_of(*pid, queue),
        );
    } else if !TWINS.contains(&comm.as_str()) {
        findings.error(
            format!("queue {queue} is owned by pid {pid} ({comm}), which is no firewall of ours"),
            format!("sudo kill {pid}  # or choose another queue with --queue"),
        );
    } else if patient.is_running() {
        findings.ok(format!("queue {queue} is owned by {comm}"));
    } else {
        findings.note(
            format!(
                "queue {queue} is owned by pid {pid} ({comm}), to which fwctl is not connected"
            ),
            format!("tr '\\0' ' ' </proc/{pid}/cmdline  # then: fwctl --socket its --control"),
        );
    }
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    for queue in &patient.queues {
        match queue::proc::figures(*queue) {
            Ok(figures) => match queue::proc::owner(figures.portid) {
                Ok(owner) => check_owner(patient, *queue, &owner, findings),
                Err(_) => {
                    findings.unseen(format!("who owns queue {queue}: not to be seen from here"))
                }
            },
            Err(Errno::ENOENT) if patient.is_running() => findings.error(
                format!("no process is bound to queue {queue}, but the firewall should be"),
                "fwctl status  # is this its network namespace?",
            ),
            Err(Errno::ENOENT) => findings.ok(format!("queue {queue} is free")),
            Err(_) => findings.unseen(format!("who owns queue {queue}: that needs root")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::*;

    #[test]
    fn a_guard_without_a_firewall_is_no_foreign_owner() {
        let patient = Patient {
            status: None,
            writer: None,
            options: None,
            queues: vec![0],
        };
        let owner = QueueOwner {
            pid: std::process::id(),
            comm: GUARD.to_owned(),
        };
        let mut findings = Findings::default();
        check_owner(&patient, 0, &owner, &mut findings);
        let [found] = findings.0.as_slice() else {
            panic!("{findings:?}");
        };
        assert_eq!(found.severity, Severity::Warning);
        assert!(found.what.contains("its guard"), "{found:?}");
        let cure = found.cure.as_deref().unwrap();
        assert!(!cure.contains("kill"), "{cure}");
    }
}
