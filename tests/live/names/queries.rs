// SPDX-License-Identifier: GPL-2.0-or-later
//! Several queries on one DNS connection over TCP, to dnsmasq: dig sends one query after another; a plain client sends
//! segments with several queries, or one query in several segments. Another case has nginx on port 53, where it serves
//! TLS and HTTP.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Row;

use super::{
    behind_each_backend, curl, is_answered, server, start_resolver, unreadable, words, ALLOWED,
    DENIED, EVERY_NAME, LIMITS, POLICY,
};
use crate::evasion::net::{Net, Sees, SERVER};
use crate::evasion::queries::question;

pub const ROWS: &[Row] = &[("several-questions", several), ("other-protocols", others)];

/// Address in dnsmasq's answer to every query.
const ADDRESS: &str = "192.0.2.77";
/// Time to wait for an answer that should not arrive.
const QUIET: Duration = Duration::from_millis(500);
/// Time limit in seconds for a request that should get no answer.
const SOON: &str = "2";
/// Pause between two parts of a message, so that each part is in its own segment.
const APART: Duration = Duration::from_millis(20);

/// TCP connection of a client to dnsmasq.
struct Asker(TcpStream);

impl Asker {
    fn start(net: &Net) -> anyhow::Result<Asker> {
        let address = SocketAddr::from((SERVER, 53));
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let stream = net.client.enter(connect)?;
        stream.set_nodelay(true)?;
        Ok(Asker(stream))
    }

    /// Sends bytes in two parts, split at an offset; 0 = in one part.
    fn say(&mut self, bytes: &[u8], at: usize) -> anyhow::Result<()> {
        let (first, second) = bytes.split_at(at);
        self.0.write_all(first)?;
        if !first.is_empty() {
            pause_for(APART);
        }
        Ok(self.0.write_all(second)?)
    }

    /// Returns the number of answers that arrive in time. Stops at `most` answers, or if the connection ends.
    fn hears(&mut self, most: usize, patience: Duration) -> anyhow::Result<usize> {
        let deadline = Instant::now() + patience;
        let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
        self.0.set_read_timeout(Some(Duration::from_millis(50)))?;
        while count(&bytes) < most && Instant::now() < deadline {
            match self.0.read(&mut part) {
                Ok(0) => break,
                Ok(read) => bytes.extend(&part[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(count(&bytes))
    }
}

/// Returns the number of complete DNS messages, each after its length in two bytes.
fn count(mut bytes: &[u8]) -> usize {
    let mut messages = 0;
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let Some(rest) = rest.get(u16::from_be_bytes(*length).into()..) else {
            break;
        };
        messages += 1;
        bytes = rest;
    }
    messages
}

/// Returns the number of names for which dig gets an address, on one connection.
/// - limit: time limit for each address, in seconds.
fn dig(net: &Net, names: &[&str], limit: &str) -> anyhow::Result<usize> {
    let (at, limit) = (format!("@{}", server()), format!("+time={limit}"));
    let options = ["+tcp", "+keepopen", &limit, "+tries=1", "+short"];
    let arguments = words(&[&[at.as_str()], &options[..], names].concat());
    let output = net.client.command("dig").args(arguments).output();
    let output = output.context("dig could not be started: run make deps")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter(|line| *line == ADDRESS).count())
}

/// Checks that allowed queries are answered, wherever they are split. Checks that after a denied query, no query in the
/// same packet or in later packets is answered.
fn ask_all(net: &Net) -> anyhow::Result<()> {
    let questions = ALLOWED.map(question).concat();
    for at in (1..=questions.len()).step_by(7) {
        let mut asker = Asker::start(net)?;
        for _ in 0..2 {
            asker.say(&questions, at)?;
            let heard = asker.hears(ALLOWED.len(), PATIENCE)?;
            ensure!(heard == ALLOWED.len(), "cut at {at}: {heard} answers");
        }
    }
    let first = question(ALLOWED[0]);
    let pair = [&first[..], &question(DENIED[0])].concat();
    for at in [0, first.len(), first.len() + 20, pair.len() - 1] {
        let mut asker = Asker::start(net)?;
        let (before, rest) = pair.split_at(at);
        asker.say(before, 0)?;
        // A query that arrives before the denied query is complete is answered.
        let most = usize::from(at > 0);
        let heard = asker.hears(most, PATIENCE)?;
        ensure!(heard == most, "cut at {at}: {heard} answers");
        asker.say(rest, 0)?;
        asker.say(&first, 0)?;
        let heard = asker.hears(1, QUIET)?;
        ensure!(
            heard == 0,
            "cut at {at}: an answer from a denied connection"
        );
    }
    Ok(())
}

fn several(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let _resolver = start_resolver(&net, &[EVERY_NAME.to_owned()])?;
    behind_each_backend(&net, twin, POLICY, |firewall| {
        ask_all(&net)?;
        let heard = dig(&net, &ALLOWED, LIMITS.0)?;
        ensure!(heard == ALLOWED.len(), "dig gets {heard}");
        until("dig gets the allowed address", PATIENCE, || {
            let heard = dig(&net, &[ALLOWED[0], DENIED[0]], SOON)?;
            ensure!(heard <= 1, "dig gets {heard}, with a denied one");
            Ok(heard == 1)
        })?;
        firewall.finish()?;
        Ok(())
    })
}

/// Makes nginx's server on a port also reachable on port 53.
fn serve_on_53(net: &Net, port: u16) -> anyhow::Result<()> {
    let redirect = format!("-A PREROUTING -p tcp --dport 53 -j REDIRECT --to-ports {port}");
    let rules = format!("*nat\n{redirect}\nCOMMIT\n");
    net.server.feed("iptables-restore", &["--wait"], &rules)
}

/// Checks that TLS and HTTP to port 53 are dropped, whatever the name, although nginx serves both there.
fn others(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    for (scheme, port) in [("https", 443), ("http", 80)] {
        serve_on_53(&net, port)?;
        let soon = ["--max-time", SOON];
        let answers = |name| is_answered(&net.client, &curl(name, scheme, 53, &soon), "here");
        until("nginx answers", PATIENCE, || answers(DENIED[0]))?;
        behind_each_backend(&net, twin, POLICY, |firewall| {
            for name in [DENIED[0], ALLOWED[0]] {
                let before = unreadable(&firewall)?;
                // On a busy machine curl may give up before it shows the name.
                until("a connection is unreadable", PATIENCE, || {
                    ensure!(!answers(name)?, "{scheme}: {name} is answered");
                    Ok(unreadable(&firewall)? > before)
                })?;
            }
            firewall.finish().map(drop)
        })?;
    }
    Ok(())
}
