// SPDX-License-Identifier: GPL-2.0-or-later
//! The queue as the rest of the program sees it: open, receive, answer, close. Three backends do the
//! same in three ways behind it (queue_classic, queue_mnl, queue_raw); what a message's frame must
//! be like is looked at here, before any library sees it.
//!
//! Theory of operation: `open` sends, in this order, BIND, (the receive buffer is set here,) the
//! queue's length, the flags, and last the copy mode. Packets flow from the copy mode on, so only
//! its acknowledgement can be met among packets; a packet that comes first proves that the request
//! was taken, and stays in the arena for the first `receive`. The late acknowledgement is then
//! ignored as any other.

use std::mem::offset_of;
use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use sys_bindings::{
    nfgenmsg, nfqnl_msg_packet_hdr, nlmsgerr, nlmsghdr, NFNL_SUBSYS_QUEUE, NFQA_CFG_F_CONNTRACK,
    NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_GSO, NFQA_CFG_F_UID_GID, NFQA_PACKET_HDR, NFQNL_MSG_PACKET,
    NLA_HDRLEN, NLMSG_ERROR, NLMSG_HDRLEN,
};

use crate::log::{failure_set, failure_set_start, warn, Failure, LogExit};
pub(crate) use crate::queue_attribute::{attribute_at, be32_of, Attribute};
pub use crate::queue_attribute::{attribute_fits, check_attributes, conntrack_mark, QueueExtras};
use crate::queue_classic::{self, ClassicLibrary};
use crate::queue_mnl::{self, MnlLibrary};
use crate::queue_proc;
use crate::queue_raw::{self, RawSocket};
use crate::queue_socket::{self, QueueSocket};
use crate::verdict::VerdictBatch;

/// Room in a slot for all attributes but the payload and NFQA_CT.
pub const OVERHEAD_BYTES: u64 = 512;
/// Room for NFQA_CT, if it is asked for.
pub const CONNTRACK_BYTES: u64 = 1024;
/// nlmsghdr and nfgenmsg, with which every message begins.
pub const MESSAGE_BYTES: usize = 20;
/// Room for a configuration request.
pub const REQUEST_BYTES: usize = 64;
/// Of a verdict message with a mark.
pub const VERDICT_BYTES: usize = 40;
/// NFQA_CFG_F_*: all that are ever asked for.
pub const FLAGS_ALL: u32 =
    NFQA_CFG_F_FAIL_OPEN | NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_GSO | NFQA_CFG_F_UID_GID;

/// A uid, gid or ct_info that the kernel didn't tell.
pub const UNKNOWN: u32 = u32::MAX;

/// The backends, in the order of --help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    Classic,
    Mnl,
    Raw,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    pub number: u16,
    pub kind: QueueKind,
    /// Of a packet to copy; 0 = metadata only.
    pub copy_bytes: u32,
    /// Messages a receive call can yield, 1..verdict::RUNS_MAX.
    pub batch: u32,
    /// Of the arena, see `queue_socket::slot_bytes`.
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
}

/// A packet as the kernel tells of it. The payload lies in the arena until the next `receive`:
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
    /// 0 = none.
    pub mark: u32,
    /// Interface index; 0 = none.
    pub indev: u32,
    /// Interface index; 0 = none.
    pub outdev: u32,
    /// Of the socket that sent it; UNKNOWN.
    pub uid: u32,
    /// UNKNOWN.
    pub gid: u32,
    /// enum ip_conntrack_info; UNKNOWN.
    pub ct_info: u32,
    /// The packet belongs to a connection, and ct_mark is its mark.
    pub has_ct_mark: bool,
    /// 0 = none.
    pub ct_mark: u32,
    /// NFQA_SKB_* bits.
    pub skb_info: u32,
    /// Where the payload begins, from the IP header on: in bytes from the message's start as the
    /// parsers give it, from the arena's start once received. Without meaning if there is none.
    pub payload_offset: usize,
    /// That can be read of it.
    pub payload_bytes: u32,
    /// Of the packet in the kernel; never a bound.
    pub original_bytes: u32,
}

impl Default for QueuePacket {
    fn default() -> Self {
        QueuePacket {
            id: 0,
            ethertype: 0,
            hook: 0,
            truncated: false,
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

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueParsed {
    Packet,
    /// Neither a packet nor an error, or an acknowledgement.
    Ignored,
    /// And no verdict is possible.
    Malformed,
    /// The kernel refused a request, with this errno: for a verdict ENOENT, it has no such id. (Not an
    /// `Errno`: the kernel has some that user space has no name for.)
    Refused(i32),
}

/// What a receive call yielded. All zero: the socket is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueReceived {
    /// All of them; a message that did not count as anything else was ignored.
    pub messages: u32,
    /// In `packets`.
    pub packets: u32,
    /// Messages without a usable packet.
    pub malformed: u32,
    /// Verdicts that the kernel refused.
    pub refused: u32,
    /// 1 if the call told of lost packets (ENOBUFS).
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
    /// And what waits may be less than we ask for.
    pub refresh: bool,
    /// settings.batch of them.
    pub packets: Vec<QueuePacket>,
    /// VERDICT_BYTES * settings.batch, for mnl and raw.
    pub verdicts: Vec<u8>,
    /// The call that made `receive` or `verdict` fail.
    pub failed_call: &'static str,
}

const PACKET_TYPE: u16 = (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET) as u16;
const PACKET_HDR_BYTES: usize = size_of::<nfqnl_msg_packet_hdr>();
const _: () = assert!(
    size_of::<nlmsghdr>() + size_of::<nfgenmsg>() == MESSAGE_BYTES,
    "a message begins with 20 bytes"
);
const _: () = assert!(PACKET_HDR_BYTES == 7, "id, ethertype, hook");
const _: () = assert!(
    size_of::<nlmsgerr>() == 20,
    "an errno and the header of the request"
);

/// The fields of a message's header that are looked at, in host order.
pub(crate) struct Header {
    pub nlmsg_len: u32,
    pub nlmsg_type: u16,
}
const _: () =
    assert!(offset_of!(nlmsghdr, nlmsg_len) == 0 && offset_of!(nlmsghdr, nlmsg_type) == 4);

/// The header that a message begins with; zero if the bytes end before.
pub(crate) fn header_of(bytes: &[u8]) -> Header {
    match bytes.first_chunk() {
        Some([a, b, c, d, e, f]) => Header {
            nlmsg_len: u32::from_ne_bytes([*a, *b, *c, *d]),
            nlmsg_type: u16::from_ne_bytes([*e, *f]),
        },
        None => Header {
            nlmsg_len: 0,
            nlmsg_type: 0,
        },
    }
}

/// A whole message, as far as its header says; `frame` found that it lies in the bytes.
pub(crate) fn message_of(bytes: &[u8]) -> &[u8] {
    bytes
        .get(..header_of(bytes).nlmsg_len as usize)
        .unwrap_or_default()
}

/// Takes the fields of an NFQA_PACKET_HDR, if the value is long enough to be one.
pub(crate) fn take_packet_hdr(value: &[u8], packet: &mut QueuePacket) {
    if let Some([a, b, c, d, e, f, g]) = value.first_chunk::<PACKET_HDR_BYTES>() {
        packet.id = u32::from_be_bytes([*a, *b, *c, *d]);
        packet.ethertype = u16::from_be_bytes([*e, *f]);
        packet.hook = *g;
    }
}

/// What an NLMSG_ERROR that lies wholly in its bytes says: an acknowledgement, or a refusal.
fn frame_error(message: &[u8]) -> QueueParsed {
    let body = message.get(NLMSG_HDRLEN as usize..).unwrap_or_default();
    match body.first_chunk() {
        Some(error) if body.len() >= size_of::<nlmsgerr>() => match i32::from_ne_bytes(*error) {
            0 => QueueParsed::Ignored,
            error => QueueParsed::Refused(error.saturating_abs()),
        },
        _ => QueueParsed::Malformed,
    }
}

/// Takes the id out of a packet message that is truncated, as MSG_TRUNC tells.
/// - Returns `Packet` with packet filled in (truncated set, no payload), or `Malformed`.
pub fn truncated(bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    const NEEDED: usize = MESSAGE_BYTES + NLA_HDRLEN as usize + PACKET_HDR_BYTES;
    let header = header_of(bytes);
    if bytes.len() < NEEDED
        || (header.nlmsg_len as usize) < NEEDED
        || header.nlmsg_type != PACKET_TYPE
    {
        return QueueParsed::Malformed;
    }
    match attribute_at(bytes, MESSAGE_BYTES) {
        Some(first) if u32::from(first.kind) == NFQA_PACKET_HDR => {
            *packet = QueuePacket {
                truncated: true,
                ..QueuePacket::default()
            };
            take_packet_hdr(first.value, packet);
            QueueParsed::Packet
        }
        _ => QueueParsed::Malformed,
    }
}

/// Looks at a message's frame, before anything of it is parsed.
/// - bytes: what was received of one message as it came from the socket (nfnetlink_queue sends one
///   a datagram).
/// - packet: truncated is cleared, or all filled in as `truncated` does if the message is longer
///   than what was received.
/// - Returns `Packet` for a packet message: if packet.truncated is not set, it lies wholly in the
///   bytes, and its attributes may be parsed within nlmsg_len. Otherwise what it is.
pub fn frame(bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    packet.truncated = false;
    let header = header_of(bytes);
    if bytes.len() < MESSAGE_BYTES || (header.nlmsg_len as usize) < MESSAGE_BYTES {
        return QueueParsed::Malformed;
    }
    if header.nlmsg_len as usize > bytes.len() {
        return truncated(bytes, packet);
    }
    if u32::from(header.nlmsg_type) == NLMSG_ERROR {
        return frame_error(message_of(bytes));
    }
    match header.nlmsg_type {
        PACKET_TYPE => QueueParsed::Packet,
        _ => QueueParsed::Ignored,
    }
}

/// For backends that wait for acknowledgements themselves: receives until the last request is
/// answered. Fails with the errno of the answer, or ETIMEDOUT.
pub fn await_answer(queue: &mut Queue) -> Result<(), Errno> {
    let count = match queue_socket::receive(&mut queue.socket, true) {
        Err(Errno::ENOBUFS) => {
            // Only packets can have filled the buffer, and they flow only once `Mode` was taken.
            queue.pending_overruns += 1;
            return Ok(());
        }
        count => count?,
    };
    if count == 0 {
        return Err(Errno::ETIMEDOUT);
    }
    for index in 0..count {
        let message = queue_socket::message(&queue.socket, index);
        match frame(message.bytes, &mut QueuePacket::default()) {
            QueueParsed::Packet => queue.pending = count,
            QueueParsed::Refused(error) => return Err(Errno::from_raw(error)),
            QueueParsed::Ignored | QueueParsed::Malformed => {}
        }
    }
    Ok(())
}

fn request_name(request: QueueRequest) -> &'static str {
    match request {
        QueueRequest::Bind => "NFQNL_CFG_CMD_BIND",
        QueueRequest::Length => "NFQA_CFG_QUEUE_MAXLEN",
        QueueRequest::Flags => "NFQA_CFG_FLAGS",
        QueueRequest::Mode => "NFQA_CFG_PARAMS",
        QueueRequest::Unbind => "NFQNL_CFG_CMD_UNBIND",
    }
}

fn request(queue: &mut Queue, request: QueueRequest) -> Result<(), Errno> {
    match queue.settings.kind {
        QueueKind::Classic => queue_classic::request(queue, request),
        QueueKind::Mnl => queue_mnl::request(queue, request),
        QueueKind::Raw => queue_raw::request(queue, request),
    }
}

fn fail_owned(queue: &Queue, portid: u32) -> Failure {
    let number = queue.settings.number;
    let owner = match queue_proc::owner(portid) {
        Ok(owner) => format!("pid {} ({})", owner.pid, owner.comm),
        Err(_) => format!("another process (netlink port {portid})"),
    };
    let text =
        format!("queue {number} is owned by {owner}: stop it or choose another with --queue");
    failure_set(LogExit::Owned, text)
}

fn fail_no_nfqueue() -> Failure {
    failure_set(
        LogExit::Kernel,
        "this kernel has no NFQUEUE: use a kernel with CONFIG_NETFILTER_NETLINK_QUEUE, \
         or load the module nfnetlink_queue",
    )
}

fn fail_capability() -> Failure {
    failure_set(
        LogExit::Capability,
        "CAP_NET_ADMIN is missing: run as root or with sudo, \
         or give the program the capability (setcap cap_net_admin+ep)",
    )
}

/// Tells why BIND failed: EPERM stands for a missing capability and for a queue of another's.
fn fail_bind(queue: &Queue, error: Errno) -> Failure {
    let owner = match queue_proc::figures(queue.settings.number) {
        Ok(figures) if figures.portid != queue.portid => Some(figures.portid),
        _ => None,
    };
    match (error, owner) {
        (Errno::EPERM | Errno::EBUSY, Some(portid)) => fail_owned(queue, portid),
        (Errno::EPERM, None) => fail_capability(),
        (Errno::EINVAL | Errno::EOPNOTSUPP, _) => fail_no_nfqueue(),
        _ => failure_set_start(request_name(QueueRequest::Bind), error),
    }
}

/// A closed queue with all its buffers.
pub fn prepare(settings: &QueueSettings) -> Result<Queue, Failure> {
    let socket = queue_socket::init(settings.batch, settings.slot_bytes)
        .map_err(|error| failure_set_start("calloc", error))?;
    Ok(Queue {
        settings: settings.clone(),
        backend: QueueBackend::Closed,
        socket,
        portid: 0,
        flags: 0,
        receive_buffer: 0,
        pending: 0,
        pending_overruns: 0,
        bound: false,
        handed: false,
        refresh: false,
        packets: vec![QueuePacket::default(); settings.batch as usize],
        verdicts: vec![0; settings.batch as usize * VERDICT_BYTES],
        failed_call: "",
    })
}

fn open_socket(queue: &mut Queue) -> Result<(), Failure> {
    let opened = match queue.settings.kind {
        QueueKind::Classic => queue_classic::open(queue),
        QueueKind::Mnl => queue_mnl::open(queue),
        QueueKind::Raw => queue_raw::open(queue),
    };
    match opened {
        Ok(()) => {}
        Err(Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT) => return Err(fail_no_nfqueue()),
        Err(error) => return Err(failure_set_start("socket", error)),
    }
    queue_socket::bound_wait(&queue.socket)
        .map_err(|error| failure_set_start("setsockopt(SO_RCVTIMEO)", error))
}

fn bind_queue(queue: &mut Queue) -> Result<(), Failure> {
    request(queue, QueueRequest::Bind).map_err(|error| fail_bind(queue, error))?;
    queue.bound = true;
    Ok(())
}

/// Asks for the receive buffer, and tells if it is not what it should be.
pub fn set_buffer(queue: &mut Queue) -> Result<(), Failure> {
    let wanted = queue.settings.receive_buffer;
    let given = queue_socket::set_buffer(&queue.socket, wanted)
        .map_err(|error| failure_set_start("setsockopt(SO_RCVBUF)", error))?;
    queue.receive_buffer = given;
    if given >= wanted {
        return Ok(());
    }
    if queue.settings.receive_buffer_required {
        return Err(failure_set(
            LogExit::Buffer,
            format_args!(
                "the kernel gives a receive buffer of {given} bytes where --receive-buffer asks \
                 for {wanted}: raise net.core.rmem_max or ask for less"
            ),
        ));
    }
    warn(format_args!(
        "the receive buffer is {given} of {wanted} bytes: raise net.core.rmem_max, \
         or losses come earlier"
    ));
    Ok(())
}

fn must_request(queue: &mut Queue, what: QueueRequest) -> Result<(), Failure> {
    request(queue, what).map_err(|error| failure_set_start(request_name(what), error))
}

/// A queue that is not ours is only asked whether the kernel has the flags: it looks at them first.
fn request_flags(queue: &mut Queue, flags: u32) -> Result<(), Errno> {
    queue.flags = flags;
    if flags == 0 {
        return Ok(());
    }
    match request(queue, QueueRequest::Flags) {
        Err(Errno::EPERM | Errno::ENODEV) if !queue.bound => Ok(()),
        result => result,
    }
}

/// Asks for the conntrack attribute, alone: what the kernel refuses is known then.
fn set_conntrack(queue: &mut Queue) -> Result<(), Failure> {
    if !queue.settings.conntrack {
        return Ok(());
    }
    request_flags(queue, NFQA_CFG_F_CONNTRACK).map_err(|error| match error {
        Errno::EOPNOTSUPP | Errno::EINVAL | Errno::EAGAIN => failure_set(
            LogExit::Kernel,
            "the policy uses ct, and this kernel gives no connection tracking with a \
             packet: load nf_conntrack_netlink, or have the state put into marks \
             (rules/load conntrack-input) and start with --conntrack mark",
        ),
        _ => failure_set_start(request_name(QueueRequest::Flags), error),
    })
}

fn set_flags(queue: &mut Queue) -> Result<(), Failure> {
    let fail_open = if queue.settings.fail_open {
        NFQA_CFG_F_FAIL_OPEN
    } else {
        0
    };
    let uid_gid = if queue.settings.uid_gid {
        NFQA_CFG_F_UID_GID
    } else {
        0
    };
    let gso = if queue.settings.gso {
        NFQA_CFG_F_GSO
    } else {
        0
    };
    set_conntrack(queue)?;
    let mut result = request_flags(queue, queue.flags | fail_open | uid_gid | gso);
    if matches!(result, Err(Errno::EOPNOTSUPP | Errno::EINVAL)) && gso != 0 {
        warn("this kernel does not take GSO packets: the queue gets segments");
        result = request_flags(queue, queue.flags & !gso);
    }
    result.map_err(|error| failure_set_start(request_name(QueueRequest::Flags), error))
}

/// Asks the kernel, by a socket that owns no queue, whether we may configure queues, and which of the
/// flags it has that the settings ask for. Fails as `open` does.
pub fn probe(settings: &QueueSettings) -> Result<u32, Failure> {
    let own = QueueSettings {
        kind: QueueKind::Raw,
        batch: 1,
        ..settings.clone()
    };
    let mut probe = prepare(&own)?;
    open_socket(&mut probe)?;
    // The kernel can't have all of them, so this is refused whatever the queue; but first for a
    // missing capability.
    probe.flags = u32::MAX;
    if request(&mut probe, QueueRequest::Flags) == Err(Errno::EPERM) {
        return Err(fail_capability());
    }
    probe.flags = 0;
    set_flags(&mut probe)?;
    Ok(probe.flags)
}

/// Opens and configures a queue, so that packets flow. After a failure everything is closed.
pub fn open(settings: &QueueSettings) -> Result<Queue, Failure> {
    let mut queue = prepare(settings)?;
    open_socket(&mut queue)?;
    bind_queue(&mut queue)?;
    set_buffer(&mut queue)?;
    must_request(&mut queue, QueueRequest::Length)?;
    set_flags(&mut queue)?;
    must_request(&mut queue, QueueRequest::Mode)?;
    Ok(queue)
}

/// Parses a message of the arena and counts it.
fn take_message(queue: &mut Queue, index: u32, received: &mut QueueReceived) {
    let message = queue_socket::message(&queue.socket, index);
    let Some(packet) = queue.packets.get_mut(received.packets as usize) else {
        return; // can't be: there is one for each message
    };
    let parsed = match &mut queue.backend {
        _ if message.truncated => truncated(message.bytes, packet),
        QueueBackend::Classic(library) => queue_classic::parse(library, message.bytes, packet),
        QueueBackend::Mnl(_) => queue_mnl::parse(message.bytes, packet),
        QueueBackend::Raw(_) => queue_raw::parse(message.bytes, packet),
        QueueBackend::Closed => QueueParsed::Ignored,
    };
    received.messages += 1;
    match parsed {
        QueueParsed::Packet => {
            packet.payload_offset += queue_socket::slot_offset(&queue.socket, index);
            received.packets += 1;
        }
        QueueParsed::Ignored => {}
        QueueParsed::Malformed => received.malformed += 1,
        QueueParsed::Refused(_) => received.refused += 1,
    }
}

/// How many messages there are to take: those kept while configuring, else what the socket gives.
fn next_messages(queue: &mut Queue) -> Result<u32, Errno> {
    match std::mem::take(&mut queue.pending) {
        0 => queue_socket::receive(&mut queue.socket, false),
        pending => Ok(pending),
    }
}

/// Receives what is there, at most settings.batch messages, without blocking. The packets stand in
/// queue.packets until the next call. Fails with queue.failed_call set.
pub fn receive(queue: &mut Queue) -> Result<QueueReceived, Errno> {
    let mut received = QueueReceived {
        overruns: queue.pending_overruns,
        ..QueueReceived::default()
    };
    let count = match next_messages(queue) {
        Ok(count) => count,
        Err(Errno::ENOBUFS) => {
            received.overruns += 1;
            0
        }
        Err(error) => {
            queue.failed_call = queue_socket::receive_call(&queue.socket);
            return Err(error);
        }
    };
    queue.pending_overruns = 0;
    for index in 0..count {
        take_message(queue, index, &mut received);
    }
    Ok(received)
}

/// The bytes that were copied of a packet of the last `receive`, from its IP header on.
pub fn payload<'a>(queue: &'a Queue, packet: &QueuePacket) -> &'a [u8] {
    queue_socket::arena(&queue.socket, packet.payload_offset, packet.payload_bytes)
}

/// Sends every run of the batch, in order: in one system call, or one a run with the classic
/// backend. Fails with queue.failed_call set.
pub fn verdict(queue: &mut Queue, batch: &VerdictBatch) -> Result<(), Errno> {
    if batch.count == 0 {
        return Ok(());
    }
    let (result, call) = match queue.settings.kind {
        QueueKind::Classic => (
            queue_classic::verdict(queue, batch),
            queue_classic::VERDICT_CALL,
        ),
        QueueKind::Mnl => (queue_mnl::verdict(queue, batch), queue_mnl::VERDICT_CALL),
        QueueKind::Raw => (queue_raw::verdict(queue, batch), queue_raw::VERDICT_CALL),
    };
    if result.is_err() {
        queue.failed_call = call;
    }
    result
}

/// The file descriptor to poll for reading. Fails with EBADF once the queue is closed.
pub fn fd(queue: &Queue) -> Result<BorrowedFd<'_>, Errno> {
    queue_socket::fd(&queue.socket)
}

/// Gives the queue up: unbinds (the kernel drops what waits) and closes.
pub fn close(queue: &mut Queue) {
    if std::mem::take(&mut queue.bound) {
        // Nothing is left to do about a failure: closing unbinds as well.
        let _ = request(queue, QueueRequest::Unbind);
    }
    queue_socket::forget_fd(&mut queue.socket);
    queue.backend = QueueBackend::Closed;
}

impl Drop for Queue {
    fn drop(&mut self) {
        close(self);
    }
}
