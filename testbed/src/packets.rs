// SPDX-License-Identifier: GPL-2.0-or-later
//! Sockets that std lacks, and hand-made packets.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::netns::Namespace;
use anyhow::Context;

use crate::place::PORT;
use crate::wait::PATIENCE;

/// Calls socket(2) in the calling thread's namespace.
pub fn socket(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) only reads numbers; the descriptor is new and owned from here on.
    unsafe {
        match libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) {
            fd if fd >= 0 => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Converts a socket address to the kernel's format; returns it with its length.
fn kernel_address(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    // SAFETY: all zeros is valid for every sockaddr, and a sockaddr_storage has room and alignment for each.
    unsafe {
        let mut storage: libc::sockaddr_storage = zeroed();
        let start: *mut libc::sockaddr_storage = &mut storage;
        let bytes = match address {
            SocketAddr::V4(v4) => {
                let kernel = &mut *start.cast::<libc::sockaddr_in>();
                kernel.sin_family = libc::AF_INET as u16;
                kernel.sin_port = v4.port().to_be();
                kernel.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let kernel = &mut *start.cast::<libc::sockaddr_in6>();
                kernel.sin6_family = libc::AF_INET6 as u16;
                kernel.sin6_port = v6.port().to_be();
                kernel.sin6_addr.s6_addr = v6.ip().octets();
                size_of::<libc::sockaddr_in6>()
            }
        };
        (storage, bytes as libc::socklen_t)
    }
}

fn checked(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Calls bind(2).
pub fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let (address, bytes) = kernel_address(address);
    // SAFETY: the kernel reads `bytes` bytes of the address, which is larger.
    checked(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) })
}

/// Calls connect(2).
pub fn connect(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let (address, bytes) = kernel_address(address);
    // SAFETY: the kernel reads `bytes` bytes of the address, which is larger.
    checked(unsafe { libc::connect(socket.as_raw_fd(), (&raw const address).cast(), bytes) })
}

/// Sends bytes to an address by a socket that is not connected; for a raw socket they are a packet (raw(7)).
pub fn send_to(socket: &OwnedFd, to: IpAddr, bytes: &[u8]) -> io::Result<()> {
    let (address, address_bytes) = kernel_address(SocketAddr::from((to, 0)));
    // SAFETY: the kernel reads the bytes, and `address_bytes` bytes of the address, which is larger.
    let sent = unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            0,
            (&raw const address).cast(),
            address_bytes,
        )
    };
    checked(if sent < 0 { -1 } else { 0 })
}

/// Returns the destination address of an IP packet; None if the packet ends before it, or is neither IPv4 nor IPv6.
pub fn destination(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(16..)?.first_chunk::<4>()?)),
        6 => Some(IpAddr::from(*packet.get(24..)?.first_chunk::<16>()?)),
        _ => None,
    }
}

/// Sets the receive buffer's size in bytes (SO_RCVBUFFORCE, socket(7)).
pub fn force_receive_buffer(socket: &impl AsRawFd, bytes: i32) -> io::Result<()> {
    force_buffer(socket, libc::SO_RCVBUFFORCE, bytes)
}

/// Sets the send buffer's size in bytes (SO_SNDBUFFORCE, socket(7)).
pub fn force_send_buffer(socket: &impl AsRawFd, bytes: i32) -> io::Result<()> {
    force_buffer(socket, libc::SO_SNDBUFFORCE, bytes)
}

fn force_buffer(socket: &impl AsRawFd, option: i32, bytes: i32) -> io::Result<()> {
    // SAFETY: the kernel reads one int.
    checked(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const bytes).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })
}

/// Returns the number of packets dropped because the socket was full: SK_MEMINFO_DROPS, the last of nine words of
/// SO_MEMINFO (linux/sock_diag.h).
pub fn socket_drops(fd: RawFd) -> anyhow::Result<u32> {
    const SO_MEMINFO: i32 = 55;
    const SK_MEMINFO_DROPS: usize = 8;
    let mut words = [0_u32; 9];
    let mut bytes = size_of::<[u32; 9]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes, the size of `words`.
    checked(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &mut bytes,
        )
    })
    .context("SO_MEMINFO")?;
    Ok(words[SK_MEMINFO_DROPS])
}

/// Sender of packets with hand-made IP headers. For IPv4 the kernel fills in total length and checksum (raw(7)); for
/// IPv6 it sends the bytes unchanged.
pub struct RawSender {
    socket: OwnedFd,
    to: SocketAddr,
}

impl RawSender {
    /// Opens a raw socket in a namespace. Needs CAP_NET_RAW there.
    pub fn new(namespace: &Namespace, to: IpAddr) -> io::Result<RawSender> {
        let domain = if to.is_ipv4() {
            libc::AF_INET
        } else {
            libc::AF_INET6
        };
        let socket = namespace.enter(|| socket(domain, libc::SOCK_RAW, libc::IPPROTO_RAW))?;
        Ok(RawSender {
            socket,
            to: SocketAddr::new(to, 0),
        })
    }

    /// Sends a packet, from its IP header on. Fails if the kernel did not accept all of it.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        let (address, address_bytes) = kernel_address(self.to);
        // SAFETY: the kernel reads the packet and `address_bytes` bytes of the address.
        let sent = unsafe {
            let fd = self.socket.as_raw_fd();
            libc::sendto(
                fd,
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const address).cast(),
                address_bytes,
            )
        };
        if sent == packet.len() as isize {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Receiver of every delivered IPv4 packet of a protocol, even if the part after the IP header is malformed.
pub struct RawReceiver {
    socket: OwnedFd,
}

impl RawReceiver {
    /// Opens a raw socket for an IP protocol in a namespace. Needs CAP_NET_RAW there.
    pub fn new(namespace: &Namespace, protocol: u8) -> io::Result<RawReceiver> {
        let socket = namespace.enter(|| socket(libc::AF_INET, libc::SOCK_RAW, protocol.into()))?;
        Ok(RawReceiver { socket })
    }

    /// Counts packets until `expected` have arrived and then none for `quiet`. Returns a smaller number if no packet
    /// arrives for [`PATIENCE`] before.
    pub fn count(&self, expected: usize, quiet: Duration) -> io::Result<usize> {
        let mut packets = 0;
        let mut buffer = vec![0_u8; 65536];
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            let limit = if packets < expected { PATIENCE } else { quiet };
            // SAFETY: one pollfd, which outlives the call.
            if unsafe { libc::poll(&mut poll, 1, limit.as_millis() as i32) } != 1 {
                return Ok(packets);
            }
            // SAFETY: the kernel writes at most the buffer's length.
            let read = unsafe { libc::recv(poll.fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
            if read < 0 {
                return Err(io::Error::last_os_error());
            }
            packets += 1;
        }
    }
}

/// Builds an IPv4 packet from 127.0.0.1 to itself (RFC 791); `fragment_offset` in units of 8 bytes.
pub fn ipv4(protocol: u8, fragment_offset: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((20 + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment_offset.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(Ipv4Addr::LOCALHOST.octets());
    packet.extend(Ipv4Addr::LOCALHOST.octets());
    packet.extend(payload);
    packet
}

/// Builds an IPv6 packet from ::1 to itself (RFC 8200); version and payload length may be wrong.
pub fn ipv6(version: u8, next_header: u8, payload_length: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![version << 4, 0, 0, 0];
    packet.extend(payload_length.to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(Ipv6Addr::LOCALHOST.octets());
    packet.extend(Ipv6Addr::LOCALHOST.octets());
    packet.extend(payload);
    packet
}

/// Builds the TCP header of a SYN without options (RFC 9293). The data offset, in words of 4 bytes, may be wrong.
pub fn tcp(data_offset: u8) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(40000_u16.to_be_bytes());
    header.extend(PORT.to_be_bytes());
    header.extend([
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        0,
        data_offset << 4,
        0x02,
        0xff,
        0xff,
        0,
        0,
        0,
        0,
    ]);
    header
}

/// Builds a UDP datagram (RFC 768) without a checksum; the length field may be wrong.
pub fn udp(length: u16, payload: &[u8]) -> Vec<u8> {
    let mut datagram = Vec::new();
    datagram.extend(40000_u16.to_be_bytes());
    datagram.extend(PORT.to_be_bytes());
    datagram.extend(length.to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    datagram
}
