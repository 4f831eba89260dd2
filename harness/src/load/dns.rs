// SPDX-License-Identifier: GPL-2.0-or-later
//! Load dns-query: DNS queries over UDP, each for a different name, and their responses. A fixed number of queries is
//! sent before their responses are received.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::arrivals::{Arrivals, Server};
use super::socket::receive_timeout;
use super::{Aim, Burst, Emptied, Traffic, LOOK_UP, STALLED};
use crate::runner::Place;

/// Number of queries that are sent before their responses are received.
const WINDOW: u32 = 32;
/// Query for the address of nXXXXXXXX.load.example, whose digits change (RFC 1035, section 4.1).
const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x09n00000000\x04load\x07example\0\0\x01\0\x01";
/// Byte range of the digits in the query.
const DIGITS: std::ops::Range<usize> = 14..22;
/// Response bit (QR) in the third byte of a DNS message.
const ANSWER: u8 = 0x80;
const MESSAGE_BYTES: usize = 512;

pub struct Queries {
    socket: UdpSocket,
    query: Vec<u8>,
    asked: u32,
    _server: Server,
}

impl Queries {
    pub fn open(aim: &Aim, place: &Place) -> Result<Queries> {
        let to = aim.end();
        let bind = |address: SocketAddr| {
            UdpSocket::bind(address).with_context(|| format!("bind {address}"))
        };
        let server = place.server.enter(|| bind(to))?;
        receive_timeout(&server, LOOK_UP)?;
        let serve = move |arrivals: &Arrivals| answer(&server, arrivals);
        let server = Server::start(&Arrivals::new(), serve);
        let any: IpAddr = match to.ip() {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = place.client.enter(|| bind((any, 0).into()))?;
        socket.connect(to)?;
        receive_timeout(&socket, STALLED)?;
        Ok(Queries {
            socket,
            query: QUERY.to_vec(),
            asked: 0,
            _server: server,
        })
    }

    /// Sends a query for a new name.
    fn ask(&mut self) -> Result<()> {
        self.asked = self.asked.wrapping_add(1);
        let digits = format!("{:08x}", self.asked);
        self.query[DIGITS].copy_from_slice(digits.as_bytes());
        self.socket.send(&self.query).context("send")?;
        Ok(())
    }
}

impl Traffic for Queries {
    fn burst(&mut self, _place: &Place, duration: Duration, _emptied: &Emptied) -> Result<Burst> {
        let mut message = [0; MESSAGE_BYTES];
        let (mut arrived, start) = (0, Instant::now());
        let mut elapsed = Duration::ZERO;
        while elapsed < duration {
            for _ in 0..WINDOW {
                self.ask()?;
            }
            for _ in 0..WINDOW {
                let received = self.socket.recv(&mut message);
                received.context("a query got no answer")?;
                arrived += 1;
            }
            elapsed = start.elapsed();
        }
        Ok(Burst {
            sent: arrived,
            arrived,
            seconds: elapsed.as_secs_f64(),
            latencies: None,
        })
    }
}

/// Responds to each query with its bytes and the response bit.
fn answer(socket: &UdpSocket, arrivals: &Arrivals) {
    let mut message = [0; MESSAGE_BYTES];
    while !arrivals.over() {
        let Ok((count, from)) = socket.recv_from(&mut message) else {
            continue;
        };
        message[2] |= ANSWER;
        // The client notices a lost response and fails.
        let _ = socket.send_to(&message[..count], from);
    }
}
