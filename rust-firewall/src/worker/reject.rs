// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendto close
//! Replies of the policy's `reject`. NFQUEUE has no verdict for a reply. Therefore replies are sent by raw sockets, and
//! the packet is dropped. The replies, and the cases without a reply, are those of the kernel's nf_reject_ipv4.c,
//! nf_reject_ipv6.c and icmp.c: a RST (RFC 9293 section 3.10.7.1) or an ICMP error (RFC 792, RFC 4443). A reply's
//! source is the packet's destination address.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    sendto, socket, AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn,
    SockaddrIn6,
};

use crate::base::log::{failure_set, failure_set_start, Failure, LogExit};
use crate::engine::named;
use crate::packet::{self, Packet};
use crate::policy::{Reject as PolicyReject, RejectKind};

/// Maximum length of an ICMP error with its IP header in bytes (RFC 792, RFC 1812).
pub const IPV4_MAX: usize = 576;
/// Maximum length of an ICMPv6 error with its IP header in bytes (RFC 4443 section 2.4).
pub const IPV6_MAX: usize = 1280;

/// Time to live of a reply (IPDEFTTL).
const TTL: u8 = 64;
/// Flag "don't fragment" in the 16 bits of flags and fragment offset of the IPv4 header.
const IPV4_DF: u16 = 0x4000;
/// Bits of the packet's type of service that are copied to its ICMP error (RT_TOS).
const IPV4_TOS_KEPT: u8 = 0x1e;
/// Precedence of an ICMP error, IPTOS_PREC_INTERNETCONTROL (RFC 1812 section 4.3.2.5).
const IPV4_TOS_CONTROL: u8 = 0xc0;
/// Flag MSG_PROBE of sendto (include/linux/socket.h), which libc does not define. With it and MSG_CONFIRM, a call
/// without data sends nothing.
const PROBE_ONLY: libc::c_int = 0x10;
const TCP_FIN: u8 = 0x01;
const TCP_SYN: u8 = 0x02;
const TCP_RST: u8 = 0x04;
const TCP_ACK: u8 = 0x10;
const TCP_HEADER_BYTES: usize = packet::TCP_HEADER_BYTES as usize;
const ICMP_HEADER_BYTES: usize = packet::ICMP_HEADER_BYTES as usize;
const IPV4_HEADER_BYTES: usize = packet::IPV4_HEADER_BYTES as usize;
const IPV6_HEADER_BYTES: usize = packet::IPV6_HEADER_BYTES as usize;
/// Length of an IPv4 RST.
const RESET4_BYTES: usize = IPV4_HEADER_BYTES + TCP_HEADER_BYTES;
const PROTOCOL_ICMP: u8 = libc::IPPROTO_ICMP as u8;
const PROTOCOL_TCP: u8 = libc::IPPROTO_TCP as u8;
const PROTOCOL_ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const ICMP_ECHOREPLY: u8 = 0;
const ICMP_DEST_UNREACH: u8 = 3;
const ICMP_ECHO: u8 = 8;
const ICMP_TIMESTAMP: u8 = 13;
const ICMP_ADDRESSREPLY: u8 = 18;
const ICMPV6_DST_UNREACH: u8 = 1;
const ICMPV6_ECHO_REQUEST: u8 = 128;

/// Codes for `RejectKind::Icmpx` in ICMP and in ICMPv6, indexed by NFT_REJECT_ICMPX_* (nft_reject.c).
const ICMPX_CODES: [(u8, u8); 4] = [(0, 0), (3, 4), (1, 3), (13, 1)];

/// Result of sending a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectResult {
    Sent,
    /// No reply must be sent, for example because the packet is a RST, an ICMP error or a later fragment, its header is
    /// cut off, or one of its addresses is not unicast.
    NotDue,
    /// The kernel refused to send the reply.
    Failed,
}

pub const RESULT_COUNT: usize = RejectResult::Failed as usize + 1;

/// Raw sockets for replies, closed when dropped.
pub struct Reject {
    raw4: OwnedFd,
    /// Raw socket for IPv6; None if the system has no IPv6.
    raw6: Option<OwnedFd>,
}

fn be32_at(bytes: &[u8], offset: usize) -> u32 {
    let at = bytes.get(offset..).and_then(|bytes| bytes.first_chunk());
    at.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Adds bytes to a sum of 16-bit big-endian words (RFC 1071), and returns the new sum. The bytes must begin at an even
/// offset of the summed data.
fn sum_of(bytes: &[u8], sum: u32) -> u32 {
    bytes.chunks(2).fold(sum, |sum, word| {
        let low = word.get(1).copied().unwrap_or(0);
        let high = word.first().copied().unwrap_or(0);
        sum + u32::from(u16::from_be_bytes([high, low]))
    })
}

fn checksum_of(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// Returns the sum of the 16-bit words of a reply's pseudo header (addresses, protocol and length), for its checksum.
/// - addresses: the two addresses in any order, or both joined in the first slice.
fn pseudo_sum(addresses: (&[u8], &[u8]), protocol: u8, length: usize) -> u32 {
    let sum = u32::from(protocol) + length as u32;
    sum_of(addresses.0, sum_of(addresses.1, sum))
}

/// Overwrites bytes of a reply at an offset. The reply must be long enough.
fn put(reply: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(to) = reply.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

/// Returns true if an address may be the source or destination of a reply: it is neither unspecified, nor multicast,
/// nor 255.255.255.255.
fn is_unicast(address: &[u8]) -> bool {
    if let Ok(address) = <[u8; 4]>::try_from(address) {
        let address = Ipv4Addr::from(address);
        return !address.is_unspecified() && !address.is_broadcast() && !address.is_multicast();
    }
    <[u8; 16]>::try_from(address).is_ok_and(|address| {
        let address = Ipv6Addr::from(address);
        !address.is_multicast() && !address.is_unspecified()
    })
}

/// Reply that is being written: its buffer and current length.
struct Reply<'a> {
    bytes: &'a mut [u8; IPV6_MAX],
    length: usize,
}

impl Reply<'_> {
    /// Appends bytes to the reply. The buffer has room for every reply.
    fn extend(&mut self, bytes: &[u8]) {
        put(self.bytes, self.length, bytes);
        self.length += bytes.len();
    }

    /// Returns the bytes written from an offset on.
    fn written(&self, begin: usize) -> &[u8] {
        self.bytes.get(begin..self.length).unwrap_or_default()
    }
}

/// Writes the IP header of a reply.
/// - addresses: source and destination of the packet that is answered; the reply swaps them.
fn put_ip(
    addresses: (&[u8], &[u8]),
    protocol: u8,
    tos: u8,
    flags: u16,
    payload_bytes: usize,
    reply: &mut Reply,
) {
    let (source, destination) = addresses;
    if source.len() == 4 {
        let total = (IPV4_HEADER_BYTES + payload_bytes) as u16;
        reply.extend(&[0x45, tos]);
        reply.extend(&total.to_be_bytes());
        reply.extend(&[0, 0]);
        reply.extend(&flags.to_be_bytes());
        reply.extend(&[TTL, protocol, 0, 0]);
        reply.extend(destination);
        reply.extend(source);
        let checksum = checksum_of(sum_of(reply.written(0), 0));
        put(reply.bytes, 10, &checksum.to_be_bytes());
    } else {
        reply.extend(&[0x60, 0, 0, 0]);
        reply.extend(&(payload_bytes as u16).to_be_bytes());
        reply.extend(&[protocol, TTL]);
        reply.extend(destination);
        reply.extend(source);
    }
}

/// Returns the acknowledgement number of a RST that replies to a segment without ACK: the sequence number after the
/// segment's SYN, data and FIN (RFC 9293 section 3.10.7.1).
fn acknowledged(packet: &Packet, tcp: &[u8; TCP_HEADER_BYTES]) -> u32 {
    let header = u32::from(tcp[12] >> 4) * 4;
    let flags = u32::from(tcp[13] & TCP_SYN != 0) + u32::from(tcp[13] & TCP_FIN != 0);
    let data = packet
        .end
        .wrapping_sub(packet.l4_offset)
        .wrapping_sub(header);
    be32_at(tcp, 4).wrapping_add(flags).wrapping_add(data)
}

fn build_reset(packet: &Packet, addresses: (&[u8], &[u8]), reply: &mut Reply) -> Option<()> {
    let tcp = packet.bytes.get(packet.l4_offset as usize..)?;
    let tcp = tcp.first_chunk::<TCP_HEADER_BYTES>()?;
    if packet.protocol != PROTOCOL_TCP || packet.l4_offset == 0 {
        return None;
    }
    put_ip(addresses, PROTOCOL_TCP, 0, IPV4_DF, TCP_HEADER_BYTES, reply);
    let mut reset = [0; TCP_HEADER_BYTES];
    put(&mut reset, 0, tcp.get(2..4)?);
    put(&mut reset, 2, tcp.get(..2)?);
    reset[12] = ((TCP_HEADER_BYTES / 4) << 4) as u8;
    reset[13] = TCP_RST;
    if tcp[13] & TCP_ACK != 0 {
        put(&mut reset, 4, tcp.get(8..12)?);
    } else {
        put(&mut reset, 8, &acknowledged(packet, tcp).to_be_bytes());
        reset[13] |= TCP_ACK;
    }
    let sum = pseudo_sum(addresses, PROTOCOL_TCP, TCP_HEADER_BYTES);
    let checksum = checksum_of(sum_of(&reset, sum));
    put(&mut reset, 16, &checksum.to_be_bytes());
    reply.extend(&reset);
    Some(())
}

/// Returns true if a packet is or may be an ICMP error. An ICMP error gets no reply (RFC 1122 section 3.2.2, RFC 4443
/// section 2.4).
fn is_icmp_error(packet: &Packet) -> bool {
    let kind = packet.has_icmp.then_some(packet.icmp_type);
    match (packet.version, packet.protocol) {
        (6, PROTOCOL_ICMPV6) => kind.is_none_or(|kind| kind < ICMPV6_ECHO_REQUEST),
        (4, PROTOCOL_ICMP) => kind.is_none_or(|kind| {
            kind != ICMP_ECHOREPLY
                && kind != ICMP_ECHO
                && !(ICMP_TIMESTAMP..=ICMP_ADDRESSREPLY).contains(&kind)
        }),
        _ => false,
    }
}

fn build_unreachable(
    packet: &Packet,
    addresses: (&[u8], &[u8]),
    code: u8,
    reply: &mut Reply,
) -> Option<()> {
    let is_ipv4 = packet.version == 4;
    let most = match is_ipv4 {
        true => IPV4_MAX - IPV4_HEADER_BYTES - ICMP_HEADER_BYTES,
        false => IPV6_MAX - IPV6_HEADER_BYTES - ICMP_HEADER_BYTES,
    };
    let quoted = packet.bytes.get(..most).unwrap_or(packet.bytes);
    let length = ICMP_HEADER_BYTES + quoted.len();
    if is_icmp_error(packet) {
        return None;
    }
    let (protocol, kind, tos) = match is_ipv4 {
        true => {
            let tos = packet.bytes.get(1)? & IPV4_TOS_KEPT | IPV4_TOS_CONTROL;
            (PROTOCOL_ICMP, ICMP_DEST_UNREACH, tos)
        }
        false => (PROTOCOL_ICMPV6, ICMPV6_DST_UNREACH, 0),
    };
    put_ip(addresses, protocol, tos, 0, length, reply);
    let begin = reply.length;
    reply.extend(&[kind, code, 0, 0, 0, 0, 0, 0]);
    reply.extend(quoted);
    let sum = match is_ipv4 {
        true => 0,
        false => pseudo_sum(addresses, PROTOCOL_ICMPV6, length),
    };
    let checksum = checksum_of(sum_of(reply.written(begin), sum));
    put(reply.bytes, begin + 2, &checksum.to_be_bytes());
    Some(())
}

/// Returns the code of the ICMP or ICMPv6 error that answers a packet of an IP version; 0 for a RST.
pub fn code(how: &PolicyReject, version: u8) -> u8 {
    if how.kind != RejectKind::Icmpx {
        return how.code;
    }
    let codes = ICMPX_CODES.get(usize::from(how.code)).copied();
    let (code, code6) = codes.unwrap_or_default();
    if version == 4 {
        code
    } else {
        code6
    }
}

/// Returns the source and destination address of a packet; None if it may not be answered: it is a later fragment, or
/// an address is not unicast.
fn ends_of<'a>(packet: &Packet<'a>) -> Option<(&'a [u8], &'a [u8])> {
    let addresses = packet::addresses(packet)?;
    let is_due = !packet.later_fragment && is_unicast(addresses.0) && is_unicast(addresses.1);
    is_due.then_some(addresses)
}

/// Returns true if a packet is a RST, which gets no reply.
fn is_reset(packet: &Packet) -> bool {
    let flags = packet.bytes.get(packet.l4_offset as usize + 13);
    packet.protocol == PROTOCOL_TCP && flags.is_some_and(|flags| flags & TCP_RST != 0)
}

/// Builds the reply to a packet, from the reply's IP header on, without side effects. Returns the reply's length in
/// bytes; 0 = no reply must be sent.
pub fn build(how: &PolicyReject, packet: &Packet, bytes: &mut [u8; IPV6_MAX]) -> usize {
    let mut reply = Reply { bytes, length: 0 };
    match build_due(how, packet, &mut reply) {
        Some(()) => reply.length,
        None => 0,
    }
}

/// Sets the sequence number of a RST, and removes its acknowledgement. The RST then depends only on the packet's
/// addresses and ports, and the sequence number (RFC 9293 section 3.10.7.4).
/// - onward: true if addresses and ports must be swapped, so that the RST goes to the packet's destination.
fn renumber(reset: &mut [u8], sequence: u32, onward: bool) {
    let addresses_at = match reset.len() {
        RESET4_BYTES => IPV4_HEADER_BYTES - 8,
        _ => IPV6_HEADER_BYTES - 32,
    };
    let (ip, tcp) = reset.split_at_mut(reset.len() - TCP_HEADER_BYTES);
    let addresses = ip.get_mut(addresses_at..).unwrap_or_default();
    if onward {
        addresses.rotate_left(addresses.len() / 2);
        tcp.get_mut(..4).unwrap_or_default().rotate_left(2);
    }
    put(tcp, 4, &sequence.to_be_bytes());
    put(tcp, 8, &[0; 4]);
    put(tcp, 13, &[TCP_RST]);
    put(tcp, 16, &[0; 2]);
    let sum = pseudo_sum((addresses, &[]), PROTOCOL_TCP, TCP_HEADER_BYTES);
    let checksum = checksum_of(sum_of(tcp, sum));
    put(tcp, 16, &checksum.to_be_bytes());
}

/// Builds a RST to a packet's destination that appears to come from the packet's source, without side effects. Returns
/// the RST's length in bytes; 0 = no RST must be sent.
/// - sequence: sequence number that the destination expects next.
pub fn build_onward(packet: &Packet, sequence: u32, bytes: &mut [u8; IPV6_MAX]) -> usize {
    let length = build(&named::RST, packet, bytes);
    if let Some(reset @ [_, ..]) = bytes.get_mut(..length) {
        renumber(reset, sequence, true);
    }
    length
}

/// Builds a RST to the source of a RST packet that appears to come from that packet's destination, without side
/// effects. Returns the RST's length in bytes; 0 = no RST must be sent.
/// - sequence: sequence number that the source expects next.
pub fn build_back(packet: &Packet, sequence: u32, bytes: &mut [u8; IPV6_MAX]) -> usize {
    let mut reply = Reply { bytes, length: 0 };
    let ends = ends_of(packet);
    let Some(()) = ends.and_then(|ends| build_reset(packet, ends, &mut reply)) else {
        return 0;
    };
    let length = reply.length;
    if let Some(reset) = bytes.get_mut(..length) {
        renumber(reset, sequence, false);
    }
    length
}

fn build_due(how: &PolicyReject, packet: &Packet, reply: &mut Reply) -> Option<()> {
    let addresses = ends_of(packet)?;
    match (how.kind, packet.version) {
        (RejectKind::TcpReset, _) if is_reset(packet) => None,
        (RejectKind::TcpReset, _) => build_reset(packet, addresses, reply),
        (RejectKind::Icmp, 4) | (RejectKind::Icmpv6, 6) | (RejectKind::Icmpx, _) => {
            let code = code(how, packet.version);
            build_unreachable(packet, addresses, code, reply)
        }
        _ => None,
    }
}

fn open_socket(domain: AddressFamily) -> Result<Option<OwnedFd>, Failure> {
    let flags = SockFlag::SOCK_CLOEXEC;
    match socket(domain, SockType::Raw, flags, SockProtocol::Raw) {
        Ok(socket) => Ok(Some(socket)),
        Err(Errno::EAFNOSUPPORT) if domain == AddressFamily::Inet6 => Ok(None),
        Err(Errno::EPERM) => Err(failure_set(
            LogExit::Capability,
            "CAP_NET_RAW is missing, and the policy uses reject: run as root or with sudo, \
             or give the program the capability (setcap cap_net_admin,cap_net_raw+ep)",
        )),
        Err(error) => Err(failure_set_start("socket", error)),
    }
}

/// Opens the raw sockets for replies. Fails with `LogExit::Capability` if CAP_NET_RAW is missing.
pub fn open() -> Result<Reject, Failure> {
    let missing = || failure_set_start("socket", Errno::EAFNOSUPPORT);
    Ok(Reject {
        raw4: open_socket(AddressFamily::Inet)?.ok_or_else(missing)?,
        raw6: open_socket(AddressFamily::Inet6)?,
    })
}

/// Returns true if an IPv4 address is a broadcast address in the kernel's routes. A socket without SO_BROADCAST may not
/// send to such an address (EACCES). With MSG_PROBE and MSG_CONFIRM the kernel checks this, but sends nothing. The raw
/// socket is used, because a UDP socket would be bound to a port on all addresses.
fn is_broadcast(reject: &Reject, address: [u8; 4]) -> bool {
    let to = SockaddrIn::from(SocketAddrV4::new(address.into(), 0));
    let flags = MsgFlags::from_bits_retain(PROBE_ONLY | libc::MSG_CONFIRM);
    sendto(reject.raw4.as_raw_fd(), &[], &to, flags) == Err(Errno::EACCES)
}

fn send4(reject: &Reject, reply: &[u8], to: [u8; 4]) -> Result<usize, Errno> {
    let to = SockaddrIn::from(SocketAddrV4::new(to.into(), 0));
    sendto(reject.raw4.as_raw_fd(), reply, &to, MsgFlags::MSG_DONTWAIT)
}

fn send6(reject: &Reject, reply: &[u8], to: [u8; 16], interface: u32) -> Result<usize, Errno> {
    let to = Ipv6Addr::from(to);
    let scope = if to.is_unicast_link_local() {
        interface
    } else {
        0
    };
    let to = SockaddrIn6::from(SocketAddrV6::new(to, 0, 0, scope));
    let raw6 = reject.raw6.as_ref().ok_or(Errno::EBADF)?;
    sendto(raw6.as_raw_fd(), reply, &to, MsgFlags::MSG_DONTWAIT)
}

/// Sends a reply to the address `to`, the source or destination of a packet. Sends nothing if the reply is empty, or if
/// the packet's destination is a broadcast address.
fn send_built(
    reject: &Reject,
    packet: &Packet,
    reply: &[u8],
    to: &[u8],
    interface: u32,
) -> RejectResult {
    let destination = <[u8; 4]>::try_from(packet::addresses(packet).unwrap_or_default().1);
    if reply.is_empty() || destination.is_ok_and(|address| is_broadcast(reject, address)) {
        return RejectResult::NotDue;
    }
    let sent = match (<[u8; 4]>::try_from(to), <[u8; 16]>::try_from(to)) {
        (Ok(to), _) => send4(reject, reply, to),
        (_, Ok(to)) => send6(reject, reply, to, interface),
        _ => return RejectResult::NotDue,
    };
    match sent {
        Ok(_) => RejectResult::Sent,
        Err(_) => RejectResult::Failed,
    }
}

/// Sends the reply to a packet's source, without blocking.
/// - packet: result of `packet::parse`, which must not have found it malformed.
/// - interface: index of the interface at which the packet arrived or by which it leaves; needed for a link-local
///   address.
pub fn reply(reject: &Reject, how: &PolicyReject, packet: &Packet, interface: u32) -> RejectResult {
    let mut bytes = [0; IPV6_MAX];
    let length = build(how, packet, &mut bytes);
    let to = packet::addresses(packet).unwrap_or_default().0;
    let reply = bytes.get(..length).unwrap_or_default();
    send_built(reject, packet, reply, to, interface)
}

/// Sends a RST to a packet's destination, without blocking. It appears to come from the packet's source.
/// - sequence: sequence number that the destination expects next.
/// - interface: index of the interface by which the packet leaves or at which it arrived.
pub fn reset_receiver(
    reject: &Reject,
    packet: &Packet,
    sequence: u32,
    interface: u32,
) -> RejectResult {
    let mut bytes = [0; IPV6_MAX];
    let length = build_onward(packet, sequence, &mut bytes);
    let to = packet::addresses(packet).unwrap_or_default().1;
    let reset = bytes.get(..length).unwrap_or_default();
    send_built(reject, packet, reset, to, interface)
}

/// Sends a RST to the source of a RST packet, without blocking. It appears to come from that packet's destination.
/// - sequence: sequence number that the source expects next.
/// - interface: index of the interface through which the source is reached.
pub fn reset_sender(
    reject: &Reject,
    packet: &Packet,
    sequence: u32,
    interface: u32,
) -> RejectResult {
    let mut bytes = [0; IPV6_MAX];
    let length = build_back(packet, sequence, &mut bytes);
    let to = packet::addresses(packet).unwrap_or_default().0;
    let reset = bytes.get(..length).unwrap_or_default();
    send_built(reject, packet, reset, to, interface)
}
