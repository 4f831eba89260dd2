// SPDX-License-Identifier: GPL-2.0-or-later
//! A policy with many rules that have state goes from one firewall to the next.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::place::LOCALHOST;
use testbed::traffic::{udp_client, udp_send, UdpServer};
use testbed::twin::Twin::{Rust, C};
use testbed::wait::PATIENCE;

use super::chain::{check_end, counted, Body};
use super::setting::Setting;

pub const ROWS: &[(&str, u64, Body)] = &[("a-hundred-thousand-rules", 240, many_rules)];

const MANY: u64 = 100_000;
/// That packets wait at most, whatever the machine does meanwhile: then the old firewall goes on.
const PAUSE: Duration = Duration::from_secs(2);

/// Rules with counters, limits and quotas that nothing meets, behind two that are met: one lets three datagrams of an
/// address through.
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

/// Asks until told to end; gives the longest time that an answer took.
fn ask_udp_until(client: &UdpSocket, told: &AtomicBool) -> anyhow::Result<(u64, Duration)> {
    let (mut asked, mut longest) = (0, Duration::ZERO);
    client.set_read_timeout(Some(PATIENCE))?;
    while !told.load(Ordering::Relaxed) {
        let since = Instant::now();
        client.send(b"x")?;
        client.recv(&mut [0; 8]).context("a datagram is lost")?;
        longest = longest.max(since.elapsed());
        asked += 1;
        thread::sleep(Duration::from_millis(1));
    }
    Ok((asked, longest))
}

/// However many rules have state: every counter goes on, no datagram is lost, and what waits does not wait for them.
fn many_rules() -> anyhow::Result<()> {
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
    ensure!(longest < PAUSE, "a datagram waited for {longest:?}");
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
    Ok(())
}
