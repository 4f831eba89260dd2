// SPDX-License-Identifier: GPL-2.0-or-later
//! Load tcp-latency: one request and one response at a time over one connection; the client times each exchange.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

use super::arrivals::{Arrivals, Server};
use super::socket::{listen, timed_out};
use super::stream::{accept, connect};
use super::{Aim, Burst, Emptied, Traffic, LOOK_UP, STALLED};
use crate::runner::Place;

/// Longest latency of the histogram, in nanoseconds (range 1 ns to 1000 s, 3 significant digits).
const LONGEST_NS: u64 = 1_000_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
/// Number of points of the percentile curve in each decade, e.g. from 90 % to 99 %, or from 99 % to 99.9 %.
const POINTS_PER_DECADE: u32 = 10;

pub struct Requests {
    connection: TcpStream,
    message: Vec<u8>,
    _server: Server,
}

impl Requests {
    pub fn open(aim: &Aim, place: &Place) -> Result<Requests> {
        let listener = place.server.enter(|| listen(aim.end(), LOOK_UP))?;
        let bytes = aim.payload_bytes;
        let serve = move |arrivals: &Arrivals| respond(&listener, bytes, arrivals);
        let server = Server::start(&Arrivals::new(), serve);
        let connection = place.client.enter(|| connect(aim))?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(STALLED))?;
        Ok(Requests {
            connection,
            message: vec![b'x'; bytes],
            _server: server,
        })
    }
}

impl Traffic for Requests {
    fn burst(&mut self, _place: &Place, duration: Duration, _emptied: &Emptied) -> Result<Burst> {
        let mut latencies = histogram()?;
        let start = Instant::now();
        let mut now = start;
        while now - start < duration {
            let asked = now;
            self.connection.write_all(&self.message).context("send")?;
            self.connection
                .read_exact(&mut self.message)
                .context("a request got no response")?;
            now = Instant::now();
            latencies.saturating_record((now - asked).as_nanos() as u64);
        }
        Ok(Burst {
            sent: latencies.len(),
            arrived: latencies.len(),
            seconds: (now - start).as_secs_f64(),
            latencies: Some(latencies),
        })
    }
}

/// Returns an empty histogram.
pub fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST_NS, SIGNIFICANT_DIGITS).context("histogram")
}

/// Echoes whole messages of `bytes` bytes.
fn respond(listener: &TcpListener, bytes: usize, arrivals: &Arrivals) {
    let Some(mut stream) = accept(listener, arrivals) else {
        return;
    };
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut message = vec![0; bytes];
    let mut filled = 0;
    while !arrivals.over() {
        match stream.read(&mut message[filled..]) {
            Ok(0) => return,
            Ok(count) => filled += count,
            Err(error) if timed_out(&error) => {}
            Err(_) => return,
        }
        if filled == bytes {
            if stream.write_all(&message).is_err() {
                return;
            }
            filled = 0;
        }
    }
}

/// Returns points (percentile, microseconds) at equal steps of log10(100 / (100 - percentile)), and at 50 %. Omits
/// percentiles with less than one request above them. All histograms have the same steps, so that several can be
/// combined point by point.
pub fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let steps = 0..10 * POINTS_PER_DECADE;
    let rests = steps.map(|step| 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_DECADE)));
    let mut rests: Vec<f64> = rests.chain([0.5]).collect();
    rests.sort_by(|a, b| b.total_cmp(a));
    rests.retain(|rest| histogram.len() as f64 * rest >= 1.0);
    let point = |rest: f64| (1.0 - rest, histogram.value_at_quantile(1.0 - rest));
    let points = rests.into_iter().map(point);
    points
        .map(|(quantile, ns)| (round(quantile * 100.0), ns as f64 / 1e3))
        .collect()
}

/// Rounds to nine places: 99.9 and not 99.90000000000001.
fn round(percentile: f64) -> f64 {
    (percentile * 1e9).round() / 1e9
}
