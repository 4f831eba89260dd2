// SPDX-License-Identifier: GPL-2.0-or-later
//! Firewall with a control socket, and clients of this socket.

use std::ops::Deref;

use anyhow::Context;
use serde_json::Value;
use testbed::control::Client;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place;
use testbed::twin::Twin;

const POLICY: &str = "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0; policy accept;\n\
    \t\tudp dport 9999 counter comment \"asked\"\n\t\ttcp dport 23 counter log prefix \"telnet \" drop\n\t}\n}\n";

/// Namespace for firewalls with a control socket, and a folder that every user may use.
pub struct Place(place::Place);

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

    /// Starts a twin with the policy and a control socket.
    /// - more: additional options.
    pub fn start(&self, twin: Twin, more: &[&str]) -> anyhow::Result<Firewall> {
        let control = self.path("control");
        self.0
            .start(twin, &[&["--control", &control], more].concat())
    }

    pub fn connect(&self) -> anyhow::Result<Client> {
        Client::new(&self.path("control"))
    }

    /// Sends a request on a new connection. Returns the reply.
    pub fn ask(&self, request: &str) -> anyhow::Result<Value> {
        self.connect()?.ask(request)
    }

    /// Returns one of the counts in the reply to `status`.
    pub fn count(&self, name: &str) -> anyhow::Result<u64> {
        let status = self.ask(r#"{"command":"status"}"#)?;
        let count = status["counts"][name].as_u64();
        count.with_context(|| format!("no count {name} in {status}"))
    }
}
