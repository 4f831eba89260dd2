// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets that learn addresses from DNS: their addresses stay if the next policy has the same set, in an apply and in a
//! revert.

use std::net::{Ipv6Addr, UdpSocket};

use anyhow::{bail, ensure, Context};
use serde_json::Value;
use testbed::place::run;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};

use super::place::{Place, Row};

pub const ROWS: &[Row] = &[
    ("learned-addresses-stay", learned_stay),
    ("learned-addresses-have-a-type", learned_have_a_type),
    ("learned-addresses-age", learned_age),
    ("learned-addresses-may-be-too-many", learned_too_many),
    ("a-failed-way-back-keeps-its-firewall", failed_way_back),
];

const POLICY: &str = r#"table inet host {
	set cdn { type ipv4_addr; learn dns "*.cdn.example"; }
	set cdn6 { type ipv6_addr; learn dns "*.cdn.example"; }
	chain output {
		type filter hook output priority filter; policy accept;
		ip daddr @cdn udp dport 7777 counter drop
		ip6 daddr @cdn6 udp dport 7777 counter drop
	}
}
"#;

/// Makes a client in the namespace send a DNS query for a.cdn.example to a server there, which answers with
/// 192.0.2.LAST, or with 2001:db8::LAST if `is_ipv6` is true.
fn ask(place: &Place, last: u8, is_ipv6: bool) -> anyhow::Result<()> {
    let kind = if is_ipv6 { 28 } else { 1 };
    let question = [&b"\x01a\x03cdn\x07example\0"[..], &[0, kind, 0, 1]].concat();
    let query = [&[0, last, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &question].concat();
    let mut address = match is_ipv6 {
        true => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0)
            .octets()
            .to_vec(),
        false => vec![192, 0, 2, 0],
    };
    *address.last_mut().context("a byte")? = last;
    let record = [
        0xc0,
        12,
        0,
        kind,
        0,
        1,
        0,
        0,
        1,
        0x2c,
        0,
        address.len() as u8,
    ];
    let record = [&record[..], &address].concat();
    let head = [0, last, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
    let answer = [&head[..], &question, &record].concat();
    place.namespace.enter(|| {
        let server = UdpSocket::bind("127.0.0.1:53")?;
        let client = UdpSocket::bind("127.0.0.2:0")?;
        server.set_read_timeout(Some(PATIENCE))?;
        client.set_read_timeout(Some(PATIENCE))?;
        client.send_to(&query, server.local_addr()?)?;
        let (_, from) = server.recv_from(&mut [0; 512]).context("the query")?;
        server.send_to(&answer, from)?;
        client.recv(&mut [0; 512]).context("the answer")?;
        Ok(())
    })
}

/// Checks that a set in the kernel has an address, or does not have it.
fn check_in(place: &Place, set: &str, address: &str, is_there: bool) -> anyhow::Result<()> {
    let listed = run(
        &place.namespace,
        "nft",
        &["list", "set", "inet", "host", set],
    )?;
    let listed = String::from_utf8(listed.stdout)?;
    let element = format!("{address} timeout 5m30s expires ");
    ensure!(
        listed.contains(&element) == is_there,
        "{element}: {is_there} is expected of\n{listed}"
    );
    Ok(())
}

fn check(place: &Place, last: u8, is_there: bool) -> anyhow::Result<()> {
    check_in(place, "cdn", &format!("192.0.2.{last}"), is_there)
}

fn learned_stay() -> anyhow::Result<()> {
    for twin in TWINS {
        let place = Place::with_twin(twin)?;
        let before = place.rules()?;
        let policy = place.folder.write("policy.nft", POLICY)?;
        place.done(&["apply", "--now", &policy])?;
        ask(&place, 1, false)?;
        ask(&place, 1, true)?;
        check(&place, 1, true)?;
        // The set is the same; another rule has changed.
        place
            .folder
            .replace("policy.nft", POLICY.replace("7777", "8888"))?;
        place.done(&["apply", "--now", &policy])?;
        check(&place, 1, true)?;
        check_in(&place, "cdn6", "2001:db8::1", true)?;
        ask(&place, 2, false)?;
        check(&place, 2, true)?;
        // A set that learns from other names is another set, which is empty.
        place
            .folder
            .replace("policy.nft", POLICY.replace("*.cdn", "a.cdn"))?;
        place.done(&["apply", "--confirm", "600", &policy])?;
        check(&place, 1, false)?;
        ask(&place, 3, false)?;
        check(&place, 3, true)?;
        place.done(&["revert"])?;
        check(&place, 1, true)?;
        check(&place, 2, true)?;
        check(&place, 3, false)?;
        // An address that was learned before the revert stays, too.
        place.folder.replace("policy.nft", POLICY)?;
        place.done(&["apply", "--confirm", "600", &policy])?;
        ask(&place, 4, false)?;
        place.done(&["revert"])?;
        check(&place, 2, true)?;
        check(&place, 4, true)?;
        place.done(&["unapply"])?;
        place.check_rules(&before)?;
    }
    Ok(())
}

/// Returns the policy without its IPv6 set; the other set now has the type ipv6_addr.
fn of_ipv6() -> String {
    let lines = POLICY.lines().filter(|line| !line.contains("cdn6"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    text.replace("ipv4_addr", "ipv6_addr")
        .replace("ip daddr", "ip6 daddr")
}

/// Checks that a set with the same name and DNS names, but another type, gets no addresses of the old set, in an apply
/// and in a revert.
fn learned_have_a_type() -> anyhow::Result<()> {
    for twin in TWINS {
        let place = Place::with_twin(twin)?;
        let policy = place.folder.write("policy.nft", POLICY)?;
        let other = place.folder.write("other.nft", of_ipv6())?;
        place.done(&["apply", "--now", &policy])?;
        ask(&place, 1, false)?;
        place.done(&["apply", "--confirm", "600", &other])?;
        check(&place, 1, false)?;
        ask(&place, 2, true)?;
        check_in(&place, "cdn", "2001:db8::2", true)?;
        place.done(&["revert"])?;
        check(&place, 1, true)?;
        check_in(&place, "cdn", "2001:db8::2", false)?;
    }
    Ok(())
}

/// Adds elements in nft's syntax to the set `cdn`.
fn add(place: &Place, elements: &str) -> anyhow::Result<()> {
    let text = format!("add element inet host cdn {{ {elements} }}\n");
    place.namespace.feed("nft", &["-f", "-"], &text)
}

/// Returns the time since boot in milliseconds.
fn boot_ms() -> anyhow::Result<f64> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    let seconds: f64 = text.split(' ').next().context("a time")?.parse()?;
    Ok(seconds * 1000.0)
}

/// Returns the remaining time of an address in the set `cdn` of the kernel, in milliseconds without fractions of a
/// second. None if the set does not have the address.
fn left_ms(place: &Place, address: &str) -> anyhow::Result<Option<f64>> {
    let list = ["--json", "list", "set", "inet", "host", "cdn"];
    let listed = run(&place.namespace, "nft", &list)?;
    let listed: Value = serde_json::from_slice(&listed.stdout)?;
    let mut objects = listed["nftables"].as_array().into_iter().flatten();
    let set = objects
        .find_map(|object| object.get("set"))
        .context("a set")?;
    let mut elements = set["elem"].as_array().into_iter().flatten();
    let element = elements.find(|element| element["elem"]["val"] == address);
    let seconds = element.and_then(|element| element["elem"]["expires"].as_f64());
    Ok(seconds.map(|seconds| seconds * 1000.0))
}

/// Returns the remaining time of an address of the set `cdn` in a file of saved addresses, in milliseconds. None if the
/// file does not have the address.
fn saved_left_ms(saved: &Value, address: &str) -> Option<f64> {
    let mut elements = saved["sets"][0][1].as_array()?.iter();
    elements.find(|element| element["address"] == address)?["time_ms"][1].as_f64()
}

/// Checks that saved addresses age while another policy is loaded: a revert restores their remaining time.
fn learned_age() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", "--now", &policy])?;
    // A set that learns from other names is another set, which does not get the addresses.
    let other = place
        .folder
        .write("other.nft", POLICY.replace("*.cdn", "a.cdn"))?;
    // On a busy machine the second address may expire before it is saved.
    for seconds in [3, 12, 48] {
        let second = format!("192.0.2.2 timeout {seconds}s");
        add(&place, &format!("192.0.2.1 timeout 5m30s, {second}"))?;
        place.done(&["apply", "--confirm", "600", &other])?;
        let number = place.state()?["pending"]["number"].clone();
        let saved = format!("{}/{number}/learned.json", place.state);
        let saved: Value = serde_json::from_str(&std::fs::read_to_string(saved)?)?;
        if let Some(second_ms) = saved_left_ms(&saved, "192.0.2.2") {
            return check_aged(&place, &saved, second_ms);
        }
        place.done(&["revert"])?;
    }
    bail!("the second address always expires before it is saved")
}

/// Waits until the second saved address expires, and reverts. Checks the remaining time of the first address, and that
/// the second address is gone.
/// - second_ms: remaining time of the second address when it was saved, in milliseconds.
fn check_aged(place: &Place, saved: &Value, second_ms: f64) -> anyhow::Result<()> {
    // Inaccuracies in milliseconds: nft's output has whole seconds, and the clocks have ticks.
    const NFT_MS: f64 = 1000.0;
    const CLOCKS_MS: f64 = 100.0;
    let at_ms = saved["at_ms"].as_f64().context("a time")?;
    let first_ms = saved_left_ms(saved, "192.0.2.1").context("the first address")?;
    until("the second address expires", PATIENCE, || {
        Ok(boot_ms()? > at_ms + second_ms)
    })?;
    let begun_ms = boot_ms()?;
    place.done(&["revert"])?;
    let now_ms = left_ms(place, "192.0.2.1")?.context("the first address is gone")?;
    let (most, least) = (
        first_ms - (begun_ms - at_ms),
        first_ms - (boot_ms()? - at_ms),
    );
    ensure!(
        (least - NFT_MS - CLOCKS_MS..=most + CLOCKS_MS).contains(&now_ms),
        "{now_ms} ms, not from {least} to {most}"
    );
    check(place, 1, true)?;
    let rules = place.rules()?;
    ensure!(!rules.contains("192.0.2.2 "), "{rules}");
    Ok(())
}

/// Checks a revert if the saved addresses and those learned since are more than a set holds: it restores as many as
/// fit.
fn learned_too_many() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    let many = |second: u8| {
        let all = (0..35_000_u32).map(|n| format!("10.{second}.{}.{} timeout 1h", n >> 8, n & 255));
        all.collect::<Vec<_>>().join(", ")
    };
    place.done(&["apply", "--now", &policy])?;
    add(&place, &many(1))?;
    place
        .folder
        .replace("policy.nft", POLICY.replace("7777", "8888"))?;
    place.done(&["apply", "--confirm", "600", &policy])?;
    // The set is emptied, as if all addresses had expired.
    place
        .namespace
        .feed("nft", &["-f", "-"], "flush set inet host cdn\n")?;
    add(&place, &many(2))?;
    place.done(&["revert"])?;
    let rules = place.rules()?;
    ensure!(rules.contains("dport 7777"), "the rules did not come back");
    ensure!(
        rules.matches("10.2.").count() == 35_000,
        "addresses are lost"
    );
    ensure!(rules.contains("10.1."), "no address came back");
    Ok(())
}

/// Checks that, if nft refuses a revert, the firewall continues with the names of the rules that stay loaded.
fn failed_way_back() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::Rust)?;
    let policy = place.folder.write("policy.nft", POLICY)?;
    place.done(&["apply", "--now", &policy])?;
    let other = place
        .folder
        .write("other.nft", POLICY.replace("*.cdn", "a.cdn"))?;
    place.done(&["apply", "--confirm", "600", &other])?;
    let names = || std::fs::read_to_string(place.folder.file("run/stage/names.nft"));
    let (before, undo) = (names()?, format!("{}/2/undo.nft", place.state));
    let good = std::fs::read_to_string(&undo)?;
    std::fs::write(&undo, format!("{good}monster\n"))?;
    place.refused(&["revert"], 4, "undo.nft")?;
    ensure!(names()? == before, "{}", names()?);
    ensure!(place.is_pending()?, "it is not pending any more");
    std::fs::write(&undo, good)?;
    place.done(&["revert"])?;
    ensure!(names()? != before, "{}", names()?);
    Ok(())
}
