// SPDX-License-Identifier: GPL-2.0-or-later
//! Unreadable packet messages: a library between the firewall and its netlink socket (spoil.c) corrupts the messages of
//! chosen packets. The cases check which packets arrive: a corrupted message must be treated as --fail malformed says,
//! and every other message as usual, at any position in a batch.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::firewall::{take_over, Firewall};
use testbed::folder::Folder;
use testbed::ledger::{Ledger, Stats};
use testbed::netns::Namespace;
use testbed::packets::force_send_buffer;
use testbed::place::{namespace, restore, LOCALHOST, PORT};
use testbed::proc;
use testbed::traffic::udp_client;
use testbed::twin::Twin;
use testbed::wait::{until, watch_silence, PATIENCE};
use twinwall_tests::case::Row;

use super::preload::library;
use super::scene::{rule, waiting_in};

pub const ROWS: &[Row] = &[
    ("spoilt-classic", |twin| all_ways(twin, "classic")),
    ("spoilt-mnl", |twin| all_ways(twin, "mnl")),
    ("spoilt-raw", |twin| all_ways(twin, "raw")),
    ("spoilt-one-by-one", one_by_one),
    ("spoilt-in-two-queues", two_queues),
    ("spoilt-after-a-take-over", after_a_take_over),
    ("spoilt-and-stopped", and_stopped),
];

/// Datagrams that wait for the firewall together: `s` is corrupted, `g` is not. The corrupted ones are at the start of
/// a queue, at the start, middle and end of a batch, in runs, alone, or all.
const BATCHES: [&str; 7] = [
    "ssgggggg",
    "sggg",
    "ggggsssggg",
    "ggggs",
    "gggss",
    "sgsgssgg",
    "ssss",
];
/// Batch (as in BATCHES) that follows each batch of the way `gone`: only the next message shows the firewall that
/// messages at the end of a batch are missing.
const LAST: &str = "g";
/// Time to wait for datagrams that should not arrive.
const TOO_MANY: Duration = Duration::from_millis(50);

/// Returns a datagram with a number, and with the word that makes spoil.c corrupt its message if `spoilt` is true.
fn datagram(number: u32, spoilt: bool) -> Vec<u8> {
    let word: &[u8] = if spoilt { b"SPOIL" } else { b"whole" };
    [&number.to_be_bytes()[..], word].concat()
}

/// Traffic of a case, and the datagrams that must arrive.
struct Traffic {
    client: UdpSocket,
    server: UdpSocket,
    sent: u32,
    expected: Vec<u32>,
    arrived: Vec<u32>,
    spoilt: u64,
    /// True if only corrupted datagrams must arrive, false if only the intact datagrams must arrive.
    open: bool,
}

impl Traffic {
    fn new(namespace: &Namespace, open: bool) -> anyhow::Result<Traffic> {
        let server = namespace.enter(|| UdpSocket::bind((LOCALHOST, PORT)))?;
        server.set_nonblocking(true)?;
        Ok(Traffic {
            client: udp_client(namespace, LOCALHOST)?,
            server,
            sent: 0,
            expected: Vec::new(),
            arrived: Vec::new(),
            spoilt: 0,
            open,
        })
    }

    /// Sends datagrams while the firewall is stopped, so that they wait together.
    /// - batch: as in BATCHES.
    fn send(&mut self, firewall: &Firewall, batch: &str) -> anyhow::Result<()> {
        proc::stop(firewall.pid)?;
        for kind in batch.chars() {
            let spoilt = kind == 's';
            self.client.send(&datagram(self.sent, spoilt))?;
            if spoilt == self.open {
                self.expected.push(self.sent);
            }
            self.spoilt += u64::from(spoilt);
            self.sent += 1;
        }
        proc::signal(firewall.pid, libc::SIGCONT);
        Ok(())
    }

    fn receive(&mut self) {
        let mut buffer = [0; 64];
        while let Ok(bytes) = self.server.recv(&mut buffer) {
            let number = buffer[..bytes].first_chunk().copied().unwrap_or_default();
            self.arrived.push(u32::from_be_bytes(number));
        }
    }

    /// Waits until the expected datagrams have arrived, and checks that no others arrive.
    fn check(&mut self, what: &str) -> anyhow::Result<()> {
        let all = until("all datagrams arrive", PATIENCE, || {
            self.receive();
            Ok(self.arrived.len() >= self.expected.len())
        });
        watch_silence(TOO_MANY);
        self.receive();
        ensure!(
            self.arrived == self.expected,
            "{what}: {:?} arrived instead of {:?}",
            self.arrived,
            self.expected
        );
        all
    }
}

/// Returns arguments with which corrupted packets get the opposite verdict of the others.
/// - open: true: corrupted packets are accepted, and the others dropped; false: the reverse.
fn arguments<'a>(backend: &'a str, open: bool, more: &[&'a str]) -> Vec<&'a str> {
    let modes = match open {
        true => ["--fail", "malformed=open", "--default", "drop"],
        false => ["--fail", "closed", "--default", "accept"],
    };
    // Without a guard only the firewall can answer.
    let rest = ["--backend", backend, "--deadline", "0", "--json"];
    [&modes[..], &rest, more].concat()
}

/// Starts a firewall with spoil.c.
/// - way: SPOIL_WAY, the kind of corruption.
fn start(
    namespace: &Namespace,
    twin: Twin,
    folder: &Folder,
    way: &str,
    arguments: &[&str],
) -> anyhow::Result<Firewall> {
    let preload = format!("LD_PRELOAD={}", library(folder, "spoil")?);
    let way = format!("SPOIL_WAY={way}");
    let wrapper = ["env", &preload, &way];
    Firewall::start_under(namespace, &wrapper, twin, arguments)
}

/// Sends every batch, and checks after each batch which datagrams arrive. Returns the last ledger, and the number of
/// corrupted datagrams.
fn send_all(
    namespace: &Namespace,
    firewall: Firewall,
    open: bool,
    way: &str,
) -> anyhow::Result<(Ledger, u64)> {
    let mut traffic = Traffic::new(namespace, open)?;
    for batch in BATCHES {
        traffic.send(&firewall, batch)?;
        // The next message shows that messages at the end of the batch are missing.
        if way == "gone" {
            traffic.send(&firewall, LAST)?;
        }
        traffic.check(&format!("{way}, open {open}, {batch}"))?;
        until("nothing waits any more", PATIENCE, || {
            Ok(waiting_in(namespace)? == Some(0))
        })
        .with_context(|| format!("{way}, open {open}, {batch}"))?;
    }
    let ended = firewall.end_by(libc::SIGTERM)?;
    let warnings: Vec<&str> = ended
        .stderr
        .lines()
        .filter(|line| !line.starts_with("info: "))
        .collect();
    let expected = match way {
        "gone" => vec![format!(
            "warning: the ledger does not reconcile: {} packets are unaccounted for",
            traffic.spoilt
        )],
        _ => Vec::new(),
    };
    ensure!(
        ended.code == Some(0) && warnings == expected,
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    let line = ended.lines.last().context("no ledger at exit")?;
    Ok((Stats::parse(line)?.total, traffic.spoilt))
}

/// Checks the ledger after messages were corrupted.
/// - way: kind of corruption.
/// - spoilt: number of corrupted messages.
fn check_ledger(ledger: &Ledger, way: &str, spoilt: u64) -> anyhow::Result<()> {
    let expected = match way {
        "rest" => (spoilt, 0, 0, 0),
        "gone" => (0, 0, spoilt, spoilt),
        _ => (spoilt, spoilt, 0, 0),
    };
    let told = (
        ledger.malformed["netlink"],
        ledger.without_id,
        ledger.gaps,
        ledger.kernel.unseen,
    );
    ensure!(told == expected, "{way}: {told:?}, {ledger:?}");
    ensure!(ledger.refused == 0, "{way}: {ledger:?}");
    ensure!(
        ledger.reconciled == (way != "gone"),
        "{way}: reconciled {}",
        ledger.reconciled
    );
    Ok(())
}

fn all_ways(twin: Twin, backend: &str) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    for way in ["id", "rest", "short", "gone"] {
        for open in [false, true] {
            let namespace = namespace()?;
            restore(&namespace, "iptables", &rule(""))?;
            let arguments = arguments(backend, open, &[]);
            let firewall = start(&namespace, twin, &folder, way, &arguments)?;
            let (ledger, spoilt) = send_all(&namespace, firewall, open, way)?;
            check_ledger(&ledger, way, spoilt)?;
        }
    }
    Ok(())
}

/// Tests the paper profile, which answers one packet at a time and never sleeps.
fn one_by_one(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    for way in ["id", "rest"] {
        let namespace = namespace()?;
        restore(&namespace, "iptables", &rule(""))?;
        let arguments = ["--profile", "paper", "--deadline", "0", "--json"];
        let firewall = start(&namespace, twin, &folder, way, &arguments)?;
        let (ledger, spoilt) = send_all(&namespace, firewall, false, way)?;
        check_ledger(&ledger, way, spoilt)?;
    }
    Ok(())
}

/// Tests two queues, each of which has its own ids.
fn two_queues(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    for (first, second) in [("0", "1"), ("1", "0")] {
        let namespace = namespace()?;
        // The packets go to the two queues in turn.
        let every_second = format!(
            "-A OUTPUT -p udp --dport {PORT} -m statistic --mode nth --every 2 --packet 0 -j NFQUEUE --queue-num {first}\n\
             -A OUTPUT -p udp --dport {PORT} -j NFQUEUE --queue-num {second}"
        );
        restore(&namespace, "iptables", &every_second)?;
        let arguments = arguments("raw", false, &["--queue", "0:1"]);
        let firewall = start(&namespace, twin, &folder, "id", &arguments)?;
        let mut traffic = Traffic::new(&namespace, false)?;
        for batch in BATCHES {
            traffic.send(&firewall, batch)?;
            // Two workers accept the packets, so their order is not determined.
            let all = until("all datagrams arrive", PATIENCE, || {
                traffic.receive();
                Ok(traffic.arrived.len() >= traffic.expected.len())
            });
            watch_silence(TOO_MANY);
            traffic.receive();
            traffic.arrived.sort_unstable();
            traffic.check(batch)?;
            all?;
        }
        let ledger = firewall.finish()?.total;
        check_ledger(&ledger, "id", traffic.spoilt)?;
    }
    Ok(())
}

/// Tests a firewall that has taken a queue over, and does not know the last id of the old firewall.
fn after_a_take_over(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let control = folder.file("control");
    for open in [false, true] {
        let namespace = namespace()?;
        restore(&namespace, "iptables", &rule(""))?;
        let first = arguments("raw", open, &["--control", &control]);
        let first = Firewall::start_under(&namespace, &[], twin, &first)?;
        Traffic::new(&namespace, open)?.send(&first, "ggg")?;
        first.settled_ledger()?;
        let second = arguments(
            "mnl",
            open,
            &["--control", &control, "--take-over", &control],
        );
        let (second, _) = take_over(&first, || start(&namespace, twin, &folder, "id", &second))?;
        ensure!(first.wait()?.code == Some(0), "the first one failed");
        let (ledger, spoilt) = send_all(&namespace, second, open, "id")?;
        check_ledger(&ledger, "id", spoilt)?;
    }
    Ok(())
}

/// Corrupts a packet's id to a number that is far too high, so that its verdict applies to all waiting packets, and
/// stops the firewall. Packets whose messages it has not read must count as received.
fn and_stopped(twin: Twin) -> anyhow::Result<()> {
    const WHOLE: u32 = 20_000;
    let folder = Folder::shared()?;
    let namespace = namespace()?;
    restore(&namespace, "iptables", &rule(""))?;
    let arguments = arguments("raw", false, &["--batch", "1"]);
    let firewall = start(&namespace, twin, &folder, "far", &arguments)?;
    let client = udp_client(&namespace, LOCALHOST)?;
    force_send_buffer(&client, 64 << 20)?; // none leaves it before its verdict
    proc::stop(firewall.pid)?;
    for number in 0..=WHOLE {
        client.send(&datagram(number, number == 0))?;
    }
    proc::signal(firewall.pid, libc::SIGCONT);
    until("the first one has decided all", PATIENCE, || {
        Ok(waiting_in(&namespace)? == Some(0))
    })?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    let line = ended.lines.last().context("no ledger at exit")?;
    let ledger = Stats::parse(line)?.total;
    ledger.check_reconciled()?;
    ensure!(ledger.received == u64::from(WHOLE) + 1, "{ledger:?}");
    Ok(())
}
