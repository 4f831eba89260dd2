// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses that sets have learned survive upgrades between all twins, with their remaining time. A new firewall
//! accepts no invalid addresses.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::place::run;
use testbed::queue::queues_in;
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::between::{Change, Knowledge, Misled};
use super::setting::{check_said, until_in_time, Setting};

pub const ROWS: &[Row] = &[
    ("learnt-addresses-go-on", go_on),
    ("learnt-addresses-that-are-none", wrong_addresses),
];

/// Address and port of the client, on this host.
const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 1), 4000);
/// Address and port of the resolver, on this host.
const RESOLVER: (Ipv4Addr, u16) = (Ipv4Addr::new(127, 0, 0, 53), 53);
/// Address that the set learns.
const KNOWN: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);
/// Address that the set does not learn.
const STRANGE: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 2);
/// TTL of the response in seconds, in the case that waits until the address expires.
const SHORT: u32 = 60;
/// Maximum time for which an address may stay longer than its TTL.
const SLACK: Duration = Duration::from_secs(10);
/// TTL of the response in seconds, in the other cases.
const LONG: u32 = 3600;
/// Time to wait, after the verdict, for a datagram that should not arrive.
const QUIET: Duration = Duration::from_millis(300);
/// Time after the verdict after which a datagram is certainly dropped, not late.
const SURELY: Duration = Duration::from_secs(3);

const POLICY: &[&str] = &[
    "table inet filter {",
    "  set cdn { type ipv4_addr; learn dns \"*.cdn.example\"; }",
    "  chain output {",
    "    type filter hook output priority 0; policy accept;",
    "    udp dport 9999 ip daddr != @cdn drop",
    "  }",
    "}",
];

/// Namespace whose DNS queries and responses, and datagrams to port 9999, go through the firewall.
struct Scene {
    setting: Setting,
    policy: String,
}

impl Scene {
    fn new() -> anyhow::Result<Scene> {
        let setting = Setting::new("--queue-num 0")?;
        for port in ["--dport", "--sport"] {
            let rule = ["-A", "OUTPUT", "-p", "udp", port, "53"];
            let queue = ["-j", "NFQUEUE", "--queue-num", "0"];
            run(
                &setting.namespace,
                "iptables",
                &[&rule[..], &queue].concat(),
            )?;
        }
        let policy = setting.policy("policy.nft", POLICY)?;
        Ok(Scene { setting, policy })
    }

    fn bind(&self, at: (Ipv4Addr, u16)) -> anyhow::Result<UdpSocket> {
        let socket = self.setting.namespace.enter(|| UdpSocket::bind(at))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(socket)
    }

    /// Sends a query for a name of the set, and the resolver's response with KNOWN.
    fn teach(&self, ttl: u32) -> anyhow::Result<()> {
        let (client, resolver) = (self.bind(CLIENT)?, self.bind(RESOLVER)?);
        let question = b"\x01a\x03cdn\x07example\0\0\x01\0\x01";
        let head = |flags, answers| [0, 7, flags, 0, 0, 1, 0, answers, 0, 0, 0, 0];
        let record = [
            &[0xc0, 12, 0, 1, 0, 1][..],
            &ttl.to_be_bytes(),
            &[0, 4],
            &KNOWN.octets(),
        ]
        .concat();
        client.send_to(&[&head(1, 0)[..], question].concat(), RESOLVER)?;
        resolver.recv(&mut [0; 512]).context("the question")?;
        let answer = [&head(0x81, 1)[..], question, &record].concat();
        resolver.send_to(&answer, CLIENT)?;
        client.recv(&mut [0; 512]).context("the answer")?;
        Ok(())
    }

    /// Returns true if a datagram reaches an address within a time after its verdict.
    fn is_reached(&self, address: Ipv4Addr, limit: Duration) -> anyhow::Result<bool> {
        let to = SocketAddr::from((address, 9999));
        let server = self.bind((address, 9999))?;
        server.set_read_timeout(Some(limit))?;
        let client = self.bind((CLIENT.0, 0))?;
        // A packet that is dropped in OUTPUT may cause an error of the send.
        let _ = client.send_to(b"here", to);
        until("the datagram has its verdict", PATIENCE, || {
            let queues = queues_in(&self.setting.namespace)?;
            Ok(queues.iter().all(|queue| queue.waiting == 0))
        })?;
        Ok(server.recv(&mut [0; 8]).is_ok())
    }

    /// Checks that KNOWN is reached, and STRANGE is not. Returns false if KNOWN may have expired before the verdict.
    /// - end: time from which KNOWN may have expired.
    fn is_known(&self, when: &str, end: Instant) -> anyhow::Result<bool> {
        if !self.is_reached(KNOWN, PATIENCE)? {
            // After the verdict the datagram was waited for.
            ensure!(Instant::now() >= end + PATIENCE, "not reached {when}");
            return Ok(false);
        }
        ensure!(
            !self.is_reached(STRANGE, QUIET)?,
            "reached without a name {when}"
        );
        Ok(true)
    }

    /// Does the same as `is_known`, after `teach` with LONG.
    fn check_reached(&self, when: &str) -> anyhow::Result<()> {
        let end = Instant::now() + Duration::from_secs(LONG.into());
        ensure!(self.is_known(when, end)?, "not reached {when}");
        Ok(())
    }
}

/// Checks learned addresses over four upgrades: twice to the other twin, then twice to the first one. After that an
/// address expires at the same time as without upgrades.
fn go_on(twin: Twin) -> anyhow::Result<()> {
    until_in_time(|| try_to_go_on(twin))
}

/// Does the same as `go_on`. Returns false if the address may have expired before all upgrades were done.
fn try_to_go_on(twin: Twin) -> anyhow::Result<bool> {
    let scene = Scene::new()?;
    let other = match twin {
        Twin::Rust => Twin::C,
        Twin::C => Twin::Rust,
    };
    let arguments = ["--policy", scene.policy.as_str()];
    let mut firewall = scene.setting.start(twin, &arguments)?;
    ensure!(
        !scene.is_reached(KNOWN, QUIET)?,
        "reached before anybody asked"
    );
    let since = Instant::now();
    scene.teach(SHORT)?;
    let learned = Instant::now();
    let ttl = Duration::from_secs(SHORT.into());
    if !scene.is_known("before the first upgrade", since + ttl)? {
        return Ok(false);
    }
    for next in [other, other, twin, twin] {
        let (new, _) = scene.setting.upgrade(firewall, next, &arguments)?;
        firewall = new;
        if !scene.is_known("after an upgrade", since + ttl)? {
            return Ok(false);
        }
    }
    let mut last_reached = learned;
    until("the address is forgotten", PATIENCE + ttl, || {
        let sent = Instant::now();
        let is_reached = scene.is_reached(KNOWN, SURELY)?;
        if is_reached {
            last_reached = sent;
        }
        Ok(!is_reached)
    })?;
    let (took, known) = (since.elapsed(), last_reached - learned);
    ensure!(took >= ttl, "forgotten after {took:?}");
    ensure!(known < ttl + SLACK, "reached after {known:?}");
    scene.teach(LONG)?;
    scene.check_reached("when learnt again")?;
    // A set with another name is another set, which has no addresses.
    let text = POLICY.join("\n").replace("cdn {", "other {");
    let text = text.replace("@cdn", "@other");
    let lines: Vec<_> = text.lines().collect();
    let policy = scene.setting.policy("other.nft", &lines)?;
    let (firewall, _) = scene
        .setting
        .upgrade(firewall, other, &["--policy", &policy])?;
    ensure!(!scene.is_reached(KNOWN, QUIET)?, "another set has it");
    check_said(&firewall.end_by(libc::SIGTERM)?, "")?;
    Ok(true)
}

/// Offset of the set in the file that hands learned addresses over in an upgrade. The file contains one address; the
/// next constants are the offsets of the address's upper half, of the lifetime, and of the number of addresses.
const SET: usize = 4;
const HIGH: usize = SET + 16;
const TIME: usize = HIGH + 8;
const COUNT: usize = TIME + 8;

const ADDRESSES: Knowledge = Knowledge {
    bytes: COUNT + 4,
    warning: |part| {
        format!(
            "warning: upgrade: the old firewall's learned addresses have an invalid \
         \"{part}\": this firewall learns them anew\n"
        )
    },
};
const CHANGES: [Change; 8] = [
    ("memory", false, |_| {}),
    ("length", true, |bytes| bytes.truncate(7)),
    ("form", true, |bytes| bytes[0] += 1),
    ("count", true, |bytes| bytes[COUNT] += 1),
    ("count", true, |bytes| bytes.push(0)),
    ("address", true, |bytes| bytes[HIGH] = 1),
    ("time", true, |bytes| bytes[TIME..COUNT].fill(0)),
    ("time", true, |bytes| bytes[TIME + 7] = 1),
];

/// Checks that a new firewall refuses damaged addresses as a whole, takes over all the same, and learns them anew.
fn wrong_addresses(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new()?;
    let arguments = ["--policy", scene.policy.as_str()];
    let mut misled = Misled::start(&scene.setting, twin, &arguments, ADDRESSES)?;
    for (new, change) in TWINS.into_iter().cycle().zip(CHANGES) {
        let (part, ..) = change;
        scene.teach(LONG)?;
        scene.check_reached(part)?;
        misled.upgrade(new, change)?;
        ensure!(!scene.is_reached(KNOWN, QUIET)?, "{part}: it is known");
    }
    misled.end()
}
