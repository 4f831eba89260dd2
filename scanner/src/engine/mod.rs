// SPDX-License-Identifier: GPL-2.0-or-later
//! What carries operations of sockets: io_uring, or epoll where there is none. A slot is a socket with its memory; it has
//! at most one operation at a time, and each operation ends with one completion.
//!
//! All `unsafe` of the connecting scan is here. The memory that the kernel reads and writes belongs to the engine and is
//! handed out only for a slot without an operation, so nobody sees bytes that are just being written.

mod entry;
pub mod epoll;
pub mod features;
pub mod memory;
pub mod sockaddr;
pub mod uring;

use std::io;

use crate::targets::Family;
use sockaddr::Sockaddr;

/// What is done about a slot's socket before it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It is new or was refused: nothing.
    Nothing,
    /// It is connected or was about to be: connect(AF_UNSPEC) makes it a new one, by RST, without TIME_WAIT.
    Abort,
    /// There is none yet, or one of another family, or one that is spoilt.
    Open(Family),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    Connect,
    Receive,
    Send,
    /// What stands before a connect failed, and with it the connect: errno in the result.
    Prepare,
    /// The socket is of no more use: an abort failed, or an ICMP error has left its mark. Not the end of an operation.
    Spoilt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub slot: u32,
    pub operation: Operation,
    /// Bytes or 0, or -errno.
    pub result: i32,
}

pub trait Engine {
    /// Begins a connection of a slot without an operation. 0 says that a connection is there, and no less; -EALREADY,
    /// that an ICMP error was met whose kind is not known.
    fn connect(&mut self, slot: usize, to: &Sockaddr, before: Before);

    /// Makes the connection of a slot without an operation go away by RST. No completion but a failure's.
    fn abort(&mut self, slot: usize);

    /// Reads into the slot's input behind what is there.
    fn receive(&mut self, slot: usize, filled: usize);

    /// Sends these bytes of the slot's output.
    fn send(&mut self, slot: usize, from: usize, to: usize);

    /// Ends the slot's operation: it completes with -ECANCELED, or with what it had come to. A connect's socket is as new
    /// after -ECANCELED.
    fn cancel(&mut self, slot: usize);

    /// The slot's input and output.
    ///
    /// # Panics
    /// If the slot has an operation.
    fn memory(&mut self, slot: usize) -> (&mut [u8], &mut [u8]);

    /// Submits what was begun and puts what has ended behind `ended`, up to its capacity. Waits until `least` have ended,
    /// but no longer than this.
    fn wait(
        &mut self,
        least: usize,
        longest_ns: u64,
        ended: &mut Vec<Completion>,
    ) -> io::Result<()>;

    /// System calls until now.
    fn calls(&self) -> u64;

    /// Completions that found no room.
    fn overflows(&self) -> u64;
}
