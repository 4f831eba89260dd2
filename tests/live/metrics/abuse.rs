// SPDX-License-Identifier: GPL-2.0-or-later
//! Misbehaving clients of the exporter while packets arrive: every packet must get its verdict, another client must be
//! served in the end, and memory use must not grow.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::traffic::{udp_client, udp_exchange, UdpServer};
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};

use super::http::{get, Place, Served};
use super::LoneRow;

pub const ROWS: &[LoneRow] = &[
    ("heads-without-end", endless_heads),
    ("connections-that-say-nothing", silent),
    ("clients-that-never-read", never_read),
    ("garbage-and-early-ends", garbage),
];

const MIB: usize = 1 << 20;
/// Growth of the exporter's peak memory that is allowed, in MiB.
const GROWTH_MIB: f64 = 16.0;
const ROUND: u64 = 100;
/// Maximum number of simultaneous connections of the exporter.
const CONNECTIONS: u64 = 16;
/// Maximum duration of a connection of the exporter.
const CONNECTION: Duration = Duration::from_secs(10);

/// Runs `abuse` while packets are exchanged through the firewall, one at a time. Checks that no packet is lost, that a
/// client is served afterwards, and that the exporter's peak memory grows by less than GROWTH_MIB.
fn under_traffic(abuse: impl FnOnce(&Place) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let place = Place::new()?;
    let Served { firewall, exporter } = place.start(Twin::Rust, &[])?;
    let server = UdpServer::start(&place.namespace, LOCALHOST, true)?;
    let client = udp_client(&place.namespace, LOCALHOST)?;
    udp_exchange(&client, ROUND)?;
    place.metrics()?;
    let before_mib = proc::peak_memory_mib(exporter.pid)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let traffic = thread::spawn(move || -> anyhow::Result<()> {
        let _server = server;
        // At least one complete round is exchanged, however short the abuse is.
        loop {
            udp_exchange(&client, ROUND)?;
            if told.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    });
    abuse(&place)?;
    until("a good client is served", PATIENCE, || {
        Ok(place.metrics().is_ok())
    })?;
    stop.store(true, Ordering::Relaxed);
    traffic.join().expect("no panic").context("traffic")?;
    let now_mib = proc::peak_memory_mib(exporter.pid)?;
    ensure!(
        now_mib < before_mib + GROWTH_MIB,
        "the peak of memory was {before_mib} MiB and is {now_mib}"
    );
    firewall.stop()?.total.check_clean()
}

fn unanswered(place: &Place) -> anyhow::Result<u64> {
    place.value("twinwall_metrics_unanswered_total")
}

/// Checks that the exporter closes the connection of a client whose request head has 100 MiB, in one line or in many,
/// or arrives too slowly.
fn endless_heads() -> anyhow::Result<()> {
    under_traffic(|place| {
        for piece in ["x".repeat(MIB), "Name: value\r\n".repeat(MIB / 13)] {
            let mut stream = place.connect()?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ")?;
            let mut sent = 0;
            while sent < 100 * MIB && stream.write_all(piece.as_bytes()).is_ok() {
                sent += piece.len();
            }
            ensure!(sent < 100 * MIB, "it took all {sent} bytes");
        }
        let begin = Instant::now();
        let mut stream = place.connect()?;
        // Each byte arrives within any time limit for a single read.
        while stream.write_all(b"G").is_ok() {
            ensure!(begin.elapsed() < PATIENCE, "a slow head goes on for ever");
            pause_for(Duration::from_millis(200));
        }
        ensure!(
            unanswered(place)? == 3,
            "{} are counted",
            unanswered(place)?
        );
        Ok(())
    })
}

/// Tests as many silent clients as the exporter has connections: another client is served after the silent ones are
/// closed.
fn silent() -> anyhow::Result<()> {
    under_traffic(|place| {
        let begin = Instant::now();
        let mut silent = Vec::new();
        for _ in 0..CONNECTIONS {
            silent.push(place.connect()?);
        }
        // The silent clients must be accepted first.
        pause_for(Duration::from_millis(500));
        place.metrics()?;
        let waited = begin.elapsed();
        ensure!(
            waited + Duration::from_secs(1) > CONNECTION,
            "served after {waited:?}, with all places taken"
        );
        for mut stream in silent {
            ensure!(
                stream.read(&mut [0]).unwrap_or(0) == 0,
                "an answer to nothing"
            );
        }
        until("all are counted", PATIENCE, || {
            Ok(unanswered(place)? == CONNECTIONS)
        })
    })
}

fn never_read() -> anyhow::Result<()> {
    under_traffic(|place| {
        // An exporter that served one client at a time would close these first. On a busy machine it may take more tries.
        until(
            "another client is served before these are closed",
            PATIENCE,
            || {
                let mut streams = Vec::new();
                let begin = Instant::now();
                for _ in 0..CONNECTIONS / 2 {
                    let mut stream = place.connect()?;
                    stream.write_all(get("/metrics", "").repeat(100).as_bytes())?;
                    streams.push(stream);
                }
                place.metrics()?;
                Ok(begin.elapsed() < CONNECTION)
            },
        )
    })
}

fn garbage() -> anyhow::Result<()> {
    under_traffic(|place| {
        let pieces: [&[u8]; 6] = [
            b"",
            b"\r\n\r\n",
            b"\0\xff\x80 \r\n\r\n",
            b"GET /metrics\r\n\r\n",
            b"GET /metrics HTTP/9.9\r\n\r\n",
            b"{\"command\":\"status\"}\r\n\r\n",
        ];
        let mut begun = 0;
        for _ in 0..CONNECTIONS / 2 {
            place.connect()?.write_all(b"GET")?;
            begun += 1;
        }
        for _ in 0..10 {
            for piece in pieces {
                let mut stream = place.connect()?;
                stream.write_all(piece)?;
                stream.shutdown(std::net::Shutdown::Write)?;
                let mut answer = Vec::new();
                // A connection that is reset has no reply, either.
                let _ = stream.read_to_end(&mut answer);
                ensure!(
                    !answer.starts_with(b"HTTP/1.1 2"),
                    "{}",
                    String::from_utf8_lossy(&answer)
                );
                begun += 1;
            }
        }
        until("all are counted", PATIENCE, || {
            Ok(unanswered(place)? == begun)
        })
        .with_context(|| format!("{} of {begun}", unanswered(place).unwrap_or(0)))
    })
}
