// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of the kernel's features.

use nix::errno::Errno;

use super::finding::Findings;
use super::landlock;
use super::netlink::{self, Netfilter};
use super::rights;
use super::Patient;

const CONFIG: &str = "CONFIG_NETFILTER_NETLINK_QUEUE";

fn flags(netfilter: &Netfilter, queue: u16, patient: &Patient, findings: &mut Findings) {
    let lacks = |flag| {
        let asked = netfilter.set_flag(queue, flag);
        asked.is_err_and(|error| error != Errno::EAGAIN)
    };
    let mut has = vec!["NFQUEUE"];
    if lacks(netlink::FLAG_GSO) {
        findings.warning(
            "the kernel splits large packets before it queues them (no NFQA_CFG_F_GSO): slow",
            "uname -r  # Linux 3.10 or newer has it",
        );
    } else {
        has.push("large packets (GSO)");
    }
    if !lacks(netlink::FLAG_FAIL_OPEN) {
        has.push("fail-open");
    } else if patient.overload_open() {
        findings.error(
            "--fail overload=open is set, but the kernel can't do it (no NFQA_CFG_F_FAIL_OPEN)",
            "uname -r  # Linux 3.6 or newer has it",
        );
    } else {
        findings.note(
            "the kernel has no fail-open for overload (NFQA_CFG_F_FAIL_OPEN)",
            "uname -r  # Linux 3.6 or newer has it",
        );
    }
    if !lacks(netlink::FLAG_UID_GID) {
        has.push("uid and gid");
    }
    if lacks(netlink::FLAG_CONNTRACK) {
        findings.note(
            "the kernel reports no connection state with packets: ct state can come from marks only",
            "sudo modprobe nf_conntrack_netlink  # or: /usr/share/twinwall/load conntrack-host, and \
             --conntrack mark",
        );
    } else {
        has.push("state of connections");
    }
    findings.ok(format!("the kernel has {}", has.join(", ")));
}

fn queues(patient: &Patient, findings: &mut Findings) {
    let netfilter = match Netfilter::open() {
        Ok(netfilter) => netfilter,
        Err(error) => {
            findings.error(
                format!("the kernel has no netlink to netfilter ({error}): no firewall can start"),
                "sudo modprobe nfnetlink",
            );
            return;
        }
    };
    match netfilter.bind_any() {
        Ok(queue) => {
            flags(&netfilter, queue, patient, findings);
            netfilter.unbind(queue);
        }
        Err(error) => findings.error(
            format!("the kernel gives no queue ({error}): no firewall can start"),
            format!("sudo modprobe nfnetlink_queue  # or a kernel with {CONFIG}"),
        ),
    }
    match netfilter.nf_tables() {
        Ok(()) => findings.ok("the kernel has nf_tables"),
        Err(error) => findings.note(
            format!("the kernel has no nf_tables ({error}): rules need iptables-legacy"),
            "sudo modprobe nf_tables",
        ),
    }
}

fn sandbox(findings: &mut Findings) {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    if actions.is_ok_and(|actions| actions.split_whitespace().any(|action| action == "trap")) {
        findings.ok("the kernel has seccomp");
    } else {
        findings.warning(
            "the kernel has no seccomp: a firewall can't confine itself",
            "--sandbox off  # until there is a kernel with CONFIG_SECCOMP_FILTER",
        );
    }
    match landlock::version() {
        Some(version) => findings.ok(format!("the kernel has Landlock (ABI {version})")),
        None => findings.note(
            "the kernel has no Landlock: a firewall's files are not confined",
            "cat /sys/kernel/security/lsm  # lsm=landlock,… on the kernel's command line",
        ),
    }
}

fn drops(findings: &mut Findings) {
    match crate::drops::source() {
        Some(source) => findings.ok(format!(
            "the kernel reports dropped packets ({source}): fwctl drops shows them"
        )),
        None => findings.note(
            "the kernel does not report dropped packets: fwctl drops can't show them",
            "sudo modprobe drop_monitor",
        ),
    }
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    if rights::has_net_admin() {
        queues(patient, findings);
    } else {
        findings.unseen("the kernel's features for queues: that needs root");
    }
    sandbox(findings);
    drops(findings);
}
