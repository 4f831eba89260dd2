// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections continue over upgrades with the state of their names, between all twins. A new firewall accepts no
//! invalid connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::ensure;
use testbed::firewall::{take_over, Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::place::LOCALHOST;
use testbed::traffic::{tcp_ask, tcp_connect, tcp_echo};
use testbed::twin::{Twin, TWINS};
use testbed::wait::PATIENCE;
use twinwall_tests::case::Row;

use super::between::{Change, Knowledge, Misled};
use super::setting::{check_calm, until_in_time, Setting};
use crate::evasion::net::{Net, Sees, SERVER};

pub const ROWS: &[Row] = &[
    ("connections-go-on", go_on),
    ("connections-that-are-none", wrong_connections),
];

const POLICY: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		http host "denied.example" drop
	}
}
"#;
/// HTTP request for the allowed name in parts: one part before each upgrade, and one after the last upgrade.
const ALLOWED: [&str; 4] = [
    "GET / HTTP/1.1\r\nHo",
    "st: allo",
    "wed.examp",
    "le\r\n\r\n",
];
const DENIED: [&str; 4] = ["GET / HTTP/1.1\r\nHo", "st: den", "ied.examp", "le\r\n\r\n"];
/// Time to wait for a response that should not arrive.
const QUIET: Duration = Duration::from_millis(500);

/// HTTP connection of a client.
struct Talker(TcpStream);

impl Talker {
    fn start(net: &Net) -> anyhow::Result<Talker> {
        let address = SocketAddr::from((SERVER, 80));
        let stream = net
            .client
            .enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Talker(stream))
    }

    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        Ok(self.0.write_all(text.as_bytes())?)
    }

    /// Returns true if a response arrives in time, false if none does or the server closes the connection.
    fn hears(&mut self, patience: Duration) -> anyhow::Result<bool> {
        let mut answer = [0; 4096];
        self.0.set_read_timeout(Some(patience))?;
        match self.0.read(&mut answer) {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn check_hears(&mut self, what: &str) -> anyhow::Result<()> {
        ensure!(self.hears(PATIENCE)?, "no answer {what}");
        Ok(())
    }

    fn check_hears_nothing(&mut self, what: &str) -> anyhow::Result<()> {
        ensure!(!self.hears(QUIET)?, "an answer {what}");
        Ok(())
    }
}

/// Firewalls that take over from each other, one after another.
struct Chain {
    net: Net,
    folder: Folder,
    unknown: &'static str,
    firewall: Firewall,
}

impl Chain {
    fn arguments(folder: &Folder, unknown: &str) -> Vec<String> {
        let control = folder.file("control");
        let policy = folder.file("policy.nft");
        let arguments = ["--control", &control, "--policy", &policy, "--fail"];
        let [guard, deadline] = PATIENT_GUARD;
        let more = [unknown, "--hello-timeout", "600", guard, deadline];
        let all = arguments.iter().chain(&more);
        all.map(|argument| (*argument).to_owned()).collect()
    }

    fn start(twin: Twin, unknown: &'static str) -> anyhow::Result<Chain> {
        let net = Net::new(Sees::Both)?;
        let folder = Folder::shared()?;
        folder.write("policy.nft", POLICY)?;
        let arguments = Chain::arguments(&folder, unknown);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let firewall = Firewall::start(&net.firewall, twin, &arguments)?;
        Ok(Chain {
            net,
            folder,
            unknown,
            firewall,
        })
    }

    /// Makes a new firewall take over from the running one. Returns false if it was too slow at first.
    fn upgrade(&mut self, twin: Twin) -> anyhow::Result<bool> {
        let control = self.folder.file("control");
        let arguments = Chain::arguments(&self.folder, self.unknown);
        let mut arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        arguments.extend(["--take-over", &control]);
        let start = || Firewall::start(&self.net.firewall, twin, &arguments);
        let (new, late) = take_over(&self.firewall, start)?;
        let old = std::mem::replace(&mut self.firewall, new).wait()?;
        if late == 0 {
            check_calm(&old)?;
        }
        Ok(late == 0)
    }
}

/// Checks that allowed connections continue. Without the old firewall's state, a firewall with unknown=closed would let
/// none of them continue. Returns false if an upgrade was too slow.
fn allowed_go_on(twin: Twin, chain: [Twin; 3]) -> anyhow::Result<bool> {
    let mut firewalls = Chain::start(twin, "unknown=closed")?;
    let mut known = Talker::start(&firewalls.net)?;
    known.say(&ALLOWED.concat())?;
    known.check_hears("before the first upgrade")?;
    let mut silent = Talker::start(&firewalls.net)?;
    let mut slow = Talker::start(&firewalls.net)?;
    for (next, part) in chain.into_iter().zip(ALLOWED) {
        slow.say(part)?;
        if !firewalls.upgrade(next)? {
            return Ok(false);
        }
        known.say(&ALLOWED.concat())?;
        known.check_hears("on a connection that is known")?;
    }
    slow.say(ALLOWED[3])?;
    slow.check_hears("to a request in parts")?;
    silent.say(&ALLOWED.concat())?;
    silent.check_hears("on a connection that was open")?;
    let ended = firewalls.firewall.end_by(libc::SIGTERM)?;
    check_calm(&ended)?;
    ensure!(
        ended
            .stderr
            .contains("3 connections were transferred, 0 had no room\n"),
        "stderr: {}",
        ended.stderr
    );
    Ok(true)
}

/// Checks that denied connections stay denied. Without the old firewall's state, a firewall with unknown=open would let
/// all of them continue. Returns false if an upgrade was too slow.
fn denied_stay(twin: Twin, chain: [Twin; 3]) -> anyhow::Result<bool> {
    let mut firewalls = Chain::start(twin, "unknown=open")?;
    let mut known = Talker::start(&firewalls.net)?;
    known.say(&DENIED.concat())?;
    known.check_hears_nothing("to what is denied")?;
    let mut slow = Talker::start(&firewalls.net)?;
    for (next, part) in chain.into_iter().zip(DENIED) {
        slow.say(part)?;
        if !firewalls.upgrade(next)? {
            return Ok(false);
        }
        known.say(&ALLOWED.concat())?;
        known.check_hears_nothing("on a connection that was denied")?;
    }
    slow.say(DENIED[3])?;
    slow.check_hears_nothing("to a request in parts")?;
    check_calm(&firewalls.firewall.end_by(libc::SIGTERM)?)?;
    Ok(true)
}

fn go_on(twin: Twin) -> anyhow::Result<()> {
    let other = match twin {
        Twin::Rust => Twin::C,
        Twin::C => Twin::Rust,
    };
    let chain = [other, other, twin];
    until_in_time(|| allowed_go_on(twin, chain))?;
    until_in_time(|| denied_stay(twin, chain))
}

const NAMES: &[&str] = &[
    "table inet filter {",
    "  chain output {",
    "    type filter hook output priority 0; policy accept;",
    "    http host \"denied.example\" drop",
    "  }",
    "}",
];

/// Offset of the connection's key in the memory file of an upgrade. The file contains one IPv4 connection whose client
/// has sent no data; the constants up to END are offsets of later fields.
const KEY: usize = 4;
const LIST: usize = KEY + 16;
const FLAGS: usize = LIST + 1;
const STATE: usize = FLAGS + 2 + 8 + 16 + 12 + 24;
const END: usize = STATE + 5 + 2 + 2 + 1;

const CONNECTION: Knowledge = Knowledge {
    bytes: END + 16 + 4 * 4,
    warning: |part| {
        format!(
            "warning: upgrade: the old firewall's connections have an invalid \"{part}\": existing \
             connections are unknown to this firewall\n"
        )
    },
};
const CHANGES: [Change; 10] = [
    ("memory", false, |_| {}),
    ("length", true, |bytes| bytes.truncate(7)),
    ("form", true, |bytes| bytes[0] += 1),
    ("stream", true, |bytes| bytes.truncate(bytes.len() - 1)),
    ("key", true, |bytes| bytes[KEY + 1] = 5),
    ("list", true, |bytes| bytes[LIST] = 7),
    ("flags", true, |bytes| bytes[FLAGS + 1] = 2),
    ("names", true, |bytes| bytes[STATE] = 0),
    ("names", true, |bytes| bytes[STATE + 2] = 1),
    ("count", true, |bytes| {
        let at = bytes.len() - 4;
        bytes[at] += 1;
    }),
];

/// Checks that invalid connection state is refused as a whole, that the upgrade continues, and that a connection works
/// afterwards.
fn wrong_connections(twin: Twin) -> anyhow::Result<()> {
    let setting = Setting::new("--queue-num 0")?;
    let policy = setting.policy("policy.nft", NAMES)?;
    let arguments = ["--policy", &policy, "--fail", "unknown=open"];
    let mut misled = Misled::start(&setting, twin, &arguments, CONNECTION)?;
    tcp_echo(&setting.namespace, LOCALHOST)?;
    for (new, change) in TWINS.into_iter().cycle().zip(CHANGES) {
        let mut stream = tcp_connect(&setting.namespace, LOCALHOST, PATIENCE)?;
        misled.upgrade(new, change)?;
        tcp_ask(&mut stream)?;
    }
    misled.end()
}
