// SPDX-License-Identifier: GPL-2.0-or-later
//! HTTP clients without privileges that request a denied host in a form that few servers accept. Python's server, which
//! runs here, accepts it.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Context;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::client::QUIET;
use super::net::{Net, Sees, SERVER, SERVER_6};
use super::requests::{self, ALLOW_LIST};
use super::tried::{self, all_completed, none_completed, Tried, ANSWERED};
use super::{By, ALLOWED, BLOCK_LIST, DENIED};

const SERVER_OF_PYTHON: &str = "
import socket, socketserver, sys
from wsgiref import simple_server
class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 64
class Handler(simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass
def application(environ, begin):
    begin('200 OK', [('Content-Type', 'text/plain')])
    return [b'SAW[' + environ.get('HTTP_HOST', '').encode() + b']']
simple_server.make_server('::', int(sys.argv[1]), application, Server, Handler).serve_forever()
";

const ROWS: &[Row] = &[
    ("odd-requests-block-list", |twin| {
        hold(By::Twin(twin), BLOCK_LIST)
    }),
    ("odd-requests-allow-list", |twin| {
        hold(By::Twin(twin), ALLOW_LIST)
    }),
];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// Running HTTP server of Python, ended on drop.
struct Python(Child);

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Way to request a host: the way's name, and the first line of the request.
type Way = (&'static str, &'static [u8]);

const WAYS: &[Way] = &[
    ("file separators", b"GET\x1c/\x1cHTTP/1.1"),
    ("group separators", b"GET\x1d/\x1dHTTP/1.1"),
    ("record separators", b"GET\x1e/\x1eHTTP/1.1"),
    ("unit separators", b"GET\x1f/\x1fHTTP/1.1"),
    ("next lines", b"GET\x85/\x85HTTP/1.1"),
    ("no-break spaces", b"GET\xa0/\xa0HTTP/1.1"),
    ("tabs of two kinds", b"GET\t/\x0bHTTP/1.1"),
    ("a file separator first", b"\x1cGET / HTTP/1.0"),
    ("a no-break space first", b"\xa0GET / HTTP/1.0"),
    (
        "a method of 48 letters",
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUV / HTTP/1.1",
    ),
    ("a method in quotes", b"\"GET\" / HTTP/1.1"),
    ("a method with a colon", b"GET: / HTTP/1.1"),
];

fn start(net: &Net) -> anyhow::Result<Python> {
    let child = net
        .server
        .command("python3")
        .args(["-c", SERVER_OF_PYTHON, &requests::PORT.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("python3")?;
    let server = Python(child);
    until("the server answers", PATIENCE, || {
        let at = SocketAddr::from((SERVER, requests::PORT));
        Ok(net.server.enter(|| TcpStream::connect(at)).is_ok())
    })?;
    Ok(server)
}

/// Sends a request for a host. Returns true if the server answers for that host.
/// - line: first line of the request.
/// - patience: time limit for the answer.
fn is_answered(
    net: &Net,
    server: IpAddr,
    line: &[u8],
    host: &str,
    patience: Duration,
) -> anyhow::Result<bool> {
    let at = SocketAddr::from((server, requests::PORT));
    let mut stream = net
        .client
        .enter(|| TcpStream::connect_timeout(&at, PATIENCE))?;
    let field = format!("\r\nHost: {host}\r\n\r\n");
    stream.write_all(&[line, field.as_bytes()].concat())?;
    let _ = stream.shutdown(Shutdown::Write);
    stream.set_read_timeout(Some(patience))?;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    Ok(answer.contains(&format!("SAW[{host}]")))
}

/// Requests a host in all ways over IPv4 and IPv6.
/// - answered: true if the server is expected to answer: a way is then tried up to TRIES times.
fn try_all(net: &Net, host: &str, ways: &[Way], answered: bool) -> anyhow::Result<Vec<Tried>> {
    let servers = [("IPv4", IpAddr::from(SERVER)), ("IPv6", SERVER_6.into())];
    let jobs: Vec<_> = servers
        .into_iter()
        .flat_map(|server| ways.iter().map(move |way| (server, way)))
        .collect();
    let patience = if answered { ANSWERED } else { 4 * QUIET };
    tried::try_all(net, &jobs, |_, ((over, server), (name, line))| {
        Tried::new(name, over, answered, |_| {
            is_answered(net, *server, line, host, patience).map(Some)
        })
    })
}

/// Checks that the denied host is answered in all ways without a firewall, and in none with a firewall that has the
/// policy `text`. A plain request for an allowed host must be answered with that firewall, too.
pub fn hold(by: By, text: &str) -> anyhow::Result<()> {
    const PLAIN: &[Way] = &[("plain", b"GET / HTTP/1.1")];
    let net = Net::new(Sees::Both)?;
    let _server = start(&net)?;
    all_completed(&try_all(&net, DENIED, WAYS, true)?)?;
    let running = by.start(&net, text)?;
    let tried = try_all(&net, DENIED, WAYS, false)?;
    none_completed(&tried)?;
    all_completed(&try_all(&net, ALLOWED, PLAIN, true)?)?;
    println!("{} tries: none completed", tried.len());
    running.finish()
}
