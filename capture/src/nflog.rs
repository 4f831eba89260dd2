// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that firewall rules log to a group (nft `log group N`, iptables `-j NFLOG`). The kernel sends each packet in
//! a netlink message of its own (<linux/netfilter/nfnetlink_log.h>), with a sequence number and the rule's prefix; a
//! datagram may have several messages. The packet's comment is the prefix. If the prefix begins like the comments of
//! `fwctl record`, the packet's metadata is appended in their form, for `fwctl diff`.

use std::cell::Cell;
use std::fmt::Write;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::frame::COMMENT_MOST;
use crate::look::checked;
use crate::packet::{Origin, Packet};
use crate::socket::{self, Socket, Statistics};
use crate::source::{Ready, Source, WAIT};

/// Maximum message size: a packet of 64 KiB and a few attributes.
const MESSAGE_BYTES: usize = 65_536 + 4096;
/// Length of nlmsghdr.
const HEADER_BYTES: usize = 16;
/// Length of nlmsghdr and nfgenmsg.
const HEAD_BYTES: usize = HEADER_BYTES + 4;
const SUBSYSTEM: u16 = (libc::NFNL_SUBSYS_ULOG as u16) << 8;
const MESSAGE_PACKET: u16 = SUBSYSTEM;
const MESSAGE_CONFIG: u16 = SUBSYSTEM | 1;
// Attributes of a configuration, and their values.
const CONFIG_COMMAND: u16 = 1;
const CONFIG_MODE: u16 = 2;
const CONFIG_THRESHOLD: u16 = 5;
const CONFIG_FLAGS: u16 = 6;
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const NUMBERED: u16 = 1;
// Attributes of a packet.
const MARK: u16 = 2;
const TIMESTAMP: u16 = 3;
const INPUT: u16 = 4;
const OUTPUT: u16 = 5;
const PAYLOAD: u16 = 9;
const PREFIX: u16 = 10;
const USER: u16 = 11;
const SEQUENCE: u16 = 12;
const GROUP: u16 = 14;
/// Start of a rule's prefix that requests the packet's metadata in the comment. Comments of `fwctl record` begin with
/// it, too.
const COMMENT_BEGIN: &str = "twinwall:";
/// Size of struct ifreq, the argument of SIOCGIFNAME (<linux/if.h>).
const IFREQ_BYTES: usize = 40;
/// Index of the last word of SO_MEMINFO (<linux/sock_diag.h>): messages dropped for lack of room.
const MEMINFO_DROPS: usize = 8;
const SO_MEMINFO: i32 = 55;

pub struct Nflog {
    socket: OwnedFd,
    datagram: Vec<u8>,
    /// Byte range in `datagram` of the messages that are not taken yet; empty: no message is waiting.
    left: Range<usize>,
    /// Comment of the packet that was taken last.
    comment: String,
    snap_bytes: usize,
    /// Sequence number expected next; None before the first packet.
    next: Option<u32>,
    /// Number of missing sequence numbers.
    gaps: u64,
    is_shut: Cell<bool>,
    seen: u64,
    told: Statistics,
}

fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Iterates over attributes as (type, value); stops at a truncated attribute.
fn attributes(mut left: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let head = left.first_chunk::<4>()?;
        let length = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]) & 0x3fff;
        let value = left.get(4..length)?;
        left = left.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Decodes a time of seconds and microseconds in network order to nanoseconds.
fn time_ns(value: &[u8]) -> Option<u64> {
    let (seconds, rest) = value.split_first_chunk::<8>()?;
    let micro = rest.first_chunk::<8>()?;
    let seconds = u64::from_be_bytes(*seconds).checked_mul(1_000_000_000)?;
    seconds.checked_add(u64::from_be_bytes(*micro).checked_mul(1000)?)
}

/// Returns the rule's prefix up to the first zero or invalid byte, without white space at the end.
fn text(value: &[u8]) -> &str {
    let value = value.split(|byte| *byte == 0).next().unwrap_or_default();
    let valid = value.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    valid.trim_end()
}

/// Returns the packet's whole length from its IP header. The kernel sends only the first bytes of a packet, as the
/// rule's `snaplen` and CONFIG_MODE say.
fn original(bytes: &[u8]) -> u32 {
    let field = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    let number = |at: usize| field(at).map_or(0, |two| u32::from(u16::from_be_bytes(*two)));
    let told = match bytes.first().map(|byte| byte >> 4) {
        Some(4) => number(2),
        Some(6) => 40 + number(4),
        _ => 0,
    };
    told.max(bytes.len() as u32)
}

/// Returns the first of a datagram's messages; all bytes if the length in the message's header is invalid.
fn first(messages: &[u8]) -> &[u8] {
    let told = messages.first_chunk().map(|four| u32::from_ne_bytes(*four));
    let message = told.and_then(|told| messages.get(..told as usize));
    let whole = message.filter(|message| message.len() >= HEADER_BYTES);
    whole.unwrap_or(messages)
}

/// Returns the attributes of the packet in a message; empty if the message has no packet.
fn body(message: &[u8]) -> &[u8] {
    match message.get(4..6) == Some(&MESSAGE_PACKET.to_ne_bytes()) {
        true => message.get(HEAD_BYTES..).unwrap_or_default(),
        false => &[],
    }
}

/// Appends a value without spaces: spaces, percent signs and unprintable bytes become %XX.
fn put_value(out: &mut String, bytes: &[u8]) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| match byte {
        b'%' | 0..=b' ' | 0x7f.. => write!(out, "%{byte:02x}"),
        _ => write!(out, "{}", char::from(*byte)),
    })
}

/// Appends `field` (such as ` iif=`) and an interface's present name; nothing if the interface is gone. The sandbox
/// allows this ioctl.
fn put_interface(out: &mut String, fd: i32, field: &str, index: u32) -> std::fmt::Result {
    let mut request = [0u8; IFREQ_BYTES];
    request[16..20].copy_from_slice(&index.to_ne_bytes());
    // SAFETY: the argument has the size of struct ifreq, of which the kernel reads the index and writes the name.
    let asked = unsafe { libc::ioctl(fd, libc::SIOCGIFNAME, request.as_mut_ptr()) };
    if asked != 0 {
        return Ok(());
    }
    let name = request[..16].split(|byte| *byte == 0).next();
    out.push_str(field);
    put_value(out, name.unwrap_or_default())
}

/// Replaces `out` by the comment of a packet: its rule's prefix, and its metadata if the prefix begins like a comment
/// of `fwctl record`.
/// - body: attributes of the packet.
fn put_comment(out: &mut String, fd: i32, body: &[u8]) {
    let prefix = attributes(body).find(|(kind, _)| *kind == PREFIX);
    out.clear();
    out.push_str(prefix.map_or("", |(_, value)| text(value)));
    if !out.starts_with(COMMENT_BEGIN) {
        return;
    }
    for (kind, value) in attributes(body) {
        let Some(number) = word(value) else {
            continue;
        };
        let _ = match kind {
            MARK => write!(out, " mark={number:#x}"),
            USER => write!(out, " uid={number}"),
            GROUP => write!(out, " gid={number}"),
            INPUT => put_interface(out, fd, " iif=", number),
            OUTPUT => put_interface(out, fd, " oif=", number),
            _ => Ok(()),
        };
    }
}

impl Nflog {
    /// Subscribes to the group. Fails with EPERM without CAP_NET_ADMIN, or if another program has subscribed.
    pub fn new(group: u16, buffer_bytes: usize, snap_bytes: usize) -> io::Result<Nflog> {
        // SAFETY: socket(2) touches no memory; the descriptor is new and owned from here on.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            let family = libc::NETLINK_NETFILTER;
            OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_NETLINK, kind, family))?)
        };
        let size = buffer_bytes.min(i32::MAX as usize) as i32;
        let (fd, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
        socket::set(fd, level, libc::SO_RCVBUFFORCE, &size)
            .or_else(|_| socket::set(fd, level, libc::SO_RCVBUF, &size))?;
        let mut nflog = Nflog {
            socket,
            datagram: vec![0; MESSAGE_BYTES],
            left: 0..0,
            comment: String::with_capacity(COMMENT_MOST),
            snap_bytes,
            next: None,
            is_shut: Cell::new(false),
            gaps: 0,
            seen: 0,
            told: Statistics::default(),
        };
        nflog.configure(group, CONFIG_COMMAND, &[BIND])?;
        // One packet per datagram, so that the kernel's count of dropped datagrams counts packets. Packets that were
        // logged before come in the datagram of the next packet.
        nflog.configure(group, CONFIG_THRESHOLD, &1u32.to_be_bytes())?;
        nflog.configure(group, CONFIG_FLAGS, &NUMBERED.to_be_bytes())?;
        // Packets may arrive from BIND on, since the kernel's default mode copies them; `configure` skips them.
        let range = (snap_bytes as u32).min(0xffff).to_be_bytes();
        let mode = [range[0], range[1], range[2], range[3], COPY_PACKET, 0];
        nflog.configure(group, CONFIG_MODE, &mode)?;
        Ok(nflog)
    }

    /// Sends a setting of a group and waits for the kernel's result; skips packets that come before the result.
    fn configure(&mut self, group: u16, kind: u16, value: &[u8]) -> io::Result<()> {
        let mut out = vec![0; 16];
        out[4..6].copy_from_slice(&MESSAGE_CONFIG.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        out[6..8].copy_from_slice(&flags.to_ne_bytes());
        out.extend_from_slice(&[libc::AF_UNSPEC as u8, libc::NFNETLINK_V0 as u8]);
        out.extend_from_slice(&group.to_be_bytes());
        attribute(&mut out, kind, value);
        let length = out.len() as u32;
        out[..4].copy_from_slice(&length.to_ne_bytes());
        // SAFETY: send(2) reads the message by its length.
        let sent = unsafe {
            let at = out.as_ptr().cast();
            libc::send(self.socket.as_raw_fd(), at, out.len(), 0)
        };
        checked(sent as i32)?;
        loop {
            let length = self.receive(0)?;
            let message = &self.datagram[..length];
            let (kind, code) = (message.get(4..6), message.get(16..20));
            let is_answer = kind == Some(&(libc::NLMSG_ERROR as u16).to_ne_bytes());
            if let (true, Some(code)) = (is_answer, code.and_then(|code| code.first_chunk())) {
                return match i32::from_ne_bytes(*code) {
                    0 => Ok(()),
                    code => Err(io::Error::from_raw_os_error(-code)),
                };
            }
        }
    }

    /// Receives the next datagram; returns its length. If no datagram is waiting, returns 0 if MSG_DONTWAIT is in
    /// `flags`, otherwise waits.
    fn receive(&mut self, flags: i32) -> io::Result<usize> {
        loop {
            // SAFETY: recv(2) writes at most the buffer's length.
            let received = unsafe {
                let (at, bytes) = (self.datagram.as_mut_ptr().cast(), self.datagram.len());
                libc::recv(self.socket.as_raw_fd(), at, bytes, flags)
            };
            match checked(received as i32) {
                Ok(length) => return Ok(length as usize),
                // Reported once after dropped messages, which `statistics` counts.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => (),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
    }

    /// Counts the sequence numbers that are missing before the waiting packet. Returns true if there are any.
    fn is_behind_gap(&mut self) -> bool {
        let body = body(first(&self.datagram[self.left.clone()]));
        let sequence = attributes(body).find(|(kind, _)| *kind == SEQUENCE);
        let Some(number) = sequence.and_then(|(_, value)| word(value)) else {
            return false;
        };
        let missing = number.wrapping_sub(self.next.unwrap_or(number));
        self.gaps += u64::from(missing);
        self.next = Some(number.wrapping_add(1));
        missing > 0
    }

    /// Returns the kernel's count of messages dropped for lack of room.
    fn drops(&self) -> io::Result<u64> {
        let mut words = [0u32; MEMINFO_DROPS + 1];
        let (fd, level) = (self.socket.as_raw_fd(), libc::SOL_SOCKET);
        // SAFETY: every content is valid.
        unsafe { socket::get(fd, level, SO_MEMINFO, &mut words)? };
        Ok(u64::from(words[MEMINFO_DROPS]))
    }
}

impl Source for Nflog {
    fn ready(&mut self) -> io::Result<Ready> {
        if self.left.is_empty() {
            self.left = 0..self.receive(libc::MSG_DONTWAIT)?;
        }
        if self.left.is_empty() {
            match socket::wait(self.socket.as_raw_fd(), WAIT.as_millis() as i32) {
                // Reported once after dropped messages, as in `receive`.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => (),
                other => other?,
            }
            self.left = 0..self.receive(libc::MSG_DONTWAIT)?;
        }
        Ok(match self.left.is_empty() {
            true => Ready::Nothing,
            false => Ready::Packets {
                losing: self.is_behind_gap(),
            },
        })
    }

    fn take(&mut self, mut each: impl FnMut(&Packet)) {
        let message = first(&self.datagram[self.left.clone()]);
        let next = self.left.start + message.len().next_multiple_of(4);
        self.left.start = next.min(self.left.end);
        let body = body(message);
        if body.is_empty() {
            return;
        }
        put_comment(&mut self.comment, self.socket.as_raw_fd(), body);
        let mut packet = Packet {
            time_ns: 0,
            original: 0,
            bytes: &[],
            tag: None,
            origin: Origin::default(),
            comment: &self.comment,
        };
        for (kind, value) in attributes(body) {
            match kind {
                TIMESTAMP => packet.time_ns = time_ns(value).unwrap_or(0),
                PAYLOAD => {
                    packet.original = original(value);
                    packet.bytes = &value[..value.len().min(self.snap_bytes)];
                }
                _ => (),
            }
        }
        if packet.time_ns == 0 {
            // The kernel sends no time for outgoing packets.
            packet.time_ns = now_ns();
        }
        each(&packet);
        self.seen += 1;
    }

    /// Counts drops by missing sequence numbers. After the last packet no number reveals a gap, so at the end the
    /// kernel's drop count is used, too.
    fn statistics(&mut self) -> io::Result<Statistics> {
        let drops = match self.is_shut.get() && self.left.is_empty() {
            true => self.gaps.max(self.drops()?),
            false => self.gaps,
        };
        let all = Statistics {
            packets: self.seen + drops,
            drops,
        };
        let told = std::mem::replace(&mut self.told, all);
        Ok(Statistics {
            packets: all.packets - told.packets,
            drops: all.drops - told.drops,
        })
    }

    /// Drops all further messages by a filter, since leaving the group needs CAP_NET_ADMIN.
    fn shut(&self) -> io::Result<()> {
        self.is_shut.set(true);
        socket::shut(self.socket.as_raw_fd())
    }

    fn socket(&self) -> Option<&Socket> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_end_where_they_are_cut_off() {
        let mut out = Vec::new();
        attribute(&mut out, PREFIX, b"refused: \0");
        attribute(&mut out, SEQUENCE, &7u32.to_be_bytes());
        let whole: Vec<_> = attributes(&out).collect();
        assert_eq!(
            whole,
            [(PREFIX, &b"refused: \0"[..]), (SEQUENCE, &[0, 0, 0, 7])]
        );
        for length in 0..out.len() {
            assert!(attributes(&out[..length]).count() < 2);
        }
        for broken in [[0, 0, 1, 0], [3, 0, 1, 0], [255, 255, 1, 0]] {
            assert_eq!(attributes(&broken).count(), 0);
        }
    }

    fn message(kind: u16, attributes: &[u8]) -> Vec<u8> {
        let length = (HEAD_BYTES + attributes.len()) as u32;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend_from_slice(&kind.to_ne_bytes());
        message.resize(HEAD_BYTES, 0);
        message.extend_from_slice(attributes);
        message
    }

    #[test]
    fn a_datagram_may_have_several_packets() {
        let logged = |payload: &[u8], number: Option<u32>| {
            let mut out = Vec::new();
            if let Some(number) = number {
                attribute(&mut out, SEQUENCE, &number.to_be_bytes());
            }
            attribute(&mut out, PAYLOAD, payload);
            message(MESSAGE_PACKET, &out)
        };
        let datagram = [
            logged(b"abcd", None),
            logged(b"efgh", Some(7)),
            logged(b"ijkl", Some(9)),
            message(libc::NLMSG_DONE as u16, &[]),
        ]
        .concat();
        let mut nflog = Nflog {
            socket: std::fs::File::open("/dev/null").unwrap().into(),
            left: 0..datagram.len(),
            datagram,
            comment: String::new(),
            snap_bytes: 64,
            next: None,
            gaps: 0,
            is_shut: Cell::new(false),
            seen: 0,
            told: Statistics::default(),
        };
        let mut taken = Vec::new();
        while !nflog.left.is_empty() {
            let losing = nflog.ready().unwrap() == Ready::Packets { losing: true };
            nflog.take(|packet| taken.push((packet.bytes.to_vec(), losing)));
        }
        let wanted = [(b"abcd", false), (b"efgh", false), (b"ijkl", true)];
        assert_eq!(
            taken,
            wanted.map(|(bytes, losing)| (bytes.to_vec(), losing))
        );
        let all = nflog.statistics().unwrap();
        assert_eq!((all.packets, all.drops), (4, 1));
    }

    #[test]
    fn a_message_whose_length_is_wrong_is_the_last() {
        let mut broken = message(MESSAGE_PACKET, &[0; 8]);
        for length in [0, 15, 29, u32::MAX] {
            broken[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(first(&broken), broken);
        }
        assert_eq!(first(&broken[..3]), &broken[..3]);
    }

    #[test]
    fn a_prefix_is_text_up_to_its_end() {
        assert_eq!(text(b"refused: \0xyz"), "refused:");
        assert_eq!(text(b"a\xc3\xa4\xffb"), "a\u{e4}");
        assert_eq!(text(b""), "");
    }

    #[test]
    fn a_comment_with_metadata_has_it_all() {
        let mut body = Vec::new();
        attribute(&mut body, MARK, &0x1fu32.to_be_bytes());
        attribute(&mut body, OUTPUT, &1u32.to_be_bytes());
        attribute(&mut body, USER, &1000u32.to_be_bytes());
        // SAFETY: socket(2) touches no memory.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        let mut out = String::new();
        for (prefix, wanted) in [
            (
                "twinwall: ct=new",
                "twinwall: ct=new mark=0x1f oif=lo uid=1000",
            ),
            ("refused: ", "refused:"),
        ] {
            let mut whole = body.clone();
            attribute(&mut whole, PREFIX, prefix.as_bytes());
            put_comment(&mut out, fd, &whole);
            assert_eq!(out, wanted);
        }
        put_value(&mut out, b" %\xff").unwrap();
        assert!(out.ends_with("%20%25%ff"), "{out}");
    }

    #[test]
    fn the_header_tells_the_length_of_a_packet_that_was_cut() {
        let mut header = [0; 20];
        (header[0], header[2]) = (0x45, 1);
        assert_eq!(original(&header), 256);
        (header[0], header[5]) = (0x60, 9);
        assert_eq!(original(&header), 49);
        header[5] = 0;
        assert_eq!(original(&[header, [0; 20], [0; 20]].concat()), 60);
        assert_eq!(original(&[]), 0);
    }

    #[test]
    fn a_time_that_is_none_is_left_out() {
        let mut bytes = 5u64.to_be_bytes().to_vec();
        bytes.extend(7u64.to_be_bytes());
        assert_eq!(time_ns(&bytes), Some(5_000_007_000));
        assert_eq!(time_ns(&[0xff; 16]), None);
        assert_eq!(time_ns(&bytes[..15]), None);
    }
}
