// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures packets by io_uring: one multishot RECVMSG (Linux 6.0) completes once per packet, with a buffer from a
//! shared ring of buffers. The kernel copies to this program's mapping, which may have huge pages.

use std::io;
use std::mem::{size_of, zeroed, ManuallyDrop};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::register::Restriction;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, RecvMsgOut, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, IoUring};
use libc::{msghdr, sockaddr_ll};

use crate::aside::{self, CONTROL_BYTES};
use crate::packet::Packet;
use crate::pages::{Area, Memory, Pages};
use crate::socket::Socket;
use crate::source::{Ready, Source, WAIT};

const MOST_SLOTS: usize = 512;
const GROUP: u16 = 0;
/// Bytes of a sockaddr_ll, padded so that the control messages after it are aligned.
const NAME_BYTES: usize = size_of::<sockaddr_ll>().next_multiple_of(8);
/// Bytes before the packet: three lengths and flags (struct io_uring_recvmsg_out), the address, control messages.
const HEAD_BYTES: usize = 16 + NAME_BYTES + CONTROL_BYTES;
const PAGE: usize = 4096;
/// IOSQE_BUFFER_SELECT (<linux/io_uring.h>).
const BUFFER_SELECT: u8 = 1 << 5;
/// IORING_REGISTER_ENABLE_RINGS (<linux/io_uring.h>).
const REGISTER_ENABLE_RINGS: u8 = 12;
/// IORING_REGISTER_SYNC_CANCEL (<linux/io_uring.h>).
const REGISTER_SYNC_CANCEL: u8 = 24;

pub struct Uring {
    ring: IoUring,
    socket: Socket,
    /// Header of the multishot recvmsg: lengths of the address and of the control data in each buffer. The kernel may
    /// read it while the request is armed.
    head: ManuallyDrop<Box<msghdr>>,
    /// Ring of free buffers.
    free: ManuallyDrop<Memory>,
    slots: ManuallyDrop<Memory>,
    slot_bytes: usize,
    count: usize,
    tail: u16,
    /// True if the multishot request is armed in the kernel, or queued for the next submission.
    is_armed: bool,
    /// True if a packet found no free buffer.
    is_behind: bool,
    error: Option<i32>,
}

// SAFETY: the pointers lead to memory that this value owns, which is not bound to a thread.
unsafe impl Send for Uring {}

/// Returns the number of buffers, and the bytes of each buffer.
fn slots(buffer_bytes: usize, snap_bytes: usize) -> (usize, usize) {
    let bytes = (HEAD_BYTES + snap_bytes).next_multiple_of(PAGE);
    let count = (buffer_bytes / bytes).clamp(8, MOST_SLOTS);
    // The largest power of two up to this number.
    (1 << count.ilog2(), bytes)
}

impl Uring {
    /// Returns the bytes that `new` needs for packets; [`Memory::new`] rounds them up to huge pages.
    pub fn memory_bytes(buffer_bytes: usize, snap_bytes: usize) -> usize {
        let (count, bytes) = slots(buffer_bytes, snap_bytes);
        count * bytes
    }

    /// Prepares a socket before it is bound. `buffer_bytes` is the size of the kernel's receive buffer; the memory here
    /// has the size that `memory_bytes` returns.
    pub fn new(
        socket: Socket,
        buffer_bytes: usize,
        snap_bytes: usize,
        pages: Pages,
    ) -> io::Result<Uring> {
        let (count, slot_bytes) = slots(buffer_bytes, snap_bytes);
        aside::prepare(&socket, buffer_bytes)?;
        let slots = Memory::new(count * slot_bytes, pages)?;
        let free = Memory::new(count * size_of::<BufRingEntry>(), Pages::Base)?;
        // SAFETY: all zeros is a valid msghdr.
        let mut head: Box<msghdr> = Box::new(unsafe { zeroed() });
        head.msg_namelen = NAME_BYTES as u32;
        head.msg_controllen = CONTROL_BYTES as _;
        // A separate error text, since the cause is not a missing right on the socket.
        let lacking =
            |error| io::Error::other(format!("io_uring: {error}: choose another --backend"));
        let ring = IoUring::builder()
            .setup_cqsize(2 * count as u32)
            .setup_r_disabled()
            .build(8)
            .map_err(lacking)?;
        let submitter = ring.submitter();
        // SAFETY: the memory stays until all of the ring's work is known to be cancelled (`drop`).
        unsafe {
            let at = free.start() as u64;
            submitter
                .register_buf_ring_with_flags(at, count as u16, GROUP, 0)
                .map_err(lacking)?;
        }
        // seccomp can't check the requests of the ring, so the ring itself is restricted: it opens no file and sends
        // nothing.
        submitter
            .register_restrictions(&mut [
                Restriction::sqe_op(opcode::RecvMsgMulti::CODE),
                Restriction::sqe_flags_allowed(BUFFER_SELECT),
                Restriction::register_op(REGISTER_SYNC_CANCEL),
                Restriction::register_op(REGISTER_ENABLE_RINGS),
            ])
            .and_then(|()| submitter.register_enable_rings())
            .map_err(lacking)?;
        let mut uring = Uring {
            ring,
            socket,
            head: ManuallyDrop::new(head),
            free: ManuallyDrop::new(free),
            slots: ManuallyDrop::new(slots),
            slot_bytes,
            count,
            tail: 0,
            is_armed: false,
            is_behind: false,
            error: None,
        };
        (0..count).for_each(|slot| uring.give(slot as u16));
        Ok(uring)
    }

    fn slot(&self, number: u16) -> *mut u8 {
        // SAFETY: numbers are below `count`, so the slot lies inside the memory.
        unsafe {
            self.slots
                .start()
                .add(usize::from(number) * self.slot_bytes)
        }
    }

    /// Passes a free buffer to the kernel: at the start, and after the buffer's packet was read.
    fn give(&mut self, slot: u16) {
        let place = usize::from(self.tail) % self.count;
        let first: *mut BufRingEntry = self.free.start().cast();
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the entry lies inside the ring of free buffers, which is zeroed at first; the kernel reads an entry
        // only after the tail covers it.
        unsafe {
            let entry = &mut *first.add(place);
            entry.set_addr(self.slot(slot) as u64);
            entry.set_len(self.slot_bytes as u32);
            entry.set_bid(slot);
            let tail = AtomicU16::from_ptr(BufRingEntry::tail(first).cast_mut());
            tail.store(self.tail, Ordering::Release);
        }
    }

    fn arm(&mut self) -> io::Result<()> {
        let head: *const msghdr = &**self.head;
        let entry = opcode::RecvMsgMulti::new(Fd(self.socket.as_raw_fd()), head, GROUP).build();
        // SAFETY: what the entry points to stays until all work is known to be cancelled (`drop`).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(io::Error::other)?;
        self.is_armed = true;
        Ok(())
    }

    fn waiting(&mut self) -> usize {
        self.ring.completion().len()
    }
}

impl Source for Uring {
    fn ready(&mut self) -> io::Result<Ready> {
        if let Some(error) = self.error.take() {
            return Err(io::Error::from_raw_os_error(error));
        }
        if !self.is_armed {
            self.arm()?;
        }
        if self.waiting() == 0 {
            let limit = Timespec::from(WAIT);
            let arguments = SubmitArgs::new().timespec(&limit);
            let waited = self.ring.submitter().submit_with_args(1, &arguments);
            match waited {
                Err(error) if matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR)) => (),
                other => drop(other?),
            }
        }
        Ok(match self.waiting() {
            0 => Ready::Nothing,
            // Packets are dropped only when the reader falls behind.
            waiting => Ready::Packets {
                losing: std::mem::take(&mut self.is_behind) || waiting > self.count / 2,
            },
        })
    }

    fn take(&mut self, mut each: impl FnMut(&Packet)) {
        for _ in 0..self.waiting() {
            let Some(done) = self.ring.completion().next() else {
                return;
            };
            self.is_armed &= cqueue::more(done.flags());
            match (done.result(), cqueue::buffer_select(done.flags())) {
                (length @ 0.., Some(slot)) => {
                    let length = (length as usize).min(self.slot_bytes);
                    // SAFETY: the kernel has filled `length` bytes of the buffer, and does not reuse it before `give`.
                    unsafe {
                        let bytes = std::slice::from_raw_parts(self.slot(slot), length);
                        packet(bytes, &self.head, &mut each);
                    }
                    self.give(slot);
                }
                (error, _) if error == -libc::ENOBUFS => self.is_behind = true,
                (error, _) => self.error = (error < 0).then_some(-error),
            }
        }
    }

    fn memory(&self) -> Option<Area> {
        Some(self.slots.area())
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.socket)
    }
}

/// Passes the packet in a buffer to `each`.
///
/// # Safety
/// The kernel has filled the buffer, which is aligned to 8 bytes, in the layout of `head`.
unsafe fn packet(buffer: &[u8], head: &msghdr, each: &mut impl FnMut(&Packet)) {
    let Ok(parts) = RecvMsgOut::parse(buffer, head) else {
        return;
    };
    let (name, control) = (parts.name_data(), parts.control_data());
    if name.len() < size_of::<sockaddr_ll>() {
        return;
    }
    // SAFETY: as long as a sockaddr_ll, as was just checked; all zeros is a valid msghdr, and the kernel wrote its
    // control part.
    unsafe {
        let address = name.as_ptr().cast::<sockaddr_ll>().read_unaligned();
        let mut message: msghdr = zeroed();
        message.msg_control = control.as_ptr().cast_mut().cast();
        message.msg_controllen = control.len() as _;
        each(&aside::packet(&message, &address, parts.payload_data()));
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let cancelled = self
            .ring
            .submitter()
            .register_sync_cancel(None, CancelBuilder::any());
        let is_over = match cancelled {
            Ok(()) => true,
            Err(error) => error.raw_os_error() == Some(libc::ENOENT),
        };
        // Leaks the memory if the kernel may still use it.
        if is_over {
            // SAFETY: no request is left that could use them, and nothing uses them after this.
            unsafe {
                ManuallyDrop::drop(&mut self.head);
                ManuallyDrop::drop(&mut self.slots);
                ManuallyDrop::drop(&mut self.free);
            }
        }
    }
}
