// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy with many stateful rules, and many connections, passed from one firewall to the next.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::firewall::{take_over, Firewall, PATIENT_GUARD};
use testbed::packets::{ipv4, tcp, RawSender};
use testbed::place::LOCALHOST;
use testbed::traffic::{udp_client, udp_exchange, udp_send, UdpServer};
use testbed::twin::Twin::{self, Rust, C};
use testbed::wait::{pause_for, until, PATIENCE};

use super::chain::{check_end, counted, Body};
use super::setting::{check_calm, Setting};

pub const ROWS: &[(&str, Body)] = &[
    ("a-hundred-thousand-rules", || until_brief(many_rules)),
    ("a-full-table-of-connections", many_connections),
];

const MANY: u64 = 100_000;
/// Default value of --connections: the maximum number of connections that a firewall follows.
const CONNECTIONS: u32 = 65_536;
/// Number of connections that are opened between two answered datagrams, so that the queue has room.
const AT_ONCE: u32 = 256;
const NAMES: &[&str] = &[
    "table inet filter {",
    "  chain output {",
    "    type filter hook output priority 0; policy accept;",
    "    http host \"denied.example\" drop",
    "  }",
    "}",
];
/// Maximum waiting time of packets; after this time the old firewall continues.
const PAUSE: Duration = Duration::from_secs(2);
/// Time after which a firewall forgets a connection that has only sent its SYN.
const OPENING: Duration = Duration::from_secs(120);

/// Runs a case again until no datagram waits for long: on a busy machine the sender itself may pause for seconds.
/// - body: the case; returns false if a datagram waited for PAUSE, or an upgrade was too slow.
fn until_brief(body: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    until("no datagram waits for long", 4 * PATIENCE, body)
}

/// Returns a policy with MANY rules with counters, limits and quotas that match no packet. Before them are rules that
/// match packets: from 127.0.0.2 only three datagrams are accepted, and other datagrams to port 9999 are counted.
/// - count: returns the counter statement of a rule, by its number.
fn many_lines(count: impl Fn(u64) -> String) -> Vec<String> {
    let rule = |number: u64| {
        let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
        let address = format!(
            "{:x}:{:x}",
            u16::from_be_bytes([a, b]),
            u16::from_be_bytes([c, d])
        );
        let address = format!("fc00::{address}:{:x}", u16::from_be_bytes([e, f]));
        let counter = count(number);
        format!("    ip6 saddr {address} limit rate 1/day quota 9 mbytes {counter} comment \"r{number}\"")
    };
    let begin = [
        "table inet filter {",
        "  chain output {",
        "    type filter hook output priority 0; policy accept;",
        "    ip saddr 127.0.0.2 limit rate 1/day burst 3 packets counter accept",
        "    ip saddr 127.0.0.2 drop",
        "    udp dport 9999 counter accept",
    ];
    let begin = begin.into_iter().map(str::to_owned);
    let end = ["  }", "}"].into_iter().map(str::to_owned);
    begin.chain((0..MANY).map(rule)).chain(end).collect()
}

/// Sends one request after another until told to end. Returns the number of requests and the longest response time.
fn ask_udp_until(client: &UdpSocket, told: &AtomicBool) -> anyhow::Result<(u64, Duration)> {
    let (mut asked, mut longest) = (0, Duration::ZERO);
    client.set_read_timeout(Some(PATIENCE))?;
    while !told.load(Ordering::Relaxed) {
        let since = Instant::now();
        client.send(b"x")?;
        client.recv(&mut [0; 8]).context("a datagram is lost")?;
        longest = longest.max(since.elapsed());
        asked += 1;
        pause_for(Duration::from_millis(1));
    }
    Ok((asked, longest))
}

/// Checks upgrades with many stateful rules: every counter continues, no datagram is lost, and packets do not wait
/// until the rules are handed over. Returns false if a datagram waited for PAUSE, or an upgrade was too slow.
fn many_rules() -> anyhow::Result<bool> {
    let setting = Setting::new("--queue-num 0")?;
    let write = |name, count: &dyn Fn(u64) -> String| {
        let lines = many_lines(count);
        setting.policy(name, &lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let first = write("first.nft", &|number| {
        format!("counter packets {} bytes {}", number + 7, 3 * number)
    })?;
    let others = write("others.nft", &|_| "counter".to_owned())?;
    let server = UdpServer::start(&setting.namespace, LOCALHOST, true)?;
    let limited = setting.namespace.enter(|| UdpSocket::bind("127.0.0.2:0"))?;
    limited.connect("127.0.0.1:9999")?;
    let mut firewall = setting.start(C, &["--policy", &first])?;
    let stop = Arc::new(AtomicBool::new(false));
    let (told, asking) = (stop.clone(), udp_client(&setting.namespace, LOCALHOST)?);
    let asking = thread::spawn(move || ask_udp_until(&asking, &told));
    udp_send(&limited, 1, 22)?;
    for (number, twin) in [C, Rust, Rust, C].into_iter().enumerate() {
        firewall = setting
            .upgrade(firewall, twin, &["--policy", &others])
            .with_context(|| format!("upgrade {}", number + 1))?
            .0;
        udp_send(&limited, 1, 22)?;
    }
    stop.store(true, Ordering::Relaxed);
    let (asked, longest) = asking.join().expect("the asking does not panic")?;
    if longest >= PAUSE || setting.was_late() {
        return Ok(false);
    }
    server.check_arrived(asked + 3)?;
    let stats = check_end(firewall)?;
    let policy = stats.policy.as_ref().context("a policy")?;
    ensure!(
        policy.counters.len() as u64 == MANY + 2,
        "{} counters",
        policy.counters.len()
    );
    let (limited, met) = (counted(&stats, 4)?, counted(&stats, 6)?);
    ensure!(
        limited == 3 && met == asked,
        "{limited} limited, {met} of {asked}"
    );
    for (number, counter) in (0..).zip(&policy.counters[2..]) {
        let counted = (counter.packets, counter.bytes);
        ensure!(
            counted == (number + 7, 3 * number),
            "rule {number}: {counted:?}"
        );
    }
    Ok(true)
}

/// Returns a SYN of a new connection.
/// - number: number of the connection.
fn syn(number: u32) -> Vec<u8> {
    let mut packet = ipv4(6, 0, &tcp(5));
    packet[13..16].copy_from_slice(&[1, 0, number as u8]);
    packet[20..22].copy_from_slice(&(1024 + (number >> 8) as u16).to_be_bytes());
    let words = packet[12..].chunks(2);
    let sum = words.map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let mut sum = sum.sum::<u32>() + 6 + 20;
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    packet[36..38].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    packet
}

/// Checks that the maximum number of connections is handed over while packets wait only briefly.
fn many_connections() -> anyhow::Result<()> {
    until_brief(|| hand_connections_over("--queue-num 0", "0"))?;
    until_brief(|| hand_connections_over("--queue-balance 0:1", "0:1")).context("two queues")
}

/// Opens the maximum number of connections and hands them over. Returns false if a datagram waited for PAUSE, if an
/// upgrade was too slow, or if connections may have expired before the last one.
fn hand_connections_over(rule: &str, queues: &str) -> anyhow::Result<bool> {
    let setting = Setting::new(rule)?;
    let (policy, control) = (setting.policy("policy.nft", NAMES)?, setting.control());
    let start = |twin: Twin, more: &[&str]| {
        let ours = [
            "--control",
            &control,
            "--queue",
            queues,
            "--policy",
            &policy,
        ];
        let arguments = [&ours[..], &PATIENT_GUARD, more].concat();
        Firewall::start(&setting.namespace, twin, &arguments)
    };
    let mut firewall = start(C, &[])?;
    let _server = UdpServer::start(&setting.namespace, LOCALHOST, true)?;
    let client = udp_client(&setting.namespace, LOCALHOST)?;
    let sender = RawSender::new(&setting.namespace, LOCALHOST)?;
    let since = Instant::now();
    for number in 0..CONNECTIONS {
        sender.send(&syn(number))?;
        if number % AT_ONCE == 0 {
            udp_exchange(&client, 1)?;
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let asking = thread::spawn(move || ask_udp_until(&client, &told));
    let mut late = 0;
    for twin in [Rust, Rust, C, C] {
        let (new, repeated) = take_over(&firewall, || start(twin, &["--take-over", &control]))?;
        late += repeated;
        let old = std::mem::replace(&mut firewall, new).wait()?;
        if late == 0 {
            check_calm(&old)?;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let (_, longest) = asking.join().expect("the asking does not panic")?;
    if longest >= PAUSE || late > 0 || since.elapsed() >= OPENING {
        return Ok(false);
    }
    let ended = firewall.end_by(libc::SIGTERM)?;
    check_calm(&ended)?;
    let all = format!("{CONNECTIONS} connections were transferred, 0 had no room\n");
    ensure!(ended.stderr.contains(&all), "stderr: {}", ended.stderr);
    Ok(true)
}
