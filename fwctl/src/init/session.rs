// SPDX-License-Identifier: GPL-2.0-or-later
//! SSH session in which this process runs, and ports of the SSH servers of this host.
//!
//! SSH_CONNECTION can't be trusted: sudo removes it, and any user can set it. Only a connection in the kernel's table
//! of sockets counts: an established connection of root to an SSH server's port. Either an SSH server of root
//! among the ancestors of this process holds it, or SSH_CONNECTION names it (a shell in tmux has no SSH server among
//! its ancestors).

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use procfs::process::Process;

use super::arguments::Protocol;
use super::docker;
use super::sockets::{Owner, Socket, State};

const SSH: u16 = 22;
/// Prefixes of the names of SSH servers' programs. OpenSSH 9.8 has sshd-session.
const SERVERS: [&str; 2] = ["sshd", "dropbear"];
/// Maximum number of ancestors of this process that are examined.
const ANCESTORS_MAX: usize = 64;

/// Connection of an SSH session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    pub client: SocketAddr,
    pub server: SocketAddr,
}

/// Result of the search for the SSH session in which this process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub session: Option<Session>,
    /// True if SSH_CONNECTION names a connection, and `session` is None or another connection.
    pub is_claim_false: bool,
}

impl Found {
    /// Returns the reason why SSH_CONNECTION is not believed; None if it is believed or missing.
    pub fn disbelief(&self) -> Option<&'static str> {
        match (self.is_claim_false, self.session) {
            (false, _) => None,
            (true, Some(_)) => Some("this session has another connection"),
            (true, None) => Some("no SSH server of this host has that connection"),
        }
    }
}

fn is_server(owner: &Owner) -> bool {
    owner.uid == 0 && SERVERS.iter().any(|name| owner.name.starts_with(name))
}

/// Returns the ports at which SSH servers accept connections of other hosts. Any listener at port 22 counts, except
/// Docker's proxy.
pub fn ports(sockets: &[Socket]) -> BTreeSet<u16> {
    let is_usual = |one: &Socket| {
        let is_container = |owner: &Owner| owner.name == docker::PROXY;
        one.local.port() == SSH && !one.owners.iter().any(is_container)
    };
    let of_ssh = |one: &&Socket| {
        one.protocol == Protocol::Tcp
            && one.is_offered()
            && (is_usual(one) || one.owners.iter().any(is_server))
    };
    let found = sockets.iter().filter(of_ssh);
    found.map(|one| one.local.port()).collect()
}

/// Parses SSH_CONNECTION: `CLIENT PORT SERVER PORT`.
fn claim(text: &str) -> Option<Session> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [client, client_port, server, server_port] = words[..] else {
        return None;
    };
    let end = |address: &str, port: &str| {
        let address: IpAddr = address.parse().ok()?;
        Some(SocketAddr::new(address.to_canonical(), port.parse().ok()?))
    };
    Some(Session {
        client: end(client, client_port)?,
        server: end(server, server_port)?,
    })
}

/// Returns the process ids of the ancestors of this process, the parent first.
pub fn ancestors() -> Vec<i32> {
    let parent = |pid: i32| {
        let stat = Process::new(pid).ok()?.stat().ok()?;
        (stat.ppid > 0).then_some(stat.ppid)
    };
    let own = i32::try_from(std::process::id()).ok();
    let all = std::iter::successors(own, |pid| parent(*pid));
    all.skip(1).take(ANCESTORS_MAX).collect()
}

/// Finds the SSH session in which this process runs.
/// - ancestors: process ids of the ancestors of this process.
/// - claimed: value of SSH_CONNECTION.
pub fn find(sockets: &[Socket], ancestors: &[i32], claimed: Option<&str>) -> Found {
    let ports = ports(sockets);
    let sessions = sockets.iter().filter(|one| {
        one.protocol == Protocol::Tcp
            && one.state == State::Established
            && one.uid == 0
            && ports.contains(&one.local.port())
    });
    let of = |one: &Socket| Session {
        client: one.remote,
        server: one.local,
    };
    let claimed = claimed.and_then(claim);
    let is_claimed = |one: &&Socket| Some(of(one)) == claimed;
    let is_ours = |one: &&Socket| {
        let mut owners = one.owners.iter();
        owners.any(|owner| is_server(owner) && ancestors.contains(&owner.pid))
    };
    let ours: Vec<&Socket> = sessions.clone().filter(is_ours).collect();
    let found = (ours.iter().copied().find(|one| is_claimed(one)))
        .or(ours.first().copied())
        .or_else(|| sessions.clone().find(is_claimed));
    let session = found.map(of);
    Found {
        session,
        is_claim_false: claimed.is_some() && claimed != session,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(pid: i32, uid: u32, name: &str) -> Owner {
        let name = name.to_owned();
        Owner { pid, uid, name }
    }

    fn socket(local: &str, remote: &str, owner: Owner) -> Socket {
        let remote: SocketAddr = remote.parse().unwrap();
        Socket {
            protocol: Protocol::Tcp,
            local: local.parse().unwrap(),
            remote,
            state: match remote.port() {
                0 => State::Listening,
                _ => State::Established,
            },
            uid: owner.uid,
            owners: vec![owner],
        }
    }

    /// Returns the sockets of an SSH server at port 2222, of a session (process 20) with a tunnel, and of other
    /// processes.
    fn sockets() -> Vec<Socket> {
        vec![
            socket("0.0.0.0:2222", "0.0.0.0:0", owner(10, 0, "sshd")),
            socket("127.0.0.1:6010", "0.0.0.0:0", owner(20, 0, "sshd")),
            socket("127.0.0.1:6010", "127.0.0.1:40000", owner(20, 0, "sshd")),
            socket("192.0.2.1:2222", "198.51.100.7:5000", owner(20, 0, "sshd")),
            socket(
                "192.0.2.1:2222",
                "198.51.100.8:6000",
                owner(30, 0, "sshd-session"),
            ),
            socket(
                "192.0.2.1:4444",
                "203.0.113.1:7000",
                owner(40, 1000, "sshd"),
            ),
            socket("0.0.0.0:4444", "0.0.0.0:0", owner(40, 1000, "sshd")),
        ]
    }

    fn client(ancestors: &[i32], claimed: Option<&str>) -> (Option<String>, bool) {
        let found = find(&sockets(), ancestors, claimed);
        let client = found.session.map(|session| session.client.to_string());
        (client, found.is_claim_false)
    }

    #[test]
    fn the_server_among_the_ancestors_tells_the_session() {
        let seven = Some("198.51.100.7:5000".to_owned());
        assert_eq!(client(&[21, 20, 10, 1], None), (seven.clone(), false));
        let claimed = "198.51.100.7 5000 192.0.2.1 2222";
        assert_eq!(client(&[20], Some(claimed)), (seven.clone(), false));
        // A claim of another session of this host is not believed.
        let other = "198.51.100.8 6000 192.0.2.1 2222";
        assert_eq!(client(&[20], Some(other)), (seven, true));
    }

    #[test]
    fn the_reason_of_disbelief_is_true() {
        let why = |ancestors, claimed| find(&sockets(), ancestors, Some(claimed)).disbelief();
        let (seven, eight) = (
            "198.51.100.7 5000 192.0.2.1 2222",
            "198.51.100.8 6000 192.0.2.1 2222",
        );
        assert_eq!(why(&[20], seven), None);
        assert_eq!(
            why(&[20], eight),
            Some("this session has another connection")
        );
        let unknown = "198.51.100.8 6001 192.0.2.1 2222";
        assert_eq!(
            why(&[1], unknown),
            Some("no SSH server of this host has that connection")
        );
    }

    #[test]
    fn a_claim_alone_must_be_a_connection_of_a_server_of_roots() {
        let claimed = "198.51.100.8 6000 192.0.2.1 2222";
        let eight = Some("198.51.100.8:6000".to_owned());
        assert_eq!(client(&[1], Some(claimed)), (eight, false));
        for false_claim in [
            "198.51.100.8 6001 192.0.2.1 2222",
            "203.0.113.1 7000 192.0.2.1 4444",
            "127.0.0.1 40000 127.0.0.1 6010",
        ] {
            assert_eq!(
                client(&[1], Some(false_claim)),
                (None, true),
                "{false_claim}"
            );
        }
        assert_eq!(client(&[40, 1], None), (None, false));
        assert_eq!(client(&[1], Some("monster")), (None, false));
    }

    #[test]
    fn ports_of_servers() {
        let mut all = sockets();
        all.push(socket(
            "0.0.0.0:22",
            "0.0.0.0:0",
            owner(50, 0, "docker-proxy"),
        ));
        assert_eq!(ports(&all), BTreeSet::from([2222]));
        all.push(socket("[::]:22", "[::]:0", owner(1, 0, "systemd")));
        assert_eq!(ports(&all), BTreeSet::from([22, 2222]));
    }
}
