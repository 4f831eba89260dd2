// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks of system limits that cause packet losses.

use std::fs;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;

use super::finding::Findings;
use super::netlink::Netfilter;
use super::rights;
use super::Patient;
use crate::units::thousands;

const RMEM_MAX: &str = "/proc/sys/net/core/rmem_max";
const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";

/// Time between two readings of the number of packets that were dropped because a CPU's backlog was full.
const BACKLOG_LOOK: Duration = Duration::from_millis(200);

fn read<T: FromStr>(path: &str) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Checks whether a firewall can get its receive buffer: beyond net.core.rmem_max, or else within it.
fn receive_buffer(patient: &Patient, findings: &mut Findings) {
    let asked = patient.receive_buffer();
    if asked == 0 || !rights::has_net_admin() {
        return;
    }
    let forced = Netfilter::open().and_then(|socket| socket.force_receive_buffer(asked as usize));
    if forced != Err(Errno::EPERM) {
        findings.ok(format!(
            "a receive buffer of {} bytes can be had",
            thousands(asked.into())
        ));
        return;
    }
    let Some(most) = read::<u64>(RMEM_MAX) else {
        findings.unseen("net.core.rmem_max: not to be seen in this namespace");
        return;
    };
    if most < u64::from(asked) {
        findings.warning(
            format!(
                "the receive buffer may have {} bytes only instead of {}: CAP_NET_ADMIN is that of \
                 a container, and net.core.rmem_max holds",
                thousands(most),
                thousands(asked.into())
            ),
            format!("sudo sysctl -w net.core.rmem_max={asked}  # outside of the container"),
        );
    }
}

/// Returns the number of packets dropped since boot because the backlog of a CPU was full: the second column of
/// /proc/net/softnet_stat.
fn backlog_drops(text: &str) -> u64 {
    let columns = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    columns
        .filter_map(|column| u64::from_str_radix(column, 16).ok())
        .sum()
}

fn read_drops() -> Option<u64> {
    let text = fs::read_to_string("/proc/net/softnet_stat").ok()?;
    Some(backlog_drops(&text))
}

fn backlog(findings: &mut Findings) {
    let before = read_drops();
    thread::sleep(BACKLOG_LOOK);
    let (Some(before), Some(drops)) = (before, read_drops()) else {
        findings.unseen("/proc/net/softnet_stat, so packets that the backlog dropped");
        return;
    };
    if drops == 0 {
        findings.ok("no packet was dropped from the backlog of a CPU");
        return;
    }
    let most = read::<u64>(BACKLOG);
    let more = most.map_or(16384, |most| (most * 4).max(4096));
    let cure = format!("sudo sysctl -w net.core.netdev_max_backlog={more}");
    let begin = "from the backlog of a CPU, before any firewall saw them";
    match drops.wrapping_sub(before) {
        0 => findings.note(
            format!(
                "{} packets were dropped since the boot {begin}",
                thousands(drops)
            ),
            cure,
        ),
        now => findings.warning(
            format!("{} packets are being dropped {begin}", thousands(now)),
            cure,
        ),
    }
}

pub fn check(patient: &Patient, findings: &mut Findings) {
    receive_buffer(patient, findings);
    backlog(findings);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_the_second_column_of_each_cpu() {
        let text = "0000ffff 00000010 00000001 0\n0000ffff 00000001 00000009 0\n";
        assert_eq!(backlog_drops(text), 17);
    }
}
