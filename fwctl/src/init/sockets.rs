// SPDX-License-Identifier: GPL-2.0-or-later
//! The kernel's tables of sockets in this network namespace, and the processes that hold the sockets.

use std::collections::HashMap;
use std::net::SocketAddr;

use procfs::net::{TcpState, UdpState};
use procfs::process::{all_processes, FDTarget, Process};

use super::arguments::Protocol;

/// A process that holds a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub pid: i32,
    /// Effective user of the process.
    pub uid: u32,
    /// Name of the program, which the program can change.
    pub name: String,
}

/// State of a socket, as far as `init` needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Listening,
    Established,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    pub protocol: Protocol,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    pub state: State,
    /// User who owns the socket.
    pub uid: u32,
    /// Processes that hold the socket; empty if they belong to another user and this process is not root.
    pub owners: Vec<Owner>,
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Returns a process as an owner. The user comes from the process's status, because /proc/PID belongs to root if the
/// process can't be dumped.
fn owner(process: &Process) -> Option<Owner> {
    let status = process.status().ok()?;
    Some(Owner {
        pid: process.pid,
        uid: status.euid,
        name: status.name,
    })
}

/// Returns the processes that hold sockets, by the sockets' inodes. A process that ends meanwhile is left out.
fn owners() -> HashMap<u64, Vec<Owner>> {
    let mut all: HashMap<u64, Vec<Owner>> = HashMap::new();
    for process in all_processes().into_iter().flatten().flatten() {
        let Some(owner) = owner(&process) else {
            continue;
        };
        for descriptor in process.fd().into_iter().flatten().flatten() {
            if let FDTarget::Socket(inode) = descriptor.target {
                let owners = all.entry(inode).or_default();
                if !owners.contains(&owner) {
                    owners.push(owner.clone());
                }
            }
        }
    }
    all
}

/// Returns all listening and connected sockets of TCP and UDP. A table that can't be read counts as empty: a kernel
/// without IPv6 lacks two tables.
pub fn all() -> Vec<Socket> {
    use procfs::net::{tcp, tcp6, udp, udp6};
    let mut owners = owners();
    let mut socket = |protocol, local, remote, state, uid, inode| Socket {
        protocol,
        local: canonical(local),
        remote: canonical(remote),
        state,
        uid,
        owners: owners.remove(&inode).unwrap_or_default(),
    };
    let mut all = Vec::new();
    for one in [tcp(), tcp6()].into_iter().flatten().flatten() {
        let state = match one.state {
            TcpState::Listen => State::Listening,
            TcpState::Established => State::Established,
            _ => continue,
        };
        let (local, remote) = (one.local_address, one.remote_address);
        all.push(socket(
            Protocol::Tcp,
            local,
            remote,
            state,
            one.uid,
            one.inode,
        ));
    }
    for one in [udp(), udp6()].into_iter().flatten().flatten() {
        let state = match one.state {
            UdpState::Close => State::Listening,
            UdpState::Established => State::Established,
        };
        let (local, remote) = (one.local_address, one.remote_address);
        all.push(socket(
            Protocol::Udp,
            local,
            remote,
            state,
            one.uid,
            one.inode,
        ));
    }
    all
}

impl Socket {
    /// Returns true if other hosts can reach the socket: it is not connected, and not bound to loopback.
    pub fn is_offered(&self) -> bool {
        self.state == State::Listening && !self.local.ip().is_loopback()
    }
}
