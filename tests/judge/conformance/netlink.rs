// SPDX-License-Identifier: GPL-2.0-or-later
//! Netlink messages of netfilter: packets that passed a `log group` statement, and the table of connections.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{ensure, Context};
use testbed::packets::{force_receive_buffer, socket};

use crate::socket::{BUFFER_BYTES, READ_BYTES};

/// A packet that passed an nft `log group` statement.
pub struct Logged {
    pub hook: u8,
    pub mark: u32,
    pub packet: Vec<u8>,
    /// Prefix of the statement; empty if the statement has none.
    pub prefix: Vec<u8>,
}

/// A netlink socket that receives the packets of nft's `log group` (linux/netfilter/nfnetlink_log.h).
pub struct Nflog {
    socket: OwnedFd,
}

const NFNL_SUBSYS_CTNETLINK: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;
const NFNL_SUBSYS_ULOG: u16 = 4;
const NFULNL_MSG_PACKET: u16 = 0;
const NFULNL_MSG_CONFIG: u16 = 1;
const NFULNL_CFG_CMD_BIND: u8 = 1;
const NFULA_CFG_CMD: u16 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULA_CFG_QTHRESH: u16 = 5;
const NFULNL_COPY_PACKET: u8 = 2;
const NFULA_PACKET_HDR: u16 = 1;
const NFULA_MARK: u16 = 2;
const NFULA_PAYLOAD: u16 = 9;
const NFULA_PREFIX: u16 = 10;
const NETLINK_HEADER_BYTES: usize = 16;
const NFGEN_BYTES: usize = 4;
const ATTRIBUTE_BYTES: usize = 4;

fn aligned(bytes: usize) -> usize {
    bytes.div_ceil(4) * 4
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    message.extend(((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(aligned(message.len()), 0);
}

/// Sends a request to netfilter and reads the kernel's acknowledgement.
/// - body: bytes of the request from struct nfgenmsg on.
fn acknowledged(socket: &OwnedFd, kind: u16, body: &[u8]) -> anyhow::Result<()> {
    let mut message = ((NETLINK_HEADER_BYTES + body.len()) as u32)
        .to_ne_bytes()
        .to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    // SAFETY: the kernel reads the message.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            message.as_ptr().cast(),
            message.len(),
            0,
        )
    };
    ensure!(
        sent == message.len() as isize,
        "send a request: {}",
        io::Error::last_os_error()
    );
    let mut answer = [0_u8; 4096];
    // SAFETY: the kernel writes at most the buffer's length.
    let read = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            answer.as_mut_ptr().cast(),
            answer.len(),
            0,
        )
    };
    ensure!(read >= 20, "no answer");
    let errno = i32::from_ne_bytes(answer[16..20].try_into().expect("4 bytes"));
    ensure!(errno == 0, "{}", io::Error::from_raw_os_error(-errno));
    Ok(())
}

/// Deletes all connections that the namespace of the calling thread tracks (linux/netfilter/nfnetlink_conntrack.h).
pub fn forget_connections() -> anyhow::Result<()> {
    let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)?;
    let all = [libc::AF_UNSPEC as u8, 0, 0, 0];
    acknowledged(
        &socket,
        NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE,
        &all,
    )
    .context("delete connections")
}

impl Nflog {
    pub fn open(group: u16) -> anyhow::Result<Nflog> {
        let socket = socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)?;
        force_receive_buffer(&socket, BUFFER_BYTES)?;
        let nflog = Nflog { socket };
        nflog.configure(group, NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND])?;
        let mut mode = 0xffff_u32.to_be_bytes().to_vec();
        mode.extend([NFULNL_COPY_PACKET, 0]);
        nflog.configure(group, NFULA_CFG_MODE, &mode)?;
        // Deliver each packet at once.
        nflog.configure(group, NFULA_CFG_QTHRESH, &1_u32.to_be_bytes())?;
        Ok(nflog)
    }

    fn configure(&self, group: u16, kind: u16, value: &[u8]) -> anyhow::Result<()> {
        let mut body = vec![libc::AF_UNSPEC as u8, 0];
        body.extend(group.to_be_bytes());
        attribute(&mut body, kind, value);
        acknowledged(
            &self.socket,
            NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG,
            &body,
        )
        .context("nflog")
    }

    /// Returns the packets logged since the last call.
    pub fn received(&self) -> anyhow::Result<Vec<Logged>> {
        let mut logged = Vec::new();
        let mut buffer = vec![0_u8; READ_BYTES];
        loop {
            // SAFETY: the kernel writes at most the buffer's length.
            let read = unsafe {
                libc::recv(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if read < 0 {
                let error = io::Error::last_os_error();
                ensure!(error.kind() == io::ErrorKind::WouldBlock, "nflog: {error}");
                return Ok(logged);
            }
            let mut rest = &buffer[..read as usize];
            while rest.len() >= NETLINK_HEADER_BYTES {
                let bytes = u32::from_ne_bytes(rest[..4].try_into().expect("4 bytes")) as usize;
                ensure!(
                    (NETLINK_HEADER_BYTES..=rest.len()).contains(&bytes),
                    "a cut nflog message"
                );
                let kind = u16::from_ne_bytes([rest[4], rest[5]]);
                if kind == NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET {
                    logged.push(parse(&rest[NETLINK_HEADER_BYTES + NFGEN_BYTES..bytes]));
                }
                rest = &rest[aligned(bytes).min(rest.len())..];
            }
        }
    }
}

fn parse(mut attributes: &[u8]) -> Logged {
    let mut logged = Logged {
        hook: u8::MAX,
        mark: 0,
        packet: Vec::new(),
        prefix: Vec::new(),
    };
    while attributes.len() >= ATTRIBUTE_BYTES {
        let bytes = usize::from(u16::from_ne_bytes([attributes[0], attributes[1]]));
        if !(ATTRIBUTE_BYTES..=attributes.len()).contains(&bytes) {
            break;
        }
        let value = &attributes[ATTRIBUTE_BYTES..bytes];
        match u16::from_ne_bytes([attributes[2], attributes[3]]) {
            NFULA_PACKET_HDR => logged.hook = value[2],
            NFULA_MARK => logged.mark = u32::from_be_bytes(value.try_into().expect("4 bytes")),
            NFULA_PAYLOAD => logged.packet = value.to_vec(),
            NFULA_PREFIX => logged.prefix = value.strip_suffix(&[0]).unwrap_or(value).to_vec(),
            _ => {}
        }
        attributes = &attributes[aligned(bytes).min(attributes.len())..];
    }
    logged
}
