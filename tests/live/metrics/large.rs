// SPDX-License-Identifier: GPL-2.0-or-later
//! Large replies, because of a policy with many counters: clients share a reply, memory is limited, and a slow reader
//! is disconnected while other clients are served.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use nix::sys::socket::{setsockopt, sockopt};
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};

use super::http::{get, value_of, Place, Served};
use super::LoneRow;

pub const ROWS: &[LoneRow] = &[
    ("large/answers-are-shared", shared),
    ("large/memory-has-a-bound", bounded),
    ("large/slow-readers-are-closed", slow),
];

const COUNTERS: usize = 40_000;
/// Minimum size of a reply in bytes.
const ANSWER: usize = 8 << 20;
/// Allowed growth of the exporter's peak memory in MiB, from after the first reply to after the requests of all
/// CLIENTS. A separate reply for each client would need more.
const GROWTH_MIB: f64 = 64.0;
const CLIENTS: usize = 16;

fn start(place: &Place) -> anyhow::Result<Served> {
    let mut text =
        "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0\n".to_owned();
    for number in 0..COUNTERS {
        let address = Ipv4Addr::from_bits(0x0a00_0000 | number as u32);
        writeln!(text, "\t\tip saddr {address} udp dport 9 counter")?;
    }
    fs::write(place.path("large.nft"), text + "\t}\n}\n")?;
    let large = place.path("large.nft");
    place.start(Twin::C, &["--policy", &large])
}

/// Returns a client that has sent its request.
fn asker(place: &Place) -> anyhow::Result<TcpStream> {
    let mut stream = place.connect()?;
    stream.write_all(get("/metrics", "").as_bytes())?;
    Ok(stream)
}

/// Returns a client with a small receive buffer that has sent its request.
fn small_asker(place: &Place) -> anyhow::Result<TcpStream> {
    let mut stream = place.connect()?;
    setsockopt(&stream.as_fd(), sockopt::RcvBuf, &4096)?;
    stream.write_all(get("/metrics", "").as_bytes())?;
    Ok(stream)
}

/// Returns true if a reply says that the firewall did not answer in time, as on a busy machine.
/// - begin: first bytes of the reply.
fn is_late(begin: &[u8]) -> bool {
    begin.starts_with(b"HTTP/1.1 503 ")
}

/// Returns true if an error is that of a connection that the exporter has closed, as it does with slow readers.
fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionReset
}

/// Returns the reply to a client; None if the machine is so busy that the firewall did not answer in time, or that this
/// client read too slowly.
fn rest(mut stream: TcpStream) -> anyhow::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if is_closed(&error) => return Ok(None),
        read => read.context("the answer")?,
    };
    if is_late(&bytes) {
        return Ok(None);
    }
    ensure!(bytes.len() > ANSWER, "{} bytes", bytes.len());
    Ok(Some(bytes))
}

/// Returns true if two simultaneous clients get the same bytes, and so a shared reply: a separate reply would have
/// another number of requests. On a busy machine it may return false: their requests are further apart than the time for
/// which a reply is shared, or a client gets no reply.
fn is_shared(place: &Place) -> anyhow::Result<bool> {
    let (one, other) = (asker(place)?, asker(place)?);
    let one = thread::spawn(|| rest(one));
    let other = rest(other);
    let one = one.join().expect("no panic")?;
    Ok(one.is_some() && one == other?)
}

/// Returns the number of requests that the exporter has counted, from its metrics; None if this client got no reply on a
/// busy machine.
fn requests(place: &Place) -> anyhow::Result<Option<u64>> {
    let Some(reply) = rest(asker(place)?)? else {
        return Ok(None);
    };
    let text = String::from_utf8(reply)?;
    value_of(&text, "twinwall_metrics_requests_total").map(Some)
}

/// Checks that simultaneous clients share a reply, and that a later client gets a new one.
fn shared() -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = start(&place)?;
    until("two clients share an answer", PATIENCE, || {
        is_shared(&place)
    })?;
    let mut before = None;
    until("a client reads an answer", PATIENCE, || {
        before = requests(&place)?;
        Ok(before.is_some())
    })?;
    until("an answer is of now again", PATIENCE, || {
        Ok(requests(&place)? > before)
    })?;
    served.firewall.stop()?.total.check_clean()
}

/// Reads a reply. A client that gets none on a busy machine asks again.
fn read_one(place: &Place) -> anyhow::Result<()> {
    until("a client reads an answer", PATIENCE, || {
        Ok(rest(asker(place)?)?.is_some())
    })
}

/// Checks that the exporter's memory stays limited while many clients never read their replies. The clients connect so
/// far apart that they share no reply.
fn bounded() -> anyhow::Result<()> {
    let place = Place::new()?;
    let Served { firewall, exporter } = start(&place)?;
    read_one(&place)?;
    let before_mib = proc::peak_memory_mib(exporter.pid)?;
    let mut streams = Vec::new();
    for _ in 0..CLIENTS - 1 {
        streams.push(small_asker(&place)?);
        pause_for(Duration::from_millis(300));
    }
    // The last of the exporter's connections is for a client that reads.
    read_one(&place)?;
    let now_mib = proc::peak_memory_mib(exporter.pid)?;
    ensure!(
        now_mib < before_mib + GROWTH_MIB,
        "the peak of memory was {before_mib} MiB and is {now_mib}"
    );
    drop(streams);
    firewall.stop()?.total.check_clean()
}

/// Reads a reply slowly, until the exporter closes the connection, and lets other clients read whole replies meanwhile.
/// Returns the number of bytes read; None if the firewall did not answer in time on a busy machine, or not so fast that
/// more than one other client was served.
fn read_slowly(place: &Place) -> anyhow::Result<Option<usize>> {
    let mut stream = small_asker(place)?;
    let (mut received, mut others) = (0, 0);
    let mut buffer = [0; 4096];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        if received == 0 && is_late(&buffer) {
            return Ok(None);
        }
        received += bytes;
        read_one(place)?;
        others += 1;
    }
    Ok((others > 1).then_some(received))
}

fn slow() -> anyhow::Result<()> {
    let place = Place::new()?;
    let served = start(&place)?;
    let mut read = None;
    until("others are served beside a slow reader", PATIENCE, || {
        read = read_slowly(&place)?;
        Ok(read.is_some())
    })?;
    let received = read.expect("until() has ended");
    ensure!(received < ANSWER, "{received} bytes");
    served.firewall.stop()?.total.check_clean()
}
