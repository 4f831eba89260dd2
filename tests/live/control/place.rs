// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall with a control socket, and clients of it.

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

/// A place whose folder every user may use, for firewalls with a control socket.
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
    pub fn start(&self, twin: Twin, more: &[&str]) -> anyhow::Result<Firewall> {
        let control = self.path("control");
        self.0
            .start(twin, &[&["--control", &control], more].concat())
    }

    pub fn connect(&self) -> anyhow::Result<Client> {
        Client::new(&self.path("control"))
    }

    /// Sends one request on a separate connection.
    pub fn ask(&self, request: &str) -> anyhow::Result<Value> {
        self.connect()?.ask(request)
    }

    /// Returns a count of `status`.
    pub fn count(&self, name: &str) -> anyhow::Result<u64> {
        let status = self.ask(r#"{"command":"status"}"#)?;
        let count = status["counts"][name].as_u64();
        count.with_context(|| format!("no count {name} in {status}"))
    }
}
