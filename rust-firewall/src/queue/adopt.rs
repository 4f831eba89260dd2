// SPDX-License-Identifier: GPL-2.0-or-later
//! A queue that goes from one process to another without losing a packet.
//!
//! Theory of operation: to the kernel a queue's owner is the port of a netlink socket, not a process.
//! Whoever has the socket may configure the queue, receive from it and answer for every id, also for
//! packets that came before. So the old process stops between two batches, when it has answered all
//! that it took; what comes from then on waits in the socket, and the new process, which was given a
//! descriptor of it (SCM_RIGHTS), goes on where the old one ended.
//!
//! The new process requests changed settings of the queue (copy range, flags, length) when
//! nothing can fail any more, without waiting for answers, since those would stand behind all packets
//! that wait: what the kernel would refuse was found out before, by `queue::probe`. Packets that wait
//! have been copied for the old process. If that is less than the new one asks for, each is sent
//! through the queue again (a verdict of NF_QUEUE to the same queue), up to the acknowledgement
//! of the last request: behind it stand only packets as they were asked for. The same is done by an
//! old process that goes on because the new one failed, as it can't know what that has asked for.

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

/// A waiting message takes more of the socket's buffer.
const MESSAGE_BYTES: u64 = 256;

/// Kernel configuration of a queue that a process hands to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueHandover {
    pub copy_bytes: u32,
    /// NFQA_CFG_F_*.
    pub flags: u32,
}

/// Whether a backend can adopt queues.
pub fn can_adopt(kind: QueueKind) -> bool {
    kind != QueueKind::Classic
}

fn is_netlink(fd: &OwnedFd) -> bool {
    getsockname::<NetlinkAddr>(fd.as_raw_fd()).is_ok()
}

/// Adopts the socket, and checks whether the queue is bound to it, as far as /proc can be read.
fn take_socket(queue: &mut Queue, fd: OwnedFd) -> Result<(), Failure> {
    let number = queue.settings.number;
    if !is_netlink(&fd) {
        return Err(failure_set(
            LogExit::Call,
            format_args!(
                "what was handed over for queue {number} is no netlink socket: \
                 start without --take-over"
            ),
        ));
    }
    let adopted = match queue.settings.kind {
        QueueKind::Classic => Err(Errno::EOPNOTSUPP),
        QueueKind::Mnl => queue::mnl::adopt(queue, fd),
        QueueKind::Raw => queue::raw::adopt(queue, fd),
    };
    adopted.map_err(|error| failure_set_start("getsockname", error))?;
    // The queue is there, and so is the file; nothing can be said if it can't be opened.
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

/// The buffer stays as it is, if it is as large as ours should be: a smaller one could not hold what
/// waits.
fn grow_buffer(queue: &mut Queue) -> Result<(), Failure> {
    queue.receive_buffer = queue::socket::set_buffer(&queue.socket, 0)
        .map_err(|error| failure_set_start("getsockopt(SO_RCVBUF)", error))?;
    if queue.receive_buffer < queue.settings.receive_buffer {
        queue::set_buffer(queue)?;
    }
    Ok(())
}

/// Our settings with slots that hold what waits, too. (The kernel copies fewer than 64 KiB.)
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

/// Whether packets that wait lack something that we ask for.
fn is_less(handover: &QueueHandover, copy_bytes: u32, flags: u32) -> bool {
    let more = flags & !handover.flags & (NFQA_CFG_F_CONNTRACK | NFQA_CFG_F_UID_GID);
    handover.copy_bytes < copy_bytes || more != 0
}

/// Makes a queue of a socket that another process has bound. Nothing that the kernel does changes
/// but the receive buffer, which may grow, so that the other process can still go on with it.
/// fd is closed after a failure, without unbinding.
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

/// Allows another process to adopt the queue, from which nothing is received meanwhile. It can be received
/// from again after `resume`, or released.
pub fn give(queue: &mut Queue) {
    queue.handed = true;
    queue.refresh = true;
}

/// Sends a configuration request in the same way for all backends: what libnetfilter_queue has for
/// it would wait for the answer among packets.
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

/// Requests a copy mode. The last request is acknowledged if the caller checks
/// for it.
fn configure(queue: &Queue) -> Result<(), Errno> {
    send_request(queue, QueueRequest::Flags, false)?;
    send_request(queue, QueueRequest::Mode, queue.refresh)
}

/// Sets the verdict that sends packets through the queue again; packets without an id are
/// answered as gaps are.
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
            // Can't fail: there are no more packets than runs.
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

/// Receives once and sends the packets through the queue again, which adds to received. Returns
/// whether there is more to do: not at the acknowledgement, or if the socket is empty. Fails with
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

/// Sends everything that waits through the queue again. An acknowledgement that found the buffer
/// full is lost: then it ends when as much was received as can have waited.
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

/// To be called before the first `queue::receive` of a queue that may come from another process:
/// configures it, if it does.
/// - batch: room for verdicts.
/// - received: to add what was sent through the queue again: as many ids were received, and
///   answered with `Verdict::Requeue`; as far as it went, if it fails.
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
    // Last: a shorter queue would not take back what waits.
    send_request(queue, QueueRequest::Length, false)
}

/// Frees a queue that another process has adopted: the socket stays bound and open there.
pub fn release(mut queue: Queue) {
    queue.bound = false;
    queue::close(&mut queue);
}
