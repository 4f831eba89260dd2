// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: sendmsg recvfrom close
//! Backend `classic`: the callback API of libnetfilter_queue, as in the published experiment. queue_socket receives the
//! messages from nfq_fd. Each message is passed to nfq_handle_packet, whose callback fills in the packet before the
//! call returns. Verdicts are sent by nfq_set_verdict, nfq_set_verdict2, nfq_set_verdict_batch or
//! nfq_set_verdict_batch2, one call (sendmsg) per run. Verdicts for gaps, and verdicts with packets that the kernel
//! gets back, are sent by sendto.

use std::os::raw::{c_char, c_int, c_uchar, c_uint, c_void};
use std::ptr::{self, NonNull};

use nix::errno::Errno;
use sys_bindings::{
    nfgenmsg, nfq_close, nfq_create_queue, nfq_data, nfq_destroy_queue, nfq_fd, nfq_get_gid,
    nfq_get_indev, nfq_get_msg_packet_hdr, nfq_get_nfmark, nfq_get_outdev, nfq_get_payload,
    nfq_get_skbinfo, nfq_get_uid, nfq_handle, nfq_handle_packet, nfq_open, nfq_q_handle,
    nfq_set_mode, nfq_set_queue_flags, nfq_set_queue_maxlen, nfq_set_verdict, nfq_set_verdict2,
    nfq_set_verdict_batch, nfq_set_verdict_batch2, nlmsghdr, NFQNL_COPY_META, NFQNL_COPY_PACKET,
    NLMSG_HDRLEN,
};

use crate::packet::verdict::VerdictRun;
use crate::queue::attribute;
use crate::queue::frame;
use crate::queue::raw;
use crate::queue::socket;
use crate::queue::types::{
    ClassicContext, ClassicLibrary, Queue, QueueBackend, QueuePacket, QueueParsed, QueueRequest,
    CONNTRACK_BYTES, FLAGS_ALL, UNKNOWN,
};

/// Name of the system call that sends verdicts.
pub const VERDICT_CALL: &str = "sendmsg";

/// Result of the callback that makes nfq_handle_packet fail.
const CALLBACK_FAIL: c_int = -1;
/// Result of the callback that makes nfq_handle_packet succeed. It also ends nfnl_catch, by which the library waits for
/// an acknowledgement.
const CALLBACK_STOP: c_int = 0;
/// Size of the library's receive buffer on the stack, in bytes. The library may receive a packet in it while it waits
/// for the acknowledgement of `Mode`. The kernel copies at most 65531 bytes of a packet.
const CATCH_BYTES: c_uint = 65536 + (socket::OVERHEAD_BYTES + CONNTRACK_BYTES) as c_uint;

/// Handle of libnfnetlink inside a handle of libnetfilter_queue.
#[repr(C)]
struct nfnl_handle {
    _unused: [u8; 0],
}

// Functions that the generated bindings lack.
#[link(name = "netfilter_queue")]
unsafe extern "C" {
    fn nfq_nfnlh(handle: *mut nfq_handle) -> *mut nfnl_handle;
}
#[link(name = "nfnetlink")]
unsafe extern "C" {
    fn nfnl_portid(handle: *const nfnl_handle) -> c_uint;
    fn nfnl_set_rcv_buffer_size(handle: *mut nfnl_handle, size: c_uint);
}

// SAFETY: libnetfilter_queue and libnfnetlink keep no thread-local state, and only the owner of this
// value uses the handles and the context.
unsafe impl Send for ClassicLibrary {}

impl Drop for ClassicLibrary {
    fn drop(&mut self) {
        // SAFETY: nfq_open made the handle (open checks for null) and this is its only close; the
        // callback, which alone uses the context besides this value, can't be called after it. The
        // queue is null, or one that stays bound, which nfq_destroy_queue would unbind: the library
        // made it by calloc, and forgot it when it was closed.
        unsafe {
            nfq_close(self.handle.as_ptr());
            libc::free(self.queue.cast());
            drop(Box::from_raw(self.context));
        }
    }
}

/// Returns the complete netlink message that a callback has received, with its nlmsghdr. The library passes only a
/// pointer to the nfgenmsg, which follows the nlmsghdr.
///
/// # Safety
/// `message` is a pointer that libnfnetlink passes to a callback: before it lies its nlmsghdr, and nfnl_process has
/// checked that the buffer holds nlmsg_len bytes.
unsafe fn whole_message<'a>(message: *const nfgenmsg) -> &'a [u8] {
    let begin = message.cast::<u8>().wrapping_sub(NLMSG_HDRLEN as usize);
    // SAFETY: by the function's own condition.
    unsafe {
        let nlmsg_len = begin.cast::<nlmsghdr>().read_unaligned().nlmsg_len;
        std::slice::from_raw_parts(begin, nlmsg_len as usize)
    }
}

/// Callback of the library. Stores the fields of a message in context.packet; `parse` adds the fields for which the
/// library has no function. If a message arrives while `request` waits for an acknowledgement, stores the whole message
/// instead.
unsafe extern "C" fn on_packet(
    _handle: *mut nfq_q_handle,
    message: *mut nfgenmsg,
    data: *mut nfq_data,
    context: *mut c_void,
) -> c_int {
    // SAFETY: bind_queue gave the library this pointer; it is valid until ClassicLibrary is dropped, and callers of the
    // library hold no reference to the context.
    let context = unsafe { &mut *context.cast::<ClassicContext>() };
    if context.message.is_null() {
        // SAFETY: libnfnetlink passes the message to this callback.
        context.kept = Some(unsafe { whole_message(message) }.to_vec());
        return CALLBACK_STOP;
    }
    // SAFETY: data points to the attributes of the message that parse gave to the library, all of
    // which check_attributes found to lie within it and to be long enough.
    let filled = unsafe { fill(data, context.message, &mut context.packet) };
    if filled {
        CALLBACK_STOP
    } else {
        CALLBACK_FAIL // the NFQA_PACKET_HDR has a flag that the library does not know
    }
}

/// Stores the fields of a message that the library parsed. Returns true if the message has an NFQA_PACKET_HDR.
///
/// # Safety
/// `data` points to the library's attributes of a message that `check_attributes` has accepted and that begins at
/// `message`.
unsafe fn fill(data: *mut nfq_data, message: *const u8, packet: &mut QueuePacket) -> bool {
    let mut payload: *mut c_uchar = ptr::null_mut();
    *packet = QueuePacket::default();
    // SAFETY: by the function's own condition; the library returns null for missing attributes.
    unsafe {
        let Some(packet_hdr) = nfq_get_msg_packet_hdr(data).as_ref() else {
            return false;
        };
        packet.id = u32::from_be(packet_hdr.packet_id);
        packet.ethertype = u16::from_be(packet_hdr.hw_protocol);
        packet.hook = packet_hdr.hook;
        packet.mark = nfq_get_nfmark(data);
        packet.indev = nfq_get_indev(data);
        packet.outdev = nfq_get_outdev(data);
        packet.uid = UNKNOWN;
        packet.gid = UNKNOWN;
        packet.skb_info = nfq_get_skbinfo(data);
        nfq_get_uid(data, &mut packet.uid);
        nfq_get_gid(data, &mut packet.gid);
        if let Ok(payload_bytes) = u32::try_from(nfq_get_payload(data, &mut payload)) {
            packet.payload_offset = payload as usize - message as usize;
            packet.payload_bytes = payload_bytes;
        }
    }
    true
}

/// Parses one message by nfq_handle_packet, after the checks of `frame` and `check_attributes`.
/// - bytes: received bytes, 4-byte aligned.
/// - packet: out: filled in for `Packet`, otherwise unspecified.
pub fn parse(library: &mut ClassicLibrary, bytes: &[u8], packet: &mut QueuePacket) -> QueueParsed {
    let framed = frame::frame(bytes, packet);
    if framed != QueueParsed::Packet || packet.truncated {
        return framed;
    }
    let Ok(extras) = attribute::check_attributes(bytes) else {
        return QueueParsed::Malformed;
    };
    if !handle_packet(library, bytes, packet) {
        return QueueParsed::Malformed; // no callback for this queue number, or CALLBACK_FAIL
    }
    packet.original_bytes = extras.cap_len.unwrap_or(packet.payload_bytes);
    packet.ct_info = extras.ct_info;
    packet.has_ct_mark = extras.has_ct_mark;
    packet.ct_mark = extras.ct_mark;
    QueueParsed::Packet
}

/// Passes a message to the library, which calls `on_packet`. Returns true if packet was filled in.
fn handle_packet(library: &mut ClassicLibrary, bytes: &[u8], packet: &mut QueuePacket) -> bool {
    let message = attribute::message_of(bytes);
    let Ok(length) = c_int::try_from(message.len()) else {
        return false;
    };
    if !message.as_ptr().cast::<nlmsghdr>().is_aligned() {
        return false;
    }
    // SAFETY: the context is valid as long as the library; between the two accesses only on_packet
    // uses it. The message is aligned and lies in bytes (above), the library only reads it.
    unsafe {
        (*library.context).message = message.as_ptr();
        let buffer = message.as_ptr().cast_mut().cast::<c_char>();
        let handled = nfq_handle_packet(library.handle.as_ptr(), buffer, length);
        (*library.context).message = ptr::null();
        *packet = (*library.context).packet;
        handled >= 0
    }
}

/// Opens the library, which creates and binds the netlink socket.
pub fn open(queue: &mut Queue) -> Result<(), Errno> {
    // SAFETY: the function has no arguments.
    let handle = NonNull::new(unsafe { nfq_open() }).ok_or_else(Errno::last)?;
    let context = ClassicContext {
        message: ptr::null(),
        packet: QueuePacket::default(),
        kept: None,
    };
    queue.backend = QueueBackend::Classic(ClassicLibrary {
        handle,
        queue: ptr::null_mut(),
        context: Box::into_raw(Box::new(context)),
    });
    // SAFETY: the handle was opened above. queue.backend keeps it open; queue::close forgets the
    // file descriptor before it closes the backend.
    unsafe {
        socket::set_fd(&mut queue.socket, nfq_fd(handle.as_ptr()));
        let nfnl = nfq_nfnlh(handle.as_ptr());
        queue.portid = nfnl_portid(nfnl);
        nfnl_set_rcv_buffer_size(nfnl, CATCH_BYTES);
    }
    Ok(())
}

fn bind_queue(library: &mut ClassicLibrary, number: u16) -> c_int {
    // SAFETY: the handle is open, and the context is valid as long as it is.
    library.queue = unsafe {
        nfq_create_queue(
            library.handle.as_ptr(),
            number,
            Some(on_packet),
            library.context.cast(),
        )
    };
    if library.queue.is_null() {
        -1
    } else {
        0
    }
}

fn set_mode(queue: *mut nfq_q_handle, copy_bytes: u32, overruns: &mut u32) -> c_int {
    let mode = if copy_bytes > 0 {
        NFQNL_COPY_PACKET
    } else {
        NFQNL_COPY_META
    };
    // SAFETY: request gives a queue that bind_queue made.
    let result = unsafe { nfq_set_mode(queue, mode as u8, copy_bytes) };
    if result < 0 && Errno::last() == Errno::ENOBUFS {
        // An overrun is no failure, as in frame::await_ack: only packets can have filled the buffer, so the kernel has
        // executed the request.
        *overruns += 1;
        return 0;
    }
    result
}

/// Executes a configuration request by the library's functions, which wait for the acknowledgement.
pub fn request(queue: &mut Queue, request: QueueRequest) -> Result<(), Errno> {
    let settings = &queue.settings;
    let QueueBackend::Classic(library) = &mut queue.backend else {
        return Err(Errno::EBADF);
    };
    let handle = library.queue;
    if handle.is_null() && request != QueueRequest::Bind {
        return Err(Errno::EBADF);
    }
    // SAFETY: the handle is not null (above): bind_queue made it, and only Unbind, the last request,
    // ends it.
    let result = unsafe {
        match request {
            QueueRequest::Bind => bind_queue(library, settings.number),
            QueueRequest::Length => nfq_set_queue_maxlen(handle, settings.queue_length),
            QueueRequest::Flags => nfq_set_queue_flags(handle, FLAGS_ALL, queue.flags),
            QueueRequest::Mode => {
                set_mode(handle, settings.copy_bytes, &mut queue.pending_overruns)
            }
            QueueRequest::Unbind => {
                library.queue = ptr::null_mut();
                nfq_destroy_queue(handle)
            }
        }
    };
    let result = match Errno::result(result) {
        Err(Errno::EAGAIN) => Err(Errno::ETIMEDOUT),
        result => result.map(drop),
    };
    // SAFETY: the context is valid as long as the library, which is not called now.
    if let Some(message) = unsafe { (*library.context).kept.take() } {
        socket::keep(&mut queue.socket, &message);
        queue.pending = 1;
    }
    result
}

/// Sends the verdict of a run. Returns -1 with the errno of sendmsg on failure.
///
/// # Safety
/// `handle` is a queue that `bind_queue` created and `Unbind` has not freed.
unsafe fn send_run(handle: *mut nfq_q_handle, run: &VerdictRun) -> c_int {
    // SAFETY: by the function's own condition; no data is given with a verdict.
    unsafe {
        match (run.count > 1, run.has_mark) {
            (true, true) => nfq_set_verdict_batch2(handle, run.last_id, run.kernel, run.mark),
            (true, false) => nfq_set_verdict_batch(handle, run.last_id, run.kernel),
            (false, true) => {
                nfq_set_verdict2(handle, run.last_id, run.kernel, run.mark, 0, ptr::null())
            }
            (false, false) => nfq_set_verdict(handle, run.last_id, run.kernel, 0, ptr::null()),
        }
    }
}

/// Sends the verdict of the first run. A gap's verdict is sent without the library, which can't set its sequence
/// number. Returns the number of runs that were sent.
pub fn verdict(queue: &mut Queue, runs: &[VerdictRun]) -> Result<usize, Errno> {
    let Some(run) = runs.first() else {
        return Ok(0);
    };
    if run.gap {
        return raw::verdict(queue, std::slice::from_ref(run));
    }
    let QueueBackend::Classic(library) = &queue.backend else {
        return Err(Errno::EBADF);
    };
    if library.queue.is_null() {
        return Err(Errno::EBADF);
    }
    loop {
        // SAFETY: the handle is not null (above), so it is between BIND and UNBIND.
        match Errno::result(unsafe { send_run(library.queue, run) }) {
            Err(Errno::EINTR) => {}
            answered => return answered.map(|_| 1),
        }
    }
}
