// SPDX-License-Identifier: GPL-2.0-or-later
//! Filters in libpcap's language (pcap-filter(7)), compiled by libpcap for the kernel.

use libc::sock_filter;
use pcap::{BpfProgram, Capture, Linktype};

use crate::failure::{Failure, Result};
use crate::link::{Interface, Link};

/// Length of the Linux cooked header, version 2, in bytes (LINKTYPE_LINUX_SLL2).
const COOKED_BYTES: u32 = 20;
/// Start of the kernel's ancillary offsets, which load metadata instead of packet bytes (<linux/filter.h>).
const ASIDE: u32 = libc::SKF_AD_OFF as u32;

/// Returns a filter that accepts all packets, cut to `snap_bytes`.
pub fn all(snap_bytes: u32) -> Vec<sock_filter> {
    vec![sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: snap_bytes,
    }]
}

/// Compiles a filter expression for an interface; accepted packets are cut to `snap_bytes`. An empty expression accepts
/// all packets.
pub fn compile(text: &str, interface: &Interface, snap_bytes: u32) -> Result<Vec<sock_filter>> {
    if text.trim().is_empty() {
        return Ok(all(snap_bytes));
    }
    let program = by_libpcap(text, interface).map_err(|error| {
        Failure::usage(format!(
            "filter \"{text}\": {}: pcap-filter(7)",
            words(&error)
        ))
    })?;
    program
        .get_instructions()
        .iter()
        .map(|step| {
            let step = read(&step.to_string()).and_then(|step| fit(step, interface.link, snap_bytes));
            step.ok_or_else(|| {
                Failure::usage(format!(
                    "filter \"{text}\": asks what the kernel does not know of packets without a link-layer header \
                     (-i {}): leave that out",
                    interface.name
                ))
            })
        })
        .collect()
}

/// Compiles a filter expression by libpcap. For an expression with `vlan` it opens the interface, if that is up and
/// Ethernet: only then libpcap generates code for VLAN tags that the kernel has removed from frames.
fn by_libpcap(text: &str, interface: &Interface) -> std::result::Result<BpfProgram, pcap::Error> {
    let asks_tags = text
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| word == "vlan");
    if asks_tags && interface.link == Link::Ethernet && interface.is_up {
        return Capture::from_device(interface.name.as_str())?
            .open()?
            .compile(text, true);
    }
    Capture::dead(Linktype(interface.link.libpcap()))?.compile(text, true)
}

/// Returns libpcap's error message in one line.
fn words(error: &pcap::Error) -> String {
    let text = match error {
        pcap::Error::PcapError(text) => text.clone(),
        other => other.to_string(),
    };
    text.replace('\n', " ")
}

/// Parses a BPF instruction from libpcap's text: the numbers code, jt, jf and k.
fn read(text: &str) -> Option<sock_filter> {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u32>());
    let mut next = || numbers.next()?.ok();
    Some(sock_filter {
        code: next()? as u16,
        jt: next()? as u8,
        jf: next()? as u8,
        k: next()?,
    })
}

/// Adapts a filter's instruction to this program's socket: accepted packets are cut to `snap_bytes`, and if packets
/// have no link-layer header, loads from that header become loads of the kernel's metadata. Returns None if the kernel
/// doesn't have the loaded field.
fn fit(mut step: sock_filter, link: Link, snap_bytes: u32) -> Option<sock_filter> {
    let code = u32::from(step.code);
    let (class, mode) = (code & 0x07, code & 0xe0);
    if code == libc::BPF_RET | libc::BPF_K && step.k != 0 {
        step.k = snap_bytes;
    }
    let loads = [libc::BPF_LD, libc::BPF_LDX].contains(&class);
    let from_packet = [libc::BPF_ABS, libc::BPF_IND, libc::BPF_MSH].contains(&mode);
    if link == Link::Cooked && loads && from_packet {
        step.k = match step.k {
            k if k >= ASIDE => k,
            k if k >= COOKED_BYTES => k - COOKED_BYTES,
            0 if mode == libc::BPF_ABS => ASIDE + libc::SKF_AD_PROTOCOL as u32,
            4 if mode == libc::BPF_ABS => ASIDE + libc::SKF_AD_IFINDEX as u32,
            8 if mode == libc::BPF_ABS => ASIDE + libc::SKF_AD_HATYPE as u32,
            10 if mode == libc::BPF_ABS => ASIDE + libc::SKF_AD_PKTTYPE as u32,
            _ => return None,
        };
    }
    Some(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(link: Link) -> Interface {
        Interface {
            name: "x".into(),
            index: 1,
            link,
            is_loopback: false,
            is_up: true,
        }
    }

    fn steps(text: &str, link: Link) -> Result<Vec<(u16, u32)>> {
        let steps = compile(text, &interface(link), 4096)?;
        Ok(steps.iter().map(|step| (step.code, step.k)).collect())
    }

    const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
    const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

    #[test]
    fn an_expression_becomes_steps_that_cut() {
        let steps = steps("ip proto 17", Link::Ethernet).unwrap();
        assert_eq!(steps[0], (LOAD_HALF, 12));
        assert!(steps.contains(&(LOAD_BYTE, 23)));
        assert!(steps.contains(&(RETURN, 4096)) && steps.contains(&(RETURN, 0)));
        assert_eq!(super::all(96)[0].k, 96);
    }

    #[test]
    fn a_header_that_is_not_there_is_asked_of_the_kernel() {
        let cooked = steps("ip proto 17", Link::Cooked).unwrap();
        assert_eq!(cooked[0], (LOAD_HALF, libc::SKF_AD_OFF as u32));
        assert!(cooked.contains(&(LOAD_BYTE, 9)), "{cooked:?}");
        assert_eq!(steps("ip", Link::Raw).unwrap()[0], (LOAD_BYTE, 0));
    }

    #[test]
    fn a_wrong_expression_is_one_line() {
        let failure = steps("tcp prt 1", Link::Ethernet).unwrap_err();
        assert_eq!(failure.code, crate::failure::EXIT_USAGE);
        assert!(
            failure.text.starts_with("filter \"tcp prt 1\": "),
            "{failure}"
        );
        assert!(failure.text.ends_with(": pcap-filter(7)"), "{failure}");
        assert!(!failure.text.contains('\n'), "{failure}");
    }
}
