// SPDX-License-Identifier: GPL-2.0-or-later
//! An answer of DNS over TCP that contains another answer, at the start of a segment: a set learns no address from the
//! inner one, whose bytes may be those of a client's own text.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::ensure;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::forged::{
    answer, both_versions, is_reached, message, Over, A, AAAA, ANSWER, IN, LEARNED, LEARNING,
    QUERY, TTL,
};
use super::net::{Net, Sees};
use super::queries::PORT;
use super::wire::Version;
use super::{By, ALLOWED};
use crate::names::learn::PENDING;

const TXT: u16 = 16;

const ROWS: &[Row] = &[("answer-within-another-over-tcp", |twin| {
    hold(By::Twin(twin))
})];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// Returns a message preceded by its length (RFC 1035, section 4.2.2).
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Returns the two parts of an answer with a text that contains another answer. The second part is the inner answer.
fn outer(inner: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let words = [0xc00c, TXT, IN].map(u16::to_be_bytes).concat();
    let inner = framed(inner);
    let length = (1 + inner.len() as u16).to_be_bytes();
    let text = [&[inner.len() as u8][..], &inner].concat();
    let record = [&words[..], &TTL.to_be_bytes(), &length, &text].concat();
    let mut first = framed(&message(ALLOWED, ANSWER, TXT, &record));
    let second = first.split_off(first.len() - inner.len());
    (first, second)
}

/// Sends bytes from one end of a connection to the other, in a segment that arrives before this returns.
fn pass(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8]) -> anyhow::Result<()> {
    from.write_all(bytes)?;
    to.set_read_timeout(Some(PATIENCE))?;
    to.read_exact(&mut vec![0; bytes.len()])?;
    Ok(())
}

/// Sends the inner answer while it is pending, and the same answer again as a message of its own: only then its address
/// may be learned. Returns false without the latter if the firewall may no longer wait for it.
fn hold_over(net: &Net, over: &Over) -> anyhow::Result<bool> {
    let at = SocketAddr::from((over.server, PORT));
    let listener = net.server.enter(|| TcpListener::bind(at))?;
    let mut client = net
        .client
        .enter(|| TcpStream::connect_timeout(&at, PATIENCE))?;
    let (mut server, _) = listener.accept()?;
    let kind = if over.version == Version::V4 { A } else { AAAA };
    let true_answer = answer(over);
    let (first, second) = outer(&true_answer);
    let asked = [(ALLOWED, TXT), (LEARNED, kind)];
    let [other, learned] = asked.map(|(host, kind)| framed(&message(host, QUERY, kind, &[])));
    pass(&mut client, &mut server, &other)?;
    pass(&mut server, &mut client, &first)?;
    let begun = Instant::now();
    pass(&mut client, &mut server, &learned)?;
    pass(&mut server, &mut client, &second)?;
    ensure!(
        !is_reached(net, over.server)?,
        "{}: learned from an answer within another",
        over.name
    );
    if begun.elapsed() > PENDING / 2 {
        return Ok(false);
    }
    pass(&mut server, &mut client, &framed(&true_answer))?;
    let what = format!("{}: learned from the answer after it", over.name);
    until(&what, PATIENCE, || is_reached(net, over.server))?;
    Ok(true)
}

/// Checks over both IP versions that a set learns no address from an answer within another answer.
pub fn hold(by: By) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    for over in both_versions() {
        until(over.name, PATIENCE, || is_reached(&net, over.server))?;
    }
    let running = by.start(&net, LEARNING)?;
    for over in both_versions() {
        let what = format!("{}: answers in time", over.name);
        until(&what, PATIENCE, || hold_over(&net, &over))?;
    }
    running.finish()
}
