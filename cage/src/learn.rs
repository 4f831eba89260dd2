// SPDX-License-Identifier: GPL-2.0-or-later
//! Derives the sufficient policy for a command from its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use crate::allow::{Allowed, Host};
use crate::event::Peer;
use crate::failure::Failure;
use crate::{policy, safe};

const HTTP: u16 = 80;
const HTTPS: u16 = 443;
const DNS: u16 = 53;
/// Maximum number of queried names that are resolved.
const NAMES_MAX: usize = 10_000;

/// Names that the command queried in DNS, by their addresses. The addresses are from the host's resolver.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<IpAddr, String>);

/// Resolver of names: a thread that waits for the host's resolver while the command runs.
pub struct Lookup {
    asked: BTreeSet<String>,
    to: Sender<String>,
    names: JoinHandle<Names>,
}

impl Lookup {
    pub fn start() -> Lookup {
        let (to, from) = mpsc::channel::<String>();
        let names = thread::spawn(move || {
            let mut names = Names::default();
            for name in from {
                for address in (name.as_str(), 0).to_socket_addrs().into_iter().flatten() {
                    names.0.entry(address.ip()).or_insert_with(|| name.clone());
                }
            }
            names
        });
        let asked = BTreeSet::new();
        Lookup { asked, to, names }
    }

    /// Records the name of a DNS query. The host resolves it again, because the firewall does not report answers.
    pub fn ask(&mut self, name: String) {
        if self.asked.len() < NAMES_MAX && self.asked.insert(name.clone()) {
            let _ = self.to.send(name); // without the thread no name is found
        }
    }

    /// Waits for the last answer; returns the addresses.
    pub fn finish(self) -> Names {
        drop(self.to);
        self.names.join().unwrap_or_default()
    }
}

/// Returns the host of a name that a client has shown or queried. None for a text that is no single host's name, such
/// as `*.example` or `0.0.0.0/0`: it would allow more than this host.
fn host(name: &str) -> Option<Host> {
    match name.parse().ok()? {
        Allowed {
            host: Host::Name(name),
            port: None,
        } if !name.starts_with("*.") => Some(Host::Name(name)),
        _ => None,
    }
}

/// Returns the destination to allow for a connection to this peer. None if no destination is needed (DNS) or possible.
fn needed(peer: &Peer, names: &Names) -> Option<Allowed> {
    let (address, port) = (peer.address?, peer.port?);
    if port == DNS {
        return None;
    }
    let is_web =
        (port == HTTPS && peer.kind != "http host") || (port == HTTP && peer.kind == "http host");
    let host = match peer.name.as_ref().or_else(|| names.0.get(&address)) {
        Some(name) => host(name)?,
        None => Host::Net(address, if address.is_ipv4() { 32 } else { 128 }),
    };
    let port = if is_web && peer.name.is_some() {
        None
    } else {
        Some(port)
    };
    Some(Allowed { host, port })
}

/// Returns the policy as text: first the allowed peers, each with the connections that needed it, then the rules.
pub fn policy(
    reached: &BTreeMap<Peer, u64>,
    names: &Names,
    resolver: IpAddr,
    command: &[String],
) -> String {
    let mut witnesses: BTreeMap<Allowed, Vec<String>> = BTreeMap::new();
    for (peer, count) in reached {
        let Some(allowed) = needed(peer, names) else {
            continue;
        };
        let plural = if *count == 1 { "" } else { "s" };
        witnesses
            .entry(allowed)
            .or_default()
            .push(format!("{peer}, {count} connection{plural}"));
    }
    let mut text = format!(
        "# Learnt by `fwctl run --learn` from: {}\n",
        safe::shown(&command.join(" "))
    );
    text += "# It is a policy for `fwctl run --policy`. What the command reached:\n";
    for (allowed, seen) in &witnesses {
        text += &format!("#\n#   {allowed}\n");
        for one in seen {
            text += &format!("#     {}\n", safe::shown(one));
        }
    }
    let allowed: Vec<Allowed> = witnesses.into_keys().collect();
    text + "\n" + &policy::of_allowed(&allowed, resolver, false)
}

pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(Failure::at(path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(kind: &str, name: Option<&str>, port: u16) -> Peer {
        Peer {
            kind: kind.to_owned(),
            name: name.map(str::to_owned),
            address: Some("192.0.2.1".parse().unwrap()),
            port: Some(port),
        }
    }

    fn shown(peer: &Peer, names: &Names) -> String {
        needed(peer, names).map_or("nothing".to_owned(), |allowed| allowed.to_string())
    }

    #[test]
    fn what_is_needed_follows_from_what_was_seen() {
        let mut names = Names::default();
        assert_eq!(
            shown(&peer("tls sni", Some("a.example"), 443), &names),
            "a.example"
        );
        assert_eq!(
            shown(&peer("quic sni", Some("a.example"), 443), &names),
            "a.example"
        );
        assert_eq!(
            shown(&peer("http host", Some("a.example"), 80), &names),
            "a.example"
        );
        assert_eq!(
            shown(&peer("tls sni", Some("a.example"), 8443), &names),
            "a.example:8443"
        );
        assert_eq!(shown(&peer("tcp", None, 22), &names), "192.0.2.1:22");
        for name in [
            "*.a.example",
            "0.0.0.0/0",
            "192.0.2.7",
            "a.example:22",
            "a\nb",
        ] {
            let peer = peer("tls sni", Some(name), 443);
            assert_eq!(shown(&peer, &names), "nothing", "{name}");
        }
        assert_eq!(
            shown(&peer("dns name", Some("a.example"), 53), &names),
            "nothing"
        );
        names
            .0
            .insert("192.0.2.1".parse().unwrap(), "git.example".to_owned());
        assert_eq!(shown(&peer("tcp", None, 22), &names), "git.example:22");
    }

    #[test]
    fn witnesses_stand_in_the_policy() {
        let reached = BTreeMap::from([(peer("tls sni", Some("a.example"), 443), 3)]);
        let text = policy(
            &reached,
            &Names::default(),
            "169.254.53.53".parse().unwrap(),
            &["make".to_owned()],
        );
        assert!(
            text.contains(
                "#   a.example\n#     tls sni a.example (192.0.2.1:443), 3 connections\n"
            ),
            "{text}"
        );
        assert!(text.contains("names_web"), "{text}");
    }
}
