// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of the running firewall: its ledger, its queues, and its other counters.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use nix::sys::socket::{getsockopt, sockopt};
use rust_firewall::options::OptionsConntrack;
use rust_firewall::queue;
use rustix::process::{pidfd_getfd, pidfd_open, Pid, PidfdFlags, PidfdGetfdFlags};

use super::finding::Findings;
use super::{cure, reload, rights, tools, Patient};
use crate::answer::{Status, StatusQueue};
use crate::contract;
use crate::units::{count, thousands};

/// Fill level above which a queue counts as nearly full: waiting packets as a percentage of the queue's length.
const NEARLY_FULL: u64 = 80;

/// Counters that indicate a problem, each with meaning and cure.
const COUNTS: [(&str, &str, &str); 8] = [
    (
        "events_lost",
        "events were lost, as they came too fast",
        "fwctl status  # counts",
    ),
    (
        "events_failed",
        "events could not be written",
        "df -h  # is the disk full?",
    ),
    (
        "events_left_out",
        "events were left out by --events-rate",
        "--events-rate 10000  # with `fwctl upgrade`",
    ),
    (
        "control_refused",
        "requests came from users who may not use the control socket",
        "fwctl status  # counts",
    ),
    (
        "control_too_many",
        "clients of the control socket were too many",
        "fwctl status  # counts",
    ),
    (
        "control_bad",
        "requests were invalid",
        "fwctl status  # counts",
    ),
    (
        "control_slow",
        "clients did not read their answers",
        "fwctl status  # counts",
    ),
    (
        "upgrades_failed",
        "upgrades failed",
        "fwctl log debug  # then try again",
    ),
];

fn ledger(status: &Status, findings: &mut Findings) {
    let ledger = &status.ledger;
    if ledger.lost.is_none() {
        findings.error(
            format!(
                "the firewall can't read {}: the losses are unknown",
                queue::proc::QUEUES
            ),
            format!(
                "sudo cat {}  # check the mount of /proc",
                queue::proc::QUEUES
            ),
        );
    } else if ledger.reconciled {
        findings.ok("the ledger reconciles, from the packets' ids on");
    } else {
        findings.error(
            format!(
                "the ledger does not reconcile: {} are unaccounted for",
                count(ledger.difference, "packet")
            ),
            "fwctl status --json  # and please report it",
        );
    }
}

fn queue(queue: &StatusQueue, findings: &mut Findings) {
    let number = queue.queue;
    let known = |figure: Option<u64>| figure.unwrap_or(0);
    let (user_drop, queue_full) = (known(queue.user_drop), known(queue.queue_full));
    let (unseen, waiting) = (known(queue.unseen), known(queue.waiting));
    if user_drop > 0 {
        findings.warning(
            format!(
                "queue {number} lost {}: the receive buffer was full (user drop)",
                count(user_drop, "packet")
            ),
            "--receive-buffer 268435456  # or several queues; with `fwctl upgrade`",
        );
    }
    if queue_full > 0 {
        findings.warning(
            format!(
                "queue {number} lost {}: it was at its length (queue full)",
                count(queue_full, "packet")
            ),
            format!(
                "--queue-length {}  # with `fwctl upgrade`",
                queue.queue_length * 4
            ),
        );
    }
    if unseen > 0 {
        findings.warning(
            format!(
                "queue {number} let {} pass uninspected (overload=open)",
                count(unseen, "packet")
            ),
            "--receive-buffer 268435456  # or several queues; with `fwctl upgrade`",
        );
    }
    if queue.stalled > 0 {
        findings.warning(
            format!(
                "in queue {number} {} waited beyond --deadline (stall)",
                count(queue.stalled, "packet")
            ),
            "top -H  # what takes the CPU from the firewall?",
        );
    }
    if waiting * 100 > queue.queue_length * NEARLY_FULL {
        findings.warning(
            format!(
                "in queue {number} {} of {} wait for a verdict",
                thousands(waiting),
                thousands(queue.queue_length)
            ),
            "fwctl top  # does the firewall keep up?",
        );
    }
}

/// Checks whether the policy gets the connection states that it reads.
fn connections(patient: &Patient, status: &Status, findings: &mut Findings) {
    let policy = status.policy.as_ref();
    let by_mark = patient
        .options
        .as_ref()
        .is_some_and(|options| options.conntrack == OptionsConntrack::Mark);
    match policy.and_then(|policy| policy.ct_state.as_deref()) {
        Some("missing") if by_mark => findings.error(
            "the policy asks for ct state, and no packet has one: no rule puts it into marks",
            "rules/load conntrack-host",
        ),
        Some("missing") => findings.error(
            "the policy asks for ct state, and no packet has one: the kernel tracks no connections \
             until a rule of its own asks for them",
            cure::track(tools::printed("nft", &["--version"]).is_some()),
        ),
        Some("seen") => findings.ok("packets have the connection state that the policy asks for"),
        _ => {}
    }
}

/// Returns a duplicate of the firewall's socket for a queue. None if this process may not duplicate it.
fn socket_of(pid: i32, queue: u16) -> Option<OwnedFd> {
    let figures = queue::proc::figures(queue).ok()?;
    let table = fs::read_to_string(queue::proc::NETLINK).ok()?;
    let inode = queue::proc::parse_inode(&table, figures.portid).ok()?;
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let mut sockets = entries.filter(|entry| {
        fs::read_link(entry.path())
            .is_ok_and(|link| queue::proc::is_socket(link.as_os_str(), inode))
    });
    let number = sockets.next()?.file_name().to_str()?.parse().ok()?;
    pidfd_getfd(process, number, PidfdGetfdFlags::empty()).ok()
}

/// Compares the sizes of the receive buffers with the requested size.
fn receive_buffers(patient: &Patient, status: &Status, findings: &mut Findings) {
    let asked = patient.receive_buffer() as usize;
    for queue in &patient.queues {
        let socket = socket_of(status.pid, *queue);
        let size = socket.and_then(|socket| getsockopt(&socket, sockopt::RcvBuf).ok());
        match size {
            None => findings.unseen(format!(
                "the receive buffer of queue {queue}: that needs root"
            )),
            // The kernel doubles the requested size.
            Some(size) if size / 2 < asked => findings.warning(
                format!(
                    "the receive buffer of queue {queue} has {} bytes, {} were requested",
                    thousands(size as u64 / 2),
                    thousands(asked as u64)
                ),
                format!("sudo sysctl -w net.core.rmem_max={asked}  # then: fwctl upgrade"),
            ),
            Some(size) => findings.ok(format!(
                "the receive buffer of queue {queue} has {} bytes",
                thousands(size as u64 / 2)
            )),
        }
    }
}

fn counts(status: &Status, findings: &mut Findings) {
    for (name, what, cure) in COUNTS {
        let number = status.counts.get(name).copied().unwrap_or(0);
        if number > 0 {
            findings.note(format!("{} {what}", thousands(number)), cure);
        }
    }
}

fn namespace(status: &Status, findings: &mut Findings) {
    let of = |pid: &str| fs::metadata(format!("/proc/{pid}/ns/net")).map(|data| data.ino());
    match (of("self"), of(&status.pid.to_string())) {
        (Ok(own), Ok(other)) if own != other => findings.warning(
            "the firewall is in another network namespace: queues and rules here are not its own",
            format!(
                "sudo nsenter --net=/proc/{}/ns/net fwctl doctor",
                status.pid
            ),
        ),
        _ => {}
    }
}

/// Reports that the guard has ended, or that the current queue rules change the effect of a crash: the failure contract
/// (the table of the effects of failures) dates from the firewall's start.
fn contract(patient: &Patient, status: &Status, findings: &mut Findings) {
    if status.guard == Some(false) {
        findings.warning(
            "the guard has ended: a stall is waited for, and a crash is left to the rules",
            "fwctl upgrade  # to the same program: it starts another guard",
        );
    }
    let options = patient.options.as_ref();
    if let Some(now) = options.and_then(|options| contract::changed(status, options)) {
        findings.note(
            format!(
                "the effect of a crash differs from the firewall's start; now: {}",
                now.really
            ),
            "fwctl status  # the contract as it is now",
        );
    }
}

/// Returns the command that upgrades a firewall to the present file at its program's path. The command lacks the path
/// if the path would need quotes.
/// - pid: process of the running firewall.
fn upgrade_to(pid: i32) -> String {
    let link = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let link = link.to_string_lossy();
    let path = link.strip_suffix(" (deleted)").unwrap_or(&link);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/_.@+-".contains(&byte);
    match path.bytes().all(is_plain) {
        true => format!("sudo fwctl upgrade {path}"),
        false => "sudo fwctl upgrade".to_owned(),
    }
}

/// Checks whether the file at the firewall's path is still the program that runs.
fn program(status: &Status, findings: &mut Findings) {
    let Some(path) = &status.executable else {
        return;
    };
    let file = |path: &str| fs::metadata(path).map(|data| (data.dev(), data.ino()));
    match (file(path), file(&format!("/proc/{}/exe", status.pid))) {
        (Ok(on_disk), Ok(running)) if on_disk != running => findings.warning(
            format!("{path} on the disk is another program than the one that runs, by now"),
            upgrade_to(status.pid),
        ),
        (Ok(_), Err(_)) => findings.unseen(format!("whether {path} is what runs: that needs root")),
        _ => {}
    }
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    let Some(status) = &patient.status else {
        return;
    };
    findings.ok(format!(
        "{} {} runs, pid {}",
        status.program, status.version, status.pid
    ));
    namespace(status, findings);
    program(status, findings);
    contract(patient, status, findings);
    ledger(status, findings);
    for one in &status.queues {
        queue(one, findings);
    }
    connections(patient, status, findings);
    receive_buffers(patient, status, findings);
    if let Some(error) = &status.reload_error {
        findings.warning(
            format!("the last reload failed: {error}"),
            "fwctl reload  # when mended",
        );
    }
    reload::check(patient, status, findings);
    rights::check_reject(patient, status, findings);
    counts(status, findings);
    if patient
        .options
        .as_ref()
        .is_some_and(|options| !options.sandbox)
    {
        findings.note(
            "the firewall runs with --sandbox off: it has all rights that it began with",
            "--sandbox on  # with `fwctl upgrade`",
        );
    }
}
