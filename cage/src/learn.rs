// SPDX-License-Identifier: GPL-2.0-or-later
//! Derives the sufficient policy for a command from its connections.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::allow::{Allowed, Host};
use crate::event::Peer;
use crate::failure::Failure;
use crate::{policy, safe};

const HTTP: u16 = 80;
const HTTPS: u16 = 443;
const DNS: u16 = 53;
/// Maximum number of queried names that are resolved.
const NAMES_MAX: usize = 10_000;
/// Maximum wait for the host's resolver, after the command has ended.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Comment in a learned policy: connections that the policy denies, although they were accepted while it was learned.
const LIMITS: &str = "\
# This policy denies two kinds of connections even if the command had them: UDP without a name, such as NTP, which is
# not recorded; and connections to ports 443 and 80 that show no name and whose address came from DNS, such as SSH at
# port 443. Add rules that accept their addresses.
";

/// Names that the command queried in DNS, by their addresses. The addresses are from the host's resolver.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<IpAddr, String>);

/// Resolver of names: a thread that waits for the host's resolver while the command runs.
pub struct Lookup {
    asked: BTreeSet<String>,
    to: Sender<String>,
    answers: Receiver<(IpAddr, String)>,
}

impl Lookup {
    pub fn start() -> Lookup {
        let (to, from) = mpsc::channel::<String>();
        let (found, answers) = mpsc::channel();
        thread::spawn(move || {
            for name in from {
                for address in (name.as_str(), 0).to_socket_addrs().into_iter().flatten() {
                    let _ = found.send((address.ip(), name.clone())); // `finish` may have given up
                }
            }
        });
        let asked = BTreeSet::new();
        Lookup { asked, to, answers }
    }

    /// Records the name of a DNS query. The host resolves it again, because the firewall does not report answers.
    pub fn ask(&mut self, name: String) {
        if self.asked.len() < NAMES_MAX && self.asked.insert(name.clone()) {
            let _ = self.to.send(name); // without the thread no name is found
        }
    }

    /// Waits for the last answer, but not longer than `patience`; returns the addresses of the answers so far.
    pub fn finish(self, patience: Duration) -> Names {
        let Lookup { to, answers, .. } = self;
        drop(to);
        let end = Instant::now() + patience;
        let mut names = Names::default();
        let next = || {
            let left = end.saturating_duration_since(Instant::now());
            answers.recv_timeout(left).ok()
        };
        for (address, name) in std::iter::from_fn(next) {
            names.0.entry(address).or_insert(name);
        }
        names
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

/// Returns true if a client shows an address in place of a name, as in `http://192.0.2.7/`.
fn is_address(name: &str) -> bool {
    let inner = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inner.unwrap_or(name).parse::<IpAddr>().is_ok()
}

/// Returns the destination to allow for a connection to this peer. None if no destination is needed (DNS) or possible.
fn needed(peer: &Peer, names: &Names) -> Option<Allowed> {
    let (address, port) = (peer.address?, peer.port?);
    if port == DNS {
        return None;
    }
    let is_web =
        (port == HTTPS && peer.kind != "http host") || (port == HTTP && peer.kind == "http host");
    let shows_address = peer.name.as_deref().is_some_and(is_address);
    let name = peer.name.as_ref().or_else(|| names.0.get(&address));
    let host = match name.filter(|_| !shows_address) {
        Some(name) => host(name)?,
        // The reached address: a client may show any other.
        None => Host::Net(address, if address.is_ipv4() { 32 } else { 128 }),
    };
    let port = if is_web && peer.name.is_some() && !shows_address {
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
    text + "#\n" + LIMITS + "\n" + &policy::of_allowed(&allowed, resolver, false)
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
            "[192.0.2.7",
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
        for name in ["192.0.2.1", "192.0.2.7", "[2001:db8::7]"] {
            let peer = peer("http host", Some(name), 80);
            assert_eq!(shown(&peer, &names), "192.0.2.1:80", "{name}");
        }
    }

    #[test]
    fn a_lookup_ends_although_the_resolver_hangs() {
        let (to, _from) = mpsc::channel();
        let (found, answers) = mpsc::channel();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        found.send((address, "a.example".to_owned())).unwrap();
        let asked = BTreeSet::new();
        // `found` stays open, as in a thread that waits for its next answer.
        let names = Lookup { asked, to, answers }.finish(Duration::ZERO);
        assert_eq!(names.0[&address], "a.example");
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
