// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets that learn addresses from dnsmasq's answers to dig, and then allow curl's connections to nginx. Unrequested
//! answers are not learned.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::exporter::Exporter;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{restore, run};
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::{dig, is_answered, start, start_resolver, words, Resolver, LIMITS};
use crate::evasion::net::{Net, Sees, SERVER};

pub const ROWS: &[Row] = &[
    ("learn/two-queues-and-a-reload", two_queues),
    ("learn/nothing-of-forgeries", forgeries),
    ("learn/nothing-of-a-reflected-query", reflected),
    (
        "learn/nothing-among-more-flows-than-there-is-room-for",
        flooded,
    ),
];

pub const POLICY: &str = "table inet filter {\n\
    \tset cdn { type ipv4_addr; learn dns \"*.cdn.example\"; }\n\
    \tchain forward {\n\
    \t\ttype filter hook forward priority 0; policy drop;\n\
    \t\tth dport 53 accept\n\
    \t\tth sport 53 accept\n\
    \t\ttcp sport 80 accept\n\
    \t\ttcp dport 80 ip daddr @cdn accept\n\t}\n}\n";

pub const METRICS: &str = "127.0.0.1:9630";
/// Address of a UDP service on the client's host.
const SERVICE: &str = "10.9.1.1:4000";
/// Address of a host in the server's network that sends from port 53.
const STRANGER: &str = "10.9.3.53";
/// Number of flows that the stranger opens from port 53: several times as many as the firewall has room for.
const FLOWS: u16 = 40_000;
/// Number of flows that are opened without a pause: fewer packets than a queue holds.
const FLOWS_AT_ONCE: u16 = 500;
/// Maximum time between a query and an answer from which addresses are learned.
pub const PENDING: Duration = Duration::from_secs(10);
/// Last address byte of hosts in the server's network that have names, and at which nginx answers.
pub const HOSTS: std::ops::Range<u8> = 10..18;
/// Last address byte of a host like HOSTS, but without a name.
pub const NAMELESS: u8 = 18;

pub fn address(host: u8) -> String {
    let [a, b, c, _] = SERVER;
    format!("{a}.{b}.{c}.{host}")
}

pub fn name(host: u8) -> String {
    format!("h{host}.cdn.example")
}

/// Returns the network, in which the server also has the addresses of HOSTS and NAMELESS, and a running dnsmasq.
/// - seconds: TTL of dnsmasq's answers, in seconds.
pub fn network(seconds: &str) -> anyhow::Result<(Net, Resolver)> {
    let net = Net::new(Sees::Both)?;
    for host in HOSTS.chain([NAMELESS]) {
        let address = format!("{}/24", address(host));
        run(
            &net.server,
            "ip",
            &["address", "add", &address, "dev", "left"],
        )?;
    }
    let names = HOSTS.map(|host| format!("--address=/{}/{}", name(host), address(host)));
    let mut options = vec![format!("--local-ttl={seconds}")];
    options.extend(names);
    let resolver = start_resolver(&net, &options)?;
    Ok((net, resolver))
}

/// Makes dig query the address of a host's name. Fails unless dig gets the address.
/// - host: last byte of the address, one of HOSTS.
/// - more: additional options of dig.
pub fn ask(net: &Net, host: u8, more: &[&str]) -> anyhow::Result<()> {
    let limit = format!("+time={}", LIMITS.0);
    let command = dig(&name(host), &[&[&limit[..]], more].concat());
    let answered = is_answered(&net.client, &command, &address(host))?;
    ensure!(answered, "dig gets no answer of {}", name(host));
    Ok(())
}

/// Returns true if curl gets nginx's page from a host's address in time, without a query for its name.
/// - host: last byte of the address.
/// - limit: time limit in seconds.
fn is_reached_within(net: &Net, host: u8, limit: &str) -> anyhow::Result<bool> {
    let url = format!("http://{}/", address(host));
    let command = words(&["curl", "-s", "--max-time", limit, &url]);
    is_answered(&net.client, &command, "here")
}

/// Returns true if curl gets nginx's page within a second: for a host that must not be reached.
/// - host: last byte of the host's address.
pub fn is_reached(net: &Net, host: u8) -> anyhow::Result<bool> {
    is_reached_within(net, host, "1")
}

/// Fails unless curl gets nginx's page.
/// - host: last byte of the host's address.
pub fn check_reached(net: &Net, host: u8) -> anyhow::Result<()> {
    let is_reached = is_reached_within(net, host, LIMITS.0)?;
    ensure!(is_reached, "{} is not reached", address(host));
    Ok(())
}

/// Fails unless curl gets nginx's page, and the firewall drops none of curl's packets.
/// - host: last byte of the host's address.
fn check_reached_at_once(net: &Net, firewall: &Firewall, host: u8) -> anyhow::Result<()> {
    let before = firewall.settled_ledger()?.total.verdict("drop");
    check_reached(net, host)?;
    let after = firewall.ledger()?.total.verdict("drop");
    let dropped = after - before;
    ensure!(dropped == 0, "{}: {dropped} dropped", address(host));
    Ok(())
}

/// Returns the sum of the metrics whose lines begin with a text.
pub fn figure(net: &Net, start: &str) -> anyhow::Result<u64> {
    let url = format!("http://{METRICS}/metrics");
    let mut text = String::new();
    // The exporter fails while the firewall answers too slowly.
    until("the exporter answers", PATIENCE, || {
        let mut curl = net.firewall.command("curl");
        let output = curl.args(["-sf", &url]).output()?;
        text = String::from_utf8(output.stdout)?;
        Ok(output.status.success())
    })?;
    let lines = text.lines().filter(|line| line.starts_with(start));
    let mut sum = 0;
    for line in lines {
        let value = line.rsplit(' ').next().context("a value")?;
        sum += value.parse::<u64>()?;
    }
    Ok(sum)
}

/// Returns the number of DNS answers with a result (label of the metric), in queues 0 and 1 together.
pub fn answers(net: &Net, result: &str) -> anyhow::Result<u64> {
    let queues = ["0", "1"].map(|queue| {
        let labels = format!("{{queue=\"{queue}\",result=\"{result}\"}}");
        figure(net, &format!("twinwall_dns_answers_total{labels}"))
    });
    let [first, second] = queues;
    Ok(first? + second?)
}

fn two_queues(twin: Twin) -> anyhow::Result<()> {
    let (net, _resolver) = network("300")?;
    let balanced = "-j NFQUEUE --queue-balance 0:1 --queue-bypass";
    let rules = format!("-F FORWARD\n-A FORWARD -i left {balanced}\n-A FORWARD -o left {balanced}");
    restore(&net.firewall, "iptables", &rules)?;
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let control = folder.file("control");
    let arguments = ["--policy", &policy, "--queue", "0:1", "--control", &control];
    let firewall = start(&net.firewall, twin, &arguments)?;
    let _exporter = Exporter::start(&net.firewall, &control, METRICS)?;
    ensure!(
        !is_reached(&net, HOSTS.start)?,
        "reached before it was asked for"
    );
    for host in HOSTS {
        let more: &[&str] = if host % 2 == 0 { &["+tcp"] } else { &[] };
        ask(&net, host, more)?;
    }
    for host in HOSTS {
        check_reached_at_once(&net, &firewall, host)?;
    }
    ensure!(!is_reached(&net, NAMELESS)?, "reached without a name");
    let known = figure(&net, "twinwall_policy_learned_addresses ")?;
    let learned = answers(&net, "learned")?;
    let hosts = HOSTS.len() as u64;
    ensure!(known == hosts && learned == hosts, "{known}, {learned}");

    // After a reload a set with the same text keeps its addresses; a set with another name has none.
    folder.replace(
        "policy.nft",
        POLICY.replace("tcp sport 80", "tcp sport 80 counter"),
    )?;
    reload(&net, &firewall, 2)?;
    check_reached_at_once(&net, &firewall, HOSTS.start).context("after a reload")?;
    folder.replace(
        "policy.nft",
        POLICY.replace("cdn ", "other ").replace("@cdn", "@other"),
    )?;
    reload(&net, &firewall, 3)?;
    ensure!(!is_reached(&net, HOSTS.start)?, "another set has them");
    // `finish` would fail, because stderr has lines about the reloads.
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "{:?}: {}", ended.code, ended.stderr);
    Ok(())
}

/// Reloads the policy by SIGHUP, and waits until the new generation is in use.
fn reload(net: &Net, firewall: &Firewall, generation: u64) -> anyhow::Result<()> {
    proc::signal(firewall.pid, libc::SIGHUP);
    until("the policy is the new one", PATIENCE, || {
        Ok(figure(net, "twinwall_policy_generation ")? == generation)
    })
}

/// Returns a query for a name that the set learns, and an answer to it with the address of the nameless host.
/// - id: ID of both messages.
pub fn messages(id: u8) -> (Vec<u8>, Vec<u8>) {
    let question = b"\x04fake\x03cdn\x07example\0\0\x01\0\x01";
    let query = [&[0, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], question].concat();
    let [a, b, c, _] = SERVER;
    let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4, a, b, c, NAMELESS];
    let head = [0, id, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    (query, [&head[..], question, &record].concat())
}

fn forgeries(twin: Twin) -> anyhow::Result<()> {
    const CLIENT: &str = "10.9.1.1:4000";
    const SERVERS: [&str; 2] = ["10.9.3.53", "10.9.3.54"];
    let net = Net::new(Sees::Both)?;
    for address in [SERVERS[0], SERVERS[1], &address(NAMELESS)] {
        let address = format!("{address}/24");
        run(
            &net.server,
            "ip",
            &["address", "add", &address, "dev", "left"],
        )?;
    }
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    let client = net.client.enter(|| UdpSocket::bind(CLIENT))?;
    let bind = |address| net.server.enter(|| UdpSocket::bind((address, 53)));
    let (asked, other) = (bind(SERVERS[0])?, bind(SERVERS[1])?);
    let ((query, answer), (_, wrong)) = (messages(1), messages(2));
    asked.set_read_timeout(Some(PATIENCE))?;
    let counts = || -> anyhow::Result<(u64, u64)> {
        let answers = firewall.ledger()?.total.answers;
        Ok((answers["unasked"], answers["learned"]))
    };
    until("the true answer comes in time", PATIENCE, || {
        let (unasked, _) = counts()?;
        let begun = Instant::now();
        client.send_to(&query, (SERVERS[0], 53))?;
        asked.recv(&mut [0; 512]).context("the query")?;
        asked.send_to(&wrong, CLIENT)?;
        asked.send_to(&answer, "10.9.1.1:4001")?;
        other.send_to(&answer, CLIENT)?;
        until("the forgeries have come", PATIENCE, || {
            Ok(counts()? == (unasked + 3, 0))
        })?;
        ensure!(!is_reached(&net, NAMELESS)?, "learnt of a forgery");
        asked.send_to(&answer, CLIENT)?;
        until("the true answer has come", PATIENCE, || {
            Ok(counts()? != (unasked + 3, 0))
        })?;
        let is_learned = counts()?.1 == 1;
        ensure!(is_learned || begun.elapsed() > PENDING, "not learned");
        Ok(is_learned)
    })?;
    check_reached_at_once(&net, &firewall, NAMELESS)?;
    firewall.finish()?;
    Ok(())
}

/// Returns the network with an address for the stranger and for the nameless host.
pub fn network_with_stranger() -> anyhow::Result<Net> {
    let net = Net::new(Sees::Both)?;
    for address in [STRANGER, &address(NAMELESS)] {
        let address = format!("{address}/24");
        run(
            &net.server,
            "ip",
            &["address", "add", &address, "dev", "left"],
        )?;
    }
    Ok(net)
}

fn bind(place: &Namespace, address: &str) -> anyhow::Result<UdpSocket> {
    let socket = place.enter(|| UdpSocket::bind(address))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

pub fn bind_stranger(net: &Net) -> anyhow::Result<UdpSocket> {
    bind(&net.server, &format!("{STRANGER}:53"))
}

/// Makes a service send a query back to a stranger's port 53, and the stranger answer it. Checks that nothing is
/// learned.
pub fn reflect(net: &Net, stranger: &UdpSocket) -> anyhow::Result<()> {
    let service = bind(&net.client, SERVICE)?;
    let (query, answer) = messages(1);
    stranger.send_to(b"hello", SERVICE)?;
    let (_, from) = service
        .recv_from(&mut [0; 512])
        .context("the stranger's packet")?;
    service.send_to(&query, from)?;
    stranger
        .recv(&mut [0; 512])
        .context("the reflected query")?;
    stranger.send_to(&answer, SERVICE)?;
    service.recv(&mut [0; 512]).context("the answer")?;
    ensure!(!is_reached(net, NAMELESS)?, "learned of a reflected query");
    Ok(())
}

/// Runs a firewall with the policy during an attack, and checks that it learned nothing.
/// - attack: attacks with the stranger's socket.
fn learn_nothing(
    net: &Net,
    twin: Twin,
    attack: &dyn Fn(&UdpSocket) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let control = folder.file("control");
    let arguments = ["--policy", &policy, "--control", &control];
    let firewall = start(&net.firewall, twin, &arguments)?;
    let _exporter = Exporter::start(&net.firewall, &control, METRICS)?;
    attack(&bind_stranger(net)?)?;
    until("the answer is counted", PATIENCE, || {
        Ok(figure(
            net,
            "twinwall_dns_answers_total{queue=\"0\",result=\"unasked\"}",
        )? == 1)
    })?;
    ensure!(figure(net, "twinwall_policy_learned_addresses ")? == 0);
    firewall.finish()?;
    Ok(())
}

fn reflected(twin: Twin) -> anyhow::Result<()> {
    let net = network_with_stranger()?;
    learn_nothing(&net, twin, &|stranger| reflect(&net, stranger))
}

/// Checks that nothing is learned from a reflected query if the stranger has first opened FLOWS flows to other ports.
fn flooded(twin: Twin) -> anyhow::Result<()> {
    let net = network_with_stranger()?;
    let other = bind(&net.client, "10.9.1.1:4001")?;
    learn_nothing(&net, twin, &|stranger| {
        for port in 10_000..10_000 + FLOWS {
            stranger.send_to(b"x", ("10.9.1.1", port))?;
            if port % FLOWS_AT_ONCE == 0 {
                stranger.send_to(b"x", "10.9.1.1:4001")?;
                other
                    .recv(&mut [0; 512])
                    .context("the last packet of some")?;
            }
        }
        reflect(&net, stranger)
    })
}
