// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of the owners of the queues.

use nix::errno::Errno;
use rust_firewall::queue;
use rust_firewall::queue::proc::QueueOwner;

use super::finding::Findings;
use super::Patient;

/// Names of the twins in /proc/PID/comm.
const TWINS: [&str; 2] = ["rust-firewall", "c-firewall"];

fn check_owner(patient: &Patient, queue: u16, owner: &QueueOwner, findings: &mut Findings) {
    let QueueOwner { pid, comm } = owner;
    if !TWINS.contains(&comm.as_str()) {
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
