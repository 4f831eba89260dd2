// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall inside the cage: its start, and the events and connections that it reports.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{json, Value};

use crate::failure::Failure;
use crate::queue_rules::{QUEUE, SETTLED};

/// Limit of events per second, higher than a command can cause.
const EVENTS_RATE: &str = "1000000";
/// Time limit for each read from the control socket, in a listing of connections.
const PATIENCE: Duration = Duration::from_secs(5);

/// Values of --fail, for packets that a policy can't decide: only an observing cage (--learn) accepts them.
const CLOSED: &str = "closed";
const LOOKING_ON: &str = "unknown=open,malformed=open,truncated=open";

/// Returns the firewall's arguments.
/// - looks_on: true for an observing cage (--learn).
pub fn arguments(policy: &Path, control: &Path, looks_on: bool) -> Vec<String> {
    let (queue, settled) = (QUEUE.to_string(), format!("{SETTLED:#x}"));
    let words = [
        ("--queue", queue.as_str()),
        ("--policy", &policy.to_string_lossy()),
        ("--control", &control.to_string_lossy()),
        ("--conntrack", "mark"),
        ("--settled", &settled),
        ("--fail", if looks_on { LOOKING_ON } else { CLOSED }),
        ("--events", "-"),
        ("--events-rate", EVENTS_RATE),
        ("--log-level", "error"),
        ("--user", "root"),
    ];
    let mut arguments: Vec<String> = words
        .iter()
        .flat_map(|(name, value)| [name.to_string(), value.to_string()])
        .collect();
    arguments.push("--json".to_owned());
    arguments
}

/// Started firewall, and its stdout with a line for each event.
pub struct Firewall {
    pub process: Child,
    pub lines: BufReader<ChildStdout>,
}

/// Starts the firewall in the network namespace of the calling thread. In the outer user namespace it is root, with
/// only the capabilities that it keeps in its sandbox.
pub fn start(program: &Path, arguments: &[String]) -> Result<Firewall, Failure> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // Ctrl-C of the terminal must not end the firewall.
    command.process_group(0);
    let mut process = command.spawn().map_err(Failure::at(program.display()))?;
    let stdout = process
        .stdout
        .take()
        .ok_or_else(|| Failure::new("the firewall has no stdout"))?;
    let lines = BufReader::new(stdout);
    Ok(Firewall { process, lines })
}

impl Firewall {
    /// Waits for the firewall's ready line, which it prints once its queue is bound and its sandbox is active.
    pub fn wait(&mut self) -> Result<(), Failure> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        let start: Option<Value> = serde_json::from_str(&line).ok();
        match (read, start) {
            (Ok(_), Some(start)) if start["event"] == "start" => Ok(()),
            _ => Err(self.why()),
        }
    }

    /// Returns the reason why the firewall ended: its own error line, if it printed one.
    fn why(&mut self) -> Failure {
        let mut said = String::new();
        if let Some(stderr) = &mut self.process.stderr {
            let _ = stderr.read_to_string(&mut said); // the output so far is enough
        }
        let status = self.process.wait();
        let own = said.lines().find_map(|line| line.strip_prefix("error: "));
        match (own, status) {
            (Some(line), _) => Failure::new(line),
            (None, Ok(status)) => Failure::new(format_args!(
                "the firewall did not start ({status}): {said}"
            )),
            (None, Err(error)) => Failure::at("the firewall")(error),
        }
    }

    /// Starts a thread that forwards the firewall's stderr to this process's stderr.
    pub fn pass_on(&mut self) {
        if let Some(mut stderr) = self.process.stderr.take() {
            thread::spawn(move || io::copy(&mut stderr, &mut io::stderr()));
        }
    }
}

/// Connection as listed by the control socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Connection {
    pub protocol: String,
    pub client: String,
    pub client_port: u16,
    pub server: std::net::IpAddr,
    pub server_port: u16,
    pub state: String,
    pub shows: Option<String>,
    pub name: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    connections: Vec<Connection>,
    next: Option<u64>,
}

/// Returns the connections that the firewall follows. An ended TCP connection stays listed for about two minutes. A
/// firewall whose policy reads no names follows no connections.
pub fn connections(control: &Path) -> io::Result<Vec<Connection>> {
    let mut stream = UnixStream::connect(control)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let mut request = json!({"command": "connections"});
        if let Some(from) = from {
            request["from"] = json!(from);
        }
        stream.write_all(format!("{request}\n").as_bytes())?;
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let mut page: Page = serde_json::from_str(&line)?;
        all.append(&mut page.connections);
        match page.next {
            Some(next) => from = Some(next),
            None => return Ok(all),
        }
    }
}

/// Returns the path of the firewall's control socket in the cage's private folder.
pub fn control(place: &Path) -> PathBuf {
    place.join("control")
}
