// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine on io_uring: one ring, used by the thread that made it.
//!
//! Theory of operation. A slot's socket is a direct descriptor: the slot's number in the ring's own table, so it needs
//! no entry in the process's table. Operations become entries of the submission queue, and one io_uring_enter a round
//! submits them all and waits. To drop an old connection, connect(AF_UNSPEC) is linked before the next connect: one
//! more entry, and no system call. Only informative entries complete: successes of preparing entries are skipped, and a
//! failed entry cancels the rest of its chain silently.
//!
//! A connect that completes with 0 may not be connected. An ICMP error leaves a packet in the socket's error queue,
//! whose EPOLLERR ends the poll of IORING_OP_CONNECT. If the error is only a soft one (it arrived while a system call
//! held the socket, as it does over veth), or belongs to an earlier target, the operation finds no error and succeeds.
//! So each success is checked by a second connect: a connected socket returns EISCONN or 0, a connecting one EALREADY.
//! In the latter case SO_ERROR returns the soft error (Linux 6.7), and the socket is spoilt, since only MSG_ERRQUEUE
//! empties the queue.
//!
//! Lifetime of the memory: the kernel reads an address when the entry is submitted, but writes to a slot's input
//! whenever bytes arrive. This value therefore owns both. When dropped, it cancels the remaining operations and waits
//! for each completion; if completions are missing, it leaks the memory instead of reusing it.

use std::io;
use std::mem::ManuallyDrop;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fixed, SubmitArgs, Timespec};
use io_uring::{opcode, IoUring};

use super::entry::{error_entry, open_entry};
use super::features::Features;
use super::memory::Memory;
use super::sockaddr::Sockaddr;
use super::{Before, Completion, Engine, Operation};

/// Size of the submission queue: maximum number of entries per system call.
const ENTRIES: u32 = 1024;
/// Number of entries of the longest chain: its first entry opens a socket or aborts a connection, its second entry
/// connects the socket.
const CHAIN: usize = 2;
/// Maximum time that `drop` waits for cancelled operations.
const END_NS: u64 = 2_000_000_000;

static TO_NOBODY: Sockaddr = Sockaddr::NOBODY;

pub struct Uring {
    ring: IoUring,
    /// Memory that the kernel uses; it is freed only if all operations have ended.
    held: ManuallyDrop<Held>,
    /// Completions that were read to make room for a submission.
    early: Vec<Completion>,
    /// Slots whose connect needs a follow-up query, each with the kind of the query.
    unclear: Vec<(usize, u64)>,
    pending: usize,
    socket_error: bool,
    /// True if connect(AF_UNSPEC), which dissolves a socket's connection, also ends its pending connect.
    wakes: bool,
    calls: u64,
    overflows: u64,
}

/// Memory that the kernel may read or write.
struct Held {
    memory: Memory,
    addresses: Vec<Sockaddr>,
    /// SO_ERROR of each slot's socket, written by the kernel.
    errors: Vec<i32>,
    /// Kind of the pending operation of each slot, e.g. CONNECT; None without an operation.
    busy: Vec<Option<u64>>,
}

impl Uring {
    /// Creates the ring; must be called on the thread that uses it. Fails with EMFILE if `slots` exceeds RLIMIT_NOFILE.
    pub fn new(slots: usize, memory: Memory, features: Features) -> io::Result<Uring> {
        let mut builder = IoUring::builder();
        // Per slot: an operation and perhaps a cancellation; preparing entries complete only on failure.
        let completions = (2 * slots as u32).clamp(2 * ENTRIES, 65536);
        builder
            .setup_clamp()
            .setup_cqsize(completions.next_power_of_two());
        if features.single_issuer {
            builder.setup_single_issuer();
        }
        if features.coop_taskrun {
            builder.setup_coop_taskrun();
        }
        let ring = builder.build(ENTRIES)?;
        ring.submitter().register_files_sparse(slots as u32)?;
        Ok(Uring {
            ring,
            held: ManuallyDrop::new(Held {
                memory,
                addresses: vec![Sockaddr::NOBODY; slots],
                errors: vec![0; slots],
                busy: vec![None; slots],
            }),
            early: Vec::with_capacity(4 * slots),
            unclear: Vec::with_capacity(slots),
            pending: 0,
            socket_error: features.socket_error,
            // Before Linux 6.3 the connect would start again; SO_ERROR queries are newer than that.
            wakes: features.socket_error,
            calls: 0,
            overflows: 0,
        })
    }

    /// Queues the entries of a chain for one submission, because links between entries do not span two submissions.
    /// Submits first if the queue lacks room.
    fn push(&mut self, chain: &[Entry]) {
        let mut queue = self.ring.submission();
        if queue.capacity() - queue.len() < CHAIN {
            drop(queue);
            self.make_room();
            queue = self.ring.submission();
        }
        // SAFETY: the entries point to `held` or to static memory, and `held` outlives the ring's use of it.
        let pushed = unsafe { queue.push_multiple(chain) };
        assert!(pushed.is_ok(), "room was made for a chain");
    }

    /// Submits until the queue has room. Retries if the kernel lacks memory or room for completions.
    fn make_room(&mut self) {
        loop {
            self.calls += 1;
            let _ = self.ring.submit();
            let queue = self.ring.submission();
            if queue.capacity() - queue.len() >= CHAIN {
                return;
            }
            drop(queue);
            let mut early = std::mem::take(&mut self.early);
            self.reap(&mut early);
            self.early = early;
            std::thread::yield_now();
        }
    }

    /// Reads the kernel's completions while `ended` has room, and queues the follow-up queries that they need.
    fn reap(&mut self, ended: &mut Vec<Completion>) {
        if self.ring.submission().cq_overflow() {
            self.overflows += 1;
        }
        let mut queue = self.ring.completion();
        // One kernel completion may become two.
        while ended.len() + 1 < ended.capacity() {
            let Some(entry) = queue.next() else { break };
            let slot = entry.user_data() as u32;
            let (operation, result) = match (entry.user_data() >> 32, entry.result()) {
                // A connect that finished before it was dissolved counts as cancelled: its time was over.
                (CONNECT, 0 | RESET) if self.held.busy[slot as usize] == Some(CANCELLED) => {
                    (Operation::Connect, -libc::ECANCELED)
                }
                (CONNECT, 0) => {
                    self.unclear.push((slot as usize, CONNECTED));
                    continue;
                }
                (CONNECT, result) => (Operation::Connect, result),
                (RECEIVE, result) => (Operation::Receive, result),
                (SEND, result) => (Operation::Send, result),
                (PREPARE, result) => (Operation::Prepare, result),
                (ABORT, result) => (Operation::Spoilt, result),
                (CONNECTED, result) => match -result {
                    libc::EISCONN => (Operation::Connect, 0),
                    libc::EALREADY if self.socket_error => {
                        self.unclear.push((slot as usize, SOCKET_ERROR));
                        continue;
                    }
                    libc::EALREADY => {
                        ended.push(spoilt(slot));
                        (Operation::Connect, result)
                    }
                    _ => (Operation::Connect, result),
                },
                (SOCKET_ERROR, _) => {
                    ended.push(spoilt(slot));
                    match self.held.errors[slot as usize] {
                        0 => (Operation::Connect, -libc::EALREADY),
                        error => (Operation::Connect, -error),
                    }
                }
                // The completion of a late cancellation; a successful one is reported by the cancelled operation.
                _ => continue,
            };
            if operation != Operation::Spoilt {
                self.held.busy[slot as usize] = None;
                self.pending -= 1;
            }
            ended.push(Completion {
                slot,
                operation,
                result,
            });
        }
        drop(queue);
        while let Some((slot, what)) = self.unclear.pop() {
            let question = match what {
                CONNECTED => connect_entry(slot, &self.held.addresses[slot]),
                _ => error_entry(slot, &mut self.held.errors[slot]),
            };
            self.held.busy[slot] = Some(what);
            self.push(&[question.user_data(tag(slot, what))]);
        }
    }

    fn begin(&mut self, slot: usize, what: u64) {
        debug_assert!(self.held.busy[slot].is_none());
        self.held.busy[slot] = Some(what);
        self.pending += 1;
    }

    /// Cancels all operations and waits for them; returns false if some do not complete.
    fn give_up(&mut self) -> bool {
        let mut ended = Vec::with_capacity(self.held.busy.len() + 1);
        for slot in 0..self.held.busy.len() {
            self.cancel(slot);
        }
        let start = std::time::Instant::now();
        while self.pending > 0 && start.elapsed().as_nanos() < u128::from(END_NS) {
            ended.clear();
            if self.wait(1, END_NS / 20, &mut ended).is_err() {
                return false;
            }
        }
        self.pending == 0
    }
}

fn connect_entry(slot: usize, to: &Sockaddr) -> Entry {
    opcode::Connect::new(Fixed(slot as u32), to.as_ptr(), to.len()).build()
}

/// Kind of an entry that connects a slot's socket. The upper half of an entry's user_data is its kind, the lower half
/// its slot.
const CONNECT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const PREPARE: u64 = 3;
const ABORT: u64 = 4;
/// Kind of a second connect, which checks after a successful connect that the socket is connected.
const CONNECTED: u64 = 5;
const SOCKET_ERROR: u64 = 6;
const CANCEL: u64 = 7;
/// Mark of a slot whose pending connect was dissolved; no entry has this kind.
const CANCELLED: u64 = 8;
/// Result of a pending connect whose socket was dissolved (reset).
const RESET: i32 = -libc::ECONNRESET;

fn tag(slot: usize, what: u64) -> u64 {
    slot as u64 | what << 32
}

fn spoilt(slot: u32) -> Completion {
    Completion {
        slot,
        operation: Operation::Spoilt,
        result: 0,
    }
}

impl Engine for Uring {
    fn connect(&mut self, slot: usize, to: &Sockaddr, before: Before) {
        self.begin(slot, CONNECT);
        self.held.addresses[slot] = *to;
        let to = &self.held.addresses[slot];
        let connect = connect_entry(slot, to).user_data(tag(slot, CONNECT));
        let prepare = match before {
            Before::Nothing => return self.push(&[connect]),
            Before::Abort => connect_entry(slot, &TO_NOBODY),
            Before::Open(family) => open_entry(slot, family),
        };
        let prepare = prepare
            .flags(Flags::IO_LINK | Flags::SKIP_SUCCESS)
            .user_data(tag(slot, PREPARE));
        self.push(&[prepare, connect]);
    }

    fn abort(&mut self, slot: usize) {
        let abort = connect_entry(slot, &TO_NOBODY)
            .flags(Flags::SKIP_SUCCESS)
            .user_data(tag(slot, ABORT));
        self.push(&[abort]);
    }

    fn receive(&mut self, slot: usize, filled: usize) {
        self.begin(slot, RECEIVE);
        let (to, room) = self.held.memory.input(slot, filled);
        let entry = opcode::Recv::new(Fixed(slot as u32), to, room as u32)
            .build()
            .user_data(tag(slot, RECEIVE));
        self.push(&[entry]);
    }

    fn send(&mut self, slot: usize, from: usize, to: usize) {
        self.begin(slot, SEND);
        let (at, bytes) = self.held.memory.output(slot, from, to);
        let entry = opcode::Send::new(Fixed(slot as u32), at, bytes as u32)
            .build()
            .user_data(tag(slot, SEND));
        self.push(&[entry]);
    }

    fn cancel(&mut self, slot: usize) {
        // Cancels by tag, which the kernel finds by hash; by descriptor it would search all pending operations.
        let cancel = |what| {
            opcode::AsyncCancel::new(tag(slot, what))
                .build()
                .flags(Flags::SKIP_SUCCESS)
                .user_data(tag(slot, CANCEL))
        };
        match self.held.busy[slot] {
            None => {}
            Some(CONNECT | CANCELLED) => {
                self.held.busy[slot] = Some(CANCELLED);
                // Needless if dissolving the socket (`abort`) also ends the connect.
                if !self.wakes {
                    self.push(&[cancel(CONNECT)]);
                }
                self.abort(slot);
            }
            Some(what) => self.push(&[cancel(what)]),
        }
    }

    fn memory(&mut self, slot: usize) -> (&mut [u8], &mut [u8]) {
        assert!(self.held.busy[slot].is_none(), "the kernel is still at it");
        // SAFETY: the slot has no operation, by the line above.
        unsafe { self.held.memory.both(slot) }
    }

    fn wait(
        &mut self,
        least: usize,
        longest_ns: u64,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()> {
        if !self.early.is_empty() {
            let count = self.early.len().min(ended.capacity() - ended.len());
            ended.extend(self.early.drain(..count));
        }
        let least = if ended.is_empty() { least } else { 0 };
        self.calls += 1;
        let submitted = match longest_ns == 0 || least == 0 {
            true => self.ring.submit(),
            false => {
                let time = Timespec::new()
                    .sec(longest_ns / 1_000_000_000)
                    .nsec((longest_ns % 1_000_000_000) as u32);
                let arguments = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(least, &arguments)
            }
        };
        match submitted.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) => {}
            // A time-out, a signal, or a temporary lack of memory or of room for completions.
            Err((Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY), _)) => {}
            Err((_, error)) => return Err(error),
        }
        self.reap(ended);
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn overflows(&self) -> u64 {
        self.overflows
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if self.give_up() {
            // SAFETY: the kernel has no operation left, and nothing uses `held` after this.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        }
    }
}
