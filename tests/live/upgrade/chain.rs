// SPDX-License-Identifier: GPL-2.0-or-later
//! Firewalls that take over from each other under load, up to ten times.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::firewall::Firewall;
use testbed::ledger::Stats;
use testbed::netns::Namespace;
use testbed::packets::force_send_buffer;
use testbed::place::LOCALHOST;
use testbed::traffic::{tcp_ask, tcp_connect, tcp_echo, udp_client, udp_send, UdpFlood, UdpServer};
use testbed::twin::Twin::{self, Rust, C};
use testbed::wait::{pause_for, until, PATIENCE};

use super::setting::{until_in_time, Setting};

pub type Body = fn() -> anyhow::Result<()>;

pub const ROWS: &[(&str, Body)] = &[
    ("ten-upgrades-under-load", || until_in_time(ten_upgrades)),
    ("other-options-each-time", || until_in_time(other_options)),
    ("other-policies-each-time", || until_in_time(other_policies)),
    ("sockets-and-events-go-on", || until_in_time(sockets_go_on)),
];

/// Size of the sender's send buffer: much larger than the data that waits during an upgrade, and much smaller than a
/// queue. So a delay slows the sender only, and no datagram is lost by it.
const SEND_BUFFER_BYTES: i32 = 16 << 20;
/// Number of datagrams that a firewall answers before the next firewall takes over.
const DATAGRAMS: u64 = 2000;

/// Load: a TCP connection with continuous exchanges, and a flood of datagrams.
struct Load {
    flood: UdpFlood,
    server: UdpServer,
    stop: Arc<AtomicBool>,
    stream: JoinHandle<anyhow::Result<u64>>,
}

impl Load {
    fn start(namespace: &Namespace) -> anyhow::Result<Load> {
        let server = UdpServer::start(namespace, LOCALHOST, false)?;
        let client = udp_client(namespace, LOCALHOST)?;
        force_send_buffer(&client, SEND_BUFFER_BYTES)?;
        tcp_echo(namespace, LOCALHOST)?;
        let stream = tcp_connect(namespace, LOCALHOST, PATIENCE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        Ok(Load {
            flood: UdpFlood::start(client),
            server,
            stop,
            stream: thread::spawn(move || ask_until(stream, &told)),
        })
    }

    /// Waits until this number of additional datagrams has arrived.
    fn wait_for(&self, datagrams: u64) -> anyhow::Result<()> {
        let goal = self.server.arrived()? + datagrams;
        until("datagrams arrive", PATIENCE, || {
            Ok(self.server.arrived()? >= goal)
        })
    }

    /// Ends the load and checks that all datagrams have arrived. Returns the number of sent datagrams.
    fn finish(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let sent = self.flood.stop();
        let asked = self.stream.join().expect("the asking does not panic")?;
        ensure!(asked > 0, "no byte was asked for");
        self.server.check_arrived(sent)?;
        Ok(sent)
    }
}

fn ask_until(mut stream: TcpStream, told: &AtomicBool) -> anyhow::Result<u64> {
    let mut asked = 0;
    while !told.load(Ordering::Relaxed) {
        tcp_ask(&mut stream).context("the stream does not go on")?;
        asked += 1;
        pause_for(Duration::from_millis(1));
    }
    Ok(asked)
}

/// Twin and options of a firewall in a chain.
type Step = (Twin, &'static [&'static str]);

/// Starts the first firewall and makes each further firewall take over from the previous one, under load. Checks that
/// no packet is lost or missed, and that each ledger reconciles. Ends the last firewall.
/// Returns its ledger, and the number of sent datagrams, all of which the ledger counts. After an upgrade that was too
/// slow, checks only that no datagram is lost, and returns None.
fn run_chain(
    setting: &Setting,
    steps: &[Vec<&str>],
    twins: &[Twin],
) -> anyhow::Result<Option<(Stats, u64)>> {
    let mut steps = twins.iter().zip(steps);
    let (twin, arguments) = steps.next().context("a first firewall")?;
    let mut firewall = setting.start(*twin, arguments)?;
    let load = Load::start(&setting.namespace)?;
    let mut before = 0;
    for (step, (twin, arguments)) in steps.enumerate() {
        load.wait_for(DATAGRAMS)?;
        let (next, last) = setting
            .upgrade(firewall, *twin, arguments)
            .with_context(|| format!("upgrade {}", step + 1))?;
        firewall = next;
        if setting.was_late() {
            break;
        }
        let total = &last.total;
        ensure!(last.reconciled, "the old ledger: {total:?}");
        ensure!(
            total.received > before,
            "upgrade {}: received {} after {before}",
            step + 1,
            total.received
        );
        ensure!(total.lost == 0, "upgrade {}: {total:?}", step + 1);
        before = total.received;
    }
    load.wait_for(DATAGRAMS)?;
    let sent = match load.finish() {
        Ok(sent) => sent,
        Err(error) => return Err(error.context(format!("{:?}", firewall.ledger()?.total))),
    };
    if setting.was_late() {
        return Ok(None);
    }
    Ok(Some((check_end(firewall)?, sent)))
}

pub fn check_end(firewall: Firewall) -> anyhow::Result<Stats> {
    let stats = firewall.finish()?;
    stats.total.check_clean()?;
    Ok(stats)
}

fn with<'a>(steps: &[Step], more: &[&'a str]) -> (Vec<Vec<&'a str>>, Vec<Twin>) {
    let arguments = steps.iter().map(|(_, own)| [own, more].concat());
    (
        arguments.collect(),
        steps.iter().map(|(twin, _)| *twin).collect(),
    )
}

const RAW: &[&str] = &["--backend", "raw"];
const MNL: &[&str] = &["--backend", "mnl"];
const CLASSIC: &[&str] = &["--backend", "classic"];

/// Returns the packet count of the counter on a line of the policy file.
pub fn counted(stats: &Stats, line: u32) -> anyhow::Result<u64> {
    let policy = stats.policy.as_ref().context("no policy in the ledger")?;
    let at = format!(":{line}");
    let mut counters = policy.counters.iter();
    let counter = counters.find(|counter| counter.rule.ends_with(&at));
    Ok(counter
        .with_context(|| format!("no counter at line {line}: {policy:?}"))?
        .packets)
}

fn ten_upgrades() -> anyhow::Result<bool> {
    const STEPS: &[Step] = &[
        (C, CLASSIC),
        (Rust, RAW),
        (C, RAW),
        (Rust, MNL),
        (C, MNL),
        (Rust, RAW),
        (Rust, MNL),
        (C, RAW),
        (C, MNL),
        (Rust, RAW),
        (C, RAW),
    ];
    let setting = Setting::new("--queue-num 0")?;
    let policy = setting.policy(
        "policy.nft",
        &[
            "table inet filter {",
            "  chain output {",
            "    type filter hook output priority 0; policy drop;",
            "    udp dport 9999 counter quota until 1000000 mbytes accept",
            "    tcp dport 9999 counter log limit rate 1000000/second accept",
            "  }",
            "}",
        ],
    )?;
    let (arguments, twins) = with(STEPS, &["--policy", &policy]);
    let Some((stats, sent)) = run_chain(&setting, &arguments, &twins)? else {
        return Ok(false);
    };
    let (udp, tcp) = (counted(&stats, 4)?, counted(&stats, 5)?);
    ensure!(udp == sent, "{udp} datagrams were counted, {sent} sent");
    let (received, requeued) = (stats.total.received, stats.total.verdict("requeue"));
    ensure!(
        requeued == 0,
        "{requeued} packets went through the queue twice"
    );
    ensure!(
        udp + tcp == received,
        "{udp} and {tcp} packets were counted, {received} received"
    );
    let logs = &stats.policy.as_ref().context("a policy")?.logs;
    ensure!(
        logs.len() == 1 && logs[0].packets == tcp,
        "{tcp} packets were logged: {logs:?}"
    );
    Ok(true)
}

/// Checks upgrades to a firewall that needs other settings in the kernel than the old one has: the kernel queues the
/// waiting packets again.
fn other_options() -> anyhow::Result<bool> {
    const SMALL: &[&str] = &[
        "--copy-bytes",
        "1",
        "--gso",
        "off",
        "--queue-length",
        "65536",
    ];
    const NONE: &[&str] = &["--backend", "mnl", "--copy-bytes", "0"];
    const OPEN: &[&str] = &["--fail", "open", "--batch", "1"];
    const STEPS: &[Step] = &[
        (Rust, SMALL),
        (C, RAW),
        (Rust, MNL),
        (C, NONE),
        (Rust, OPEN),
        (C, SMALL),
    ];
    let setting = Setting::new("--queue-balance 0:1")?;
    let (arguments, twins) = with(STEPS, &["--queue", "0:1"]);
    let Some((stats, sent)) = run_chain(&setting, &arguments, &twins)? else {
        return Ok(false);
    };
    ensure!(stats.queues.len() == 2, "queues: {:?}", stats.queues);
    let accepted = stats.total.verdict("accept");
    ensure!(accepted >= sent, "{accepted} accepted, {sent} sent");
    Ok(true)
}

/// Checks that a waiting packet is decided by the new policy, which reads more bytes of it than the old firewall had
/// copied.
fn other_policies() -> anyhow::Result<bool> {
    const TABLE: [&str; 3] = [
        "table inet filter {",
        "  chain output {",
        "    type filter hook output priority 0; policy drop;",
    ];
    const COUNTED: &str = "    counter accept";
    const END: [&str; 2] = ["  }", "}"];
    let little = [&TABLE[..], &[COUNTED], &END].concat();
    let much = [&TABLE[..], &["    udp dport != 9999 drop", COUNTED], &END].concat();
    let setting = Setting::new("--queue-num 0")?;
    let policies = [
        setting.policy("little.nft", &little)?,
        setting.policy("much.nft", &much)?,
    ];
    let twins = [Rust, C, C, Rust, Rust, C, Rust];
    let copied = ["1", "128"];
    let steps = (0..twins.len()).map(|step| {
        vec![
            "--policy",
            &policies[step % 2],
            "--copy-bytes",
            copied[step % 2],
        ]
    });
    let Some((stats, sent)) = run_chain(&setting, &steps.collect::<Vec<_>>(), &twins)? else {
        return Ok(false);
    };
    // This rule stays in each policy, although its neighbours change. A packet that was queued again counts once.
    let counted = counted(&stats, 4)?;
    let total = &stats.total;
    ensure!(
        counted == total.verdict("accept") && counted >= sent,
        "{counted} packets were counted, {sent} datagrams sent: {total:?}"
    );
    ensure!(total.verdict("requeue") > 0, "nothing waited: {total:?}");
    Ok(true)
}

/// Checks that a client of the control socket always finds a listener, also during an upgrade. The listener may
/// disconnect the client, which must then try again.
fn sockets_go_on() -> anyhow::Result<bool> {
    let setting = Setting::new("--queue-num 0")?;
    let events = setting.path("events.json");
    let arguments = ["--events", &events, "--default", "drop"];
    let mut firewall = setting.start(Rust, &arguments)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (told, control) = (stop.clone(), setting.control());
    let asking = setting.namespace.enter(|| {
        thread::spawn(move || -> anyhow::Result<u64> {
            let mut asked = 0;
            while !told.load(Ordering::Relaxed) {
                UnixStream::connect(&control).context("nobody listens at the control socket")?;
                asked += 1;
            }
            Ok(asked)
        })
    });
    let client = udp_client(&setting.namespace, LOCALHOST)?;
    for (number, twin) in [C, Rust, Rust, C, C].into_iter().enumerate() {
        udp_send(&client, 1, 18)?;
        firewall = setting
            .upgrade(firewall, twin, &arguments)
            .with_context(|| format!("upgrade {}", number + 1))?
            .0;
    }
    stop.store(true, Ordering::Relaxed);
    let asked = asking.join().expect("the asking does not panic")?;
    ensure!(asked > 5, "asked {asked} times");
    if setting.was_late() {
        return Ok(false);
    }
    ensure!(
        firewall.finish()?.total.verdict("drop") == 5,
        "not all was dropped"
    );
    // Each firewall has appended its events.
    let dropped = std::fs::read_to_string(&events)?;
    let dropped = dropped.matches("\"event_type\":\"drop\"").count();
    ensure!(dropped == 5, "{dropped} events of 5 packets");
    Ok(true)
}
