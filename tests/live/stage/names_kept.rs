// SPDX-License-Identifier: GPL-2.0-or-later
//! A connection's class comes from its own names only, also if its ports are used again, another policy is loaded, or
//! another firewall takes over.

use std::fs;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::ensure;
use testbed::place::run;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::ends::{Ends, NAMELESS};
use super::trouble::{forget_after, forget_early};
use super::Stage;
use crate::evasion::client::{Client, Script, Segment, Step, ACK, FIN, RST};
use crate::evasion::net::{Net, Sees, HOPS};
use crate::evasion::wire::{Outside, Version};
use crate::evasion::{hello, ALLOWED, BLOCK_LIST, DENIED};

pub const ROWS: &[Row] = &[
    ("the-same-ports-again", same_ports),
    ("names-after-a-reload", after_reload),
    ("names-after-an-upgrade", after_upgrade),
    ("a-forgotten-connection", forgotten),
    ("an-expected-connection", expected),
];

/// Time in which the server answers a whole hello; after that the connection's names are final.
const ANSWERED: Duration = Duration::from_millis(300);
/// First sequence numbers of two successive connections between the same ports. The second number is greater than all
/// that the first connection uses.
const FIRST: [u32; 2] = [0x1000_0000, 0x5000_0000];

/// Client's port of the next try of `asks_again`.
static PORT: AtomicU16 = AtomicU16::new(15_000);

/// Makes a client show an allowed name, and end the connection by a segment that may not reach the server. Then makes
/// the client send a hello with `name` from the same port. Returns true if the server answers this hello. Tries again
/// from another port as long as the server has not answered the allowed name before the end.
/// - expected: true to try until the server answers both hellos.
fn asks_again(net: &Net, end: &Segment, name: &str, expected: bool) -> anyhow::Result<bool> {
    let link = net.link()?;
    let first = hello::tls(ALLOWED, 0);
    let mut end = end.clone();
    end.offset = first.bytes.len() as i64;
    let script = Script {
        first: FIRST[0],
        steps: vec![
            Segment::data(0, &first.bytes).step(),
            Step::Pause(ANSWERED),
            end.step(),
        ],
        ..Script::default()
    };
    let second = hello::tls(name, 0);
    let again = Script {
        first: FIRST[1],
        steps: vec![Segment::data(0, &second.bytes).step()],
        ..Script::default()
    };
    let mut comes = false;
    until("the hellos are answered", PATIENCE, || {
        let client = Client {
            net,
            link: &link,
            version: Version::V4,
            ports: (PORT.fetch_add(1, Ordering::Relaxed), 443),
            patience: Duration::from_secs(1),
        };
        let answer = client.run(&script)?.unwrap_or_default();
        if !answer.starts_with(first.answer) {
            return Ok(false);
        }
        let answer = client.run(&again)?;
        comes = answer.is_some_and(|answer| answer.starts_with(second.answer));
        Ok(comes || !expected)
    })?;
    Ok(comes)
}

/// Checks that the class of a connection (the name matches that hold) is not used for the next connection between the
/// same addresses and ports.
fn same_ports(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, BLOCK_LIST)?;
    let signal = |flags, ttl| Segment {
        flags,
        outside: Outside {
            ttl,
            ..Outside::default()
        },
        ..Segment::data(0, &[])
    };
    let whole = Outside::default().ttl;
    ensure!(
        asks_again(&net, &signal(RST, whole), ALLOWED, true)?,
        "an allowed name does not come through on ports that were used"
    );
    let ends = [
        signal(RST, whole),
        signal(RST, HOPS - 1),
        signal(FIN | ACK, HOPS - 1),
        signal(ACK, whole),
    ];
    for end in &ends {
        let comes = asks_again(&net, end, DENIED, false)?;
        ensure!(!comes, "a denied name comes through behind {end:?}");
    }
    stage.finish()
}

/// Returns BLOCK_LIST with every TLS name allowed.
fn without_tls() -> String {
    BLOCK_LIST.replace("tls sni @denied drop", "tls version 1.0 drop")
}

/// Returns two connections whose names are final: the first has sent the denied name, the second the allowed name.
fn both(net: &Net) -> anyhow::Result<[Ends; 2]> {
    let mut both = [Ends::new(net, 8081)?, Ends::new(net, 8082)?];
    for (ends, name) in both.iter_mut().zip([DENIED, ALLOWED]) {
        ends.exchange(&hello::tls(name, 0).bytes)?;
        ends.exchange(b"settled")?;
    }
    Ok(both)
}

/// Checks that a reloaded policy that denies a name ends the connection with this name, and no other.
fn after_reload(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, &without_tls())?;
    let [mut denied, mut allowed] = both(&net)?;
    stage.reload(&net, BLOCK_LIST, 1)?;
    until("the denied name is refused", PATIENCE, || {
        Ok(!denied.passes(false)?)
    })?;
    until("the allowed name goes on", PATIENCE, || {
        allowed.passes(false)
    })?;
    stage.end()
}

/// Checks that after an upgrade the new firewall, of either twin, knows the names that the old one has seen.
fn after_upgrade(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    // The first halves of the hellos below must stay until their second halves come.
    let patient = ["--hello-timeout", "3600"];
    let mut stage = Stage::start_with(&net, twin, &without_tls(), &patient)?;
    let [mut denied, mut allowed] = both(&net)?;
    let mut halves = [DENIED, ALLOWED].map(|name| hello::tls(name, 0).bytes);
    let mut open = [Ends::new(&net, 8083)?, Ends::new(&net, 8084)?];
    for (ends, bytes) in open.iter_mut().zip(&mut halves) {
        let rest = bytes.split_off(bytes.len() / 2);
        ensure!(
            ends.brings(bytes, true)?,
            "the first half of a hello does not come through"
        );
        *bytes = rest;
    }
    for next in TWINS {
        stage.upgrade_with(&net, next, &patient)?;
        ensure!(
            denied.passes(true)? && allowed.passes(true)?,
            "a settled connection ends by an upgrade"
        );
    }
    stage.reload(&net, BLOCK_LIST, 1)?;
    until("the denied name is refused", PATIENCE, || {
        Ok(!denied.passes(false)?)
    })?;
    until("the allowed name goes on", PATIENCE, || {
        allowed.passes(false)
    })?;
    let [is_denied, is_allowed] = [0, 1].map(|at| open[at].brings(&halves[at], at == 1));
    ensure!(
        !is_denied?,
        "the second half of a denied name comes through"
    );
    ensure!(
        is_allowed?,
        "the second half of an allowed name does not come through"
    );
    stage.end()
}

/// Waits until conntrack has forgotten the connections of `both`.
fn until_forgotten(net: &Net) -> anyhow::Result<()> {
    until("conntrack forgets", PATIENCE, || {
        let listed = net
            .firewall
            .enter(|| fs::read_to_string("/proc/thread-self/net/nf_conntrack"))?;
        Ok(["8081", "8082"]
            .iter()
            .all(|port| !listed.contains(&format!("dport={port} "))))
    })
}

/// Checks that a connection that conntrack has forgotten comes back without a class: it is queued again, and gets the
/// class of its own names. Its first packet may come from the server.
fn forgotten(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, &without_tls())?;
    let [mut denied, mut allowed] = both(&net)?;
    forget_early(&net)?;
    for is_server_first in [false, true] {
        // The new timeouts hold from the next packet on.
        ensure!(
            denied.passes(true)? && allowed.passes(true)?,
            "a connection ended"
        );
        until_forgotten(&net)?;
        let before = stage.received()?;
        if is_server_first {
            denied.answers()?;
            allowed.answers()?;
        }
        ensure!(
            denied.passes(true)? && allowed.passes(true)?,
            "a connection ended"
        );
        let queued = stage.received()? - before;
        ensure!(queued >= 2, "{queued} packets were queued");
    }
    stage.reload(&net, BLOCK_LIST, 1)?;
    until_forgotten(&net)?;
    until("the denied name is refused", PATIENCE, || {
        Ok(!denied.passes(false)?)
    })?;
    until("the allowed name goes on", PATIENCE, || {
        allowed.passes(false)
    })?;
    stage.end()
}

/// Rules by which the kernel reads the commands of FTP clients, and counts packets of connections that these commands
/// announce.
const FTP: &str = r#"
table inet others {
	ct helper ftp { type "ftp" protocol tcp; }
	chain helpers {
		type filter hook prerouting priority 0; policy accept;
		tcp dport 21 ct helper set "ftp"
	}
	chain announced {
		type filter hook forward priority 10; policy accept;
		ct status expected counter
	}
}
"#;

/// Checks that a connection does not have the class of the FTP connection that has announced it to conntrack, although
/// it inherits that connection's mark. The client announces its own port when the FTP connection's class is final, and
/// conntrack has forgotten the connection of that port. Then the server sends first, as HTTP clients allow.
fn expected(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    net.firewall.feed("nft", &["-f", "-"], FTP)?;
    let stage = Stage::start(&net, twin, BLOCK_LIST)?;
    let mut both = [Ends::new(&net, 8081)?, Ends::new(&net, 8082)?];
    forget_early(&net)?;
    for ends in &mut both {
        ends.answers()?;
    }
    until_forgotten(&net)?;
    forget_after(&net, 300)?;
    let mut ftp = Ends::new(&net, 21)?;
    ftp.exchange(NAMELESS)?;
    ftp.exchange(b"settled\r\n")?;
    for ends in &mut both {
        ftp.exchange(ends.port_command()?.as_bytes())?;
        ends.answers()?;
    }
    let listed = run(&net.firewall, "nft", &["list", "table", "inet", "others"])?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    ensure!(!listed.contains("counter packets 0 "), "{listed}");
    let [mut denied, mut allowed] = both;
    let comes = denied.brings(&hello::http(DENIED, "\r\n").bytes, false)?;
    ensure!(!comes, "a denied name comes through");
    let comes = allowed.brings(&hello::http(ALLOWED, "\r\n").bytes, true)?;
    ensure!(comes, "an allowed name does not come through");
    stage.end()
}
