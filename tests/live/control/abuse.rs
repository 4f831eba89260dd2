// SPDX-License-Identifier: GPL-2.0-or-later
//! Misbehaving clients of the control socket while packets arrive: every packet must get its verdict, other clients
//! their replies, and memory use must not grow.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::control::{error_of, Client};
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::traffic::{udp_client, udp_exchange, UdpServer};
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Row;

use super::place::Place;

pub const ROWS: &[Row] = &[
    ("garbage", garbage),
    ("100-mib-without-a-line-end", endless_line),
    ("100-mib-of-lines", endless_lines),
    ("clients-that-never-read", never_read),
    ("the-17th-client", too_many),
    ("clients-that-die", dying),
];

const MIB: usize = 1 << 20;
/// Growth of the firewall's peak memory that is allowed, in MiB. The current memory would say less: the C library
/// retains freed memory.
const GROWTH_MIB: f64 = 8.0;
/// Number of exchanges between two checks whether to end.
const ROUND: u64 = 100;

/// Continuous exchange of packets through the firewall, one at a time.
struct Traffic {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<anyhow::Result<()>>,
    peak_mib: f64,
}

impl Traffic {
    fn start(place: &Place, firewall: &Firewall) -> anyhow::Result<Traffic> {
        let server = UdpServer::start(&place.namespace, LOCALHOST, true)?;
        let client = udp_client(&place.namespace, LOCALHOST)?;
        // After this, memory for the first packets is allocated.
        udp_exchange(&client, ROUND)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let _server = server;
            // At least one complete round is exchanged, however short the abuse is.
            loop {
                udp_exchange(&client, ROUND)?;
                if told.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
        });
        Ok(Traffic {
            stop,
            thread,
            peak_mib: proc::peak_memory_mib(firewall.pid)?,
        })
    }

    /// Ends the traffic. Checks that no packet was lost, that another client gets a reply, that peak memory did not
    /// grow, and that the firewall stops normally.
    fn finish(self, place: &Place, firewall: Firewall) -> anyhow::Result<()> {
        ensure!(place.ask(r#"{"command":"log"}"#)?["ok"] == true);
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic").context("traffic")?;
        let peak_mib = proc::peak_memory_mib(firewall.pid)?;
        ensure!(
            peak_mib < self.peak_mib + GROWTH_MIB,
            "the peak of memory was {} MiB and is {peak_mib}",
            self.peak_mib
        );
        firewall.finish()?.total.check_clean()
    }
}

/// Sends a piece again and again, until `bytes` bytes are sent or the firewall closes the connection. Returns the
/// number of sent bytes.
fn pour(client: &Client, piece: &[u8], bytes: usize) -> usize {
    let mut sent = 0;
    while sent < bytes && client.stream().write_all(piece).is_ok() {
        sent += piece.len();
    }
    sent
}

fn garbage(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    let traffic = Traffic::start(&place, &firewall)?;
    let mut state: u64 = 0x7477_696e;
    let mut lines = 0;
    for _ in 0..20 {
        let mut client = place.connect()?;
        for _ in 0..50 {
            let mut line: Vec<u8> = (0..200)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state as u8
                })
                .filter(|byte| *byte != b'\n')
                .collect();
            line.push(b'\n');
            client.send(&line)?;
            error_of(&client.line()?)?;
            lines += 1;
        }
        // The JSON is nested more deeply than any parser should follow.
        client.send([&[b'['; 60_000][..], b"\n"].concat())?;
        error_of(&client.line()?)?;
        client.send([&b"{\"a\":".repeat(10_000)[..], b"\n"].concat())?;
        error_of(&client.line()?)?;
        lines += 2;
    }
    ensure!(place.count("control_bad")? == lines);
    traffic.finish(&place, firewall)
}

fn endless_line(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    let traffic = Traffic::start(&place, &firewall)?;
    for number in 1..=3 {
        let mut client = place.connect()?;
        let sent = pour(&client, &vec![b'x'; MIB], 100 * MIB);
        ensure!(sent < 100 * MIB, "it took all {sent} bytes");
        let error = client.line()?;
        let expected = "the line has more than 65536 bytes: send a shorter one";
        ensure!(error_of(&error)? == expected, "{error}");
        client.check_closed()?;
        ensure!(place.count("control_bad")? == number);
    }
    // The longest accepted request, and then a request that is one byte longer.
    let mut client = place.connect()?;
    let blanks = " ".repeat(65536 - "{\"command\":\"log\"}\n".len());
    ensure!(client.ask(&format!("{blanks}{{\"command\":\"log\"}}"))?["ok"] == true);
    client.send(format!("{blanks} {{\"command\":\"log\"}}\n"))?;
    error_of(&client.line()?)?;
    client.check_closed()?;
    traffic.finish(&place, firewall)
}

fn endless_lines(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    let traffic = Traffic::start(&place, &firewall)?;
    let client = place.connect()?;
    // This client reads its replies, so it must be served until it ends.
    let mut reader = client.stream().try_clone()?;
    let told = thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let line = [&vec![b'x'; 8 * 1024 - 1][..], b"\n"].concat();
    let sent = pour(&client, &line, 100 * MIB);
    ensure!(sent == 100 * MIB, "it took {sent} bytes");
    client.stream().shutdown(std::net::Shutdown::Write)?;
    told.join().expect("no panic")?;
    ensure!(place.count("control_bad")? == sent as u64 / line.len() as u64);
    traffic.finish(&place, firewall)
}

/// Writes a policy so large that the reply with its rules exceeds any socket's buffer.
fn write_large_policy(place: &Place) -> anyhow::Result<()> {
    let mut policy = String::from(
        "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0; policy accept;\n",
    );
    for number in 0..8000 {
        let address = format!("10.{}.{}.1", number / 256, number % 256);
        writeln!(
            policy,
            "\t\tip saddr {address} counter comment \"rule {number}\""
        )?;
    }
    policy.push_str("\t}\n}\n");
    fs::write(place.path("web.nft"), policy).map_err(Into::into)
}

fn never_read(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    write_large_policy(&place)?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    // After this, memory for a large reply is allocated.
    ensure!(place.ask(r#"{"command":"rules"}"#)?["ok"] == true);
    let traffic = Traffic::start(&place, &firewall)?;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = place.connect()?;
        client.send("{\"command\":\"rules\"}\n".repeat(10))?;
        clients.push(client);
    }
    until("they are closed", PATIENCE, || {
        Ok(place.count("control_slow")? == 3)
    })?;
    for client in &mut clients {
        ensure!(client.text().is_err(), "a whole answer came");
    }
    // A client that reads slowly must get its whole reply.
    let mut slow = place.connect()?;
    slow.send("{\"command\":\"rules\"}\n")?;
    pause_for(Duration::from_secs(2));
    ensure!(slow.line()?["rules"].as_array().context("rules")?.len() == 8000);
    traffic.finish(&place, firewall)
}

fn too_many(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    let traffic = Traffic::start(&place, &firewall)?;
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = place.connect()?;
        ensure!(client.ask(r#"{"command":"log"}"#)?["ok"] == true);
        clients.push(client);
    }
    for _ in 0..20 {
        let mut client = place.connect()?;
        let error = client.line()?;
        let expected = "16 clients are being served: close one, or try again later";
        ensure!(error_of(&error)? == expected, "{error}");
        client.check_closed()?;
    }
    for client in &mut clients {
        ensure!(client.ask(r#"{"command":"log"}"#)?["ok"] == true);
    }
    clients.pop();
    until("there is room for another", PATIENCE, || {
        Ok(place.ask(r#"{"command":"log"}"#)?["ok"] == true)
    })?;
    drop(clients);
    let refused = place.count("control_too_many")?;
    ensure!(refused >= 20, "{refused} are counted");
    traffic.finish(&place, firewall)
}

fn dying(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new()?;
    write_large_policy(&place)?;
    let firewall = place.start(twin, &PATIENT_GUARD)?;
    ensure!(place.ask(r#"{"command":"rules"}"#)?["ok"] == true);
    let traffic = Traffic::start(&place, &firewall)?;
    for number in 0..200 {
        let mut client = place.connect()?;
        // The client closes before, within and after a request, or within the reply.
        match number % 4 {
            0 => {}
            1 => client.send("{\"command\":\"st")?,
            2 => client.send("{\"command\":\"rules\"}\n")?,
            _ => {
                client.send("{\"command\":\"rules\"}\n")?;
                std::io::Read::read_exact(&mut client.stream(), &mut [0; 100])?;
            }
        }
    }
    until("lines that were cut are counted", PATIENCE, || {
        Ok(place.count("control_bad")? == 50)
    })?;
    traffic.finish(&place, firewall)
}
