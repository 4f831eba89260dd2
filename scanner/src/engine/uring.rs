// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine on io_uring: one ring, used by the thread that made it.
//!
//! Theory of operation. A slot's socket is a direct descriptor: the slot's number in the ring's own table, so that it
//! costs no place in the process' table. What is begun becomes entries of the submission queue, and one io_uring_enter a
//! round submits them all and waits. Where a connection is left behind, connect(AF_UNSPEC) is linked before the next
//! connect: an entry more, and no system call. Only what tells something completes: successes of entries that prepare
//! are skipped.
//!
//! Why the memory outlives the entries: the kernel reads an address when the entry is submitted, but writes into a
//! slot's input whenever bytes come. So both belong to this value, and when it is dropped, it first cancels what is
//! left and waits for each completion; if the kernel does not give them, the memory is left to it rather than reused.

use std::io;
use std::mem::ManuallyDrop;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{DestinationSlot, Fixed, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, IoUring};

use super::features::Features;
use super::memory::Memory;
use super::sockaddr::Sockaddr;
use super::{Before, Completion, Engine, Operation};
use crate::targets::Family;

/// Entries that one system call submits at most.
const ENTRIES: u32 = 1024;
/// Entries of the longest chain: abort, open, connect.
const CHAIN: usize = 3;
/// A completion of what nobody waits for.
const NOBODY: u64 = u64::MAX;
/// How long the end waits for what it has cancelled.
const END_NS: u64 = 2_000_000_000;

static TO_NOBODY: Sockaddr = Sockaddr::NOBODY;

pub struct Uring {
    ring: IoUring,
    /// Given back on a clean end only.
    held: ManuallyDrop<Held>,
    /// Completions that made room for a submission.
    early: Vec<Completion>,
    pending: usize,
    calls: u64,
    overflows: u64,
}

/// What the kernel may read or write.
struct Held {
    memory: Memory,
    addresses: Vec<Sockaddr>,
    /// What the kernel is at, by slot.
    busy: Vec<Option<Operation>>,
}

impl Uring {
    /// On the thread that uses it. Fails with EMFILE if a table of so many descriptors is more than RLIMIT_NOFILE.
    pub fn new(slots: usize, memory: Memory, features: Features) -> io::Result<Uring> {
        let mut builder = IoUring::builder();
        // Each slot has an operation and perhaps a cancellation; what prepares tells failures only.
        let completions = (4 * slots as u32).clamp(2 * ENTRIES, 65536);
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
                busy: vec![None; slots],
            }),
            early: Vec::with_capacity(4 * slots),
            pending: 0,
            calls: 0,
            overflows: 0,
        })
    }

    /// Queues a chain whole: a link does not reach over two submissions.
    fn push(&mut self, chain: &[Entry]) {
        let mut queue = self.ring.submission();
        if queue.capacity() - queue.len() < CHAIN {
            drop(queue);
            self.make_room();
            queue = self.ring.submission();
        }
        // SAFETY: what the entries point to lives in `held` or is static, and `held` outlives the ring's use of it.
        let pushed = unsafe { queue.push_multiple(chain) };
        debug_assert!(pushed.is_ok(), "room was made for a chain");
    }

    /// Submits until the queue has room. Refusals for lack of memory, or of room for completions, pass.
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

    /// Takes completions as far as `ended` has room.
    fn reap(&mut self, ended: &mut Vec<Completion>) {
        if self.ring.submission().cq_overflow() {
            self.overflows += 1;
        }
        let mut queue = self.ring.completion();
        while ended.len() < ended.capacity() {
            let Some(entry) = queue.next() else { break };
            let Some(completion) = read(&entry) else {
                continue;
            };
            if completion.operation != Operation::Prepare {
                self.held.busy[completion.slot as usize] = None;
                self.pending -= 1;
            }
            ended.push(completion);
        }
    }

    fn begin(&mut self, slot: usize, operation: Operation) {
        debug_assert!(self.held.busy[slot].is_none());
        self.held.busy[slot] = Some(operation);
        self.pending += 1;
    }

    /// Cancels what is left and waits for it; false if the kernel does not give it back.
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

fn abort_entry(slot: usize) -> Entry {
    let nobody = &TO_NOBODY;
    opcode::Connect::new(Fixed(slot as u32), nobody.as_ptr(), nobody.len())
        .build()
        .flags(Flags::SKIP_SUCCESS)
        .user_data(tag(slot, Operation::Prepare))
}

fn open_entry(slot: usize, family: Family) -> Entry {
    let place = DestinationSlot::try_from_slot_target(slot as u32).ok();
    opcode::Socket::new(family.domain(), libc::SOCK_STREAM, 0)
        .file_index(place)
        .build()
        .flags(Flags::SKIP_SUCCESS | Flags::IO_LINK)
        .user_data(tag(slot, Operation::Prepare))
}

fn tag(slot: usize, operation: Operation) -> u64 {
    slot as u64 | (operation as u64) << 32
}

/// None: of a cancellation, which came too late if it failed, and is told by its target if not.
fn read(entry: &cqueue::Entry) -> Option<Completion> {
    let tag = entry.user_data();
    let operation = match tag >> 32 {
        0 => Operation::Connect,
        1 => Operation::Receive,
        2 => Operation::Send,
        3 => Operation::Prepare,
        _ => return None,
    };
    Some(Completion {
        slot: tag as u32,
        operation,
        result: entry.result(),
    })
}

impl Engine for Uring {
    fn connect(&mut self, slot: usize, to: &Sockaddr, before: Before) {
        self.begin(slot, Operation::Connect);
        self.held.addresses[slot] = *to;
        let address = &self.held.addresses[slot];
        let connect = opcode::Connect::new(Fixed(slot as u32), address.as_ptr(), address.len())
            .build()
            .user_data(tag(slot, Operation::Connect));
        match before {
            Before::Nothing => self.push(&[connect]),
            Before::Abort => {
                let abort = abort_entry(slot).flags(Flags::IO_LINK | Flags::SKIP_SUCCESS);
                self.push(&[abort, connect]);
            }
            Before::Open(family) => self.push(&[open_entry(slot, family), connect]),
        }
    }

    fn abort(&mut self, slot: usize) {
        self.push(&[abort_entry(slot)]);
    }

    fn receive(&mut self, slot: usize, filled: usize) {
        self.begin(slot, Operation::Receive);
        let (to, room) = self.held.memory.input(slot, filled);
        let entry = opcode::Recv::new(Fixed(slot as u32), to, room as u32)
            .build()
            .user_data(tag(slot, Operation::Receive));
        self.push(&[entry]);
    }

    fn send(&mut self, slot: usize, from: usize, to: usize) {
        self.begin(slot, Operation::Send);
        let (at, bytes) = self.held.memory.output(slot, from, to);
        let entry = opcode::Send::new(Fixed(slot as u32), at, bytes as u32)
            .build()
            .user_data(tag(slot, Operation::Send));
        self.push(&[entry]);
    }

    fn cancel(&mut self, slot: usize) {
        // By its tag, which the kernel finds in a hash; by descriptor it would look through all that wait.
        let Some(operation) = self.held.busy[slot] else {
            return;
        };
        let entry = opcode::AsyncCancel::new(tag(slot, operation))
            .build()
            .flags(Flags::SKIP_SUCCESS)
            .user_data(NOBODY);
        self.push(&[entry]);
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
            // Nothing came in time, a signal did, or the kernel has no memory for more at the moment.
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
            // SAFETY: the kernel has no operation left, and nobody uses `held` after this.
            unsafe { ManuallyDrop::drop(&mut self.held) };
        }
    }
}
