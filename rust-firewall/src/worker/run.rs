// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: poll clock_nanosleep sched_yield sched_getaffinity sched_setaffinity kill read
//! Loop of a worker's thread: receive, parse, decide, send the verdicts, wait. The thread shares its counters, requests
//! and events, and the state of policies, with other threads. Between receiving packets and sending their verdicts it
//! does not allocate or print, and locks only the table of learned addresses.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sched::{sched_getaffinity, sched_setaffinity, sched_yield, CpuSet};
use nix::sys::signal::{kill, Signal};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{clock_nanosleep, ClockId, ClockNanosleepFlags};
use nix::unistd::{getpid, Pid};

use crate::base::lock;
use crate::connection::lifetime;
use crate::engine::types::DecideOutcome;
use crate::packet::verdict::{self, Verdict};
use crate::packet::{self, Packet, PacketStatus};
use crate::queue::{self, Queue, QueuePacket, QueueReceived};
use crate::worker::stats::{self, Ledger};
use crate::worker::types::{Ended, Own, Shared, WorkerError};
use crate::worker::wait::{self, WaitAction};
use crate::worker::{evaluate, event, reading};

fn is_stopped(own: &Own) -> bool {
    own.shared.stop.load(Ordering::Acquire)
}

/// Forgets all connections if the policy reads no names. Then no packets are followed, so another connection may use
/// the same ports before a later policy reads names.
fn forget_unfollowed(evaluation: &mut evaluate::Evaluation) {
    let source = evaluation.source.as_ref();
    let reads_names = source.is_some_and(|source| source.requirement.names);
    let connections = evaluation.connections.as_deref_mut();
    if let Some(connections) = connections.filter(|_| !reads_names) {
        lifetime::abandon_all(connections, wait::clock());
    }
}

/// Switches to the new policy, if a swap was requested. Called between two batches, so that a single policy decides
/// each packet.
fn look_for_swap(own: &mut Own) {
    if !own.shared.swap.load(Ordering::Acquire) {
        return;
    }
    if let Some(next) = lock::lock(&own.shared.next).take() {
        own.evaluation.source = Some(next);
    }
    forget_unfollowed(&mut own.evaluation);
    own.shared.swap.store(false, Ordering::Release);
}

/// Fills in a page of connections, if a listing was requested. Called between two batches.
fn look_for_listing(own: &mut Own) {
    if own.shared.lists.load(Ordering::Acquire) {
        let mut page = lock::lock(&own.shared.page);
        evaluate::list(&own.evaluation, wait::clock(), &mut page);
        drop(page);
        own.shared.lists.store(false, Ordering::Release);
    }
}

/// Clears the request for a sign of life (`asked`), which shows that the loop runs.
fn show_turn(own: &Own) {
    if own.shared.asked.load(Ordering::Acquire) {
        own.shared.asked.store(false, Ordering::Release);
    }
}

/// Returns the error that ends the loop, from the failed system call and its errno.
fn fail(failed_call: &'static str, error: Errno) -> WorkerError {
    WorkerError { failed_call, error }
}

fn count_received(own: &mut Own, received: &QueueReceived) {
    let stats = &own.shared.stats;
    stats::add(&stats.received, received.ids.into());
    stats::add(&stats.without_id, received.nameless.into());
    stats::add(&stats.netlink, received.malformed.into());
    stats::add(&stats.refused, received.refused.into());
    stats::add(&stats.overruns, received.overruns.into());
    if received.overruns > 0 {
        verdict::batch_overrun(&mut own.batch);
    }
}

/// Receives packets, and counts all messages by kind.
fn receive(own: &mut Own) -> Result<QueueReceived, WorkerError> {
    let received =
        queue::receive(&mut own.queue).map_err(|error| fail(own.queue.failed_call, error))?;
    count_received(own, &received);
    Ok(received)
}

/// Configures a queue that another process may have configured before. Sends waiting packets through the queue again if
/// they may lack data that the settings request. Does nothing for other queues.
fn resume(own: &mut Own) -> Result<(), WorkerError> {
    let mut received = QueueReceived::default();
    let result = queue::adopt::resume(&mut own.queue, &mut own.batch, &mut received);
    count_received(own, &received);
    let stats = &own.shared.stats;
    if let Some(requeued) = stats.verdicts.get(Verdict::Requeue as usize) {
        stats::add(requeued, received.ids.into());
    }
    result.map_err(|error| fail(own.queue.failed_call, error))
}

/// Parses a packet. Counts it if it is malformed, or if a header is beyond the copied bytes. With --copy-bytes 0 it
/// parses nothing, because no header was copied.
fn inspect<'a>(
    shared: &Shared,
    queue: &'a Queue,
    packet: &QueuePacket,
    parsed: &mut Packet<'a>,
) -> PacketStatus {
    let stats = &shared.stats;
    let mut status = PacketStatus::BeyondCopy;
    if shared.settings.copy_bytes > 0 {
        let payload = queue::payload(queue, packet);
        status = packet::parse(payload, packet.original_bytes, parsed);
    }
    if packet::is_malformed(status) {
        if let Some(counter) = stats.malformed.get(status as usize) {
            stats::add(counter, 1);
        }
    } else if status == PacketStatus::BeyondCopy {
        stats::add(&stats.beyond_copy, 1);
    }
    status
}

/// Decides a packet. Returns its verdict, and its mark if the verdict is `Verdict::Mark`.
fn judge(own: &mut Own, packet: &QueuePacket) -> (Verdict, u32) {
    let stats = &own.shared.stats;
    let mut status = PacketStatus::Ok;
    let mut parsed = Packet::default();
    stats::add(&stats.bytes, packet.original_bytes.into());
    if packet.truncated {
        stats::add(&stats.truncated, 1);
    }
    // A spoiled (malformed) message has no fields that a policy could read.
    if packet.spoiled {
        return (own.gaps, 0);
    }
    if own.paper {
        return (Verdict::Accept, 0);
    }
    if !packet.truncated {
        status = inspect(&own.shared, &own.queue, packet, &mut parsed);
    }
    let outcome = evaluate::packet(&mut own.evaluation, stats, packet, &parsed, status);
    verdict_of(&outcome)
}

/// Returns the verdict for the kernel and its mark: an accept with a mark becomes `Verdict::Mark`.
fn verdict_of(outcome: &DecideOutcome) -> (Verdict, u32) {
    let verdict = match outcome.verdict {
        Verdict::Accept if outcome.mark_set => Verdict::Mark,
        verdict => verdict,
    };
    (verdict, outcome.mark)
}

/// Sends the batch of verdicts, and counts the verdicts after the kernel has accepted all. If the kernel has no room,
/// the unsent verdicts stay in the batch; that is no failure.
fn send_verdicts(own: &mut Own) -> Result<(), WorkerError> {
    let stats = &own.shared.stats;
    match queue::verdict(&mut own.queue, &mut own.batch) {
        Err(error) if queue::is_transient(error) => {
            stats::add(&stats.send_retries, 1);
            own.tries += 1;
            queue::pause();
            return Ok(());
        }
        result => result.map_err(|error| fail(own.queue.failed_call, error))?,
    }
    own.tries = 0;
    for (counter, count) in stats.verdicts.iter().zip(own.verdicts) {
        if count > 0 {
            stats::add(counter, count);
        }
    }
    Ok(())
}

/// Decides a packet and adds its verdict to the batch. A packet without a readable ID becomes part of a gap instead.
/// - index: index of the packet in the queue's packets.
fn give_verdict(own: &mut Own, packet: &QueuePacket, index: usize) {
    if packet.nameless {
        verdict::batch_skip(&mut own.batch);
        return;
    }
    let (verdict, mark) = judge(own, packet);
    let batch = &mut own.batch;
    // It can't fail: the batch has room for a run per packet.
    let _ = match own.evaluation.restated.take() {
        Some(mut restated) => {
            restated.index = index as u32;
            stats::add(&own.shared.stats.restated, 1);
            verdict::batch_restate(batch, packet.id, verdict, mark, &restated)
        }
        None => verdict::batch_add(batch, packet.id, verdict, mark),
    };
    if let Some(count) = own.verdicts.get_mut(verdict as usize) {
        *count += 1;
    }
}

/// Decides the received packets and sends their verdicts as one batch.
fn give_verdicts(own: &mut Own, packets: u32) -> Result<(), WorkerError> {
    verdict::batch_clear(&mut own.batch);
    own.verdicts = [0; verdict::COUNT];
    if evaluate::has_policy(&own.evaluation) {
        own.evaluation.now_ns = wait::clock();
    }
    for index in 0..packets as usize {
        let Some(packet) = own.queue.packets.get(index).copied() else {
            break; // not reached: the queue has returned the number of packets
        };
        give_verdict(own, &packet, index);
    }
    verdict::batch_finish(&mut own.batch);
    let followed = evaluate::count_connections(&mut own.evaluation, &own.shared.stats);
    own.shared.followed.store(followed, Ordering::Relaxed);
    own.shared
        .last_id
        .store(own.batch.last_id, Ordering::Relaxed);
    if own.batch.gap_ids > 0 {
        stats::add(&own.shared.stats.gaps, own.batch.gap_ids.into());
    }
    let result = send_verdicts(own);
    event::flush(&mut own.evaluation.ring);
    result
}

/// Returns true if the loop must continue: it was not stopped, or it has unsent verdicts and has tried to send them
/// fewer than TRIES_MAX times.
fn goes_on(own: &Own) -> bool {
    !is_stopped(own) || (verdict::batch_unsent(&own.batch) && own.tries < queue::TRIES_MAX)
}

/// Runs one turn of the loop: sends the unsent verdicts of the last turn, or, if there are none, receives a batch of
/// packets and answers it. To preserve the order of verdicts, it receives nothing while verdicts are unsent. Packets
/// then wait in the kernel; the guard limits this time (--deadline).
fn run_once(own: &mut Own) -> Result<QueueReceived, WorkerError> {
    if verdict::batch_unsent(&own.batch) {
        send_verdicts(own)?;
        return Ok(QueueReceived {
            messages: own.shared.settings.batch, // upper bound: nothing was received
            ..QueueReceived::default()
        });
    }
    let received = receive(own)?;
    if received.packets > 0 {
        give_verdicts(own, received.packets)?;
    }
    Ok(received)
}

fn sleep_for(duration_ns: u64) -> Result<(), WorkerError> {
    let duration = TimeSpec::nanoseconds(duration_ns as i64);
    match clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::empty(),
        &duration,
    ) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(fail("clock_nanosleep", error)),
    }
}

fn sleep_in_poll(own: &mut Own) -> Result<(), WorkerError> {
    let fd = queue::fd(&own.queue).map_err(|error| fail("poll", error))?;
    let wake_event = &own.shared.wake_event;
    let mut sources = [
        PollFd::new(fd, PollFlags::POLLIN),
        PollFd::new(wake_event.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut sources, PollTimeout::NONE) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(fail("poll", error)),
    }
    if sources[1].any() == Some(true) {
        let _ = wake_event.read(); // reset, so that the eventfd does not wake the thread again
    }
    wait::woken(&mut own.wait, wait::clock());
    Ok(())
}

fn rest(own: &mut Own, action: WaitAction) -> Result<(), WorkerError> {
    match action {
        WaitAction::Again => Ok(()),
        WaitAction::Yield => {
            let _ = sched_yield(); // it can't fail
            Ok(())
        }
        WaitAction::Sleep => sleep_for(own.wait.coalesce_ns),
        WaitAction::Poll => sleep_in_poll(own),
    }
}

/// Runs the loop of --profile fast. It sends a batch's verdicts before it checks the stop flag.
fn run_fast(own: &mut Own) -> Result<(), WorkerError> {
    let batch = own.shared.settings.batch;
    own.wait = wait::init(batch, own.spin_us, own.coalesce_us, wait::clock());
    while goes_on(own) {
        look_for_swap(own);
        look_for_listing(own);
        show_turn(own);
        let received = run_once(own)?;
        if received.overruns == 0 && !verdict::batch_unsent(&own.batch) {
            let action = wait::next(&mut own.wait, wait::clock(), received.messages);
            rest(own, action)?;
        }
    }
    Ok(())
}

/// Runs the loop of --profile paper, which has no policy, and does not sleep while the socket is empty.
fn run_paper(own: &mut Own) -> Result<(), WorkerError> {
    while goes_on(own) {
        show_turn(own);
        run_once(own)?;
    }
    Ok(())
}

/// Binds the calling thread to one of the allowed CPUs, with --pin. The CPU's index among them is the worker's index
/// modulo their number.
fn pin(own: &Own) -> Result<(), WorkerError> {
    let Some(cpu) = own.cpu else {
        return Ok(());
    };
    let this_thread = Pid::from_raw(0);
    let allowed =
        sched_getaffinity(this_thread).map_err(|error| fail("sched_getaffinity", error))?;
    let allowed = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
    let mut own = CpuSet::new();
    if let Some(cpu) = allowed.clone().nth(cpu % allowed.count().max(1)) {
        own.set(cpu)
            .map_err(|error| fail("sched_setaffinity", error))?;
    }
    sched_setaffinity(this_thread, &own).map_err(|error| fail("sched_setaffinity", error))
}

/// Receives packets that were answered before the worker received them: by the guard, or by a gap's batch verdict,
/// which applies to all waiting packets up to its ID. Returns true if it received packets.
/// - ledger: unseen, stalled and queue_full together are the maximum number of packets that were answered before. (A
///   full queue may hide unseen packets.) The kernel's messages about refused verdicts arrive among these packets.
fn receive_decided(own: &mut Own, ledger: &Ledger) -> bool {
    let most = ledger.unseen + ledger.stalled + ledger.queue_full;
    let mut left = most;
    while left > 0 && own.tries < queue::TRIES_MAX {
        match run_once(own) {
            Ok(received) if received.messages + received.overruns > 0 => {
                left = left.saturating_sub(received.packets.into());
            }
            _ => break,
        }
    }
    left < most
}

/// Runs the loop until the worker is stopped or a system call fails. Then reads the last ledger, and closes the queue
/// unless keep_open is set. After an error sends SIGTERM to the process.
pub fn run(mut own: Box<Own>) -> Box<Own> {
    let loop_of = if own.paper { run_paper } else { run_fast };
    let result = pin(&own)
        .and_then(|()| resume(&mut own))
        .and_then(|()| loop_of(&mut own));
    let mut ledger = reading::ledger(&own.shared, false);
    if own.shared.confirmed.load(Ordering::Relaxed) {
        queue::adopt::confirm(&mut own.queue);
    }
    if !own.shared.keep_open.load(Ordering::Relaxed) {
        if result.is_ok() && receive_decided(&mut own, &ledger) {
            ledger = reading::ledger(&own.shared, false);
        }
        queue::close(&mut own.queue);
    }
    *lock::lock(&own.shared.ended) = Some(Ended {
        error: result.err(),
        ledger,
    });
    if result.is_err() {
        let _ = kill(getpid(), Signal::SIGTERM); // it can't fail
    }
    own
}
