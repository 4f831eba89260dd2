// SPDX-License-Identifier: GPL-2.0-or-later
//! Environment of a test case: namespaces with rules.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Output;

use crate::netns::Namespace;
use anyhow::{bail, ensure, Context};

use crate::firewall::Firewall;
use crate::folder::Folder;
use crate::skip::skip;
use crate::twin::{root, Twin};

/// Address of servers in a namespace without peers.
pub const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The port of the rules `*-9999*` in rules/queue.
pub const PORT: u16 = 9999;

/// Creates an empty namespace with loopback up. Skips the case unless run as root.
pub fn namespace() -> anyhow::Result<Namespace> {
    // SAFETY: geteuid(2) can't fail and touches no memory.
    if unsafe { libc::geteuid() } != 0 {
        return Err(skip("needs root for a network namespace: make check-root"));
    }
    Namespace::new()
}

/// Creates a namespace and loads rules of rules/queue with the script rules/load, as users do.
pub fn namespace_with(rules: &str) -> anyhow::Result<Namespace> {
    let namespace = namespace()?;
    load(&namespace, rules)?;
    Ok(namespace)
}

/// Creates two namespaces joined by a veth pair: (client, server). Loads the rules `veth-9999` into the server's.
pub fn veth() -> anyhow::Result<(Namespace, Namespace)> {
    let (client, server) = (namespace()?, namespace()?);
    Namespace::veth_pair(&client, &server)?;
    load(&server, "veth-9999")?;
    Ok((client, server))
}

/// Loads a file of rules in rules/queue into a namespace.
pub fn load(namespace: &Namespace, rules: &str) -> anyhow::Result<()> {
    let output = namespace
        .command(root().join("rules/load"))
        .arg(rules)
        .output()?;
    ensure!(
        output.status.success(),
        "rules/load {rules}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Loads a case's own rules: lines of the filter table, in the format of iptables-restore.
/// - tool: `iptables` or `iptables-legacy`, for example; its program `TOOL-restore` loads the rules.
pub fn restore(namespace: &Namespace, tool: &str, lines: &str) -> anyhow::Result<()> {
    let text = format!("*filter\n{lines}\nCOMMIT\n");
    // Only one iptables-legacy may run on the whole machine: --wait waits for others.
    namespace.feed(&format!("{tool}-restore"), &["--noflush", "--wait"], &text)
}

/// Runs a command inside the namespace; an error contains its stderr.
pub fn run(namespace: &Namespace, program: &str, arguments: &[&str]) -> anyhow::Result<Output> {
    let output = namespace
        .command(program)
        .args(arguments)
        .output()
        .context(program.to_string())?;
    if !output.status.success() {
        bail!(
            "{program} {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(output)
}

/// A folder with a policy, and a namespace whose UDP packets to 127.0.0.1:9999 go to queue 0. The folder is removed on
/// drop.
pub struct Place {
    folder: Folder,
    pub namespace: Namespace,
}

impl Place {
    pub fn new(folder: Folder, policy: &str) -> anyhow::Result<Place> {
        let namespace = namespace_with("loopback-9999-udp")?;
        folder.write("web.nft", policy)?;
        Ok(Place { folder, namespace })
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> String {
        self.folder.file(name)
    }

    /// Starts a twin with the policy and further options (`more`).
    pub fn start(&self, twin: Twin, more: &[&str]) -> anyhow::Result<Firewall> {
        let policy = self.path("web.nft");
        let arguments = [&["--policy", &policy], more].concat();
        Firewall::start(&self.namespace, twin, &arguments)
    }
}
