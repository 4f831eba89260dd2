// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet sockets, raw sockets and NFLOG messages. All are opened in the namespace of the calling thread.

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::{bail, ensure, Context};
use testbed::packets::{force_receive_buffer, socket};

pub const ETHERTYPE_IPV4: u16 = 0x0800;
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Local experimental ethertype (IEEE 802) of marker frames: all frames before the marker have been handled.
pub const ETHERTYPE_MARKER: u16 = 0x88b5;
const ETHERNET_BYTES: usize = 14;
const BUFFER_BYTES: i32 = 64 << 20;
const READ_BYTES: usize = 1 << 17;

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
    /// Opens the socket. `ethertype` selects the received frames; 0 for none.
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

    /// Returns the IP packets of the frames received so far.
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
            if from.sll_pkttype != libc::PACKET_OUTGOING && frame.len() >= ETHERNET_BYTES {
                packets.push(frame[ETHERNET_BYTES..].to_vec());
            }
        }
    }

    /// Waits for data to receive.
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

/// A raw socket of an owner, for packets that include their IP header.
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

    /// Sends a packet to its own destination address. Returns false if the kernel refuses the packet.
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

/// A packet that passed an nft `log group` statement.
pub struct Logged {
    pub hook: u8,
    pub mark: u32,
    pub packet: Vec<u8>,
}

/// A netlink socket that receives the packets of nft's `log group` (linux/netfilter/nfnetlink_log.h).
pub struct Nflog {
    socket: OwnedFd,
}

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
        let mut message = ((NETLINK_HEADER_BYTES + body.len()) as u32)
            .to_ne_bytes()
            .to_vec();
        message.extend((NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG).to_ne_bytes());
        message.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
        message.extend([0; 8]);
        message.extend(body);
        // SAFETY: the kernel reads the message.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        ensure!(
            sent == message.len() as isize,
            "nflog: {}",
            io::Error::last_os_error()
        );
        let mut answer = [0_u8; 4096];
        // SAFETY: the kernel writes at most the buffer's length.
        let read = unsafe {
            libc::recv(
                self.socket.as_raw_fd(),
                answer.as_mut_ptr().cast(),
                answer.len(),
                0,
            )
        };
        ensure!(read >= 20, "nflog: no answer");
        let errno = i32::from_ne_bytes(answer[16..20].try_into().expect("4 bytes"));
        ensure!(
            errno == 0,
            "nflog: {}",
            io::Error::from_raw_os_error(-errno)
        );
        Ok(())
    }

    /// Returns the packets logged so far.
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
            _ => {}
        }
        attributes = &attributes[aligned(bytes).min(attributes.len())..];
    }
    logged
}
