// SPDX-License-Identifier: GPL-2.0-or-later
//! What a queue is made of: settings, packets, and what each backend holds open.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use sys_bindings::{
    mnl_socket, nfq_handle, nfq_q_handle, NFQA_CFG_F_CONNTRACK, NFQA_CFG_F_FAIL_OPEN,
    NFQA_CFG_F_GSO, NFQA_CFG_F_UID_GID,
};

use crate::queue::socket::QueueSocket;
pub use crate::spec::option::QueueKind;

/// Room for NFQA_CT, if it is asked for.
pub const CONNTRACK_BYTES: u64 = 1024;
/// nlmsghdr and nfgenmsg, with which every message begins.
pub const MESSAGE_BYTES: usize = 20;
/// Room for a configuration request.
pub const REQUEST_BYTES: usize = 64;
/// Bytes of a verdict message with a mark.
pub const VERDICT_BYTES: usize = 40;
/// NFQA_CFG_F_*: all that are ever asked for.
pub const FLAGS_ALL: u32 =
    NFQA_CFG_F_FAIL_OPEN | NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_GSO | NFQA_CFG_F_UID_GID;
/// nlmsg_seq of a verdict on a gap; that of others is 0.
pub const GAP_SEQUENCE: u32 = 1;
/// The pause when the kernel has no room for verdicts.
pub const PAUSE_NS: i64 = 1_000_000;
/// Number of attempts at sending them, where a caller waits for the end.
pub const TRIES_MAX: u32 = 1000;

/// A uid, gid or ct_info that the kernel didn't tell.
pub const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    pub number: u16,
    pub kind: QueueKind,
    /// Bytes of a packet to copy; 0 = metadata only.
    pub copy_bytes: u32,
    /// Messages a receive call can yield, 1..verdict::PACKETS_MAX.
    pub batch: u32,
    /// Bytes of a slot of the arena, see `queue::socket::slot_bytes`.
    pub slot_bytes: u64,
    /// Bytes; 0 = the kernel's default.
    pub receive_buffer: u32,
    /// A smaller one is a failure, not a warning.
    pub receive_buffer_required: bool,
    /// Packets.
    pub queue_length: u32,
    /// NFQA_CFG_F_GSO.
    pub gso: bool,
    /// NFQA_CFG_F_FAIL_OPEN.
    pub fail_open: bool,
    /// NFQA_CFG_F_UID_GID.
    pub uid_gid: bool,
    /// NFQA_CFG_F_CONNTRACK, or the queue is not opened.
    pub conntrack: bool,
    /// Its packets are followed for the names that clients show.
    pub names: bool,
}

/// Packet as described by the kernel. The payload lies in the arena until the next `receive`:
/// `payload` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePacket {
    /// Counts up by one with each packet offered to the queue, and wraps.
    pub id: u32,
    /// Host order.
    pub ethertype: u16,
    /// NF_INET_*.
    pub hook: u8,
    /// The message did not fit its slot: only id, ethertype and hook are known.
    pub truncated: bool,
    /// The message can't be read: no more is known either.
    pub spoiled: bool,
    /// With spoiled: not even the id.
    pub nameless: bool,
    /// 0 = none.
    pub mark: u32,
    /// Interface index; 0 = none.
    pub indev: u32,
    /// Interface index; 0 = none.
    pub outdev: u32,
    /// The user of the socket that sent it; UNKNOWN.
    pub uid: u32,
    /// The group of that socket; UNKNOWN.
    pub gid: u32,
    /// enum ip_conntrack_info; UNKNOWN.
    pub ct_info: u32,
    /// The packet belongs to a connection, and ct_mark is its mark.
    pub has_ct_mark: bool,
    /// 0 = none.
    pub ct_mark: u32,
    /// NFQA_SKB_* bits.
    pub skb_info: u32,
    /// Offset of the payload, from the IP header on: in bytes from the message's start as the
    /// parsers give it, from the arena's start once received. Without meaning if there is none.
    pub payload_offset: usize,
    /// How many bytes of it can be read.
    pub payload_bytes: u32,
    /// Bytes of the packet in the kernel; never a bound.
    pub original_bytes: u32,
}

impl Default for QueuePacket {
    fn default() -> Self {
        QueuePacket {
            id: 0,
            ethertype: 0,
            hook: 0,
            truncated: false,
            spoiled: false,
            nameless: false,
            mark: 0,
            indev: 0,
            outdev: 0,
            uid: UNKNOWN,
            gid: UNKNOWN,
            ct_info: UNKNOWN,
            has_ct_mark: false,
            ct_mark: 0,
            skb_info: 0,
            payload_offset: 0,
            payload_bytes: 0,
            original_bytes: 0,
        }
    }
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueParsed {
    Packet,
    /// Neither a packet nor an error, or an acknowledgement.
    Ignored,
    /// It can't be read.
    Malformed,
    /// The kernel refused a request, with this errno: for a verdict ENOENT, it has no such id. (Not an
    /// `Errno`: the kernel has some that user space has no name for.)
    Refused(i32),
}

/// Result of a receive call. All zero: the socket is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReceived {
    /// All of them.
    pub messages: u32,
    /// In `packets`.
    pub packets: u32,
    /// How many of these have an id.
    pub ids: u32,
    /// Messages that can't be read: a packet if they are known to tell of one.
    pub malformed: u32,
    /// How many of these have no id.
    pub nameless: u32,
    /// Messages that tell nothing.
    pub ignored: u32,
    /// Gaps in which the kernel had no packet.
    pub vacant: u32,
    /// Verdicts that the kernel refused.
    pub refused: u32,
    /// 1 if the call reported lost packets (ENOBUFS).
    pub overruns: u32,
}

/// Configuration requests, each acknowledged by the kernel except `Unbind`, whose acknowledgement
/// would have to be looked for behind all packets that wait in the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRequest {
    /// NFQA_CFG_CMD: NFQNL_CFG_CMD_BIND.
    Bind,
    /// NFQA_CFG_QUEUE_MAXLEN: settings.queue_length.
    Length,
    /// NFQA_CFG_FLAGS: queue.flags, and NFQA_CFG_MASK: FLAGS_ALL.
    Flags,
    /// NFQA_CFG_PARAMS: settings.copy_bytes, NFQNL_COPY_PACKET or, for 0, NFQNL_COPY_META.
    Mode,
    /// NFQA_CFG_CMD: NFQNL_CFG_CMD_UNBIND.
    Unbind,
}

/// Argument of the classic backend's callback: the destination of the message's fields.
pub struct ClassicContext {
    /// The message that nfq_handle_packet was called with; null while configuring.
    pub(super) message: *const u8,
    /// To fill in, with the payload's offset from the message's start.
    pub(super) packet: QueuePacket,
    /// A message that came while the library waited for an acknowledgement.
    pub(super) kept: Option<Vec<u8>>,
}

/// The library's open handle, which is closed when dropped.
pub struct ClassicLibrary {
    pub(super) handle: NonNull<nfq_handle>,
    /// Null before BIND and after UNBIND.
    pub(super) queue: *mut nfq_q_handle,
    /// From Box::into_raw. The library holds the pointer, and hands it to the callback alone.
    pub(super) context: *mut ClassicContext,
}

/// The library's open socket, which is closed when dropped.
pub struct MnlLibrary(pub(super) NonNull<mnl_socket>);

/// The open socket, which is closed when dropped.
pub struct RawSocket {
    /// Held for queue.socket, which uses it.
    pub(super) _owned: OwnedFd,
}

/// A backend with what it holds open.
pub enum QueueBackend {
    Closed,
    Classic(ClassicLibrary),
    Mnl(MnlLibrary),
    Raw(RawSocket),
}

/// A queue. It is given up when dropped.
pub struct Queue {
    pub settings: QueueSettings,
    pub backend: QueueBackend,
    pub socket: QueueSocket,
    /// Netlink port of the socket.
    pub portid: u32,
    /// NFQA_CFG_F_* that are asked for.
    pub flags: u32,
    /// Bytes that the kernel gives.
    pub receive_buffer: u32,
    /// Messages in the arena that came while configuring.
    pub pending: u32,
    /// ENOBUFS met while configuring.
    pub pending_overruns: u32,
    /// The kernel knows us as the owner, by a socket of our own.
    pub bound: bool,
    /// Another process may configure it, see `queue_adopt::resume`.
    pub handed: bool,
    /// The packets that wait may have fewer bytes than we ask for.
    pub refresh: bool,
    /// settings.batch of them.
    pub packets: Vec<QueuePacket>,
    /// Runs that the kernel takes in one message.
    pub verdicts_most: usize,
    /// VERDICT_BYTES a run.
    pub verdicts: Vec<u8>,
    /// The call that made `receive` or `verdict` fail.
    pub failed_call: &'static str,
}
