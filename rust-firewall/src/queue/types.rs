// SPDX-License-Identifier: GPL-2.0-or-later
//! Types of a queue: settings, packets, and the state of the backends.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;

use sys_bindings::{
    mnl_socket, nfq_handle, nfq_q_handle, NFQA_CFG_F_CONNTRACK, NFQA_CFG_F_FAIL_OPEN,
    NFQA_CFG_F_GSO, NFQA_CFG_F_UID_GID,
};

use crate::queue::socket::QueueSocket;
pub use crate::spec::option::QueueKind;

/// Size of the space for NFQA_CT in a receive slot, in bytes; only slots of queues that request NFQA_CT have it.
pub const CONNTRACK_BYTES: u64 = 1024;
/// Size of nlmsghdr and nfgenmsg, with which every message begins, in bytes.
pub const MESSAGE_BYTES: usize = 20;
/// Size of the buffer for a configuration request, in bytes.
pub const REQUEST_BYTES: usize = 64;
/// Size of a verdict message with a mark, in bytes.
pub const VERDICT_BYTES: usize = 40;
/// Maximum length in bytes of a packet that the kernel can get back in a netlink attribute.
pub const RESTATED_PAYLOAD_MAX: usize = 65531;
/// Size of a verdict message with a mark and the longest packet, in bytes.
pub const RESTATED_BYTES: usize = VERDICT_BYTES + 65536;
/// All flags that the firewall may request (NFQA_CFG_F_*).
pub const FLAGS_ALL: u32 =
    NFQA_CFG_F_FAIL_OPEN | NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_GSO | NFQA_CFG_F_UID_GID;
/// nlmsg_seq of a verdict for a gap (IDs without a readable message); other verdicts have 0.
pub const GAP_SEQUENCE: u32 = 1;
/// Duration of a pause before the next attempt to send verdicts or to bind a queue, in nanoseconds.
pub const PAUSE_NS: i64 = 1_000_000;
/// Maximum number of attempts to send verdicts, for callers that pause and try again.
pub const TRIES_MAX: u32 = 1000;

/// Value of a uid, gid or ct_info that the kernel did not report.
pub const UNKNOWN: u32 = u32::MAX;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    pub number: u16,
    pub kind: QueueKind,
    /// Maximum number of bytes of a packet that the kernel copies; 0 = metadata only.
    pub copy_bytes: u32,
    /// Maximum number of messages per receive call, 1..verdict::PACKETS_MAX.
    pub batch: u32,
    /// Size of a receive slot in bytes (`queue::socket::slot_bytes`).
    pub slot_bytes: u64,
    /// Size of the receive buffer in bytes; 0 = the kernel's default.
    pub receive_buffer: u32,
    /// True if a smaller receive buffer is a failure, not a warning.
    pub receive_buffer_required: bool,
    /// Maximum length of the queue in packets.
    pub queue_length: u32,
    /// True if the kernel may queue GSO packets, which are larger than a segment (NFQA_CFG_F_GSO).
    pub gso: bool,
    /// True if the kernel accepts packets when the queue or its socket is full (NFQA_CFG_F_FAIL_OPEN).
    pub fail_open: bool,
    /// True if the kernel reports the user and group of a packet's sender (NFQA_CFG_F_UID_GID).
    pub uid_gid: bool,
    /// True if the kernel must report a packet's conntrack entry (NFQA_CFG_F_CONNTRACK). If it can't, opening fails.
    pub conntrack: bool,
    /// True if the first policy reads names. Otherwise a reloaded policy may not read names.
    pub names: bool,
}

/// Packet as the kernel describes it. `payload` returns its bytes, which stay in the arena until the next `receive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePacket {
    /// ID of the packet. The kernel increments it by one for each packet offered to the queue; it wraps.
    pub id: u32,
    /// EtherType in host order.
    pub ethertype: u16,
    /// Hook of netfilter (NF_INET_*).
    pub hook: u8,
    /// True if the message did not fit into its receive slot: only id, ethertype and hook are known.
    pub truncated: bool,
    /// True if the message is malformed: at most id, ethertype and hook are known.
    pub spoiled: bool,
    /// True if even the packet's ID is unknown; `spoiled` is then true.
    pub nameless: bool,
    /// Mark of the packet; 0 = none.
    pub mark: u32,
    /// Index of the interface at which the packet arrived; 0 = none.
    pub indev: u32,
    /// Index of the interface by which the packet leaves; 0 = none.
    pub outdev: u32,
    /// User ID of the socket that sent the packet, or UNKNOWN.
    pub uid: u32,
    /// Group ID of the socket that sent the packet, or UNKNOWN.
    pub gid: u32,
    /// State of the connection (enum ip_conntrack_info), or UNKNOWN.
    pub ct_info: u32,
    /// True if the kernel reported the packet's conntrack connection (NFQA_CT); ct_mark is then that connection's mark.
    pub has_ct_mark: bool,
    /// Mark of the conntrack connection; 0 = none.
    pub ct_mark: u32,
    /// Bits about the packet's checksum and GSO (NFQA_SKB_*).
    pub skb_info: u32,
    /// Offset of the payload, which begins with the IP header. Each parser stores the offset from the message's start.
    /// Then `receive` adds the message's offset in the arena. Undefined without a payload.
    pub payload_offset: usize,
    /// Number of copied bytes of the payload.
    pub payload_bytes: u32,
    /// Length of the packet in the kernel in bytes; it may exceed the copied bytes.
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

/// Kind of a received netlink message: packet, ignored, malformed, or the kernel's refusal of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueParsed {
    Packet,
    /// Acknowledgement, or a message that is neither a packet nor an error.
    Ignored,
    /// Malformed message.
    Malformed,
    /// The kernel refused a request, with this errno. For a verdict ENOENT means that the kernel has no packet with
    /// this ID. (Not an `Errno`, because some errno values of the kernel have no name in user space.)
    Refused(i32),
}

/// Counts of a receive call. All except `overruns` are zero if the socket was empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReceived {
    /// Number of all messages that the call received.
    pub messages: u32,
    /// Number of packets in `packets` of the queue.
    pub packets: u32,
    /// Number of packets in `packets` of the queue that have a readable ID.
    pub ids: u32,
    /// Number of malformed messages. A malformed message also counts as a packet if its type is NFQNL_MSG_PACKET.
    pub malformed: u32,
    /// Number of malformed messages without a readable packet ID.
    pub nameless: u32,
    /// Number of acknowledgements, and of messages that are neither packets nor errors.
    pub ignored: u32,
    /// Number of gap verdicts for which the kernel had no packet.
    pub vacant: u32,
    /// Number of verdicts and requests that the kernel refused, without those in `vacant`.
    pub refused: u32,
    /// Number of times that the kernel reported lost packets (ENOBUFS): in this call, and for the first call also
    /// during configuration.
    pub overruns: u32,
}

/// Configuration requests to the kernel. The backends wait until the kernel has executed the request. Only for
/// `Unbind`, `mnl` and `raw` don't wait, because the acknowledgement would come after all packets that wait in the
/// socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRequest {
    /// NFQA_CFG_CMD: NFQNL_CFG_CMD_BIND.
    Bind,
    /// NFQA_CFG_QUEUE_MAXLEN: settings.queue_length.
    Length,
    /// NFQA_CFG_FLAGS: queue.flags; NFQA_CFG_MASK: FLAGS_ALL.
    Flags,
    /// NFQA_CFG_PARAMS: settings.copy_bytes with NFQNL_COPY_PACKET, or 0 with NFQNL_COPY_META.
    Mode,
    /// NFQA_CFG_CMD: NFQNL_CFG_CMD_UNBIND.
    Unbind,
}

/// Argument of the classic backend's callback: the message, and the packet that the callback fills in.
pub struct ClassicContext {
    /// Message that was passed to nfq_handle_packet; null during configuration.
    pub(super) message: *const u8,
    /// Packet to fill in, with the payload's offset from the message's start.
    pub(super) packet: QueuePacket,
    /// Message that arrived while the library waited for an acknowledgement.
    pub(super) kept: Option<Vec<u8>>,
}

/// Open handle of libnetfilter_queue; closed when dropped.
pub struct ClassicLibrary {
    pub(super) handle: NonNull<nfq_handle>,
    /// Handle of the queue; null before BIND and after UNBIND.
    pub(super) queue: *mut nfq_q_handle,
    /// Context from Box::into_raw. The library passes this pointer to the callback.
    pub(super) context: *mut ClassicContext,
}

/// Open socket of libmnl; closed when dropped.
pub struct MnlLibrary(pub(super) NonNull<mnl_socket>);

/// Open netlink socket; closed when dropped.
pub struct RawSocket {
    /// Descriptor that queue.socket uses.
    pub(super) _owned: OwnedFd,
}

/// Backend with its open socket or handle.
pub enum QueueBackend {
    Closed,
    Classic(ClassicLibrary),
    Mnl(MnlLibrary),
    Raw(RawSocket),
}

/// Queue with its backend, socket and buffers. It is closed when dropped.
pub struct Queue {
    pub settings: QueueSettings,
    pub backend: QueueBackend,
    pub socket: QueueSocket,
    /// Netlink port of the socket.
    pub portid: u32,
    /// Requested flags (NFQA_CFG_F_*).
    pub flags: u32,
    /// Size of the receive buffer that the kernel gives, in bytes.
    pub receive_buffer: u32,
    /// Number of messages in the receive slots that arrived during configuration.
    pub pending: u32,
    /// Number of overruns (ENOBUFS) during configuration.
    pub pending_overruns: u32,
    /// True if `close` must unbind the queue: this process bound it, or adopted it and called `queue_adopt::confirm`.
    pub bound: bool,
    /// True if another process may have configured the queue; see `queue_adopt::resume`.
    pub handed: bool,
    /// True if waiting packets may lack data that the settings request.
    pub refresh: bool,
    /// Packets of the last receive call; there is room for settings.batch packets.
    pub packets: Vec<QueuePacket>,
    /// Maximum number of runs in one datagram; decreases after EMSGSIZE.
    pub verdicts_most: usize,
    /// Buffer for verdict messages: VERDICT_BYTES per run, and RESTATED_BYTES for packets that the kernel gets back.
    pub verdicts: Vec<u8>,
    /// Name of the system call that made `receive`, `verdict` or `queue_adopt::resume` fail.
    pub failed_call: &'static str,
}
