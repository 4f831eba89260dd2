// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall with a control socket, and clients of it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use anyhow::{ensure, Context};
use harness::netns::Namespace;
use serde_json::Value;
use twinwall_tests::case::PATIENCE;
use twinwall_tests::firewall::Firewall;
use twinwall_tests::place::namespace_with;
use twinwall_tests::twin::Twin;

pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

const POLICY: &str = "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0; policy accept;\n\
    \t\tudp dport 9999 counter comment \"asked\"\n\t\ttcp dport 23 counter log prefix \"telnet \" drop\n\t}\n}\n";

/// A folder that everybody may use, with a policy, in a namespace whose UDP to port 9999 goes to queue 0. The folder
/// goes away with the value.
pub struct Place {
    pub folder: PathBuf,
    pub namespace: Namespace,
}

impl Place {
    pub fn new() -> anyhow::Result<Place> {
        let namespace = namespace_with("loopback-9999-udp")?;
        let folder = std::env::temp_dir().join(format!("twinwall-control-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        fs::write(folder.join("web.nft"), POLICY)?;
        Ok(Place { folder, namespace })
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Starts a twin with the policy and a control socket.
    pub fn start(&self, twin: Twin, more: &[&str]) -> anyhow::Result<Firewall> {
        let (policy, control) = (self.path("web.nft"), self.path("control"));
        let arguments = [&["--policy", &policy, "--control", &control], more].concat();
        Firewall::start(&self.namespace, twin, &arguments)
    }

    pub fn connect(&self) -> anyhow::Result<Client> {
        Client::new(&self.path("control"))
    }

    /// One request on a connection of its own.
    pub fn ask(&self, request: &str) -> anyhow::Result<Value> {
        self.connect()?.ask(request)
    }

    /// A count of `status`.
    pub fn count(&self, name: &str) -> anyhow::Result<u64> {
        let status = self.ask(r#"{"command":"status"}"#)?;
        let count = status["counts"][name].as_u64();
        count.with_context(|| format!("no count {name} in {status}"))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A connection to a control socket.
pub struct Client(BufReader<UnixStream>);

impl Client {
    pub fn new(control: &str) -> anyhow::Result<Client> {
        let stream = UnixStream::connect(control).context("connect to the control socket")?;
        Client::of(stream)
    }

    pub fn of(stream: UnixStream) -> anyhow::Result<Client> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client(BufReader::new(stream)))
    }

    pub fn stream(&self) -> &UnixStream {
        self.0.get_ref()
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref()).context("send")
    }

    /// The next line, with its line end.
    pub fn text(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).context("a line")?;
        ensure!(line.ends_with('\n'), "the line has no end: {line:?}");
        Ok(line)
    }

    pub fn line(&mut self) -> anyhow::Result<Value> {
        let line = self.text()?;
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    pub fn ask(&mut self, request: &str) -> anyhow::Result<Value> {
        self.send(format!("{request}\n"))?;
        self.line()
    }

    /// Checks that the other end has closed, and has said no more. What it left unread of what was sent resets the
    /// connection.
    pub fn check_closed(&mut self) -> anyhow::Result<()> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error).context("the connection is still open"),
        }
        ensure!(
            rest.is_empty(),
            "says more: {}",
            String::from_utf8_lossy(&rest)
        );
        Ok(())
    }
}

/// The text of an answer that is an error.
pub fn error_of(answer: &Value) -> anyhow::Result<&str> {
    ensure!(answer["ok"] == false, "no error: {answer}");
    answer["error"].as_str().context("an error without a text")
}
