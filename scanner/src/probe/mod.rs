// SPDX-License-Identifier: GPL-2.0-or-later
//! What is said and heard behind an open port. A probe sees bytes and knows nothing of rings; a ring moves bytes and
//! knows nothing of protocols. None: connect alone.

pub mod banner;
pub mod http;
pub mod ssh;
pub mod tls;

use crate::state::Finding;
use crate::targets::Address;

/// What the conversation needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes of the peer.
    Receive,
    /// So many bytes of the output are to be sent, then it receives.
    Send(usize),
    Done(Finding),
}

/// A slot's side of a conversation, as the ring lends it out.
pub struct Talk<'a> {
    pub slot: usize,
    pub to: Address,
    pub port: u16,
    /// What this peer has sent and nobody else; a probe that has taken bytes in sets `filled` back.
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
    /// Bytes of input and of output that a conversation needs.
    fn room(&self) -> (usize, usize);

    /// A connection is there.
    fn opened(&mut self, talk: &mut Talk) -> Step;

    /// More was received.
    fn received(&mut self, talk: &mut Talk) -> Step;

    /// Nothing more will come: the peer closed, or the time is over.
    fn ended(&mut self, talk: &mut Talk, why: Finding) -> Finding;

    /// The bytes that are told of a conversation that has ended. Called once for each.
    fn answer<'a>(&'a mut self, talk: &'a Talk) -> &'a [u8];
}
