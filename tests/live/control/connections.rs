// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections that a firewall lists over the control socket, and fwctl's output for them.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use anyhow::{ensure, Context};
use serde_json::{json, Value};
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::place::{restore, veth};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use crate::fwctl::ctl::{fwctl, Said};

pub const ROWS: &[Row] = &[
    ("connections-are-told", told),
    ("connections-come-in-pages", in_pages),
];

const POLICY: &str = r#"
table inet filter {
	chain input {
		type filter hook input priority 0; policy accept;
		http host "denied.example" drop
	}
}
"#;

const PORT: u16 = 8080;
const MANY: usize = 300;
/// Error of a listing if a worker did not answer in time, as on a busy machine.
const LATE: &str = "a queue's worker does not answer: try again later";

/// Server with a firewall of two queues, and a client of the server.
struct Place {
    client: Namespace,
    server: Namespace,
    control: String,
    /// Time before the firewall's start.
    start: Instant,
    firewall: Firewall,
    _folder: Folder,
}

impl Place {
    fn new(twin: Twin) -> anyhow::Result<Place> {
        let (client, server) = veth()?;
        for tool in ["iptables", "ip6tables"] {
            let to = "-p tcp -j NFQUEUE --queue-balance 0:1";
            restore(&server, tool, &format!("-A INPUT {to}\n-A OUTPUT {to}"))?;
        }
        let folder = Folder::shared()?;
        let policy = folder.write("policy.nft", POLICY)?;
        let control = folder.file("control");
        let arguments = ["--policy", &policy, "--queue=0:1", "--control", &control];
        let patience = ["--hello-timeout", "3600"];
        let arguments = [&arguments[..], &patience, &PATIENT_GUARD].concat();
        let start = Instant::now();
        let firewall = Firewall::start(&server, twin, &arguments)?;
        Ok(Place {
            client,
            server,
            control,
            start,
            firewall,
            _folder: folder,
        })
    }

    /// Returns the connections of each page of the firewall's list.
    /// - undecided: true to request undecided connections only.
    fn pages(&self, undecided: bool) -> anyhow::Result<Vec<Vec<Value>>> {
        let mut client = Client::new(&self.control)?;
        let mut pages = Vec::new();
        let mut from = Some(0);
        while let Some(place) = from {
            let request = json!({"command": "connections", "undecided": undecided, "from": place})
                .to_string();
            let mut answer = Value::Null;
            until("the worker answers in time", PATIENCE, || {
                answer = client.ask(&request)?;
                Ok(answer["error"] != LATE)
            })?;
            let page = answer["connections"].as_array();
            pages.push(page.context("connections")?.clone());
            from = answer["next"].as_u64();
        }
        Ok(pages)
    }

    /// Runs fwctl, again if a worker did not answer in time.
    fn fwctl(&self, arguments: &[&str]) -> anyhow::Result<Said> {
        let mut last = None;
        until("the worker answers in time", PATIENCE, || {
            let said = fwctl(&self.server, &self.control, arguments)?;
            let is_late = said.stderr.contains(LATE);
            last = Some(said);
            Ok(!is_late)
        })?;
        last.context("fwctl's output")
    }
}

/// Opens a connection for each of `sent`, and sends these bytes on it. Returns both ends of each connection.
fn open(
    place: &Place,
    address: SocketAddr,
    sent: &[&[u8]],
) -> anyhow::Result<Vec<(TcpStream, TcpStream)>> {
    let listener = place.server.enter(|| TcpListener::bind(address))?;
    let open = |bytes: &&[u8]| {
        let connect = || TcpStream::connect_timeout(&address, PATIENCE);
        let mut client = place.client.enter(connect)?;
        let (server, _) = listener.accept()?;
        client.write_all(bytes)?;
        Ok((client, server))
    };
    sent.iter().map(open).collect()
}

/// Values of a listed connection, besides its ends and its age: state, protocol that shows the name, name.
type Told = (Value, Value, Value);

fn by_client(place: &Place, pages: &[Vec<Value>]) -> anyhow::Result<BTreeMap<String, Told>> {
    let limit_ms = place.start.elapsed().as_millis() as u64;
    let mut all = BTreeMap::new();
    for connection in pages.concat() {
        let told = ["state", "shows", "name"].map(|key| connection[key].clone());
        ensure!(connection["protocol"] == "tcp", "{connection}");
        ensure!(connection["server_port"] == PORT, "{connection}");
        let age_ms = connection["age_ms"].as_u64();
        ensure!(age_ms.is_some_and(|age| age <= limit_ms), "{connection}");
        let [client, port] = ["client", "client_port"].map(|key| connection[key].clone());
        let client = client.as_str().context("an address")?.parse()?;
        let port = port.as_u64().context("a port")? as u16;
        let [state, shows, name] = told;
        let before = all.insert(
            SocketAddr::new(client, port).to_string(),
            (state, shows, name),
        );
        ensure!(before.is_none(), "told of twice: {connection}");
    }
    Ok(all)
}

/// Expected values of a connection: state, protocol that shows the name, name.
type Known = (&'static str, Option<&'static str>, Option<&'static str>);

/// Bytes that a client sends, and the expected values of its connection.
const SENT: &[(&[u8], Known)] = &[
    (b"", ("undecided", None, None)),
    (
        b"GET / HTTP/1.1\r\nHost: allowed.ex",
        ("undecided", None, None),
    ),
    (
        b"GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
        ("named", Some("http"), Some("allowed.example")),
    ),
    (
        b"GET / HTTP/1.1\r\nHost: denied.example\r\n\r\n",
        ("denied", Some("http"), Some("denied.example")),
    ),
    (b"SSH-2.0-client\r\n", ("missing", None, None)),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ("unknown", None, None)),
];

fn told(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let bytes: Vec<&[u8]> = SENT.iter().map(|sent| sent.0).collect();
    for address in [VETH_IPV4.1, VETH_IPV6.1] {
        let ends = open(&place, SocketAddr::new(address, PORT), &bytes)?;
        let mut expected = BTreeMap::new();
        for ((client, _), (_, (state, shows, name))) in ends.iter().zip(SENT) {
            let told: Told = (json!(state), json!(shows), json!(name));
            expected.insert(client.local_addr()?.to_string(), told);
        }
        let mut last = BTreeMap::new();
        let is_told = until("all is told", PATIENCE, || {
            last = by_client(&place, &place.pages(false)?)?;
            Ok(expected
                .iter()
                .all(|(end, told)| last.get(end) == Some(told)))
        });
        is_told.with_context(|| format!("{last:?}"))?;
        expected.retain(|_, (state, ..)| *state == "undecided");
        last = by_client(&place, &place.pages(true)?)?;
        last.retain(|end, _| expected.contains_key(end));
        ensure!(last == expected, "undecided: {last:?}");
        let said = place.fwctl(&["connections"])?;
        let text = said.code(0)?;
        let (client, _) = &ends[3];
        let line = text
            .lines()
            .find(|line| line.contains(&client.local_addr().unwrap().to_string()));
        let words: Vec<&str> = line.context("a line")?.split_whitespace().collect();
        ensure!(words[..2] == ["denied", "tcp"], "{text}");
        ensure!(words.ends_with(&["http", "denied.example"]), "{text}");
    }
    place.firewall.stop().map(drop)
}

/// Checks that each connection is listed once, although the list has many pages and packets arrive meanwhile.
fn in_pages(twin: Twin) -> anyhow::Result<()> {
    let place = Place::new(twin)?;
    let mut ends = open(
        &place,
        SocketAddr::new(VETH_IPV4.1, PORT),
        &[&b""[..]; MANY],
    )?;
    let pages = place.pages(false)?;
    ensure!(pages.len() > 4, "{} pages", pages.len());
    ensure!(
        pages.iter().all(|page| page.len() <= 64),
        "a page is too long"
    );
    ensure!(
        by_client(&place, &pages)?.len() == MANY,
        "not all are told of"
    );
    for arguments in [&["connections"][..], &["connections", "--undecided"]] {
        let json = [arguments, &["--json"]].concat();
        let all = place.fwctl(&json)?;
        ensure!(all.code(0)?.lines().count() == MANY, "fwctl {json:?}");
        let limited = place.fwctl(&[arguments, &["--limit", "7"]].concat())?;
        ensure!(
            limited.code.is_some_and(|code| code == 0),
            "{}",
            limited.stderr
        );
        ensure!(limited.stdout.lines().count() == 8, "{}", limited.stdout);
        ensure!(
            limited.stderr.contains("there are more"),
            "{}",
            limited.stderr
        );
    }
    for (client, server) in &mut ends {
        server.set_read_timeout(Some(PATIENCE))?;
        client.write_all(b"SSH-2.0-client\r\n")?;
        server.read_exact(&mut [0; 16])?;
    }
    ensure!(
        place.pages(true)?.concat().is_empty(),
        "all have shown that they have no name"
    );
    place.firewall.stop().map(drop)
}
