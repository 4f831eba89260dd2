// SPDX-License-Identifier: GPL-2.0-or-later
//! Facts about this host and wishes of its administrator, from which a policy is made.

use std::collections::BTreeSet;
use std::net::IpAddr;

use cage::allow::{Allowed, Host as Peer};

use super::arguments::{Origin, Ports, Prefix, Protocol};
use super::session::Found;
use super::sockets::Socket;
use super::{docker, resolvers, session, sockets};
use crate::failure::{Exit, Failure};

const SSH: u16 = 22;

/// A port that a program of this host offers to other hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offer {
    pub ports: Ports,
    /// Name of the program that listens at the port; empty if it is unknown.
    pub program: String,
}

/// Facts about this host, from which its policy is made.
#[derive(Debug, Default)]
pub struct Host {
    pub ssh: Found,
    pub ssh_ports: BTreeSet<u16>,
    pub offers: BTreeSet<Offer>,
    /// Ports that Docker publishes.
    pub published: BTreeSet<Ports>,
    /// DNS servers on other hosts.
    pub resolvers: Vec<IpAddr>,
}

/// Wishes of the administrator, from which the host's policy is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Addresses from which SSH is allowed; empty = all.
    pub ssh_from: Vec<Prefix>,
    /// Ports of SSH; empty = no SSH.
    pub ssh_ports: BTreeSet<u16>,
    pub open: BTreeSet<Ports>,
    /// Destinations that this host may reach; empty = all.
    pub allow: Vec<Allowed>,
}

impl Offer {
    /// Returns true if the offer is SSH.
    /// - ssh_ports: TCP ports of SSH.
    pub fn is_ssh(&self, ssh_ports: &BTreeSet<u16>) -> bool {
        self.ports.protocol == Protocol::Tcp && ssh_ports.contains(&self.ports.first)
    }
}

fn offer(socket: &Socket) -> Offer {
    let program = socket.owners.first().map(|owner| owner.name.clone());
    Offer {
        ports: Ports::one(socket.protocol, socket.local.port()),
        program: program.unwrap_or_default(),
    }
}

impl Host {
    /// Finds the facts of this host.
    pub fn find() -> Host {
        let sockets = sockets::all();
        let claimed = std::env::var("SSH_CONNECTION").ok();
        let offered = sockets.iter().filter(|socket| socket.is_offered());
        Host {
            ssh: session::find(&sockets, &session::ancestors(), claimed.as_deref()),
            ssh_ports: session::ports(&sockets),
            offers: offered.map(offer).collect(),
            published: docker::ports(),
            resolvers: resolvers::find(),
        }
    }
}

fn refused(text: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Usage, text)
}

impl Wish {
    /// Completes the wishes by facts about the host. Fails if they would end the present SSH session, or contradict
    /// each other.
    /// - ssh_from: empty = all addresses.
    pub fn new(
        host: &Host,
        ssh_from: &[Origin],
        open: impl IntoIterator<Item = Ports>,
        allow: Vec<Allowed>,
    ) -> Result<Wish, Failure> {
        let prefix = |from: &Origin| match from {
            Origin::Any => None,
            Origin::Prefix(prefix) => Some(*prefix),
        };
        let prefixes: Vec<Prefix> = ssh_from.iter().filter_map(prefix).collect();
        let is_any = prefixes.len() < ssh_from.len();
        let mut ssh_ports = host.ssh_ports.clone();
        if ssh_ports.is_empty() && !ssh_from.is_empty() {
            ssh_ports.insert(SSH);
        }
        let wish = Wish {
            ssh_from: if is_any { Vec::new() } else { prefixes },
            ssh_ports,
            open: open.into_iter().collect(),
            allow,
        };
        wish.check_session(host)?;
        wish.check_ports()?;
        Ok(wish)
    }

    fn check_session(&self, host: &Host) -> Result<(), Failure> {
        let Some(session) = host.ssh.session else {
            return Ok(());
        };
        let address = session.client.ip();
        let is_held = |prefix: &Prefix| prefix.holds(&address);
        match self.ssh_from.is_empty() || self.ssh_from.iter().any(is_held) {
            true => Ok(()),
            false => Err(refused(format_args!(
                "--ssh-from would end this session, which comes from {address}: add --ssh-from {address}"
            ))),
        }
    }

    fn check_ports(&self) -> Result<(), Failure> {
        let is_open = |port: &&u16| {
            let port = Ports::one(Protocol::Tcp, **port);
            self.open.iter().any(|ports| ports.hold(&port))
        };
        match self.ssh_ports.iter().find(is_open) {
            Some(port) if !self.ssh_from.is_empty() => Err(refused(format_args!(
                "--open {port} opens SSH from everywhere, which contradicts --ssh-from: leave out one of the two"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the names that this host may reach.
    pub fn names(&self) -> Vec<&str> {
        let hosts = self.allow.iter().map(|one| &one.host);
        let names = hosts.filter_map(|host| match host {
            Peer::Name(name) => Some(name.as_str()),
            Peer::Net(..) => None,
        });
        names.collect()
    }

    /// Returns the prefixes that this host may reach, each with its port; None: all ports.
    pub fn prefixes(&self) -> Vec<(Prefix, Option<u16>)> {
        let prefix = |one: &Allowed| match one.host {
            Peer::Net(address, bits) => Some((Prefix { address, bits }, one.port)),
            Peer::Name(_) => None,
        };
        self.allow.iter().filter_map(prefix).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::init::session::Session;

    fn host() -> Host {
        let session = Session {
            client: "198.51.100.7:5000".parse().unwrap(),
            server: "192.0.2.1:22".parse().unwrap(),
        };
        Host {
            ssh: Found {
                session: Some(session),
                is_claim_false: false,
            },
            ssh_ports: BTreeSet::from([22]),
            ..Host::default()
        }
    }

    fn wish(host: &Host, from: &[&str], open: &[&str]) -> Result<Wish, String> {
        let from: Vec<Origin> = from.iter().map(|text| text.parse().unwrap()).collect();
        let open = open.iter().map(|text| text.parse().unwrap());
        Wish::new(host, &from, open, Vec::new()).map_err(|failure| failure.text)
    }

    #[test]
    fn the_session_is_not_ended() {
        let host = host();
        assert!(wish(&host, &[], &[]).is_ok());
        assert!(wish(&host, &["203.0.113.1", "198.51.100.0/24"], &[]).is_ok());
        assert!(wish(&host, &["203.0.113.1", "any"], &[]).is_ok());
        let said = wish(&host, &["203.0.113.1"], &[]).unwrap_err();
        assert!(said.contains("add --ssh-from 198.51.100.7"), "{said}");
        assert!(wish(&host, &["2001:db8::/32"], &[]).is_err());
    }

    #[test]
    fn ssh_is_a_port_of_tcp() {
        let is_ssh = |ports: &str| {
            let offer = Offer {
                ports: ports.parse().unwrap(),
                program: String::new(),
            };
            offer.is_ssh(&host().ssh_ports)
        };
        assert!(is_ssh("22") && !is_ssh("22/udp") && !is_ssh("23"));
    }

    #[test]
    fn an_open_port_is_not_restricted() {
        let host = host();
        assert!(wish(&host, &[], &["20-30"]).is_ok());
        let said = wish(&host, &["198.51.100.7"], &["20-30"]).unwrap_err();
        assert!(said.contains("--open 22 opens SSH"), "{said}");
        assert!(wish(&host, &["198.51.100.7"], &["22/udp"]).is_ok());
    }

    #[test]
    fn without_a_server_ssh_is_open_if_it_is_wished() {
        let none = Host::default();
        assert_eq!(wish(&none, &[], &[]).unwrap().ssh_ports, BTreeSet::new());
        let any = wish(&none, &["any"], &[]).unwrap();
        assert_eq!(any.ssh_ports, BTreeSet::from([22]));
    }
}
