// SPDX-License-Identifier: GPL-2.0-or-later
//! Netlink requests to netfilter. Each request waits for one answer.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{recv, send, setsockopt, sockopt, MsgFlags};

/// Message type that configures a queue (linux/netfilter/nfnetlink_queue.h). Its attributes, commands and flags follow.
const MSG_CONFIG: u16 = (libc::NFNL_SUBSYS_QUEUE as u16) << 8 | 2;
const CFG_CMD: u16 = 1;
const CFG_MASK: u16 = 4;
const CFG_FLAGS: u16 = 5;
const CMD_BIND: u8 = 1;
const CMD_UNBIND: u8 = 2;
pub const FLAG_FAIL_OPEN: u32 = 1 << 0;
pub const FLAG_CONNTRACK: u32 = 1 << 1;
pub const FLAG_GSO: u32 = 1 << 2;
pub const FLAG_UID_GID: u32 = 1 << 3;
/// Message type that requests the generation of the rules (linux/netfilter/nf_tables.h).
const MSG_GETGEN: u16 = (libc::NFNL_SUBSYS_NFTABLES as u16) << 8 | 16;

/// Size of a message's headers in bytes: struct nlmsghdr and struct nfgenmsg.
const HEAD_BYTES: usize = 16 + 4;
/// Size of the header of a netlink attribute, in bytes.
const ATTRIBUTE_BYTES: u16 = 4;

/// A netlink socket to netfilter.
pub struct Netfilter(OwnedFd);

/// Returns the headers of a message (struct nlmsghdr, struct nfgenmsg), to which attributes may be added; `ask` sets
/// the length.
/// - kind: message type.
/// - resource: number of the queue; 0 if the message is about no queue.
fn message(kind: u16, resource: u16) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let mut message = vec![0; 4];
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]); // sequence number and port
    message.extend([libc::AF_UNSPEC as u8, 0]);
    message.extend(resource.to_be_bytes());
    message
}

fn put(message: &mut Vec<u8>, kind: u16, value: [u8; 4]) {
    message.extend((ATTRIBUTE_BYTES + 4).to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
}

impl Netfilter {
    pub fn open() -> Result<Netfilter, Errno> {
        apply::netlink::open().map(Netfilter)
    }

    /// Sends a request, and waits for the kernel's first answer. An acknowledgement or a reply means success.
    fn ask(&self, mut request: Vec<u8>) -> Result<(), Errno> {
        let length = (request.len() as u32).to_ne_bytes();
        request[..length.len()].copy_from_slice(&length);
        let fd = self.0.as_raw_fd();
        send(fd, &request, MsgFlags::empty())?;
        let mut answer = [0; 4096];
        let received = recv(fd, &mut answer, MsgFlags::empty())?;
        let kind = u16::from_ne_bytes([answer[4], answer[5]]);
        if received < HEAD_BYTES {
            return Err(Errno::EBADMSG);
        }
        if i32::from(kind) != libc::NLMSG_ERROR {
            return Ok(()); // the reply to this request, before its acknowledgement
        }
        let code = i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]);
        match code {
            0 => Ok(()),
            _ => Err(Errno::from_raw(-code)),
        }
    }

    fn command(&self, queue: u16, command: u8) -> Result<(), Errno> {
        let mut request = message(MSG_CONFIG, queue);
        put(&mut request, CFG_CMD, [command, 0, 0, 0]);
        self.ask(request)
    }

    /// Binds an unused queue among the 65 highest numbers, and returns its number. Fails with EBUSY if all are in use,
    /// and with EPERM without CAP_NET_ADMIN.
    pub fn bind_any(&self) -> Result<u16, Errno> {
        for queue in (u16::MAX - 64..=u16::MAX).rev() {
            match self.command(queue, CMD_BIND) {
                Err(Errno::EBUSY | Errno::EPERM) if super::rights::has_net_admin() => {}
                result => return result.map(|()| queue),
            }
        }
        Err(Errno::EBUSY)
    }

    pub fn unbind(&self, queue: u16) {
        // Closing the socket unbinds the queue as well.
        let _ = self.command(queue, CMD_UNBIND);
    }

    /// Sets a flag of the bound queue.
    pub fn set_flag(&self, queue: u16, flag: u32) -> Result<(), Errno> {
        let mut request = message(MSG_CONFIG, queue);
        put(&mut request, CFG_FLAGS, flag.to_be_bytes());
        put(&mut request, CFG_MASK, flag.to_be_bytes());
        self.ask(request)
    }

    /// Fails if the kernel has no nf_tables, or nf_tables refuses a request.
    pub fn nf_tables(&self) -> Result<(), Errno> {
        self.ask(message(MSG_GETGEN, 0))
    }

    /// Sets the socket's receive buffer, also beyond net.core.rmem_max. Fails with EPERM if this process may not do
    /// that.
    pub fn force_receive_buffer(&self, bytes: usize) -> Result<(), Errno> {
        setsockopt(&self.0, sockopt::RcvBufForce, &bytes)
    }
}
