// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall with an exporter, and a minimal HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::Deref;

use anyhow::{ensure, Context};
use testbed::exporter::Exporter;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::{self, LOCALHOST};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};

pub const PORT: u16 = 9630;
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
pub const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

const POLICY: &str =
    "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0; policy accept;\n\
    \t\tudp dport 9999 counter comment \"asked\"\n\
    \t\ttcp dport 23 counter drop; tcp dport 24 counter log prefix \"telnet \" drop\n\t}\n}\n";

/// Folder and namespace for firewalls with exporters.
pub struct Place(place::Place);

/// Running firewall with its exporter.
pub struct Served {
    pub firewall: Firewall,
    pub exporter: Exporter,
}

impl Deref for Place {
    type Target = place::Place;

    fn deref(&self) -> &place::Place {
        &self.0
    }
}

impl Place {
    pub fn new() -> anyhow::Result<Place> {
        Ok(Place(place::Place::new(Folder::shared()?, POLICY)?))
    }

    /// Starts a twin with the policy, and an exporter.
    /// - more: additional options of the twin.
    pub fn start(&self, twin: Twin, more: &[&str]) -> anyhow::Result<Served> {
        let control = self.path("control");
        let arguments = [&["--control", &control][..], &PATIENT_GUARD, more].concat();
        Ok(Served {
            firewall: self.0.start(twin, &arguments)?,
            exporter: self.export(&format!("127.0.0.1:{PORT}"))?,
        })
    }

    /// Starts an exporter for the running twin, which listens on an address.
    pub fn export(&self, listen: &str) -> anyhow::Result<Exporter> {
        Exporter::start(&self.namespace, &self.path("control"), listen)
    }

    pub fn connect(&self) -> anyhow::Result<TcpStream> {
        connect(&self.namespace, (LOCALHOST, PORT).into())
    }

    /// Sends a request to the exporter. Returns the reply.
    pub fn ask(&self, request: &str) -> anyhow::Result<Answer> {
        ask(self.connect()?, request)
    }

    /// Sends a request to the exporter (`ask_until_served`).
    pub fn ask_until_served(&self, request: &str) -> anyhow::Result<(Answer, u64)> {
        ask_until_served(|| self.connect(), request)
    }

    /// Returns the text of the metrics.
    /// - headers: header lines of the request, each with its line end; may be empty.
    pub fn text(&self, headers: &str) -> anyhow::Result<String> {
        let (answer, _) = self.ask_until_served(&get("/metrics", headers))?;
        answer.check_status(200)?;
        Ok(answer.body)
    }

    /// Returns the metrics in OpenMetrics format.
    pub fn metrics(&self) -> anyhow::Result<String> {
        self.text("")
    }

    /// Returns the value of a sample.
    /// - sample: name and labels, as in the text.
    pub fn value(&self, sample: &str) -> anyhow::Result<u64> {
        value_of(&self.metrics()?, sample)
    }
}

pub fn value_of(text: &str, sample: &str) -> anyhow::Result<u64> {
    let begin = format!("{sample} ");
    let mut values = text.lines().filter_map(|line| line.strip_prefix(&begin));
    let value = values.next().with_context(|| format!("no {sample}"))?;
    Ok(value.parse()?)
}

pub fn connect(namespace: &Namespace, address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = namespace.enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Returns a GET request.
/// - headers: header lines, each with its line end; may be empty.
pub fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n")
}

pub struct Answer {
    pub status: u16,
    /// Headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn check_status(&self, status: u16) -> anyhow::Result<()> {
        ensure!(
            self.status == status,
            "status {}: {}",
            self.status,
            self.body
        );
        Ok(())
    }

    /// Returns true if the firewall did not answer the exporter in time, as on a busy machine. A reply to HEAD has no
    /// reason.
    pub fn is_late(&self) -> bool {
        let reason = "no complete answer within";
        self.status == 503 && (self.body.is_empty() || self.body.contains(reason))
    }
}

/// Sends a request, again if the firewall did not answer the exporter in time. Returns the reply, and the number of
/// requests.
/// - connect: returns a new connection to the exporter.
pub fn ask_until_served(
    connect: impl Fn() -> anyhow::Result<TcpStream>,
    request: &str,
) -> anyhow::Result<(Answer, u64)> {
    let mut requests = 0;
    let mut last = None;
    until("the firewall answers in time", PATIENCE, || {
        let answer = ask(connect()?, request)?;
        let is_late = answer.is_late();
        requests += 1;
        last = Some(answer);
        Ok(!is_late)
    })?;
    Ok((last.context("a reply")?, requests))
}

/// Sends a request, and reads the reply until the exporter closes the connection.
pub fn ask(mut stream: TcpStream, request: &str) -> anyhow::Result<Answer> {
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).context("the answer")?;
    let text = String::from_utf8(bytes)?;
    let (head, body) = text
        .split_once("\r\n\r\n")
        .with_context(|| format!("no answer: {text:?}"))?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.filter_map(|line| line.split_once(": "));
    Ok(Answer {
        status: status.context("a status")?.parse()?,
        headers: headers
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect(),
        body: body.to_owned(),
    })
}
