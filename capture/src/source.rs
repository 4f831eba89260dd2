// SPDX-License-Identifier: GPL-2.0-or-later
//! The interface between the reader and a capture backend.

use std::io;
use std::time::Duration;

use crate::packet::Packet;
use crate::pages::{Area, Entries};
use crate::socket::{Socket, Statistics};

/// Maximum time that `Source::ready` waits for packets. A batch that is not full is passed on after the same time.
pub const WAIT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Nothing,
    /// `losing`: the kernel may have dropped packets before these.
    Packets {
        losing: bool,
    },
}

pub trait Source {
    /// Waits for the next batch, at most [`WAIT`]. Returns `Nothing` if no batch has arrived.
    fn ready(&mut self) -> io::Result<Ready>;

    /// Passes each packet of the batch that was `ready` to `each`, and releases the batch's memory.
    fn take(&mut self, each: impl FnMut(&Packet));

    /// Returns the counts of accepted and dropped packets since the last call.
    fn statistics(&mut self) -> io::Result<Statistics> {
        self.socket()
            .map_or(Ok(Statistics::default()), Socket::statistics)
    }

    /// Accepts no more packets; waiting packets stay readable.
    fn shut(&self) -> io::Result<()> {
        self.socket().map_or(Ok(()), Socket::shut)
    }

    /// Returns the memory in which packets are stored, if it is fixed from the start.
    fn memory(&self) -> Option<Area> {
        None
    }

    /// Returns the page-table entries of kernel and program, if the source counts them itself.
    fn census(&self) -> Option<io::Result<(Entries, Entries)>> {
        None
    }

    /// Returns the socket for interface queries, if there is one.
    fn socket(&self) -> Option<&Socket>;
}
