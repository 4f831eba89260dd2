// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: clock_nanosleep
//! Queue of the kernel: open, receive, answer, close. Three backends implement it (queue_classic, queue_mnl,
//! queue_raw).
//!
//! Theory of operation: `open` sends requests in this order: BIND, the queue's length, the flags, and the copy mode.
//! After BIND it sets the receive buffer. The kernel queues packets from the copy mode on. Therefore only the
//! acknowledgement of the copy mode can arrive after packets. A packet before this acknowledgement proves that the
//! kernel has executed the request. The packet stays in the arena for the first `receive`, which ignores the late
//! acknowledgement.

use std::os::fd::BorrowedFd;

use nix::errno::Errno;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{clock_nanosleep, ClockId, ClockNanosleepFlags};
use sys_bindings::{
    NFQA_CFG_F_CONNTRACK, NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_GSO, NFQA_CFG_F_UID_GID,
};

use crate::base::log::{failure_set, failure_set_start, strerror, warn, Failure, LogExit};
use crate::packet::verdict::{self, VerdictBatch};
use crate::queue;
use crate::queue::frame::{is_vacant, tells_of_packet, truncated};
use crate::queue::types::*;

/// Maximum number of attempts to bind a queue that the kernel still keeps after a crash, with a pause of 1 ms after
/// each attempt: about 2 seconds.
const BIND_TRIES: u32 = 2000;

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
        QueueKind::Classic => queue::classic::request(queue, request),
        QueueKind::Mnl => queue::mnl::request(queue, request),
        QueueKind::Raw => queue::raw::request(queue, request),
    }
}

fn fail_owned(queue: &Queue, portid: u32) -> Failure {
    let number = queue.settings.number;
    let owner = match queue::proc::owner(portid) {
        Ok(owner) => format!("pid {} ({})", owner.pid, owner.comm),
        Err(_) => format!("another process (netlink port {portid})"),
    };
    let text =
        format!("queue {number} is owned by {owner}: stop it or choose another with --queue");
    failure_set(LogExit::Owned, text)
}

/// Returns the failure to allocate a queue's arena. The paper profile requests 4 GiB of address space.
fn fail_arena(settings: &QueueSettings, error: Errno) -> Failure {
    let bytes = settings.slot_bytes * u64::from(settings.batch);
    let text = strerror(error);
    failure_set(
        LogExit::Call,
        format_args!(
            "{bytes} bytes to receive packets into: {text}: allow the process more memory \
             (ulimit -v, LimitAS= of the unit), or ask for less with --profile fast, --copy-bytes or --batch"
        ),
    )
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

/// Returns the failure for an errno of the request to bind a queue. EPERM means that a capability is missing or that
/// another process owns the queue.
fn fail_bind(queue: &Queue, error: Errno) -> Failure {
    let owner = match queue::proc::figures(queue.settings.number) {
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

/// Creates a closed queue with all its buffers.
pub fn prepare(settings: &QueueSettings) -> Result<Queue, Failure> {
    let socket = queue::socket::init(settings.batch, settings.slot_bytes)
        .map_err(|error| fail_arena(settings, error))?;
    // Number of runs of a batch: a gap before each packet, each packet, and a gap after the last packet.
    let runs = 2 * settings.batch as usize + 1;
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
        verdicts_most: runs,
        verdicts: vec![0; runs * VERDICT_BYTES + RESTATED_BYTES],
        failed_call: "",
    })
}

fn open_socket(queue: &mut Queue) -> Result<(), Failure> {
    let opened = match queue.settings.kind {
        QueueKind::Classic => queue::classic::open(queue),
        QueueKind::Mnl => queue::mnl::open(queue),
        QueueKind::Raw => queue::raw::open(queue),
    };
    match opened {
        Ok(()) => {}
        Err(Errno::EPROTONOSUPPORT | Errno::EAFNOSUPPORT) => return Err(fail_no_nfqueue()),
        Err(error) => return Err(failure_set_start("socket", error)),
    }
    queue::socket::bound_wait(&queue.socket)
        .map_err(|error| failure_set_start("setsockopt(SO_RCVTIMEO)", error))
}

/// Returns true if a queue that could not be bound may soon be free, because no visible process except the guard has
/// its socket. After a crash the kernel keeps the queue until the guard, the last process with the socket, has ended
/// completely.
fn is_leaving(queue: &Queue, error: Errno) -> bool {
    if !matches!(error, Errno::EPERM | Errno::EBUSY) {
        return false;
    }
    let figures = queue::proc::figures(queue.settings.number);
    let owner = figures.and_then(|figures| queue::proc::owner(figures.portid));
    owner.map_or(true, |owner| owner.comm == queue::proc::GUARD)
}

fn bind_queue(queue: &mut Queue) -> Result<(), Failure> {
    let mut result = request(queue, QueueRequest::Bind);
    for _ in 1..BIND_TRIES {
        match result {
            Err(error) if is_leaving(queue, error) => pause(),
            _ => break,
        }
        result = request(queue, QueueRequest::Bind);
    }
    result.map_err(|error| fail_bind(queue, error))?;
    queue.bound = true;
    Ok(())
}

/// Sets the receive buffer to the size in the settings. If the kernel gives a smaller buffer, fails if
/// settings.receive_buffer_required is set, and otherwise logs a warning.
pub fn set_buffer(queue: &mut Queue) -> Result<(), Failure> {
    let wanted = queue.settings.receive_buffer;
    let granted = queue::socket::set_buffer(&queue.socket, wanted)
        .map_err(|error| failure_set_start("setsockopt(SO_RCVBUF)", error))?;
    queue.receive_buffer = granted;
    if granted >= wanted {
        return Ok(());
    }
    if queue.settings.receive_buffer_required {
        return Err(failure_set(
            LogExit::Buffer,
            format_args!(
                "the kernel gives a receive buffer of {granted} bytes where --receive-buffer asks \
                 for {wanted}: raise net.core.rmem_max or ask for less"
            ),
        ));
    }
    warn(format_args!(
        "the receive buffer is {granted} of {wanted} bytes: raise net.core.rmem_max, \
         or losses come earlier"
    ));
    Ok(())
}

fn must_request(queue: &mut Queue, what: QueueRequest) -> Result<(), Failure> {
    request(queue, what).map_err(|error| failure_set_start(request_name(what), error))
}

/// Requests flags of the queue (NFQA_CFG_F_*). If this process does not own the queue, only checks that the kernel
/// supports the flags: the kernel examines the flags before the owner.
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

/// Requests the conntrack attribute (if settings.conntrack is set) in a separate request, so that a refusal has only
/// one possible reason.
fn set_conntrack(queue: &mut Queue) -> Result<(), Failure> {
    if !queue.settings.conntrack {
        return Ok(());
    }
    request_flags(queue, NFQA_CFG_F_CONNTRACK).map_err(|error| match error {
        Errno::EOPNOTSUPP | Errno::EINVAL | Errno::EAGAIN => failure_set(
            LogExit::Kernel,
            "the policy uses ct, and this kernel gives no connection tracking with a \
             packet: load nf_conntrack_netlink, or have the state put into marks (load \
             conntrack-input, of rules/ or /usr/share/twinwall) and start with --conntrack mark",
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

/// Checks that this process may configure queues. Uses a new socket that owns no queue. Returns the flags
/// (NFQA_CFG_F_*) that the settings request and the kernel supports. Fails as `open` does.
pub fn probe(settings: &QueueSettings) -> Result<u32, Failure> {
    let own = QueueSettings {
        kind: QueueKind::Raw,
        batch: 1,
        ..settings.clone()
    };
    let mut probe = prepare(&own)?;
    open_socket(&mut probe)?;
    // The kernel does not have all these flags, so it refuses the request for every queue. But it checks the capability
    // first.
    probe.flags = u32::MAX;
    if request(&mut probe, QueueRequest::Flags) == Err(Errno::EPERM) {
        return Err(fail_capability());
    }
    probe.flags = 0;
    set_flags(&mut probe)?;
    Ok(probe.flags)
}

/// Opens and configures a queue; packets then arrive. On failure everything is closed.
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

/// Parses the readable parts of a malformed message and counts it. If the message contains a packet, adds the packet to
/// the queue's packets, with its ID if that is readable.
fn take_spoiled(bytes: &[u8], packet: &mut QueuePacket, received: &mut QueueReceived) {
    let nameless = truncated(bytes, packet) != QueueParsed::Packet;
    received.malformed += 1;
    received.nameless += u32::from(nameless);
    if bytes.len() < MESSAGE_BYTES || !tells_of_packet(bytes) {
        return;
    }
    if nameless {
        *packet = QueuePacket {
            nameless: true,
            ..QueuePacket::default()
        };
    }
    packet.truncated = false;
    packet.spoiled = true;
    received.packets += 1;
    received.ids += u32::from(!nameless);
}

/// Parses a received message and counts it.
/// - index: slot of the message.
fn take_message(queue: &mut Queue, index: u32, received: &mut QueueReceived) {
    let message = queue::socket::message(&queue.socket, index);
    let Some(packet) = queue.packets.get_mut(received.packets as usize) else {
        return; // not reached: there is a place for each message
    };
    received.messages += 1;
    if is_vacant(message.bytes) {
        received.vacant += 1;
        return;
    }
    let parsed = match &mut queue.backend {
        _ if message.truncated => truncated(message.bytes, packet),
        QueueBackend::Classic(library) => queue::classic::parse(library, message.bytes, packet),
        QueueBackend::Mnl(_) => queue::mnl::parse(message.bytes, packet),
        QueueBackend::Raw(_) => queue::raw::parse(message.bytes, packet),
        QueueBackend::Closed => QueueParsed::Ignored,
    };
    match parsed {
        QueueParsed::Packet => {
            packet.payload_offset += queue::socket::slot_offset(&queue.socket, index);
            received.packets += 1;
            received.ids += 1;
        }
        QueueParsed::Ignored => received.ignored += 1,
        QueueParsed::Malformed => take_spoiled(message.bytes, packet, received),
        QueueParsed::Refused(_) => received.refused += 1,
    }
}

/// Returns the number of messages in the receive slots: in the first call the messages that arrived during
/// configuration, if any, otherwise newly received messages.
fn next_messages(queue: &mut Queue) -> Result<u32, Errno> {
    match std::mem::take(&mut queue.pending) {
        0 => queue::socket::receive(&mut queue.socket, false),
        pending => Ok(pending),
    }
}

/// Receives at most settings.batch messages without blocking. The packets stay in queue.packets until the next call.
/// Fails with queue.failed_call set.
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
            queue.failed_call = queue::socket::receive_call(&queue.socket);
            return Err(error);
        }
    };
    queue.pending_overruns = 0;
    for index in 0..count {
        take_message(queue, index, &mut received);
    }
    Ok(received)
}

/// Returns the copied bytes of a packet of the last `receive`, from its IP header on.
pub fn payload<'a>(queue: &'a Queue, packet: &QueuePacket) -> &'a [u8] {
    queue::socket::arena(&queue.socket, packet.payload_offset, packet.payload_bytes)
}

/// Returns true if sending may succeed later after this error.
pub fn is_transient(error: Errno) -> bool {
    matches!(
        error,
        Errno::ENOBUFS | Errno::EAGAIN | Errno::ENOMEM | Errno::EINTR
    )
}

/// Sends as many unsent runs as fit into one datagram to the kernel, whose size net.core.wmem_default limits; with the
/// classic backend one run, unless a packet goes back to the kernel. If the datagram is too long, sends nothing: sets
/// `verdicts_most` to half the number of its runs, or changes its single run to a drop if its packet goes back.
fn send_runs(queue: &mut Queue, batch: &mut VerdictBatch) -> Result<(), Errno> {
    let runs = verdict::batch_rest(batch, queue.verdicts_most);
    let is_restated = queue::restate::is_among(runs);
    let result = match queue.settings.kind {
        _ if is_restated => queue::restate::verdict(queue, runs),
        QueueKind::Classic => queue::classic::verdict(queue, runs),
        QueueKind::Mnl => queue::mnl::verdict(queue, runs),
        QueueKind::Raw => queue::raw::verdict(queue, runs),
    };
    match result {
        Err(Errno::EMSGSIZE) if runs.len() > 1 => queue.verdicts_most = runs.len() / 2,
        Err(Errno::EMSGSIZE) if is_restated => verdict::batch_withhold(batch),
        sent => batch.sent += sent?,
    }
    Ok(())
}

/// Returns the name of the system call that sends the next unsent runs. The backend classic sends most verdicts by its
/// library (sendmsg), but the verdicts for gaps, and packets that go back to the kernel, by sendto.
fn verdict_call(queue: &Queue, batch: &VerdictBatch) -> &'static str {
    let runs = verdict::batch_rest(batch, queue.verdicts_most);
    let is_raw = queue::restate::is_among(runs) || runs.first().is_some_and(|run| run.gap);
    match queue.settings.kind {
        _ if is_raw => queue::raw::VERDICT_CALL,
        QueueKind::Classic => queue::classic::VERDICT_CALL,
        QueueKind::Mnl => queue::mnl::VERDICT_CALL,
        QueueKind::Raw => queue::raw::VERDICT_CALL,
    }
}

/// Sends the unsent runs of the batch in order. Uses one system call per datagram. With the classic backend a datagram
/// usually has one run. Fails with queue.failed_call and batch.sent set. After a transient error (`is_transient`) the
/// caller may call it again after `pause`.
pub fn verdict(queue: &mut Queue, batch: &mut VerdictBatch) -> Result<(), Errno> {
    let mut result = Ok(());
    while result.is_ok() && verdict::batch_unsent(batch) {
        result = send_runs(queue, batch);
    }
    if result.is_err() {
        queue.failed_call = verdict_call(queue, batch);
    }
    result
}

/// Sleeps for PAUSE_NS.
pub fn pause() {
    let pause = TimeSpec::nanoseconds(PAUSE_NS);
    let flags = ClockNanosleepFlags::empty();
    let _ = clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &pause); // a signal may shorten it
}

/// Returns the file descriptor to poll for reading. Fails with EBADF if the queue is closed.
pub fn fd(queue: &Queue) -> Result<BorrowedFd<'_>, Errno> {
    queue::socket::fd(&queue.socket)
}

/// Closes the queue. Unbinds it first if queue.bound is set; then the kernel drops waiting packets.
pub fn close(queue: &mut Queue) {
    if std::mem::take(&mut queue.bound) {
        // A failure is ignored, because the kernel also unbinds the queue when no process has the socket any more.
        let _ = request(queue, QueueRequest::Unbind);
    }
    queue::socket::forget_fd(&mut queue.socket);
    queue.backend = QueueBackend::Closed;
}

impl Drop for Queue {
    fn drop(&mut self) {
        close(self);
    }
}
