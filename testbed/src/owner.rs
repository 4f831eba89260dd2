// SPDX-License-Identifier: GPL-2.0-or-later
//! Occupies a queue by this process, to test a firewall whose queue another program owns.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::netns::Namespace;
use anyhow::{bail, ensure};

use crate::packets::socket;

/// Owner of a queue, until dropped.
pub struct Owner {
    socket: OwnedFd,
}

impl Owner {
    /// Returns the socket, for another process.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Binds a queue in a namespace by one message: nlmsghdr, nfgenmsg, NFQA_CFG_CMD with NFQNL_CFG_CMD_BIND
    /// (linux/netfilter/nfnetlink_queue.h). Waits for the kernel's answer, and fails if it contains an error.
    pub fn of(namespace: &Namespace, queue: u16) -> anyhow::Result<Owner> {
        const CONFIG: u16 = ((libc::NFNL_SUBSYS_QUEUE as u16) << 8) | 2;
        const FLAGS: u16 = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        let socket = namespace
            .enter(|| socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER))?;
        let mut message = Vec::new();
        message.extend(28_u32.to_ne_bytes());
        message.extend(CONFIG.to_ne_bytes());
        message.extend(FLAGS.to_ne_bytes());
        message.extend([0; 8]);
        message.extend([libc::AF_UNSPEC as u8, 0]);
        message.extend(queue.to_be_bytes());
        message.extend(8_u16.to_ne_bytes());
        message.extend(1_u16.to_ne_bytes());
        message.extend([1, 0, 0, 0]);
        ensure!(message.len() == 28, "a message of {} bytes", message.len());

        let mut answer = [0_u8; 256];
        let fd = socket.as_raw_fd();
        // SAFETY: the kernel reads the message and writes at most the answer's length.
        let received = unsafe {
            if libc::send(fd, message.as_ptr().cast(), message.len(), 0) != message.len() as isize {
                bail!(io::Error::last_os_error());
            }
            libc::recv(fd, answer.as_mut_ptr().cast(), answer.len(), 0)
        };
        ensure!(received >= 20, "an answer of {received} bytes");
        let errno = i32::from_ne_bytes(answer[16..20].try_into().expect("four bytes"));
        ensure!(
            errno == 0,
            "queue {queue}: {}",
            io::Error::from_raw_os_error(-errno)
        );
        Ok(Owner { socket })
    }

    /// Returns the netlink port, which identifies the owner to the kernel.
    pub fn port(&self) -> u32 {
        // SAFETY: sockaddr_nl is plain data, for which all zeros is valid; the kernel writes at most `bytes` bytes.
        unsafe {
            let mut address: libc::sockaddr_nl = zeroed();
            let mut bytes = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            let result = libc::getsockname(
                self.socket.as_raw_fd(),
                (&raw mut address).cast(),
                &mut bytes,
            );
            assert_eq!(result, 0, "getsockname of a netlink socket");
            address.nl_pid
        }
    }
}
