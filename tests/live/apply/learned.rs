// SPDX-License-Identifier: GPL-2.0-or-later
//! Sets that learn from DNS: what they hold stays if the set of the next policy is the same, there and back.

use std::net::{Ipv6Addr, UdpSocket};

use anyhow::{ensure, Context};
use testbed::place::run;
use testbed::twin::TWINS;
use testbed::wait::PATIENCE;

use super::place::{Place, Row};

pub const ROWS: &[Row] = &[("learned-addresses-stay", 120, learned_stay)];

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

/// A client of the namespace asks a server there, and receives its answer: 192.0.2.LAST or 2001:db8::LAST.
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

/// Checks whether a set of the kernel has an address.
fn check_in(place: &Place, set: &str, address: &str, is_there: bool) -> anyhow::Result<()> {
    let listed = run(
        &place.namespace,
        "nft",
        &["list", "set", "inet", "host", set],
    )?;
    let listed = String::from_utf8(listed.stdout)?;
    let element = format!("{address} timeout 5m expires ");
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
        // The same set beside another rule.
        place
            .folder
            .replace("policy.nft", POLICY.replace("7777", "8888"))?;
        place.done(&["apply", "--now", &policy])?;
        check(&place, 1, true)?;
        check_in(&place, "cdn6", "2001:db8::1", true)?;
        ask(&place, 2, false)?;
        check(&place, 2, true)?;
        // Other names are another set, which is empty.
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
        // An address learned before the way back stays, too.
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
