// SPDX-License-Identifier: GPL-2.0-or-later
//! The engine on epoll, for kernels and sandboxes without io_uring: each operation is a system call.
//!
//! Each socket is registered once, edge-triggered; after an event the slot's operation is tried again. A second
//! connect(2) returns the result of the first, and resets a refused socket in the same call.

use std::collections::VecDeque;
use std::io;

use super::memory::Memory;
use super::sockaddr::Sockaddr;
use super::{Before, Completion, Engine, Operation};
use crate::targets::Family;

const EVENTS: usize = 512;

pub struct Epoll {
    epoll: i32,
    memory: Memory,
    slots: Vec<Slot>,
    events: Vec<libc::epoll_event>,
    /// Completions that `wait` has not returned yet.
    ended: VecDeque<Completion>,
    calls: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    fd: i32,
    pending: Option<Pending>,
    address: Sockaddr,
}

#[derive(Clone, Copy)]
enum Pending {
    Connect,
    Receive { filled: usize },
    Send { from: usize, to: usize },
}

impl Pending {
    fn operation(self) -> Operation {
        match self {
            Pending::Connect => Operation::Connect,
            Pending::Receive { .. } => Operation::Receive,
            Pending::Send { .. } => Operation::Send,
        }
    }
}

/// Returns the result of a system call, or -errno.
fn result(value: isize) -> i32 {
    match value {
        0.. => value as i32,
        _ => -io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
    }
}

impl Epoll {
    pub fn new(slots: usize, memory: Memory) -> io::Result<Epoll> {
        // SAFETY: epoll_create1 touches no memory.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        let none = Slot {
            fd: -1,
            pending: None,
            address: Sockaddr::NOBODY,
        };
        Ok(Epoll {
            epoll,
            memory,
            slots: vec![none; slots],
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS],
            // Two completions per slot: the end of its operation, and that its socket is spoilt.
            ended: VecDeque::with_capacity(2 * slots),
            calls: 0,
        })
    }

    fn open(&mut self, slot: usize, family: Family) -> i32 {
        self.close(slot);
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        self.calls += 2;
        // SAFETY: socket(2) touches no memory; epoll_ctl(2) reads the event, which outlives the call.
        unsafe {
            let fd = result(libc::socket(family.domain(), kind, 0) as isize);
            if fd < 0 {
                return fd;
            }
            self.slots[slot].fd = fd;
            let wanted = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
            let mut event = libc::epoll_event {
                events: wanted as u32,
                u64: slot as u64,
            };
            let added = libc::epoll_ctl(self.epoll, libc::EPOLL_CTL_ADD, fd, &mut event);
            result(added as isize)
        }
    }

    fn close(&mut self, slot: usize) {
        let fd = std::mem::replace(&mut self.slots[slot].fd, -1);
        if fd >= 0 {
            self.calls += 1;
            // SAFETY: the descriptor is this slot's own and is forgotten by the line above.
            unsafe { libc::close(fd) };
        }
    }

    fn call_connect(&mut self, slot: usize, to: &Sockaddr) -> i32 {
        self.calls += 1;
        // SAFETY: connect(2) reads the address, whose length is its own.
        result(unsafe { libc::connect(self.slots[slot].fd, to.as_ptr(), to.len()) } as isize)
    }

    /// Tries the slot's operation; an operation that would block stays pending.
    fn attempt(&mut self, slot: usize) {
        let Slot {
            fd,
            pending,
            address,
        } = self.slots[slot];
        let Some(pending) = pending else { return };
        let result = match pending {
            Pending::Connect => match self.call_connect(slot, &address) {
                // The socket still held the error of an earlier attempt; this call cleared it.
                errno if errno == -libc::ECONNABORTED => self.call_connect(slot, &address),
                result => result,
            },
            Pending::Receive { filled } => {
                let (to, room) = self.memory.input(slot, filled);
                self.calls += 1;
                // SAFETY: the bytes are the slot's input, to which no reference exists during the call.
                result(unsafe { libc::recv(fd, to.cast(), room, 0) })
            }
            Pending::Send { from, to } => {
                let (at, bytes) = self.memory.output(slot, from, to);
                self.calls += 1;
                // SAFETY: the bytes are the slot's output, which nothing writes during the call.
                result(unsafe { libc::send(fd, at.cast(), bytes, libc::MSG_NOSIGNAL) })
            }
        };
        match -result {
            libc::EINPROGRESS | libc::EALREADY => {}
            libc::EAGAIN if !matches!(pending, Pending::Connect) => {}
            _ => self.end(slot, result),
        }
    }

    fn end(&mut self, slot: usize, result: i32) {
        if let Some(pending) = self.slots[slot].pending.take() {
            self.told(slot, pending.operation(), result);
        }
    }

    fn begin(&mut self, slot: usize, pending: Pending) {
        debug_assert!(self.slots[slot].pending.is_none());
        self.slots[slot].pending = Some(pending);
        self.attempt(slot);
    }

    fn told(&mut self, slot: usize, operation: Operation, result: i32) {
        self.ended.push_back(Completion {
            slot: slot as u32,
            operation,
            result,
        });
    }

    /// Handles an event: tries the slot's operation again, and queries the error of a connect that is still pending.
    fn wake(&mut self, event: libc::epoll_event) {
        let slot = event.u64 as usize;
        self.attempt(slot);
        let waits = matches!(self.slots[slot].pending, Some(Pending::Connect));
        if waits && event.events & libc::EPOLLERR as u32 != 0 {
            // An ICMP error that arrives during a system call on the socket is stored as a soft error: only SO_ERROR
            // returns it.
            match self.socket_error(slot) {
                0 => {}
                error => {
                    self.told(slot, Operation::Spoilt, 0);
                    self.end(slot, -error);
                }
            }
        }
    }

    fn socket_error(&mut self, slot: usize) -> i32 {
        let (mut error, mut len) = (0i32, size_of::<i32>() as libc::socklen_t);
        self.calls += 1;
        // SAFETY: getsockopt(2) writes an int and its length, which outlive the call.
        unsafe {
            let (at, fd) = ((&raw mut error).cast(), self.slots[slot].fd);
            libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, at, &mut len);
        }
        error
    }
}

impl Engine for Epoll {
    fn connect(&mut self, slot: usize, to: &Sockaddr, before: Before) {
        self.slots[slot].address = *to;
        self.slots[slot].pending = Some(Pending::Connect);
        let prepared = match before {
            Before::Nothing => 0,
            Before::Abort => self.call_connect(slot, &Sockaddr::NOBODY),
            Before::Open(family) => self.open(slot, family),
        };
        if prepared < 0 {
            self.slots[slot].pending = None;
            self.told(slot, Operation::Prepare, prepared);
            return;
        }
        self.attempt(slot);
        // On loopback the answer arrives during the call; trying again at once saves the event.
        self.attempt(slot);
    }

    fn abort(&mut self, slot: usize) {
        let result = self.call_connect(slot, &Sockaddr::NOBODY);
        if result < 0 {
            self.told(slot, Operation::Spoilt, result);
        }
    }

    fn receive(&mut self, slot: usize, filled: usize) {
        self.begin(slot, Pending::Receive { filled });
    }

    fn send(&mut self, slot: usize, from: usize, to: usize) {
        self.begin(slot, Pending::Send { from, to });
    }

    fn cancel(&mut self, slot: usize) {
        if matches!(self.slots[slot].pending, Some(Pending::Connect)) {
            self.abort(slot);
        }
        self.end(slot, -libc::ECANCELED);
    }

    fn memory(&mut self, slot: usize) -> (&mut [u8], &mut [u8]) {
        // SAFETY: system calls of this engine are over when they return: the kernel holds no slot memory.
        unsafe { self.memory.both(slot) }
    }

    fn wait(
        &mut self,
        _least: usize,
        longest_ns: u64,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()> {
        let longest_ms = match self.ended.is_empty() {
            true => longest_ns.div_ceil(1_000_000),
            false => 0,
        };
        self.calls += 1;
        // SAFETY: the kernel writes at most as many events as there is room for.
        let count = unsafe {
            let room = self.events.len() as i32;
            let longest_ms = longest_ms.min(i32::MAX as u64) as i32;
            libc::epoll_wait(self.epoll, self.events.as_mut_ptr(), room, longest_ms)
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        for at in 0..count.max(0) as usize {
            self.wake(self.events[at]);
        }
        let room = ended.capacity() - ended.len();
        let count = self.ended.len().min(room);
        ended.extend(self.ended.drain(..count));
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn overflows(&self) -> u64 {
        0
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        for slot in 0..self.slots.len() {
            self.close(slot);
        }
        // SAFETY: the descriptor is this value's own and is not used again.
        unsafe { libc::close(self.epoll) };
    }
}
