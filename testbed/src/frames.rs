// SPDX-License-Identifier: GPL-2.0-or-later
//! Sends and receives packets at an interface as frames (packet(7)), bypassing the network stack, so that they arrive
//! unchanged.

use std::io;
use std::mem::{size_of, zeroed};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::netns::Namespace;
use anyhow::{ensure, Context};

use crate::packets::{self, force_receive_buffer, socket};
use crate::place::run;
use crate::wait::PATIENCE;

const HEADER_BYTES: usize = 14;
/// Receive buffer for frames that arrive while nothing reads them, in bytes.
const RECEIVE_BUFFER: i32 = 8 << 20;
const ETH_P_ALL: u16 = 0x0003;
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// Size in bytes of struct virtio_net_hdr (linux/virtio_net.h), which precedes a frame.
const VIRTIO_BYTES: usize = 10;
/// Flag in struct virtio_net_hdr: the kernel fills in the packet's checksum.
const VIRTIO_NEEDS_CHECKSUM: u8 = 1;
/// Socket option that makes each frame begin with a struct virtio_net_hdr (linux/if_packet.h).
const PACKET_VNET_HDR: i32 = 15;
/// Types of segmentation in struct virtio_net_hdr: TCP over IPv4 and IPv6.
const VIRTIO_TCP: [u8; 2] = [1, 4];
/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM: usize = 16;
/// Command of ethtool that turns the offload of sent packets' checksums on or off (linux/ethtool.h).
const ETHTOOL_STXCSUM: u32 = 0x17;

/// A packet socket at an interface of a namespace.
pub struct Link {
    socket: OwnedFd,
    own: [u8; 6],
    /// Length of the virtio_net_hdr before each frame: 0 until `leave_checksums`.
    virtio_bytes: usize,
    /// Raw sockets over IPv4 and IPv6 that send in place of the packet socket; None until `send_by_host`.
    raw: Option<[OwnedFd; 2]>,
}

/// Makes the kernel fill in checksums of packets that leave by an interface, as for devices without offload.
pub fn sum_in_software(namespace: &Namespace, interface: &str) -> anyhow::Result<()> {
    let socket = namespace.enter(|| socket(libc::AF_INET, libc::SOCK_DGRAM, 0))?;
    let mut value = [ETHTOOL_STXCSUM, 0];
    // SAFETY: all zeros is a valid ifreq; its name stays NUL-terminated, and the value outlives the call.
    let result = unsafe {
        let mut request: libc::ifreq = zeroed();
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name[..room].iter_mut().zip(interface.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
        libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request)
    };
    ensure!(
        result == 0,
        "ETHTOOL_STXCSUM: {}",
        io::Error::last_os_error()
    );
    Ok(())
}

/// Returns the hardware address of an interface.
pub fn hardware_address(namespace: &Namespace, interface: &str) -> anyhow::Result<[u8; 6]> {
    let output = run(namespace, "ip", &["-oneline", "link", "show", interface])?;
    let text = String::from_utf8(output.stdout)?;
    let mut words = text.split_whitespace();
    let word = words
        .find(|word| *word == "link/ether")
        .and_then(|_| words.next())
        .with_context(|| format!("no hardware address in {text}"))?;
    let mut address = [0; 6];
    for (byte, digits) in address.iter_mut().zip(word.split(':')) {
        *byte = u8::from_str_radix(digits, 16)?;
    }
    Ok(address)
}

impl Link {
    /// Opens an interface by its name. Needs CAP_NET_RAW; fails if there is no such interface.
    pub fn open(namespace: &Namespace, interface: &str) -> anyhow::Result<Link> {
        let own = hardware_address(namespace, interface)?;
        let name = std::ffi::CString::new(interface)?;
        let socket = namespace.enter(|| -> io::Result<OwnedFd> {
            let socket = socket(
                libc::AF_PACKET,
                libc::SOCK_RAW,
                i32::from(ETH_P_ALL.to_be()),
            )?;
            // SAFETY: the name is NUL-terminated; all zeros is a valid sockaddr_ll, of which the kernel reads its size.
            unsafe {
                let mut address: libc::sockaddr_ll = zeroed();
                address.sll_family = libc::AF_PACKET as u16;
                address.sll_protocol = ETH_P_ALL.to_be();
                address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
                let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                let on = 1;
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    libc::PACKET_IGNORE_OUTGOING,
                    (&raw const on).cast(),
                    size_of::<i32>() as libc::socklen_t,
                );
                match libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) {
                    0 => Ok(socket),
                    _ => Err(io::Error::last_os_error()),
                }
            }
        })?;
        force_receive_buffer(&socket, RECEIVE_BUFFER)?;
        Ok(Link {
            socket,
            own,
            virtio_bytes: 0,
            raw: None,
        })
    }

    /// Makes [`Link::send`] pass packets through the namespace's own network stack, with its hook output, to the
    /// destination in their header. IPv4's stack fills in the header's checksum.
    pub fn send_by_host(&mut self, namespace: &Namespace) -> anyhow::Result<()> {
        let open = |domain| namespace.enter(|| socket(domain, libc::SOCK_RAW, libc::IPPROTO_RAW));
        self.raw = Some([open(libc::AF_INET)?, open(libc::AF_INET6)?]);
        Ok(())
    }

    /// Enables [`Link::send_unsummed`] and [`Link::send_segments`]: each frame then begins with a virtio_net_hdr.
    pub fn leave_checksums(&mut self) -> anyhow::Result<()> {
        let on = 1;
        // SAFETY: the kernel reads one int.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_VNET_HDR,
                (&raw const on).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        ensure!(
            result == 0,
            "PACKET_VNET_HDR: {}",
            io::Error::last_os_error()
        );
        self.virtio_bytes = VIRTIO_BYTES;
        Ok(())
    }

    /// Sends a packet to a hardware address, or to the host's stack after [`Link::send_by_host`].
    pub fn send(&self, to: [u8; 6], packet: &[u8]) -> anyhow::Result<()> {
        if let Some([v4, v6]) = &self.raw {
            let sent = match packets::destination(packet).context("no IP packet")? {
                address @ IpAddr::V4(_) => packets::send_to(v4, address, packet),
                address @ IpAddr::V6(_) => packets::send_to(v6, address, packet),
            };
            // A rule of the hook output has dropped the packet.
            let is_dropped = |error: &io::Error| error.raw_os_error() == Some(libc::EPERM);
            return match sent {
                Err(error) if !is_dropped(&error) => Err(error).context("send a packet"),
                _ => Ok(()),
            };
        }
        self.send_behind(&[0; VIRTIO_BYTES][..self.virtio_bytes], to, packet)
    }

    /// Sends a packet whose checksum the kernel fills in: `place` is the offset of the checksum, `start` that of the
    /// checksummed bytes. Needs [`Link::leave_checksums`].
    pub fn send_unsummed(
        &self,
        to: [u8; 6],
        packet: &[u8],
        start: usize,
        place: usize,
    ) -> anyhow::Result<()> {
        let mut virtio = [0; VIRTIO_BYTES];
        virtio[0] = VIRTIO_NEEDS_CHECKSUM;
        virtio[6..8].copy_from_slice(&((HEADER_BYTES + start) as u16).to_ne_bytes());
        virtio[8..10].copy_from_slice(&((place - start) as u16).to_ne_bytes());
        self.send_behind(&virtio, to, packet)
    }

    /// Sends a TCP packet that the kernel splits into segments if a device needs that (GSO). The checksum field has the
    /// sum of the pseudo header. Needs [`Link::leave_checksums`].
    /// - start: offset of the TCP header.
    /// - header: length of all headers.
    /// - bytes: data of each segment.
    pub fn send_segments(
        &self,
        to: [u8; 6],
        packet: &[u8],
        (start, header): (usize, usize),
        bytes: u16,
    ) -> anyhow::Result<()> {
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let words = [
            (HEADER_BYTES + header) as u16,
            bytes,
            (HEADER_BYTES + start) as u16,
            TCP_CHECKSUM as u16,
        ];
        let mut virtio = vec![VIRTIO_NEEDS_CHECKSUM, VIRTIO_TCP[usize::from(is_v6)]];
        virtio.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self.send_behind(&virtio, to, packet)
    }

    fn send_behind(&self, virtio: &[u8], to: [u8; 6], packet: &[u8]) -> anyhow::Result<()> {
        let ethertype = match packet.first().map(|first| first >> 4) {
            Some(6) => ETH_P_IPV6,
            _ => ETH_P_IP,
        };
        let ethertype = ethertype.to_be_bytes();
        let frame = [virtio, &to, &self.own, &ethertype, packet].concat();
        // SAFETY: the kernel reads the frame.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        ensure!(
            sent == frame.len() as isize,
            "send a frame: {}",
            io::Error::last_os_error()
        );
        Ok(())
    }

    /// Receives incoming IP packets for which `wanted` holds, until `expected` packets have arrived and then none for
    /// `quiet`. Returns fewer packets if not all arrive within [`PATIENCE`].
    pub fn receive(
        &self,
        wanted: impl Fn(&[u8]) -> bool,
        expected: usize,
        quiet: Duration,
    ) -> io::Result<Vec<Vec<u8>>> {
        let mut packets = Vec::new();
        let mut buffer = vec![0_u8; 65536];
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut end = Instant::now() + if expected > 0 { PATIENCE } else { quiet };
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // SAFETY: one pollfd, which outlives the call.
            if unsafe { libc::poll(&mut poll, 1, left.as_millis() as i32) } != 1 {
                return Ok(packets);
            }
            // SAFETY: the kernel writes at most the lengths given; all zeros is a valid sockaddr_ll.
            let (read, from) = unsafe {
                let mut from: libc::sockaddr_ll = zeroed();
                let mut bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                let read = libc::recvfrom(
                    poll.fd,
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                    (&raw mut from).cast(),
                    &mut bytes,
                );
                (read, from)
            };
            let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
            let is_ip = matches!(u16::from_be(from.sll_protocol), ETH_P_IP | ETH_P_IPV6);
            let start = self.virtio_bytes + HEADER_BYTES;
            let packet = buffer.get(start..read).unwrap_or_default();
            if is_ip && from.sll_pkttype != libc::PACKET_OUTGOING && wanted(packet) {
                packets.push(packet.to_vec());
                if packets.len() >= expected {
                    end = Instant::now() + quiet;
                }
            }
        }
    }
}
