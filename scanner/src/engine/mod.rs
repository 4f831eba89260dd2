// SPDX-License-Identifier: GPL-2.0-or-later
//! Engines for socket operations: io_uring, or epoll as a fallback. A slot is a socket with its memory; it has at most
//! one operation at a time, and each operation ends with one completion.
//!
//! All `unsafe` for connections is here. The engine owns the memory that the kernel reads and writes, and lends it
//! only for slots without an operation, so no code sees bytes while they are written.

mod entry;
pub mod epoll;
pub mod features;
pub mod memory;
pub mod sockaddr;
pub mod uring;

use std::io;

use crate::targets::Family;
use sockaddr::Sockaddr;

/// Preparation of a slot's socket before it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// No preparation: the socket has no connection any more, since its last one was refused, reset or cancelled.
    Nothing,
    /// The socket is connected or was connecting: connect(AF_UNSPEC) resets it by RST, without TIME_WAIT.
    Abort,
    /// Open a new socket: there is none, or its family differs, or it is spoilt.
    Open(Family),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Connect,
    Receive,
    Send,
    /// The preparation of a connect failed, and with it the connect: -errno in the result.
    Prepare,
    /// The socket is unusable: an abort failed, or an ICMP error is left in its queue. Not the end of an operation.
    Spoilt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub slot: u32,
    pub operation: Operation,
    /// Number of received or sent bytes, 0 for other operations, or -errno.
    pub result: i32,
}

pub trait Engine {
    /// Begins a connection of a slot that has no pending operation. The completion's result is 0 if the socket is
    /// connected, -EALREADY if an ICMP error of unknown kind arrived.
    fn connect(&mut self, slot: usize, to: &Sockaddr, before: Before);

    /// Resets (RST) the connection of a slot that has no pending operation. Only a failure has a completion.
    fn abort(&mut self, slot: usize);

    /// Begins to receive bytes into the slot's input, after its first `filled` bytes.
    fn receive(&mut self, slot: usize, filled: usize);

    /// Begins to send the bytes `from..to` of the slot's output; the completion may report fewer bytes.
    fn send(&mut self, slot: usize, from: usize, to: usize);

    /// Cancels the slot's operation: it completes with -ECANCELED, or with its result if it was faster; a successful
    /// connect may also count as cancelled. After -ECANCELED a connecting socket is reset.
    fn cancel(&mut self, slot: usize);

    /// Returns the slot's input and output buffers.
    ///
    /// # Panics
    /// With io_uring, if the slot has an operation.
    fn memory(&mut self, slot: usize) -> (&mut [u8], &mut [u8]);

    /// Submits queued operations and appends completions to `ended`, up to its capacity. Waits at most `longest_ns`:
    /// io_uring for `least` completions of the kernel, epoll for the first event.
    fn wait(
        &mut self,
        least: usize,
        longest_ns: u64,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()>;

    /// Returns the number of the engine's system calls so far.
    fn calls(&self) -> u64;

    /// Returns how often an overflow of the completion queue was found.
    fn overflows(&self) -> u64;
}
