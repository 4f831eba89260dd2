// SPDX-License-Identifier: GPL-2.0-or-later
//! The failure contract in the stage: a firewall that is killed, stopped or flooded, with rules with and without a
//! bypass; and packets whose names are not known or can't be read.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use anyhow::{ensure, Context};
use stage::{Options, Undecided};
use testbed::proc;
use testbed::queue::queues_in;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::ends::{Ends, NAMELESS};
use super::{split, start, Stage};
use crate::evasion::net::{Net, Sees, SERVER};
use crate::evasion::{hello, ALLOWED};

pub const ROWS: &[Row] = &[
    ("killed", |twin| check(twin, Failure::Killed, KILLED)),
    ("stopped", |twin| check(twin, Failure::Stopped, STOPPED)),
    ("full-queue", |twin| check(twin, Failure::Full, FULL)),
    ("undecided", undecided),
    ("unknown-open", unknown),
];

/// Server's port for which the policy has a rule by name.
const ASKED: u16 = 8443;
/// Server's port for which the policy has no rule by name.
const FREE: u16 = 8444;
const POLICY: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		th dport 8443 tls sni "www.denied.example" drop
	}
}
"#;

/// Number of datagrams that are sent at once.
const COUNT: usize = 40;
/// Length of the queue in packets, for Failure::Full.
const QUEUE: usize = 16;
/// Time without a datagram after which none is expected: longer than the guard's deadline.
const ABSENT: Duration = Duration::from_millis(1_500);
const DEADLINE: [&str; 2] = ["--deadline", "500"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The firewall is killed (SIGKILL).
    Killed,
    /// The firewall is stopped (SIGSTOP), and its guard answers the waiting packets.
    Stopped,
    /// More packets arrive than the queue holds, while the firewall is stopped and nothing answers them.
    Full,
}

/// Options, and the number of datagrams (of COUNT) that must arrive with them.
struct Expected {
    bypass: bool,
    undecided: Undecided,
    fail: &'static str,
    arrive: usize,
}

const fn expected(
    bypass: bool,
    undecided: Undecided,
    fail: &'static str,
    arrive: usize,
) -> Expected {
    Expected {
        bypass,
        undecided,
        fail,
        arrive,
    }
}

const KILLED: &[Expected] = &[
    expected(false, Undecided::Accept, "closed", 0),
    expected(false, Undecided::Accept, "crash=open", 0),
    expected(true, Undecided::Accept, "closed", COUNT),
    expected(true, Undecided::Accept, "crash=open", COUNT),
    expected(true, Undecided::Drop, "closed", 0),
];
const STOPPED: &[Expected] = &[
    expected(false, Undecided::Accept, "closed", 0),
    expected(false, Undecided::Accept, "stall=open", 0),
    expected(true, Undecided::Accept, "closed", 0),
    expected(true, Undecided::Accept, "stall=open", COUNT),
    expected(true, Undecided::Drop, "stall=open", 0),
];
const FULL: &[Expected] = &[
    expected(false, Undecided::Accept, "overload=open", 0),
    expected(true, Undecided::Accept, "closed", 0),
    expected(true, Undecided::Accept, "overload=open", COUNT - QUEUE),
    expected(true, Undecided::Drop, "overload=open", 0),
];

/// UDP sockets of a client and a server.
struct Datagrams {
    client: UdpSocket,
    server: UdpSocket,
}

impl Datagrams {
    fn new(net: &Net, port: u16) -> anyhow::Result<Datagrams> {
        let address = SocketAddr::from((SERVER, port));
        let server = net.server.enter(|| UdpSocket::bind(address))?;
        let client = net.client.enter(|| UdpSocket::bind("0.0.0.0:0"))?;
        client.connect(address)?;
        Ok(Datagrams { client, server })
    }

    /// Makes conntrack confirm the connection: of several packets of a new connection in a queue it drops all but one.
    /// On a busy machine the guard may drop a datagram.
    fn open(&self) -> anyhow::Result<()> {
        until("a datagram arrives", PATIENCE, || self.is_open())
    }

    /// Sends a datagram from the client. Returns true if one reaches the server within ABSENT.
    fn is_open(&self) -> anyhow::Result<bool> {
        self.client.send(b"one")?;
        self.server.set_read_timeout(Some(ABSENT))?;
        Ok(self.server.recv(&mut [0; 16]).is_ok())
    }

    /// Sends COUNT datagrams. Returns the number that arrives: waits for `wanted` datagrams, and then until no more
    /// arrive.
    fn pass(&self, wanted: usize) -> anyhow::Result<usize> {
        for _ in 0..COUNT {
            self.client.send(b"datagram")?;
        }
        let mut arrived = 0;
        loop {
            let patience = if arrived < wanted { PATIENCE } else { ABSENT };
            self.server.set_read_timeout(Some(patience))?;
            let mut read = [0; 16];
            match self.server.recv(&mut read) {
                // Another datagram is a late one of `is_open`.
                Ok(length) => arrived += usize::from(read[..length] == *b"datagram"),
                Err(_) => return Ok(arrived),
            }
        }
    }
}

fn check(twin: Twin, failure: Failure, all: &[Expected]) -> anyhow::Result<()> {
    for one in all {
        let how = format!(
            "{failure:?}, bypass {}, {:?}, {}",
            one.bypass, one.undecided, one.fail
        );
        check_one(twin, failure, one).context(how)?;
    }
    Ok(())
}

/// Checks one combination of options: datagrams with a rule of names, settled connections, and packets without such a
/// rule.
fn check_one(twin: Twin, failure: Failure, one: &Expected) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let options = Options {
        bypass: one.bypass,
        undecided: one.undecided,
        ..Options::default()
    };
    let length = QUEUE.to_string();
    let mut more = vec!["--fail", one.fail];
    match failure {
        Failure::Killed => {}
        Failure::Stopped => more.extend(DEADLINE),
        Failure::Full => more.extend(["--queue-length", &length, "--deadline", "0"]),
    }
    let [asked, free] = [Datagrams::new(&net, ASKED)?, Datagrams::new(&net, FREE)?];
    let mut settled = None;
    let stage = Stage::start_split(&net, twin, split(POLICY, options)?, &more)?;
    asked.open()?;
    // Otherwise no connection opens, since a SYN has no name.
    if one.undecided == Undecided::Accept {
        let mut ends = Ends::new(&net, ASKED)?;
        ends.exchange(NAMELESS)?;
        ends.exchange(b"settled")?;
        settled = Some(ends);
    }
    let Stage {
        mut firewall,
        folder,
        ..
    } = stage;
    let pid = firewall.pid;
    if failure == Failure::Full {
        // A packet that still waits would take room in the queue.
        firewall.settled_ledger()?;
    }
    match failure {
        Failure::Killed => {
            proc::signal(pid, libc::SIGKILL);
            until(
                "the firewall ends",
                PATIENCE,
                || Ok(!firewall.is_running()?),
            )?;
            // Until then the guard has the queue, too, and nobody answers its packets.
            if one.fail == "closed" {
                until("the guard ends", PATIENCE, || {
                    Ok(queues_in(&net.firewall)?.is_empty())
                })?;
            }
        }
        Failure::Stopped | Failure::Full => proc::stop(pid)?,
    }
    let arrived = asked.pass(one.arrive)?;
    ensure!(
        arrived == one.arrive,
        "{arrived} of {COUNT} datagrams arrived"
    );
    ensure!(
        free.pass(COUNT)? == COUNT,
        "packets without a rule of names"
    );
    if let Some(mut ends) = settled {
        ends.exchange(b"goes on").context("a settled connection")?;
    }
    if failure != Failure::Killed {
        proc::signal(pid, libc::SIGCONT);
        until("the firewall answers again", PATIENCE, || asked.is_open())?;
        firewall.end_by(libc::SIGTERM)?;
    }
    drop(folder);
    Ok(())
}

/// Checks the stage's option `undecided`: packets pass or are dropped as long as the name is not complete.
fn undecided(twin: Twin) -> anyhow::Result<()> {
    for undecided in [Undecided::Accept, Undecided::Drop] {
        let net = Net::new(Sees::Both)?;
        let options = Options {
            undecided,
            ..Options::default()
        };
        let stage = Stage::start_split(&net, twin, split(POLICY, options)?, &[])?;
        match undecided {
            Undecided::Accept => {
                let mut ends = Ends::new(&net, ASKED)?;
                let half = &hello::tls(ALLOWED, 0).bytes[..100];
                ensure!(ends.brings(half, true)?, "half a hello does not pass");
            }
            Undecided::Drop => {
                let server = SocketAddr::from((SERVER, 443));
                let other = net
                    .client
                    .enter(|| TcpStream::connect_timeout(&server, PATIENCE));
                ensure!(other.is_ok(), "a connection without a rule of names");
                let asked = SocketAddr::from((SERVER, ASKED));
                let _listener = net.server.enter(|| TcpListener::bind(asked))?;
                let opened = net
                    .client
                    .enter(|| TcpStream::connect_timeout(&asked, Duration::from_secs(1)));
                ensure!(opened.is_err(), "a connection without a name opens");
            }
        }
        stage.end()?;
    }
    Ok(())
}

/// Checks the stage's option `unknown_open`: if the firewall has not seen the first half of a hello, the second half
/// passes with the option, and is dropped without it.
fn unknown(twin: Twin) -> anyhow::Result<()> {
    for unknown_open in [false, true] {
        let net = Net::new(Sees::Both)?;
        let options = Options {
            unknown_open,
            ..Options::default()
        };
        let stage = Stage::start_split(&net, twin, split(POLICY, options)?, &[])?;
        let mut ends = Ends::new(&net, ASKED)?;
        let bytes = hello::tls(ALLOWED, 0).bytes;
        ensure!(
            ends.brings(&bytes[..100], true)?,
            "half a hello does not pass"
        );
        let Stage {
            firewall,
            folder,
            mask,
        } = stage;
        firewall.end_by(libc::SIGTERM)?;
        let firewall = start(&net, &folder, twin, &mask, &[])?;
        let passes = ends.brings(&bytes[100..], unknown_open)?;
        ensure!(passes == unknown_open, "{unknown_open}: passes {passes}");
        firewall.end_by(libc::SIGTERM)?;
    }
    Ok(())
}
