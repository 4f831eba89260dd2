// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet sockets and raw sockets. All are opened in the namespace of the calling thread.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{bail, ensure, Context};
use testbed::packets::{force_receive_buffer, socket};

pub const ETHERTYPE_IPV4: u16 = 0x0800;
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Ethertype of marker frames, reserved for local experiments (IEEE 802). Once a marker arrives, all frames before it
/// have been handled.
pub const ETHERTYPE_MARKER: u16 = 0x88b5;
const ETHERNET_BYTES: usize = 14;
pub const BUFFER_BYTES: i32 = 64 << 20;
pub const READ_BYTES: usize = 1 << 17;

fn set_option(fd: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the kernel reads one int.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets the mark of a socket's packets.
pub fn set_mark(fd: &OwnedFd, mark: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_MARK, mark as i32)
}

/// Restricts a socket to sending by one interface.
pub fn bind_to_device(fd: &OwnedFd, name: &str) -> io::Result<()> {
    // SAFETY: the kernel reads the name's bytes.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn interface_index(name: &str) -> anyhow::Result<i32> {
    let text = CString::new(name)?;
    // SAFETY: a NUL-terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => bail!("there is no interface {name}"),
        index => Ok(index as i32),
    }
}

/// A packet socket on an interface (packet(7)).
pub struct Link {
    socket: OwnedFd,
    index: i32,
}

impl Link {
    /// Opens the socket.
    /// - ethertype: selects the frames that the socket receives; 0: the socket only sends.
    pub fn open(interface: &str, ethertype: u16) -> anyhow::Result<Link> {
        let index = interface_index(interface)?;
        let socket = socket(libc::AF_PACKET, libc::SOCK_RAW, 0).context("a packet socket")?;
        let link = Link { socket, index };
        let address = link.address(ethertype);
        // SAFETY: the kernel reads a sockaddr_ll.
        let bound = unsafe {
            libc::bind(
                link.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        ensure!(
            bound == 0,
            "bind to {interface}: {}",
            io::Error::last_os_error()
        );
        force_receive_buffer(&link.socket, BUFFER_BYTES)?;
        Ok(link)
    }

    fn address(&self, ethertype: u16) -> libc::sockaddr_ll {
        // SAFETY: sockaddr_ll is plain data for which all zeros is valid.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ethertype.to_be();
        address.sll_ifindex = self.index;
        address
    }

    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        set_mark(&self.socket, mark)
    }

    /// Sends a frame to a MAC address.
    pub fn send(&self, to: [u8; 6], ethertype: u16, payload: &[u8]) -> anyhow::Result<()> {
        let mut frame = to.to_vec();
        frame.extend([2, 0, 0, 0, 0, 0x77]);
        frame.extend(ethertype.to_be_bytes());
        frame.extend(payload);
        let address = self.address(ethertype);
        // SAFETY: the kernel reads the frame and a sockaddr_ll.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        ensure!(
            sent == frame.len() as isize,
            "send a frame: {}",
            io::Error::last_os_error()
        );
        Ok(())
    }

    /// Returns the IP packets of the frames received since the last call.
    pub fn received(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut packets = Vec::new();
        let mut buffer = vec![0_u8; READ_BYTES];
        loop {
            let mut from = self.address(0);
            let mut bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            // SAFETY: the kernel writes at most the buffer's length and one sockaddr_ll.
            let read = unsafe {
                libc::recvfrom(
                    self.socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    libc::MSG_DONTWAIT,
                    (&raw mut from).cast(),
                    &mut bytes,
                )
            };
            if read < 0 {
                let error = io::Error::last_os_error();
                ensure!(
                    error.kind() == io::ErrorKind::WouldBlock,
                    "receive frames: {error}"
                );
                return Ok(packets);
            }
            let frame = &buffer[..read as usize];
            let is_packet = from.sll_pkttype != libc::PACKET_OUTGOING
                && from.sll_protocol != ETHERTYPE_MARKER.to_be();
            if is_packet && frame.len() >= ETHERNET_BYTES {
                packets.push(frame[ETHERNET_BYTES..].to_vec());
            }
        }
    }

    /// Waits until a frame can be received. Returns false after the timeout.
    pub fn wait(&self, timeout_ms: i32) -> bool {
        readable(&self.socket, timeout_ms)
    }
}

pub fn readable(fd: &OwnedFd, timeout_ms: i32) -> bool {
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, which lives through the call.
    unsafe { libc::poll(&mut poll, 1, timeout_ms) == 1 }
}

/// A raw socket for packets that include their IP header. Its owner is the file system user of the thread that opens
/// it.
pub struct Raw {
    pub socket: OwnedFd,
    version: u8,
}

impl Raw {
    pub fn open(version: u8) -> anyhow::Result<Raw> {
        let domain = if version == 4 {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let socket = socket(domain, libc::SOCK_RAW, libc::IPPROTO_RAW).context("a raw socket")?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_BROADCAST, 1)?;
        Ok(Raw { socket, version })
    }

    /// Sends a packet to the destination address in its header. Returns false if the kernel refuses the packet.
    pub fn send(&self, packet: &[u8]) -> bool {
        // SAFETY: all zeros is valid for both; the kernel reads the packet and an address of the size given.
        unsafe {
            let mut v4: libc::sockaddr_in = zeroed();
            let mut v6: libc::sockaddr_in6 = zeroed();
            let (address, bytes): (*const libc::sockaddr, usize) = if self.version == 4 {
                v4.sin_family = libc::AF_INET as u16;
                v4.sin_addr.s_addr =
                    u32::from_ne_bytes(packet[16..20].try_into().expect("4 bytes"));
                ((&raw const v4).cast(), size_of::<libc::sockaddr_in>())
            } else {
                v6.sin6_family = libc::AF_INET6 as u16;
                v6.sin6_addr.s6_addr = packet[24..40].try_into().expect("16 bytes");
                ((&raw const v6).cast(), size_of::<libc::sockaddr_in6>())
            };
            let fd = self.socket.as_raw_fd();
            libc::sendto(
                fd,
                packet.as_ptr().cast(),
                packet.len(),
                0,
                address,
                bytes as libc::socklen_t,
            ) == packet.len() as isize
        }
    }
}
