// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets that learn from DNS, in the kernel: an address is in the set when its answer reaches the client, until its time is over, and
//! answers that the policy or the firewall does not accept add none.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use stage::Options;
use testbed::exporter::Exporter;
use testbed::place::run;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::{split, Stage};
use crate::evasion::net::{Net, Sees};
use crate::names::learn::{
    address, ask, bind_stranger, check_reached, figure, is_reached, messages, name, network,
    network_with_stranger, reflect, HOSTS, METRICS, NAMELESS, PENDING, POLICY,
};
use crate::names::{dig, is_answered};

pub const ROWS: &[Row] = &[
    ("learned-addresses-are-the-kernels", learned),
    ("learned-addresses-expire", expired),
    ("learned-addresses-stay-in-an-upgrade", upgraded),
    ("nothing-is-learned-of-what-is-dropped", dropped),
    ("nothing-is-learned-of-a-reflected-query", reflected),
    ("an-answer-waits-for-its-address", refused),
];

/// Time limit for an address to expire: longer than the minimum lifetime of a learned address, a minute.
const EXPIRY: Duration = Duration::from_secs(100);

/// Returns the elements of the kernel's set, as nft lists them.
fn elements(net: &Net) -> anyhow::Result<Vec<String>> {
    let listed = run(
        &net.firewall,
        "nft",
        &["list", "set", "inet", "filter", "cdn"],
    )?;
    let listed = String::from_utf8(listed.stdout)?;
    let inner = listed.split_once("elements = {");
    let inner = inner.and_then(|(_, rest)| rest.split_once('}'));
    let all = inner.map_or("", |(inner, _)| inner).split(',');
    let all = all.map(|element| element.trim().to_owned());
    Ok(all.filter(|element| !element.is_empty()).collect())
}

/// Returns the element with a host's address; None if the kernel's set does not have it.
fn element(net: &Net, host: u8) -> anyhow::Result<Option<String>> {
    let start = format!("{} ", address(host));
    let all = elements(net)?;
    Ok(all.into_iter().find(|element| element.starts_with(&start)))
}

fn check_element(net: &Net, host: u8) -> anyhow::Result<()> {
    let element = element(net, host)?.with_context(|| format!("no element for {}", name(host)))?;
    ensure!(
        element.contains("timeout 5m30s expires "),
        "{element} has another time"
    );
    Ok(())
}

/// Returns the remaining time of a host's element in milliseconds, from a text such as "expires 4m59s996ms".
fn left_ms(net: &Net, host: u8) -> anyhow::Result<u64> {
    let element = element(net, host)?.context("an element")?;
    let (_, left) = element.split_once("expires ").context("its time")?;
    let (mut sum, mut number) = (0, 0);
    for (at, letter) in left.char_indices() {
        let unit = match letter {
            'm' if left[at..].starts_with("ms") => 1,
            'm' => 60_000,
            's' if number > 0 => 1000,
            digit => {
                number = number * 10 + u64::from(digit.to_digit(10).unwrap_or(0));
                continue;
            }
        };
        sum += number * unit;
        number = 0;
    }
    Ok(sum)
}

/// Returns the number of elements with a result in the metric twinwall_set_elements_total.
/// - result: `added` or `failed`.
fn added(net: &Net, result: &str) -> anyhow::Result<u64> {
    let labels = format!("{{queue=\"0\",result=\"{result}\"}}");
    figure(net, &format!("twinwall_set_elements_total{labels}"))
}

fn exporter(net: &Net, stage: &Stage) -> anyhow::Result<Exporter> {
    Exporter::start(&net.firewall, &stage.folder.file("control"), METRICS)
}

/// Sets another time for the first host's element, and then asks for the host again.
/// - time: as nft writes it.
fn ask_with_left(net: &Net, time: &str) -> anyhow::Result<()> {
    let of_set = format!("element inet filter cdn {{ {}", address(HOSTS.start));
    let change = format!("delete {of_set} }}; add {of_set} timeout {time} }}");
    run(&net.firewall, "nft", &[&change])?;
    ask(net, HOSTS.start, &[])
}

fn learned(twin: Twin) -> anyhow::Result<()> {
    let (net, _resolver) = network("300")?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let _exporter = exporter(&net, &stage)?;
    ensure!(
        !is_reached(&net, HOSTS.start)?,
        "reached before it was asked for"
    );
    for host in HOSTS {
        let more: &[&str] = if host % 2 == 0 { &["+tcp"] } else { &[] };
        ask(&net, host, more)?;
        check_element(&net, host)?;
        check_reached(&net, host)?;
    }
    ensure!(!is_reached(&net, NAMELESS)?, "reached without a name");
    ensure!(elements(&net)?.len() == HOSTS.len());
    until("the addresses are counted", PATIENCE, || {
        Ok(added(&net, "added")? == HOSTS.len() as u64)
    })?;
    // Another answer leaves it as it is while it stays long enough, and prolongs it otherwise.
    ask_with_left(&net, "20m")?;
    ensure!(left_ms(&net, HOSTS.start)? > 600_000, "shortened");
    ensure!(added(&net, "added")? == HOSTS.len() as u64, "added again");
    let since = Instant::now();
    ask_with_left(&net, "2m")?;
    let left_ms = u128::from(left_ms(&net, HOSTS.start)?);
    let passed_ms = since.elapsed().as_millis();
    ensure!(left_ms + passed_ms > 300_000, "not prolonged: {left_ms}");
    until("the new time is counted", PATIENCE, || {
        Ok(added(&net, "added")? == HOSTS.len() as u64 + 1)
    })?;
    ensure!(added(&net, "failed")? == 0);
    stage.finish()
}

/// Checks an answer with a TTL of a second: its address stays for the shortest time, a minute, in the kernel's set a
/// tenth longer.
fn expired(twin: Twin) -> anyhow::Result<()> {
    let (net, _resolver) = network("1")?;
    let stage = Stage::start(&net, twin, POLICY)?;
    ask(&net, HOSTS.start, &[])?;
    let element = element(&net, HOSTS.start)?.context("an element")?;
    ensure!(element.contains("timeout 1m6s "), "{element}");
    check_reached(&net, HOSTS.start)?;
    until("the address has expired", EXPIRY, || {
        Ok(elements(&net)?.is_empty())
    })?;
    ensure!(!is_reached(&net, HOSTS.start)?, "reached after its time");
    stage.finish()
}

fn upgraded(twin: Twin) -> anyhow::Result<()> {
    let (net, _resolver) = network("300")?;
    let mut stage = Stage::start_with(&net, twin, POLICY, &[])?;
    let mut hosts = HOSTS;
    let mut known = vec![hosts.next().context("a host")?];
    ask(&net, known[0], &[])?;
    for next in TWINS {
        stage.upgrade(&net, next)?;
        let host = hosts.next().context("a host")?;
        ask(&net, host, &[])?;
        known.push(host);
        for host in &known {
            check_element(&net, *host)?;
            check_reached(&net, *host)?;
        }
    }
    stage.end()
}

/// Waits until a client receives an answer from a server.
fn receive(client: &UdpSocket, server: &str, answer: &[u8]) -> anyhow::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let mut received = [0; 512];
    loop {
        let (length, from) = client.recv_from(&mut received).context("the answer")?;
        if from.ip().to_string() == server && received[..length] == *answer {
            return Ok(());
        }
    }
}

/// Checks that no address is learned from an answer with a wrong id, or from a server that has not received the query,
/// and that the true answer is learned.
fn dropped(twin: Twin) -> anyhow::Result<()> {
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
    let policy = POLICY.replace(
        "th dport 53",
        &format!("ip daddr {} th dport 53", SERVERS[0]),
    );
    let stage = Stage::start(&net, twin, &policy)?;
    let bind = |address| net.server.enter(|| UdpSocket::bind((address, 53)));
    let (asked, denied) = (bind(SERVERS[0])?, bind(SERVERS[1])?);
    let ((query, answer), (_, wrong)) = (messages(1), messages(2));
    asked.set_read_timeout(Some(PATIENCE))?;
    let counts = || -> anyhow::Result<(u64, u64)> {
        let answers = stage.firewall.ledger()?.total.answers;
        Ok((answers["unasked"], answers["learned"]))
    };
    until("the true answer comes in time", PATIENCE, || {
        let (unasked, _) = counts()?;
        let begun = Instant::now();
        // Each try has its own port, and thus its own connections.
        let client = net.client.enter(|| UdpSocket::bind("10.9.1.1:0"))?;
        let to = client.local_addr()?;
        client.send_to(&query, (SERVERS[1], 53))?;
        client.send_to(&query, (SERVERS[0], 53))?;
        asked.recv(&mut [0; 512]).context("the query")?;
        asked.send_to(&wrong, to)?;
        denied.send_to(&answer, to)?;
        // The answer of the server without a query is the first packet of its connection: it is not queued.
        until("the forgery has come", PATIENCE, || {
            Ok(counts()? == (unasked + 1, 0))
        })?;
        ensure!(elements(&net)?.is_empty(), "learned of a forgery");
        asked.send_to(&answer, to)?;
        receive(&client, SERVERS[0], &answer)?;
        let is_learned = element(&net, NAMELESS)?.is_some();
        ensure!(
            is_learned || begun.elapsed() > PENDING,
            "the answer came before its address"
        );
        until("the true answer is counted", PATIENCE, || {
            Ok(counts()? != (unasked + 1, 0))
        })?;
        Ok(is_learned)
    })?;
    check_reached(&net, NAMELESS).context("after the true answer")?;
    stage.finish()
}

/// Checks a service that sends a query to a client with port 53: the kernel does not queue such a query, and no address
/// is learned from the client's answer.
fn reflected(twin: Twin) -> anyhow::Result<()> {
    let net = network_with_stranger()?;
    let stage = Stage::start(&net, twin, POLICY)?;
    reflect(&net, &bind_stranger(&net)?)?;
    ensure!(elements(&net)?.is_empty(), "learned of a reflected query");
    stage.finish()
}

/// Checks that an answer does not reach the client if the kernel's set has no room for its address.
fn refused(twin: Twin) -> anyhow::Result<()> {
    let (net, _resolver) = network("300")?;
    let mut small = split(POLICY, Options::default())?;
    small.kernel = small.kernel.replace("size 65536", "size 1");
    let stage = Stage::start_split(&net, twin, small, &[])?;
    let _exporter = exporter(&net, &stage)?;
    ask(&net, HOSTS.start, &[])?;
    let other = HOSTS.start + 1;
    let once = ["+tries=1", "+time=1"];
    let command = dig(&name(other), &once);
    ensure!(
        !is_answered(&net.client, &command, &address(other))?,
        "an answer whose address is not in the set"
    );
    until("the failure is counted", PATIENCE, || {
        Ok(added(&net, "failed")? > 0)
    })?;
    ensure!(added(&net, "added")? == 1);
    ensure!(element(&net, other)?.is_none());
    check_reached(&net, HOSTS.start)?;
    stage.finish()
}
