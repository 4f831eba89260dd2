// SPDX-License-Identifier: GPL-2.0-or-later
//! DNS servers on other hosts that this host queries.

use std::fs;
use std::net::IpAddr;

/// Files with DNS servers. If the first file has only the local address of systemd-resolved, the second file has the
/// servers of systemd-resolved.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"];

/// Parses a resolv.conf. Returns the servers on other hosts, without duplicates.
fn parse(text: &str) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let server = match words.next() {
            Some("nameserver") => words.next(),
            _ => None,
        };
        // In a link-local address, the interface follows a %.
        let server = server.and_then(|server| server.split('%').next()?.parse().ok());
        let is_new = |server: &IpAddr| !server.is_loopback() && !all.contains(server);
        if let Some(server) = server.filter(is_new) {
            all.push(server);
        }
    }
    all
}

/// Returns the servers, also those of systemd-resolved. The result is empty if none is configured, or if only another
/// program of this host, e.g. dnsmasq, knows them.
pub fn find() -> Vec<IpAddr> {
    let read = FILES
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let mut found = read.map(|text| parse(&text));
    found
        .find(|servers| !servers.is_empty())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_other_hosts() {
        let text = "# nameserver 192.0.2.1\nsearch example.org\nnameserver 127.0.0.53\nnameserver 192.0.2.53\n\
            nameserver fe80::1%eth0\nnameserver 192.0.2.53\nnameserver\nnameserver monster\noptions edns0\n";
        let expected: [IpAddr; 2] = ["192.0.2.53".parse().unwrap(), "fe80::1".parse().unwrap()];
        assert_eq!(parse(text), expected);
    }
}
