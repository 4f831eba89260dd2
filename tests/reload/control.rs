// SPDX-License-Identifier: GPL-2.0-or-later
//! A client of the control socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use anyhow::{ensure, Context};
use serde_json::Value;
use twinwall_tests::case::PATIENCE;

pub struct Client(BufReader<UnixStream>);

impl Client {
    pub fn new(path: &str) -> anyhow::Result<Client> {
        let stream = UnixStream::connect(path).with_context(|| format!("connect to {path}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client(BufReader::new(stream)))
    }

    /// The answer to a request, whatever it is.
    pub fn ask(&mut self, request: &str) -> anyhow::Result<Value> {
        self.0.get_mut().write_all(request.as_bytes())?;
        self.0.get_mut().write_all(b"\n")?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("an answer: {line}"))
    }

    /// Has the policy read anew, which must succeed.
    pub fn reload(&mut self) -> anyhow::Result<Value> {
        let answer = self.ask(r#"{"command":"reload"}"#)?;
        ensure!(answer["ok"] == true, "{answer}");
        Ok(answer)
    }
}
