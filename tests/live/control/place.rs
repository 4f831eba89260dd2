// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall with a control socket, and clients of it.

use anyhow::Context;
use serde_json::Value;
use testbed::control::Client;
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::namespace_with;
use testbed::twin::Twin;

const POLICY: &str = "table inet t {\n\tchain c {\n\t\ttype filter hook output priority 0; policy accept;\n\
    \t\tudp dport 9999 counter comment \"asked\"\n\t\ttcp dport 23 counter log prefix \"telnet \" drop\n\t}\n}\n";

/// A folder that everybody may use, with a policy, in a namespace whose UDP to port 9999 goes to queue 0. The folder
/// goes away with the value.
pub struct Place {
    folder: Folder,
    pub namespace: Namespace,
}

impl Place {
    pub fn new() -> anyhow::Result<Place> {
        let namespace = namespace_with("loopback-9999-udp")?;
        let folder = Folder::shared()?;
        folder.write("web.nft", POLICY)?;
        Ok(Place { folder, namespace })
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.file(name)
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
