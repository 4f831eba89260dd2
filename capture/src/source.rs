// SPDX-License-Identifier: GPL-2.0-or-later
//! What packets come from: a backend as the reader sees it.

use std::io;
use std::time::Duration;

use crate::packet::Packet;
use crate::pages::{Area, Entries};
use crate::socket::{Socket, Statistics};

/// How long `ready` waits. A batch that is not full is given after as long.
pub const WAIT: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    Nothing,
    /// `losing`: the kernel may have dropped some before these.
    Packets {
        losing: bool,
    },
}

pub trait Source {
    /// Whether the next batch is there; waits for it.
    fn ready(&mut self) -> io::Result<Ready>;

    /// Hands over each packet of the batch that was `ready`, and gives its memory back.
    fn take(&mut self, each: impl FnMut(&Packet));

    /// What was counted since the last call.
    fn statistics(&mut self) -> io::Result<Statistics> {
        self.socket()
            .map_or(Ok(Statistics::default()), Socket::statistics)
    }

    /// Lets nothing in any more; what is in stays.
    fn shut(&self) -> io::Result<()> {
        self.socket().map_or(Ok(()), Socket::shut)
    }

    /// Where packets are left for the program, if that is known from the start.
    fn memory(&self) -> Option<Area> {
        None
    }

    /// The page-table entries of kernel and program, where the source counts them itself.
    fn census(&self) -> Option<io::Result<(Entries, Entries)>> {
        None
    }

    /// What looks at the interface, if there is one.
    fn socket(&self) -> Option<&Socket>;
}
