// SPDX-License-Identifier: GPL-2.0-or-later
//! tcp-latency: one request and one response at a time over one connection; the requester times each.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::Context;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::socket::{gone, listen, timed_out};
use super::stream::accept;
use super::{address, Control, Ended, CONNECT_TIMEOUT, LOOK_UP};
use crate::runner::Load;

/// Nanoseconds; a histogram with 3 significant digits from 1 ns to 1000 s.
const LONGEST_NS: u64 = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Points of the percentile curve in each factor of ten of 100 / (100 - percentile).
const POINTS_PER_DECADE: u32 = 10;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyServer {
    pub responses: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyClient {
    /// Requests that got their response in time.
    pub sent: u64,
    /// 1 if the time ended before the last response came. The time that it had waited until then is in the
    /// histogram: without it a flow that stalls for good would look fast.
    pub unfinished: u64,
    pub seconds: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
    /// (percentile, microseconds), ascending; only as far as one request in the rest is left.
    pub percentiles: Vec<(f64, f64)>,
}

pub(super) fn server(load: &Load, control: Control) -> anyhow::Result<LatencyServer> {
    let listener = listen(address(load), LOOK_UP)?;
    let ended = control.ready();
    let mut stream = accept(&listener, &ended)?;
    prepare(&stream)?;
    let mut message = vec![0; load.payload_bytes];
    let mut responses = 0;
    while receive(&mut stream, &mut message, || client_ended(&ended))? {
        match stream.write_all(&message) {
            Ok(()) => responses += 1,
            Err(error) if gone(&error) => break,
            Err(error) => return Err(error).context("send"),
        }
    }
    Ok(LatencyServer { responses })
}

fn client_ended(ended: &Ended) -> bool {
    !matches!(ended.now(), Ok(None))
}

pub(super) fn client(load: &Load) -> anyhow::Result<LatencyClient> {
    let to = address(load);
    let mut stream = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT)
        .with_context(|| format!("connect to {to}"))?;
    prepare(&stream)?;
    let mut histogram =
        Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).context("histogram")?;
    let mut message = vec![b'x'; load.payload_bytes];
    let mut unfinished = 0;
    let start = Instant::now();
    let mut now = start;
    while now - start < load.duration {
        let asked = now;
        stream.write_all(&message).context("send")?;
        let answered = receive(&mut stream, &mut message, || {
            start.elapsed() >= load.duration
        })?;
        now = Instant::now();
        unfinished += u64::from(!answered);
        histogram.saturating_record((now - asked).as_nanos() as u64);
        if !answered {
            break;
        }
    }
    let sent = histogram.len() - unfinished;
    Ok(LatencyClient {
        sent,
        unfinished,
        seconds: (now - start).as_secs_f64(),
        p50_us: microseconds(histogram.value_at_quantile(0.5)),
        p99_us: microseconds(histogram.value_at_quantile(0.99)),
        p999_us: microseconds(histogram.value_at_quantile(0.999)),
        max_us: microseconds(histogram.max()),
        percentiles: curve(&histogram),
    })
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LOOK_UP))
}

/// Fills `message`; false when the other end closes between two messages or `over` says to stop.
fn receive(
    stream: &mut TcpStream,
    message: &mut [u8],
    over: impl Fn() -> bool,
) -> anyhow::Result<bool> {
    let mut filled = 0;
    while filled < message.len() {
        match stream.read(&mut message[filled..]) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if timed_out(&error) && over() => return Ok(false),
            Err(error) if timed_out(&error) => {}
            Err(error) if gone(&error) => return Ok(false),
            Err(error) => return Err(error).context("receive"),
        }
    }
    Ok(true)
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}

/// Points at equal steps of log10(100 / (100 - percentile)) and at 50 %. The same steps in every round,
/// so that rounds can be put together point by point.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let steps = 0..10 * POINTS_PER_DECADE;
    let rests = steps.map(|step| 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_DECADE)));
    let mut rests: Vec<f64> = rests.chain([0.5]).collect();
    rests.sort_by(|a, b| b.total_cmp(a));
    rests.retain(|rest| histogram.len() as f64 * rest >= 1.0);
    let point = |rest: f64| (1.0 - rest, histogram.value_at_quantile(1.0 - rest));
    let points = rests.into_iter().map(point);
    points
        .map(|(quantile, ns)| (round(quantile * 100.0), microseconds(ns)))
        .collect()
}

/// To nine places: 99.9 and not 99.90000000000001.
fn round(percentile: f64) -> f64 {
    (percentile * 1e9).round() / 1e9
}
