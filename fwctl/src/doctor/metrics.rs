// SPDX-License-Identifier: GPL-2.0-or-later
//! Finds exporters that serve metrics at all addresses of this host: they show rules and counters without a password.

use std::fs;

use rust_firewall::queue::proc::is_socket;

use super::finding::Findings;
use crate::upgrade::unit;

/// Beginning of the exporter's name, the 15 bytes of /proc/PID/comm.
const COMM: &str = "twinwall-export";
/// State of a listening socket in /proc/net/tcp (TCP_LISTEN).
const LISTENS: &str = "0A";
/// Default address at which the exporter listens; the cure sets it in OPTIONS= of /etc/twinwall/exporter-NAME.conf.
const LOOPBACK: &str = "127.0.0.1";

/// A socket that listens at all addresses.
#[derive(Debug, PartialEq, Eq)]
struct Listener {
    /// Address and port as text: "0.0.0.0:9630" or "[::]:9630".
    shown: String,
    port: u16,
    inode: u64,
}

/// Parses a line of /proc/net/tcp or tcp6. None if the socket does not listen at all addresses.
fn parse_line(line: &str) -> Option<Listener> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = columns.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // The words have the byte order of the host; ::ffff:0.0.0.0 is all of IPv4.
    let shown = match address.replacen("FFFF0000", "00000000", 1) {
        all if all.bytes().any(|digit| digit != b'0') => return None,
        all if all.len() == 8 => format!("0.0.0.0:{port}"),
        _ => format!("[::]:{port}"),
    };
    (columns.get(3) == Some(&LISTENS)).then_some(Listener {
        shown,
        port,
        inode: columns.get(9)?.parse().ok()?,
    })
}

/// Returns the sockets of a process's network namespace that listen at all addresses.
fn listeners(pid: &str) -> Vec<Listener> {
    let tables = ["tcp", "tcp6"].map(|name| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{name}"));
        text.unwrap_or_default()
    });
    let lines = tables.iter().flat_map(|table| table.lines());
    lines.filter_map(parse_line).collect()
}

/// Returns the process ids of the exporters.
fn exporters() -> Vec<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_one = |pid: &String| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == COMM)
    };
    names.filter(is_one).collect()
}

/// Returns the command that makes an exporter listen at a loopback address; without a unit, the command that ends it.
fn cure(pid: &str, port: u16) -> String {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let name = unit::service_of(&cgroups).and_then(|unit| {
        let name = unit.strip_prefix("twinwall-exporter@")?;
        name.strip_suffix(".service")
    });
    match name {
        Some(name) => format!(
            "sudo sh -c 'sed -i \"s/--listen[ =][^ ]*/--listen {LOOPBACK}:{port}/\" \
             /etc/twinwall/exporter-{name}.conf && systemctl restart twinwall-exporter@{name}'"
        ),
        None => format!("sudo kill {pid}  # then start it with --listen {LOOPBACK}:{port}"),
    }
}

fn check_one(pid: &str, findings: &mut Findings) {
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        findings.unseen(format!(
            "where twinwall-exporter (pid {pid}) serves metrics: that needs root"
        ));
        return;
    };
    if namespace(pid) != namespace("self") {
        return;
    }
    let links = entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    let links: Vec<_> = links.collect();
    let is_its = |one: &Listener| {
        let mut links = links.iter();
        links.any(|link| is_socket(link.as_os_str(), one.inode))
    };
    match listeners(pid).into_iter().find(is_its) {
        Some(one) => findings.warning(
            format!(
                "twinwall-exporter (pid {pid}) serves metrics at {}: every client that reaches this host can read rules and counters",
                one.shown
            ),
            cure(pid, one.port),
        ),
        None => findings.ok(format!(
            "twinwall-exporter (pid {pid}) does not serve metrics at all addresses"
        )),
    }
}

pub fn check(findings: &mut Findings) {
    for pid in exporters() {
        check_one(&pid, findings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_at_all_addresses_are_found() {
        let line = |address: &str, state: &str| {
            format!(
                "   0: {address}:259E 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 4711 1"
            )
        };
        let shown = |address, state| parse_line(&line(address, state)).map(|one| one.shown);
        assert_eq!(
            parse_line(&line("00000000", "0A")).unwrap(),
            Listener {
                shown: "0.0.0.0:9630".to_owned(),
                port: 9630,
                inode: 4711
            }
        );
        let zero = "0".repeat(32);
        assert_eq!(shown(&zero, "0A").unwrap(), "[::]:9630");
        let mapped = "0000000000000000FFFF000000000000";
        assert_eq!(shown(mapped, "0A").unwrap(), "[::]:9630");
        assert_eq!(shown("0100007F", "0A"), None);
        assert_eq!(shown("0000000000000000FFFF00000100007F", "0A"), None);
        assert_eq!(shown("00000000", "01"), None);
        assert_eq!(parse_line("  sl  local_address rem_address   st"), None);
    }
}
