// SPDX-License-Identifier: GPL-2.0-or-later
//! Model of a TCP server (RFC 9293, RFC 5961). It acknowledges only bytes that it has received, at times and in an order
//! that the generator chooses.

use twinwall_judge::random::Random;

use super::packet::Tcp;
use crate::evasion::client::{ACK, FIN, RST, SYN};

/// Maximum number of the client's bytes that the server stores.
const WINDOW: usize = 4_096;
/// Data that a server may send without a hello to answer: text, a TLS alert, text.
const SAID: [&[u8]; 3] = [b"SSH-2.0-server\r\n", &[0x15, 3, 3, 0, 2, 2, 40], b"220 "];
/// Random bytes of a ServerHello that requests another hello (RFC 8446, section 4.1.3).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Returns a ServerHello in one record.
/// - random: its random bytes.
fn hello(random: &[u8; 32]) -> Vec<u8> {
    let body = [
        &[3, 3][..],
        random,
        &[32],
        &[8; 32],
        &[0x13, 1, 0, 0, 6, 0, 43, 0, 2, 3, 4],
    ]
    .concat();
    let length = body.len() as u8;
    [&[0x16, 3, 3, 0, length + 4, 2, 0, 0, length], &body[..]].concat()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Listen,
    /// A SYN has arrived.
    Opening,
    Open,
}

/// Habits of a model server: chosen at random, or those of `Server::plain`.
#[derive(Clone, Debug)]
struct Habits {
    /// Percentage of rounds in which an acknowledgement that is due is sent.
    acknowledges: u32,
    /// Percentage of acknowledgements, while no hello waits for an answer, to which the server adds other data.
    speaks: u32,
    /// True if the server stores the data of a SYN; otherwise it ignores the data.
    keeps_syn_data: bool,
    /// True if the server requests another hello.
    retries: bool,
    /// True if the server's data is sent in several segments.
    splits: bool,
    /// True if a byte that arrives again replaces the stored one, as long as an earlier byte is missing.
    last_wins: bool,
}

#[derive(Clone, Debug)]
pub struct Server {
    habits: Habits,
    pub state: State,
    /// Sequence number of the client's SYN.
    first: u32,
    /// Sequence number of the server's SYN-ACK.
    begun: u32,
    /// Sequence number of the server's next byte.
    next: u32,
    /// Value of `next` after the last segment that the server has sent.
    shown: u32,
    /// Bytes of the client by position; None if a byte has not arrived.
    bytes: Vec<Option<u8>>,
    /// Number of the client's bytes that have arrived without a gap, from the first.
    got: usize,
    /// Number of bytes that the server has acknowledged in the current connection.
    pub acknowledged: usize,
    is_due: bool,
    has_fin: bool,
    /// Number of hellos that the server has answered.
    pub answered: usize,
    /// Data that the server has still to send.
    left: Vec<u8>,
}

impl Server {
    pub fn new(random: &mut Random) -> Server {
        // The first bytes of a server that requests another hello are this request.
        let retries = random.percent(25);
        let habits = Habits {
            acknowledges: *random.pick(&[100, 60, 25]),
            speaks: if retries {
                0
            } else {
                *random.pick(&[0, 0, 30])
            },
            retries,
            splits: random.percent(30),
            keeps_syn_data: random.percent(15),
            last_wins: random.percent(50),
        };
        Server {
            habits,
            state: State::Listen,
            first: 0,
            begun: 0,
            next: random.word() as u32,
            shown: 0,
            bytes: Vec::new(),
            got: 0,
            acknowledged: 0,
            is_due: false,
            has_fin: false,
            answered: 0,
            left: Vec::new(),
        }
    }

    /// Returns the server that a plain client needs: it acknowledges each segment, and requests no other hello.
    pub fn plain() -> Server {
        let mut server = Server::new(&mut Random::new(1));
        server.habits = Habits {
            acknowledges: 100,
            speaks: 0,
            retries: false,
            splits: false,
            keeps_syn_data: false,
            last_wins: false,
        };
        server
    }

    /// Returns the number of hellos that the client has to send so far: 2 after the server has requested a second
    /// hello, otherwise 1.
    pub fn hellos(&self) -> usize {
        1 + usize::from(self.habits.retries && self.answered > 0)
    }

    /// Returns the sequence number after the last byte (or SYN) that the server has sent.
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Returns true if the client may still send bytes: the connection is open, or half open after the server's
    /// SYN-ACK. The client has sent no FIN.
    pub fn is_connected(&self) -> bool {
        !self.has_fin && self.is_confirmed()
    }

    fn is_confirmed(&self) -> bool {
        self.state == State::Open || self.state == State::Opening && self.shown == self.next
    }

    /// Returns the client's bytes that the server has acknowledged.
    pub fn known(&self) -> Vec<u8> {
        let known = self.bytes.iter().take(self.acknowledged);
        known.map_while(|byte| *byte).collect()
    }

    /// Returns the client's bytes that the server has received without a gap.
    pub fn received(&self) -> Vec<u8> {
        self.bytes.iter().map_while(|byte| *byte).collect()
    }

    fn expected(&self) -> u32 {
        let fin = u32::from(self.has_fin);
        self.first.wrapping_add(1 + self.got as u32 + fin)
    }

    /// Stores data at a sequence number.
    fn store(&mut self, seq: u32, data: &[u8]) {
        let start = seq.wrapping_sub(self.first.wrapping_add(1)) as i32;
        for (index, byte) in data.iter().enumerate() {
            let Ok(place) = usize::try_from(start + index as i32) else {
                continue;
            };
            if place < self.got || place >= WINDOW || self.has_fin {
                continue;
            }
            if self.bytes.len() <= place {
                self.bytes.resize(place + 1, None);
            }
            let kept = &mut self.bytes[place];
            if kept.is_none() || self.habits.last_wins {
                *kept = Some(*byte);
            }
        }
        self.got = self.bytes.iter().take_while(|byte| byte.is_some()).count();
    }

    fn listen(&mut self) {
        let next = self.next.wrapping_add(0x0123_4567);
        *self = Server {
            state: State::Listen,
            next,
            bytes: Vec::new(),
            got: 0,
            acknowledged: 0,
            is_due: false,
            has_fin: false,
            answered: 0,
            left: Vec::new(),
            ..self.clone()
        };
    }

    /// Receives a segment with a correct checksum. Returns a RST if the server refuses the segment.
    pub fn receive(&mut self, tcp: &Tcp) -> Option<Tcp> {
        if tcp.has_md5 {
            return None;
        }
        match self.state {
            State::Listen => self.receive_first(tcp),
            _ => self.receive_more(tcp),
        }
    }

    fn receive_first(&mut self, tcp: &Tcp) -> Option<Tcp> {
        let flags = tcp.flags & (SYN | ACK | RST | FIN);
        if flags & RST != 0 {
            return None;
        }
        if flags != SYN {
            let refusal = match flags & ACK {
                0 => Tcp::new(0, tcp.seq.wrapping_add(tcp.data.len() as u32), RST | ACK),
                _ => Tcp::new(tcp.ack, 0, RST),
            };
            return Some(refusal);
        }
        self.state = State::Opening;
        self.first = tcp.seq;
        self.begun = self.next;
        self.next = self.begun.wrapping_add(1);
        self.is_due = true;
        if self.habits.keeps_syn_data {
            self.store(tcp.seq.wrapping_add(1), &tcp.data);
        }
        None
    }

    fn receive_more(&mut self, tcp: &Tcp) -> Option<Tcp> {
        let expected = self.expected();
        let far = tcp.seq.wrapping_sub(expected) as i32;
        let is_near = far < WINDOW as i32 && far + tcp.data.len() as i32 >= 0;
        if tcp.flags & RST != 0 {
            match far {
                0 => self.listen(),
                _ if is_near => self.is_due = true,
                _ => {}
            }
            return None;
        }
        // A challenge acknowledgement, or the SYN-ACK again.
        if tcp.flags & SYN != 0 || !is_near {
            self.is_due = true;
            return None;
        }
        if tcp.flags & ACK == 0 {
            return None;
        }
        let unsent = tcp.ack.wrapping_sub(self.next) as i32;
        let is_first = tcp.ack.wrapping_sub(self.begun.wrapping_add(1)) as i32 >= 0;
        if unsent > 0 || (self.state == State::Opening && !is_first) {
            if self.state == State::Opening {
                return Some(Tcp::new(tcp.ack, 0, RST));
            }
            self.is_due = true;
            return None;
        }
        if !is_first && unsent < -(WINDOW as i32) {
            self.is_due = true;
            return None;
        }
        self.state = State::Open;
        let before = self.got;
        self.store(tcp.seq, &tcp.data);
        let end = tcp.seq.wrapping_add(tcp.data.len() as u32);
        if tcp.flags & FIN != 0 && end == self.expected() {
            self.has_fin = true;
        }
        self.is_due |= !tcp.data.is_empty() || self.got != before || far < 0 || self.has_fin;
        None
    }

    /// Adds data to send: the answer to a hello, or data that does not depend on a hello. May add nothing in this
    /// round.
    fn prepare(&mut self, random: &mut Random) {
        let wanted = self.hellos();
        if self.answered < wanted && super::shows_name(&self.received(), wanted - 1) {
            if random.percent(80) {
                let is_retry = self.habits.retries && self.answered == 0;
                self.left
                    .extend(hello(if is_retry { &RETRY } else { &[6; 32] }));
                self.answered += 1;
            }
        } else if random.percent(self.habits.speaks) {
            self.left.extend(*random.pick(&SAID));
        }
    }

    /// Returns the server's segment of this round; None if it sends none.
    pub fn speak(&mut self, random: &mut Random) -> Option<Tcp> {
        let again = self.state != State::Listen && random.percent(5);
        if !(self.is_due && random.percent(self.habits.acknowledges) || again) {
            return None;
        }
        self.is_due = false;
        self.acknowledged = self.got;
        if self.state == State::Opening {
            self.shown = self.next;
            return Some(Tcp::new(self.begun, self.expected(), SYN | ACK));
        }
        let mut tcp = Tcp::new(self.next, self.expected(), ACK);
        self.prepare(random);
        let count = match self.left.len() {
            len @ 2.. if self.habits.splits => 1 + random.below(len),
            len => len,
        };
        tcp.data = self.left.drain(..count).collect();
        self.next = self.next.wrapping_add(tcp.data.len() as u32);
        self.shown = self.next;
        self.is_due = !self.left.is_empty();
        Some(tcp)
    }
}
