// SPDX-License-Identifier: GPL-2.0-or-later
//! The uplink of the cage: a process outside the cage's network namespace that turns the packets at a tap interface
//! inside into connections of the host. It is in none of the command's namespaces, and accepts no requests while it
//! runs.

use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::failure::Failure;
use crate::programs;

/// Name of the tap interface in the cage.
pub const INTERFACE: &str = "uplink";
/// Address at which pasta answers DNS queries. Link-local, so that no other host has it.
const PASTA_RESOLVER: &str = "169.254.53.53";
/// Address at which slirp4netns answers DNS queries.
const SLIRP_RESOLVER: &str = "10.0.2.3";
const TUN: &str = "/dev/net/tun";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkKind {
    Pasta,
    Slirp,
}

impl UplinkKind {
    fn program(self) -> &'static str {
        match self {
            UplinkKind::Pasta => "pasta",
            UplinkKind::Slirp => "slirp4netns",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Uplink {
    pub kind: UplinkKind,
    pub program: PathBuf,
}

impl Uplink {
    /// Returns the wanted uplink. If `wanted` is None, returns pasta, or slirp4netns if pasta is not installed. Fails
    /// if the wanted program is not installed, or for None if neither is.
    pub fn find(wanted: Option<UplinkKind>) -> Result<Uplink, Failure> {
        let kinds = match wanted {
            Some(kind) => vec![kind],
            None => vec![UplinkKind::Pasta, UplinkKind::Slirp],
        };
        let found = kinds.iter().find_map(|kind| {
            let program = programs::find(kind.program())?;
            Some(Uplink {
                kind: *kind,
                program,
            })
        });
        found.ok_or_else(|| match wanted {
            Some(UplinkKind::Slirp) => {
                Failure::new("slirp4netns is not installed: apt install slirp4netns")
            }
            Some(UplinkKind::Pasta) => Failure::new("pasta is not installed: apt install passt"),
            None => Failure::new("neither pasta nor slirp4netns is installed: apt install passt"),
        })
    }

    /// Returns the address at which the uplink answers DNS queries of the command in the cage.
    pub fn resolver(&self) -> IpAddr {
        let text = match self.kind {
            UplinkKind::Pasta => PASTA_RESOLVER,
            UplinkKind::Slirp => SLIRP_RESOLVER,
        };
        text.parse().expect("a constant is an address")
    }

    /// Returns the arguments of the uplink's program. The program's stdin must be the network namespace of the cage; it
    /// writes to stdout when the interface is ready.
    /// - host_loopback: true if the command in the cage may connect to the host's loopback addresses.
    pub fn arguments(&self, host_loopback: bool) -> Vec<String> {
        let words = match (self.kind, host_loopback) {
            (UplinkKind::Pasta, false) => "--no-map-gw --tcp-ns none --udp-ns none",
            (UplinkKind::Pasta, true) => "--no-map-gw --tcp-ns auto --udp-ns auto",
            (UplinkKind::Slirp, false) => "--disable-host-loopback",
            (UplinkKind::Slirp, true) => "",
        };
        let text = match self.kind {
            UplinkKind::Pasta => format!(
                "--foreground --quiet --config-net --ns-ifname {INTERFACE} --netns-only --netns /proc/self/fd/0 \
                 --pid /proc/self/fd/1 --no-dhcp --no-dhcpv6 --no-ra --tcp-ports none --udp-ports none \
                 --dns-forward {PASTA_RESOLVER} {words}"
            ),
            UplinkKind::Slirp => format!(
                "--configure --mtu 65520 --enable-ipv6 --enable-sandbox --enable-seccomp --ready-fd 1 \
                 --netns-type path {words} /proc/self/fd/0 {INTERFACE}"
            ),
        };
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Starts the uplink. Its interface may not be ready yet (`Running::wait`).
    /// - network: network namespace of the cage.
    /// - host_loopback: as for `arguments`.
    pub fn start(&self, network: File, host_loopback: bool) -> Result<Running, Failure> {
        let mut command = Command::new(&self.program);
        command.args(self.arguments(host_loopback));
        command
            .stdin(network)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C of the terminal must not end the uplink.
        command.process_group(0);
        let name = self.kind.program();
        let process = command.spawn().map_err(Failure::at(name))?;
        Ok(Running { name, process })
    }
}

/// Started uplink, whose interface may not be ready yet.
#[derive(Debug)]
pub struct Running {
    name: &'static str,
    process: Child,
}

impl Running {
    /// Waits until the interface in the cage has its addresses and routes; returns the uplink's process. Fails if the
    /// uplink ends before.
    pub fn wait(mut self) -> Result<Child, Failure> {
        let mut byte = [0];
        let stdout = self.process.stdout.as_mut();
        match stdout.map(|stdout| stdout.read(&mut byte)) {
            Some(Ok(1)) => Ok(self.process),
            _ => Err(self.why()),
        }
    }

    /// Returns the reason why the uplink ended.
    fn why(mut self) -> Failure {
        let mut said = String::new();
        if let Some(mut stderr) = self.process.stderr.take() {
            let _ = stderr.read_to_string(&mut said); // the output so far is enough
        }
        let _ = self.process.wait();
        let tun = File::options().read(true).write(true).open(TUN);
        let cure = match tun {
            Err(error) => format!(
                "{TUN} can't be opened ({}): as root `modprobe tun; chmod 0666 {TUN}`; of a container, start it with \
                 --device {TUN}",
                crate::failure::words(&error)
            ),
            Ok(_) => "has this machine a default route?".to_owned(),
        };
        let words: Vec<&str> = said
            .lines()
            .filter(|line| !line.contains("syslog"))
            .collect();
        Failure::new(format_args!(
            "{} ended ({}): {cure}",
            self.name,
            words.join("; ").trim()
        ))
    }
}
