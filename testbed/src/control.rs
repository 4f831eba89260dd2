// SPDX-License-Identifier: GPL-2.0-or-later
//! Clients of a firewall's control socket (docs/CONTROL.md).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{ensure, Context};
use serde_json::Value;

use crate::wait::PATIENCE;

/// A connection to a control socket, with time limits on reads and writes.
pub struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects to the socket at a path.
    pub fn new(path: &str) -> anyhow::Result<Client> {
        let stream = UnixStream::connect(path).with_context(|| format!("connect to {path}"))?;
        Client::of(stream)
    }

    /// Creates a client from an open connection.
    pub fn of(stream: UnixStream) -> anyhow::Result<Client> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Returns the connection.
    pub fn stream(&self) -> &UnixStream {
        self.0.get_ref()
    }

    /// Sends raw bytes.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref()).context("send")
    }

    /// Reads the next line, including its line end.
    pub fn text(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).context("a line")?;
        ensure!(line.ends_with('\n'), "the line has no end: {line:?}");
        Ok(line)
    }

    /// Reads the next line as JSON.
    pub fn line(&mut self) -> anyhow::Result<Value> {
        let line = self.text()?;
        serde_json::from_str(&line).with_context(|| format!("no JSON: {line}"))
    }

    /// Sends a request; returns the reply, which may be an error.
    pub fn ask(&mut self, request: &str) -> anyhow::Result<Value> {
        self.send(format!("{request}\n"))?;
        self.line()
    }

    /// Sends a request; returns the reply, which must not be an error.
    pub fn done(&mut self, request: &str) -> anyhow::Result<Value> {
        let answer = self.ask(request)?;
        ensure!(answer["ok"] == true, "{request}: {answer}");
        Ok(answer)
    }

    /// Sends a command without members; returns the reply, which must not be an error.
    pub fn command(&mut self, name: &str) -> anyhow::Result<Value> {
        self.done(&format!(r#"{{"command":"{name}"}}"#))
    }

    /// Checks that the other end has closed the connection and sent no more data. A reset is accepted: the other end may
    /// have left received data unread.
    pub fn check_closed(&mut self) -> anyhow::Result<()> {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
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

/// Returns the text of an error reply.
pub fn error_of(answer: &Value) -> anyhow::Result<&str> {
    ensure!(answer["ok"] == false, "no error: {answer}");
    answer["error"].as_str().context("an error without a text")
}
