// SPDX-License-Identifier: GPL-2.0-or-later
//! Transfer of a queue from one process to another without losing a packet.
//!
//! Theory of operation: for the kernel, the owner of a queue is the port of a netlink socket, not a process. Every
//! process that has the socket may configure the queue, receive from it and answer every packet by its ID, including
//! packets that another process received. The old process stops between two batches, when it has answered all packets
//! that it received. From then on packets wait in the socket. The new process gets a descriptor of the socket
//! (SCM_RIGHTS) and receives them.
//!
//! After the last step that can fail, the new process requests its own settings of the queue (copy range, flags,
//! length). It does not wait for the answers, because they come after all waiting packets. `queue::probe` has checked
//! before which settings the kernel would refuse. Waiting packets were copied with the old process's settings. If these
//! copies lack data that the new process needs, it sends each packet through the queue again (a verdict of NF_QUEUE to
//! the same queue), up to the acknowledgement of the copy range: all packets after it have the new settings. An old
//! process that resumes because the new one failed does the same, because it does not know which settings the new one
//! requested.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{getsockname, NetlinkAddr};
use sys_bindings::{NFQA_CFG_F_CONNTRACK, NFQA_CFG_F_UID_GID};

use crate::base::log::{failure_set, failure_set_start, Failure, LogExit};
use crate::packet::verdict::{self, Verdict, VerdictBatch};
use crate::queue::{
    self, Queue, QueueKind, QueueReceived, QueueRequest, QueueSettings, CONNTRACK_BYTES,
    REQUEST_BYTES,
};

/// Minimum size of a waiting message in the socket's buffer, in bytes.
const MESSAGE_BYTES: u64 = 256;

/// Kernel configuration of a queue that is handed to another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueHandover {
    pub copy_bytes: u32,
    /// Flags of the queue: NFQA_CFG_F_*.
    pub flags: u32,
}

/// Returns true if a backend can adopt a queue from another process.
pub fn can_adopt(kind: QueueKind) -> bool {
    kind != QueueKind::Classic
}

fn is_netlink(fd: &OwnedFd) -> bool {
    getsockname::<NetlinkAddr>(fd.as_raw_fd()).is_ok()
}

/// Makes the queue use a socket that another process has bound. Checks that the kernel's queue belongs to this socket,
/// if /proc can be read.
fn take_socket(queue: &mut Queue, fd: OwnedFd) -> Result<(), Failure> {
    let number = queue.settings.number;
    if !is_netlink(&fd) {
        return Err(failure_set(
            LogExit::Call,
            format_args!(
                "the descriptor handed over for queue {number} is no netlink socket: start without \
                 --take-over"
            ),
        ));
    }
    let adopted = match queue.settings.kind {
        QueueKind::Classic => Err(Errno::EOPNOTSUPP),
        QueueKind::Mnl => queue::mnl::adopt(queue, fd),
        QueueKind::Raw => queue::raw::adopt(queue, fd),
    };
    adopted.map_err(|error| failure_set_start("getsockname", error))?;
    // ENOENT shows that the queue is not bound; if the file can't be opened, ownership is not checked.
    let _ = queue::proc::open();
    let owner = queue::proc::figures(number).map(|figures| figures.portid);
    if owner == Err(Errno::ENOENT) || owner.is_ok_and(|portid| portid != queue.portid) {
        return Err(failure_set(
            LogExit::Owned,
            format_args!(
                "the socket that was handed over for queue {number} does not own it: \
                 start without --take-over"
            ),
        ));
    }
    Ok(())
}

/// Enlarges the receive buffer to the size in the settings. A larger buffer stays unchanged, because a smaller buffer
/// could not hold the waiting packets.
fn grow_buffer(queue: &mut Queue) -> Result<(), Failure> {
    queue.receive_buffer = queue::socket::set_buffer(&queue.socket, 0)
        .map_err(|error| failure_set_start("getsockopt(SO_RCVBUF)", error))?;
    if queue.receive_buffer < queue.settings.receive_buffer {
        queue::set_buffer(queue)?;
    }
    Ok(())
}

/// Returns the settings of a queue with receive slots that are also large enough for the packets that already wait.
/// (These were copied with the other process's settings. The kernel copies less than 64 KiB of a packet.)
fn widen(settings: &QueueSettings, handover: &QueueHandover) -> QueueSettings {
    let payload = handover.copy_bytes.min(u16::MAX.into());
    let conntrack = match handover.flags & NFQA_CFG_F_CONNTRACK {
        0 => 0,
        _ => CONNTRACK_BYTES as u32,
    };
    QueueSettings {
        slot_bytes: settings
            .slot_bytes
            .max(queue::socket::slot_bytes(payload + conntrack)),
        ..settings.clone()
    }
}

/// Returns true if waiting packets, which were copied with the other process's settings, lack data that the settings
/// request.
fn is_less(handover: &QueueHandover, copy_bytes: u32, flags: u32) -> bool {
    let more = flags & !handover.flags & (NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_UID_GID);
    handover.copy_bytes < copy_bytes || more != 0
}

/// Creates a queue from a socket that another process has bound. Changes nothing in the kernel except that the receive
/// buffer may grow, so that the other process can still resume. On failure fd is closed; the queue stays bound in the
/// kernel.
/// - handover: configuration by the other process, with which waiting packets were copied.
pub fn adopt(
    settings: &QueueSettings,
    handover: &QueueHandover,
    fd: OwnedFd,
) -> Result<Queue, Failure> {
    let mut queue = queue::prepare(&widen(settings, handover))?;
    let flags = queue::probe(settings)?;
    take_socket(&mut queue, fd)?;
    grow_buffer(&mut queue)?;
    queue.flags = flags;
    queue.handed = true;
    queue.refresh = is_less(handover, settings.copy_bytes, flags);
    Ok(queue)
}

/// Prepares the queue for its adoption by another process. Then the caller must not receive from the queue until
/// `resume`. If the adoption succeeds, the caller may call `release` instead.
pub fn give(queue: &mut Queue) {
    queue.handed = true;
    queue.refresh = true;
}

/// Sends a configuration request without waiting for the answer. It does not use libnetfilter_queue, whose functions
/// would wait.
/// - acknowledged: true if the kernel must acknowledge the executed request; it always reports a failure.
fn send_request(queue: &Queue, request: QueueRequest, acknowledged: bool) -> Result<(), Errno> {
    let mut buffer = [0; REQUEST_BYTES];
    let length = queue::raw::build_request(
        &queue.settings,
        queue.flags,
        request,
        acknowledged,
        &mut buffer,
    );
    queue::raw::send_whole(queue, buffer.get(..length).unwrap_or_default())
}

/// Requests flags and copy mode without waiting for the answers. Requests an acknowledgement of the copy mode if
/// waiting packets must be sent through the queue again.
fn configure(queue: &Queue) -> Result<(), Errno> {
    send_request(queue, QueueRequest::Flags, false)?;
    send_request(queue, QueueRequest::Mode, queue.refresh)
}

/// Sends the packets of the last receive call through the queue again (a verdict of NF_QUEUE). Packets without a
/// readable ID get the verdict for malformed packets.
fn send_once_more(
    queue: &mut Queue,
    batch: &mut VerdictBatch,
    received: &QueueReceived,
) -> Result<(), Errno> {
    let number = queue.settings.number.into();
    verdict::batch_clear(batch);
    for packet in queue.packets.iter().take(received.packets as usize) {
        if packet.nameless {
            verdict::batch_skip(batch);
        } else {
            // Can't fail: the batch has room for a run per packet.
            let _ = verdict::batch_add(batch, packet.id, Verdict::Requeue, number);
        }
    }
    verdict::batch_finish(batch);
    for _ in 1..queue::TRIES_MAX {
        match queue::verdict(queue, batch) {
            Err(error) if queue::is_transient(error) => queue::pause(),
            result => return result,
        }
    }
    queue::verdict(queue, batch)
}

/// Calls `receive` once, sends the received packets through the queue again, and adds the counts to `received`. Returns
/// true if another call is needed: the copy mode is not acknowledged yet, and the socket was not empty. Fails with
/// queue.failed_call set.
fn requeue(
    queue: &mut Queue,
    batch: &mut VerdictBatch,
    received: &mut QueueReceived,
) -> Result<bool, Errno> {
    let got = queue::receive(queue)?;
    received.malformed += got.malformed;
    received.nameless += got.nameless;
    received.refused += got.refused;
    received.overruns += got.overruns;
    send_once_more(queue, batch, &got)?;
    received.messages += got.messages;
    received.packets += got.packets;
    received.ids += got.ids;
    if got.messages == 0 {
        return Ok(got.overruns > 0);
    }
    Ok(got.ignored == 0)
}

/// Sends all waiting packets through the queue again. Ends at the acknowledgement of the copy mode, or when the socket
/// is empty. If the buffer was full, the acknowledgement may be lost: then the function ends at the latest after the
/// maximum number of messages that the buffer can hold.
fn refresh(
    queue: &mut Queue,
    batch: &mut VerdictBatch,
    received: &mut QueueReceived,
) -> Result<(), Errno> {
    let buffer_bytes = 2 * u64::from(queue.receive_buffer);
    let mut more = true;
    while more && u64::from(received.messages) * MESSAGE_BYTES < buffer_bytes {
        more = requeue(queue, batch, received)?;
    }
    Ok(())
}

/// Requests this process's settings of a queue after a hand-over: flags, copy mode, length. The other process may have
/// changed them. Sends waiting packets through the queue again (`Verdict::Requeue`) if their copies may lack data. Does
/// nothing for a queue without a hand-over. Must be called before the first `queue::receive`.
/// - batch: buffer for verdicts; its last ID becomes unknown.
/// - received: in/out: the counts of the packets sent again are added, also on failure.
/// - Fails with queue.failed_call set.
pub fn resume(
    queue: &mut Queue,
    batch: &mut VerdictBatch,
    received: &mut QueueReceived,
) -> Result<(), Errno> {
    if !std::mem::take(&mut queue.handed) {
        return Ok(());
    }
    verdict::batch_forget(batch);
    queue.failed_call = "sendto";
    configure(queue)?;
    if queue.refresh {
        refresh(queue, batch, received)?;
    }
    // The length must come last: a shorter queue would refuse the packets that are sent again.
    send_request(queue, QueueRequest::Length, false)
}

/// Makes `queue::close` unbind an adopted queue. Before this call `queue::close` leaves the queue bound, because the
/// process that handed it over may resume.
pub fn confirm(queue: &mut Queue) {
    queue.bound = true;
}

/// Frees this process's copy of a queue that another process has adopted. In that process the queue's socket stays
/// bound and open.
pub fn release(mut queue: Queue) {
    queue.bound = false;
    queue::close(&mut queue);
}
