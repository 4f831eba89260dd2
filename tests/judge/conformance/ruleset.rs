// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads the counters of the kernel's rules from NFT_MSG_GETRULE (linux/netfilter/nf_tables.h): `nft list` fails on some
//! rules that nft itself has loaded.

use std::io;
use std::os::fd::AsRawFd;

use anyhow::{ensure, Context};
use testbed::packets::socket;

const NFNL_SUBSYS_NFTABLES: u16 = 10;
const NFT_MSG_GETRULE: u16 = 7;
const NFTA_RULE_TABLE: u16 = 1;
const NFTA_RULE_EXPRESSIONS: u16 = 4;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_COUNTER_BYTES: u16 = 1;
const NFTA_COUNTER_PACKETS: u16 = 2;
/// Flags in an attribute's type: NLA_F_NESTED and NLA_F_NET_BYTEORDER.
const FLAGS: u16 = 0xc000;
const NETLINK_HEADER_BYTES: usize = 16;
const NFGEN_BYTES: usize = 4;

/// Splits bytes into attributes (type, value).
fn attributes(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut found = Vec::new();
    while bytes.len() >= 4 {
        let length = usize::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
        if !(4..=bytes.len()).contains(&length) {
            break;
        }
        found.push((
            u16::from_ne_bytes([bytes[2], bytes[3]]) & !FLAGS,
            &bytes[4..length],
        ));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    found
}

fn value(attributes: &[(u16, &[u8])], kind: u16) -> u64 {
    let found = attributes.iter().find(|(found, _)| *found == kind);
    let bytes = found.and_then(|(_, bytes)| <[u8; 8]>::try_from(*bytes).ok());
    bytes.map_or(0, u64::from_be_bytes)
}

/// Appends (packets, bytes) of each counter in the message of a rule. Skips rules of the tables `without`.
fn counters_of(message: &[u8], without: &[&str], counters: &mut Vec<(u64, u64)>) {
    let rule = attributes(message);
    let is_left_out = |table: &[u8]| {
        let name = table.strip_suffix(&[0]).unwrap_or(table);
        without.iter().any(|out| out.as_bytes() == name)
    };
    if rule
        .iter()
        .any(|(kind, bytes)| *kind == NFTA_RULE_TABLE && is_left_out(bytes))
    {
        return;
    }
    let lists = rule
        .iter()
        .filter(|(kind, _)| *kind == NFTA_RULE_EXPRESSIONS);
    for (_, expression) in lists.flat_map(|(_, list)| attributes(list)) {
        let parts = attributes(expression);
        let is_counter = parts
            .iter()
            .any(|(kind, bytes)| *kind == NFTA_EXPR_NAME && *bytes == b"counter\0");
        let data = parts.iter().find(|(kind, _)| *kind == NFTA_EXPR_DATA);
        if let (true, Some((_, data))) = (is_counter, data) {
            let data = attributes(data);
            counters.push((
                value(&data, NFTA_COUNTER_PACKETS),
                value(&data, NFTA_COUNTER_BYTES),
            ));
        }
    }
}

/// Returns (packets, bytes) of each counter in the calling thread's namespace, in the order of the rules. Skips the
/// tables `without`.
pub fn counters(without: &[&str]) -> anyhow::Result<Vec<(u64, u64)>> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)?;
    let mut request = ((NETLINK_HEADER_BYTES + NFGEN_BYTES) as u32)
        .to_ne_bytes()
        .to_vec();
    request.extend((NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE).to_ne_bytes());
    request.extend(((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    request.extend([0; 8]);
    request.extend([libc::AF_UNSPEC as u8, 0, 0, 0]);
    // SAFETY: the kernel reads the request.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            request.as_ptr().cast(),
            request.len(),
            0,
        )
    };
    ensure!(
        sent == request.len() as isize,
        "ask for rules: {}",
        io::Error::last_os_error()
    );
    let mut counters = Vec::new();
    let mut buffer = vec![0_u8; 1 << 17];
    loop {
        // SAFETY: the kernel writes at most the buffer's length.
        let read = unsafe {
            libc::recv(
                socket.as_raw_fd(),
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                0,
            )
        };
        ensure!(read > 0, "receive rules: {}", io::Error::last_os_error());
        let mut rest = &buffer[..read as usize];
        while rest.len() >= NETLINK_HEADER_BYTES {
            let bytes = u32::from_ne_bytes(rest[..4].try_into().expect("4 bytes")) as usize;
            ensure!(
                (NETLINK_HEADER_BYTES..=rest.len()).contains(&bytes),
                "a cut message"
            );
            match i32::from(u16::from_ne_bytes([rest[4], rest[5]])) {
                libc::NLMSG_DONE => return Ok(counters),
                libc::NLMSG_ERROR => {
                    let code = rest.get(16..20).context("a cut error")?;
                    let errno = -i32::from_ne_bytes(code.try_into().expect("4 bytes"));
                    return Err(io::Error::from_raw_os_error(errno)).context("ask for rules");
                }
                _ => {
                    let body = rest
                        .get(NETLINK_HEADER_BYTES + NFGEN_BYTES..bytes)
                        .context("a cut rule")?;
                    counters_of(body, without, &mut counters);
                }
            }
            rest = &rest[bytes.next_multiple_of(4).min(rest.len())..];
        }
    }
}
