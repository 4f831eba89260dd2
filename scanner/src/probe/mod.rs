// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversations on open ports. A probe handles bytes and is independent of rings; a ring transfers bytes and is
//! independent of protocols. Without a probe a scan only connects.

pub mod banner;
pub mod http;
pub mod ssh;
pub mod tls;

use crate::state::Finding;
use crate::targets::Address;

/// Next step of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Receive more bytes from the peer.
    Receive,
    /// Send this number of bytes of the output, then receive.
    Send(usize),
    Done(Finding),
}

/// A slot's side of a conversation, as the ring lends it to the probe.
pub struct Talk<'a> {
    pub slot: usize,
    pub to: Address,
    pub port: u16,
    /// Buffer for received bytes. The first `filled` bytes are this peer's; a probe that has consumed them resets
    /// `filled`.
    pub input: &'a mut [u8],
    pub filled: &'a mut usize,
    pub output: &'a mut [u8],
}

impl Talk<'_> {
    pub fn heard(&self) -> &[u8] {
        &self.input[..*self.filled]
    }
}

pub trait Scan: Send {
    /// Returns the sizes in bytes of the input and output buffers that a conversation needs.
    fn room(&self) -> (usize, usize);

    /// Called when the connection is established.
    fn opened(&mut self, talk: &mut Talk) -> Step;

    /// Called when more bytes were received.
    fn received(&mut self, talk: &mut Talk) -> Step;

    /// Called when no more bytes will arrive. Returns the outcome of the conversation.
    /// - why: Ended (the peer has closed), Silent (the time is over) or Reset.
    fn ended(&mut self, talk: &mut Talk, why: Finding) -> Finding;

    /// Returns the bytes to report for an open port. Called once at the end of each conversation, also if the peer
    /// reset the connection before `opened`. Never called if open ports are not reported.
    fn answer<'a>(&'a mut self, talk: &'a Talk) -> &'a [u8];
}
