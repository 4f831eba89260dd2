// SPDX-License-Identifier: GPL-2.0-or-later
//! A client that leaves a checksum to the kernel, as a virtual machine does: the kernel stores the checksum after the
//! firewall, in the middle of the name. The firewall must see the same bytes as the server.

use testbed::frames::{self, Link};
use testbed::twin::Twin;
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::client::{Client, Segment, Unsummed};
use super::hello;
use super::net::{Net, Sees};
use super::strategies::steps;
use super::tried::{all_completed, none_completed, patience, Tried};
use super::wire::{self, Version};
use super::{By, ALLOW_LIST, BLOCK_LIST, DENIED};

/// Offset within the name of the two bytes that the checksum replaces.
const WITHIN_NAME: usize = 6;
/// Offset of a hello's random bytes. Two of them are chosen so that the checksum has the wanted value.
const RANDOM: usize = 11;
/// Denied name that the server receives. Before the checksum is stored, it reads as the allowed name.
const ALMOST: &str = "www.amxxed.example";

const ROWS: &[Row] = &[("checksum-filled-in", 120, filled_in)];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// Returns a segment with a hello for a host. Two bytes of the name are `seen` until the kernel stores the checksum
/// there.
fn changing(host: &str, seen: [u8; 2]) -> Segment {
    let mut opening = hello::tls(host, 0);
    let place = opening.name_at + WITHIN_NAME;
    let start = RANDOM + (place - RANDOM) % 2;
    let bytes = &mut opening.bytes;
    bytes[start..start + 2].fill(0);
    let rest = wire::checksum(&[&seen, &bytes[start..]]);
    bytes[start..start + 2].copy_from_slice(&rest);
    let unsummed = Unsummed { start, place, seen };
    Segment {
        unsummed: Some(unsummed),
        ..Segment::data(0, bytes)
    }
}

/// Sends the segment of `changing` over IPv4 and IPv6.
/// - seen: the two bytes of the name until the kernel stores the checksum there.
fn try_both(
    net: &Net,
    link: &Link,
    (host, seen): (&str, [u8; 2]),
    answered: bool,
) -> anyhow::Result<Vec<Tried>> {
    let versions = [("IPv4", Version::V4), ("IPv6", Version::V6)];
    let script = steps([changing(host, seen)]).unwrap_or_default();
    let tries = versions.into_iter().map(|(over, version)| {
        Tried::new("a checksum filled in", over, answered, |port| {
            let client = Client {
                net,
                link,
                version,
                ports: (port, 443),
                patience: patience(answered),
            };
            let answer = client.run(&script)?;
            let expected = hello::tls(host, 0).answer;
            Ok(answer.map(|answer| answer.starts_with(expected)))
        })
    });
    tries.collect()
}

/// Checks that the server answers without a firewall, and that no name passes a twin whose kernel stores checksums
/// before it queues packets (--gso off).
fn filled_in(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    frames::sum_in_software(&net.firewall, "right")?;
    let mut link = net.link()?;
    link.leave_checksums()?;
    let lists = [
        (BLOCK_LIST, (DENIED, *b"xx")),
        (ALLOW_LIST, (ALMOST, *b"us")),
    ];
    for (text, way) in lists {
        all_completed(&try_both(&net, &link, way, true)?)?;
        let running = By::Twin(twin).start_with(&net, text, &["--gso", "off"])?;
        none_completed(&try_both(&net, &link, way, false)?)?;
        running.finish()?;
    }
    Ok(())
}
