// SPDX-License-Identifier: GPL-2.0-or-later
//! A thousand reloads during a flood of packets: no packet is lost, and each is decided by one policy.

use std::net::UdpSocket;
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::netns::Namespace;
use testbed::place::{namespace, run, LOCALHOST, PORT};
use testbed::traffic::{udp_client, UdpServer};
use testbed::twin::Twin;
use testbed::wait::pause_for;
use twinwall_tests::case::Row;

use super::folder::PolicyFolder;
use super::rules::counter_of;

pub const ROWS: &[Row] = &[("a-thousand-reloads-in-a-flood", a_thousand_reloads)];

const RELOADS: u32 = 1000;
/// Maximum number of packets sent per second.
const RATE: u64 = 100_000;
/// Maximum number of packets in flight: fewer than a queue's socket holds. On a busy machine this slows the flood down,
/// and no packet is lost.
const ON_THE_WAY: u64 = 16_000;
/// Time between two steps of the sender, each of which sends a share of RATE.
const STEP: Duration = Duration::from_millis(1);
/// Minimum number of packets sent between two reloads.
const EACH: u64 = 100;
/// Number of flows: clients with different ports, whose packets use both queues.
const FLOWS: usize = 8;

/// Returns a policy with two chains, each of which sets one hexadecimal digit of the mark: both digits are `half`,
/// unless chains of two policies decide the same packet. In the first chain, the rule "all" and the last rule stay
/// across reloads, by comment and by text; all other rules change.
/// - half: the digit, 1 or 2.
fn policy(half: u32) -> String {
    format!(
        "table ip t {{
	chain first {{
		type filter hook output priority 0; policy accept;
		meta mark set {half} counter comment \"all\"
		udp dport {half} counter accept
		ip protocol udp counter
	}}
	chain second {{
		type filter hook output priority 10; policy accept;
		meta mark set meta mark | 0x{half}0
	}}
}}
"
    )
}

/// Rules that count packets by their mark after the firewall.
const BY_MARK: &str = "*mangle
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -p udp --dport 9999 -m mark --mark 0x11 -j ACCEPT
-A POSTROUTING -p udp --dport 9999 -m mark --mark 0x22 -j ACCEPT
-A POSTROUTING -p udp --dport 9999 -j ACCEPT
COMMIT
";

/// Returns the numbers of packets with the mark of the first policy, with that of the second, and with any other mark.
fn counted_by_mark(namespace: &Namespace) -> anyhow::Result<[u64; 3]> {
    let Output { stdout, .. } = run(namespace, "iptables-save", &["-c", "-t", "mangle"])?;
    let text = String::from_utf8(stdout)?;
    let rules = text.lines().filter(|line| line.contains("-A POSTROUTING"));
    let counted = rules.map(|rule| -> anyhow::Result<u64> {
        let (packets, _) = rule[1..].split_once(':').context("a counter")?;
        Ok(packets.parse()?)
    });
    let counted = counted.collect::<anyhow::Result<Vec<_>>>()?;
    counted.try_into().ok().context("three rules")
}

/// Sender of datagrams. Sends at most RATE per second, and keeps at most ON_THE_WAY in flight.
struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<anyhow::Result<()>>,
}

impl Flood {
    fn start(clients: Vec<UdpSocket>, server: UdpServer) -> Flood {
        let stop = Arc::new(AtomicBool::new(false));
        let sent = Arc::new(AtomicU64::new(0));
        let (told, counted) = (stop.clone(), sent.clone());
        let thread = thread::spawn(move || {
            let mut clients = clients.iter().cycle();
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                let room =
                    ON_THE_WAY.saturating_sub(counted.load(Ordering::Relaxed) - server.arrived()?);
                let step = RATE * STEP.as_micros() as u64 / 1_000_000;
                for _ in 0..room.min(step) {
                    clients.next().context("a client")?.send(&[0x55; 18])?;
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                pause_for(STEP.saturating_sub(began.elapsed()));
            }
            server.check_arrived(counted.load(Ordering::Relaxed))
        });
        Flood { stop, sent, thread }
    }

    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Ends the flood. Fails unless all sent packets have arrived. Returns their number.
    fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the sender does not panic")?;
        Ok(self.sent.load(Ordering::Relaxed))
    }
}

fn a_thousand_reloads(twin: Twin) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let feed = format!("-A OUTPUT -p udp --dport {PORT} -j NFQUEUE --queue-balance 0:1");
    testbed::place::restore(&namespace, "iptables", &feed)?;
    namespace.feed("iptables-restore", &["--noflush", "--wait"], BY_MARK)?;
    let policies = [policy(1), policy(2)];
    let folder = PolicyFolder::new(&policies[0])?;
    let (path, control) = (folder.policy(), folder.control());
    let arguments = [
        "--queue",
        "0:1",
        "--policy",
        &path,
        "--control",
        &control,
        "--log-level",
        "error",
    ];
    let arguments = [&arguments[..], &PATIENT_GUARD].concat();
    let firewall = Firewall::start(&namespace, twin, &arguments)?;
    let mut client = Client::new(&control)?;
    let clients: Result<Vec<_>, _> = (0..FLOWS)
        .map(|_| udp_client(&namespace, LOCALHOST))
        .collect();
    let server = UdpServer::start(&namespace, LOCALHOST, false)?;
    let flood = Flood::start(clients?, server);

    let began = Instant::now();
    for (number, policy) in (2..)
        .zip(policies.iter().cycle().skip(1))
        .take(RELOADS as usize)
    {
        let before = flood.sent();
        folder.write(policy)?;
        let answer = client.command("reload")?;
        ensure!(answer["generation"] == number, "{answer}");
        ensure!(
            (&answer["kept"], &answer["added"], &answer["removed"])
                == (&2.into(), &2.into(), &2.into()),
            "{answer}"
        );
        // Each policy must decide at least EACH packets.
        while flood.sent() < before + EACH {
            pause_for(STEP);
        }
    }
    let took = began.elapsed();
    let sent = flood.stop()?;

    let stats = firewall.finish()?;
    stats.total.check_clean()?;
    ensure!(
        stats.total.received == sent,
        "received {}, sent {sent}",
        stats.total.received
    );
    let [one, other, mixed] = counted_by_mark(&namespace)?;
    println!(
        "{}: {RELOADS} reloads in {:.1} s, {:.0} packets a second; {one} by one policy, {other} by the other, {mixed} by a \
         mixture",
        twin.name(),
        took.as_secs_f64(),
        sent as f64 / took.as_secs_f64()
    );
    ensure!(
        mixed == 0 && one + other == sent,
        "{one} + {other} + {mixed} of {sent}"
    );
    ensure!(one > 0 && other > 0, "one policy has decided nothing");
    for line in [4, 6] {
        let packets = counter_of(&stats, &format!("{path}:{line}"))?;
        ensure!(
            packets == sent,
            "the counter of line {line}: {packets} of {sent}"
        );
    }
    Ok(())
}
