// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's drop monitor: generic netlink, family NET_DM (net/core/drop_monitor.c). It reports each dropped packet
//! with its interface and first bytes. It has one user at a time, in the initial network namespace, with CAP_NET_ADMIN
//! and CAP_SYS_ADMIN.
//!
//! Hand-written, like the doctor's netlink: four requests and one kind of message need no library.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::net::if_::if_indextoname;
use nix::sys::socket::{
    bind, recv, send, setsockopt, socket, sockopt, AddressFamily, MsgFlags, NetlinkAddr, SockFlag,
    SockProtocol, SockType,
};
use nix::sys::time::TimeVal;

use super::drop::{flow_of, function_of, is_ip, Drop};

const FAMILY: &CStr = c"NET_DM";
/// Version, commands, group, attributes and mode of the generic netlink family NET_DM (linux/net_dropmon.h; the version
/// is in net/core/drop_monitor.c).
const VERSION: u8 = 2;
const COMMAND_CONFIG: u8 = 2;
const COMMAND_START: u8 = 3;
const COMMAND_STOP: u8 = 4;
const COMMAND_PACKET: u8 = 5;
const GROUP_ALERT: u32 = 1;
const ALERT_MODE: u16 = 1;
const SYMBOL: u16 = 3;
const IN_PORT: u16 = 4;
const PROTO: u16 = 6;
const PAYLOAD: u16 = 7;
const TRUNC_LEN: u16 = 9;
const ORIG_LEN: u16 = 10;
const QUEUE_LEN: u16 = 11;
const REASON: u16 = 23;
const PORT_INDEX: u16 = 0;
const PORT_NAME: u16 = 1;
const MODE_PACKET: u8 = 1;
/// Family, command and attributes of generic netlink's controller, which finds other families (linux/genetlink.h).
const CONTROL: u16 = 16;
const GETFAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const NLMSG_ERROR: u16 = 2;

/// Ethernet types, and lengths of Ethernet headers (linux/if_ether.h).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];
const ETHERNET_BYTES: usize = 14;
const TAG_BYTES: usize = 4;

const HEAD_BYTES: usize = 16 + 4;
const ATTRIBUTE_BYTES: usize = 4;
/// Maximum number of a packet's bytes that the kernel copies: room for an Ethernet header with up to two VLAN tags, and
/// for the headers that identify a flow.
const COPY_BYTES: u32 = 128;
/// Maximum number of dropped packets that wait in the kernel on each processor until they are reported.
const WAITING_PACKETS: u32 = 10_000;
const BUFFER_BYTES: usize = 1 << 16;
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// Reason for not starting the drop monitor.
pub enum Refusal {
    /// The kernel has no drop monitor.
    Absent,
    /// Another process uses the drop monitor.
    Busy,
    Failed(&'static str, Errno),
}

/// The running drop monitor; it stops when this value is dropped.
pub struct Monitor {
    fd: OwnedFd,
    family: u16,
    /// Number of socket overruns; each loses an unknown number of drops.
    pub overruns: u64,
}

/// Iterates over the attributes of a message from `at`: number and value.
fn attributes(bytes: &[u8], mut at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = bytes.get(at..at + ATTRIBUTE_BYTES)?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        // The two high bits are flags.
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = bytes.get(at + ATTRIBUTE_BYTES..at + length)?;
        at += length.next_multiple_of(4);
        Some((kind, value))
    })
}

fn find(bytes: &[u8], at: usize, wanted: u16) -> Option<&[u8]> {
    attributes(bytes, at)
        .find(|row| row.0 == wanted)
        .map(|row| row.1)
}

fn text(value: &[u8]) -> String {
    let end = value
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

fn put(message: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = (ATTRIBUTE_BYTES + value.len()) as u16;
    message.extend(length.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
    message.resize(message.len().next_multiple_of(4), 0);
}

fn message(family: u16, command: u8, version: u8) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
    let mut message = vec![0; 4];
    message.extend(family.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([command, version, 0, 0]);
    message
}

/// Parses one message of the monitor's multicast group; None if it reports no IP packet.
fn drop_of(message: &[u8]) -> Option<Drop> {
    if message.get(16) != Some(&COMMAND_PACKET) {
        return None;
    }
    let value = |kind| find(message, HEAD_BYTES, kind);
    let protocol = value(PROTO)?.try_into().ok().map(u16::from_ne_bytes)?;
    let payload = value(PAYLOAD).unwrap_or_default();
    let original = value(ORIG_LEN).and_then(|value| value.try_into().ok());
    let original = original.map_or(payload.len(), |four| u32::from_ne_bytes(four) as usize);
    if !is_ip(protocol.into()) {
        return None;
    }
    Some(Drop {
        place: function_of(&value(SYMBOL).map(text).unwrap_or_default()).to_owned(),
        reason: value(REASON).map(text).unwrap_or_default(),
        interface: value(IN_PORT).map(interface).unwrap_or_default(),
        flow: flow_of(network_header(payload, protocol, original)),
    })
}

/// Returns the name of an interface that the kernel reports by name or by number; empty if it is unknown.
/// - port: value of an attribute IN_PORT.
fn interface(port: &[u8]) -> String {
    if let Some(name) = find(port, 0, PORT_NAME) {
        return text(name);
    }
    let index = find(port, 0, PORT_INDEX).and_then(|value| value.try_into().ok());
    let name = index.and_then(|index| if_indextoname(u32::from_ne_bytes(index)).ok());
    name.map_or(String::new(), |name| name.to_string_lossy().into_owned())
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(two))
}

/// Returns the length of a packet as its IP header has it; None if the header's version is not that of the protocol.
fn told_bytes(packet: &[u8], protocol: u16) -> Option<usize> {
    match (protocol, packet.first()? >> 4) {
        (IPV4, 4) => number(packet, 2).map(usize::from),
        (IPV6, 6) => number(packet, 4).map(|rest| 40 + usize::from(rest)),
        _ => None,
    }
}

/// Returns the bytes from the IP header on. A payload may begin with an Ethernet header, which may have VLAN tags. An
/// address in an IP header may look like an Ethernet type, and one in an Ethernet header like an IP version. So a
/// payload whose first bytes are an IP header with the length of the whole payload counts as an IP packet.
/// - protocol: Ethernet type of the packet.
/// - original: length of the payload before the kernel cut it.
fn network_header(payload: &[u8], protocol: u16, original: usize) -> &[u8] {
    if told_bytes(payload, protocol) == Some(original) {
        return payload;
    }
    let mut end = ETHERNET_BYTES;
    while number(payload, end - 2).is_some_and(|kind| VLAN.contains(&kind)) {
        end += TAG_BYTES;
    }
    let packet = payload.get(end..).unwrap_or_default();
    let is_ethernet = number(payload, end - 2) == Some(protocol);
    match is_ethernet && told_bytes(packet, protocol).is_some() {
        true => packet,
        false => payload,
    }
}

impl Monitor {
    /// Starts the monitor.
    /// - take: true: first stops the monitor, if another process has started it.
    pub fn start(take: bool) -> Result<Monitor, Refusal> {
        let failed = |what| move |error| Refusal::Failed(what, error);
        let control = open(0).map_err(failed("a netlink socket"))?;
        let family = family(&control).map_err(|error| match error {
            Errno::ENOENT => Refusal::Absent,
            error => Refusal::Failed("the family NET_DM", error),
        })?;
        let fd = open(GROUP_ALERT).map_err(failed("the monitor's group"))?;
        let _ = setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BUFFER_BYTES);
        if take {
            // The request fails if no monitor is running.
            let _ = ask(&control, message(family, COMMAND_STOP, VERSION));
        }
        let mut config = message(family, COMMAND_CONFIG, VERSION);
        put(&mut config, ALERT_MODE, &[MODE_PACKET]);
        put(&mut config, TRUNC_LEN, &COPY_BYTES.to_ne_bytes());
        put(&mut config, QUEUE_LEN, &WAITING_PACKETS.to_ne_bytes());
        ask(&control, config).map_err(|error| match error {
            Errno::EBUSY => Refusal::Busy,
            error => Refusal::Failed("the monitor's configuration", error),
        })?;
        ask(&control, message(family, COMMAND_START, VERSION)).map_err(|error| match error {
            Errno::EAGAIN | Errno::EBUSY => Refusal::Busy,
            error => Refusal::Failed("the monitor's start", error),
        })?;
        Ok(Monitor {
            fd,
            family,
            overruns: 0,
        })
    }

    /// Waits for the monitor's next message, for at most `at_most`, and passes the drop in it to `told`.
    pub fn wait(&mut self, at_most: Duration, mut told: impl FnMut(Drop)) -> Result<(), Errno> {
        let patience = TimeVal::new(
            at_most.as_secs() as i64,
            i64::from(at_most.subsec_micros()).max(1),
        );
        setsockopt(&self.fd, sockopt::ReceiveTimeout, &patience)?;
        let mut bytes = [0; BUFFER_BYTES];
        match recv(self.fd.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(length) => drop_of(&bytes[..length]).into_iter().for_each(&mut told),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(Errno::ENOBUFS) => self.overruns += 1,
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl std::ops::Drop for Monitor {
    fn drop(&mut self) {
        if let Ok(control) = open(0) {
            let _ = ask(&control, message(self.family, COMMAND_STOP, VERSION));
        }
    }
}

fn open(groups: u32) -> Result<OwnedFd, Errno> {
    let fd = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkGeneric,
    )?;
    bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups))?;
    Ok(fd)
}

/// Sends a request; returns the last reply before its acknowledgement, empty without a reply.
fn ask(fd: &OwnedFd, mut request: Vec<u8>) -> Result<Vec<u8>, Errno> {
    let length = (request.len() as u32).to_ne_bytes();
    request[..length.len()].copy_from_slice(&length);
    send(fd.as_raw_fd(), &request, MsgFlags::empty())?;
    let mut answer = Vec::new();
    loop {
        let mut bytes = vec![0; BUFFER_BYTES];
        let received = recv(fd.as_raw_fd(), &mut bytes, MsgFlags::empty())?;
        bytes.truncate(received);
        if received < HEAD_BYTES {
            return Err(Errno::EBADMSG);
        }
        if u16::from_ne_bytes([bytes[4], bytes[5]]) != NLMSG_ERROR {
            answer = bytes;
            continue;
        }
        return match i32::from_ne_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]) {
            0 => Ok(answer),
            error => Err(Errno::from_raw(-error)),
        };
    }
}

fn family(fd: &OwnedFd) -> Result<u16, Errno> {
    let mut request = message(CONTROL, GETFAMILY, 1);
    put(&mut request, FAMILY_NAME, FAMILY.to_bytes_with_nul());
    let answer = ask(fd, request)?;
    let number = find(&answer, HEAD_BYTES, FAMILY_ID).ok_or(Errno::EBADMSG)?;
    let number = number.try_into().map_err(|_| Errno::EBADMSG)?;
    Ok(u16::from_ne_bytes(number))
}

/// Returns true if the kernel has the monitor; the query makes the kernel load the module.
pub fn exists() -> bool {
    open(0).is_ok_and(|fd| family(&fd).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_alert_is_read() {
        let mut alert = message(30, COMMAND_PACKET, VERSION);
        put(&mut alert, PROTO, &0x0800u16.to_ne_bytes());
        put(&mut alert, SYMBOL, b"nf_queue+0x1/0x2\0");
        let mut port = Vec::new();
        put(&mut port, PORT_NAME, b"lo\0");
        put(&mut alert, IN_PORT | 0x8000, &port);
        let packet = [
            0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 2,
        ];
        let ethernet = [&[0; 12][..], &[8, 0], &packet].concat();
        put(&mut alert, PAYLOAD, &ethernet);
        put(&mut alert, REASON, b"NOT_SPECIFIED\0");
        let drop = drop_of(&alert).unwrap();
        assert_eq!(
            (drop.place.as_str(), drop.reason.as_str()),
            ("nf_queue", "NOT_SPECIFIED")
        );
        assert_eq!(
            (drop.interface.as_str(), drop.flow.as_str()),
            ("lo", "udp 1.2.3.4:1 > 5.6.7.8:2")
        );
        // A message cut anywhere is parsed as far as it goes.
        for end in 0..alert.len() {
            let _ = drop_of(&alert[..end]);
        }
        alert[16] = COMMAND_STOP;
        assert_eq!(drop_of(&alert), None);
    }

    #[test]
    fn the_ip_header_is_found_behind_each_link() {
        // An address of 8.0.0.0/16 looks like the Ethernet type of IPv4.
        let mut four = vec![0; 28];
        (four[0], four[3], four[9]) = (0x45, 28, 17);
        (four[12], four[14], four[15]) = (8, 0x45, 1);
        let mut six = vec![0; 60];
        (six[0], six[5], six[6]) = (0x60, 20, 6);
        (six[12], six[13]) = (0x86, 0xdd);
        let addresses = [0x45, 0, 0, 28, 0, 1, 0x60, 0, 0, 0, 0, 2];
        for (packet, protocol) in [(four, IPV4), (six, IPV6)] {
            let kind = protocol.to_be_bytes();
            for tags in [
                &[][..],
                &[0x81, 0, 0, 5],
                &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6],
            ] {
                let frame = [&addresses[..], tags, &kind, &packet].concat();
                let found = |end| network_header(&frame[..end], protocol, frame.len());
                assert_eq!(found(frame.len()), packet);
                // A payload that the kernel has cut, and a frame with padding.
                assert_eq!(found(frame.len() - 4), &packet[..packet.len() - 4]);
                let padded = [&frame[..], &[0; 18]].concat();
                let found = network_header(&padded, protocol, padded.len());
                assert_eq!(found[..packet.len()], packet);
            }
            let found = network_header(&packet[..20], protocol, packet.len());
            assert_eq!(found, &packet[..20]);
            assert_eq!(network_header(&packet[..1], protocol, 1), &packet[..1]);
        }
    }
}
