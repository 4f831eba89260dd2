// SPDX-License-Identifier: GPL-2.0-or-later
//! The shipped policies that read names, and an unprivileged program that searches for holes: it binds any source port
//! and sends a denied name to any port of a server. No port of the server may receive such a message completely.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{ensure, Context};
use nix::errno::Errno;
use nix::sys::socket::{
    bind, connect, setsockopt, socket, sockopt, AddressFamily, SockFlag, SockType, SockaddrStorage,
};
use nix::sys::time::{TimeVal, TimeValLike};
use testbed::folder::Folder;
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::place::{namespace, restore};

use testbed::twin::{root, Twin};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::start;
use crate::evasion::hello;
use crate::evasion::net::{Net, Sees, SERVER, SERVER_6};
use crate::evasion::queries::question;
use crate::evasion::quic::first_datagram;
use crate::evasion::quic::setting::Setting::QuinnV4;
use crate::evasion::wire::Version;
use crate::evasion::{self, By};

pub const ROWS: &[Row] = &[
    ("shipped-egress-names", egress_names),
    ("shipped-family-filter", family_filter),
    ("shipped-dns-guard", dns_guard),
    ("shipped-family-filter-evasions", evasions),
];

/// Source ports of the client: those of services; 0 = any port.
pub const OWN_PORTS: [u16; 6] = [0, 22, 53, 80, 443, 853];
const NAMES_OF_EVASION: &str = r#"elements = { "denied.example", "*.denied.example" }"#;
/// Time limit of a connect, in milliseconds.
const CONNECTED_MS: i64 = 300;

/// Protocol of a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Tls,
    Http,
    DnsTcp,
    DnsUdp,
    Quic,
    Other,
}

pub const KINDS: [Kind; 6] = [
    Kind::Tls,
    Kind::Http,
    Kind::DnsTcp,
    Kind::DnsUdp,
    Kind::Quic,
    Kind::Other,
];

impl Kind {
    pub fn is_udp(self) -> bool {
        matches!(self, Kind::DnsUdp | Kind::Quic)
    }

    /// Returns a message of this protocol that shows a name.
    /// - number: number of the client, for QUIC.
    fn message(self, name: &str, number: u16) -> anyhow::Result<Vec<u8>> {
        Ok(match self {
            Kind::Tls => hello::tls(name, 0).bytes,
            Kind::Http => format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n").into_bytes(),
            Kind::DnsTcp => question(name),
            Kind::DnsUdp => question(name)[2..].to_vec(),
            Kind::Quic => first_datagram(name, number, 1)?,
            Kind::Other => b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        })
    }
}

/// Ports of a try: the client's, the server's.
pub type Ports = (u16, u16);

/// Namespaces of client and server, with the server's addresses.
pub struct Scene<'a> {
    pub client: &'a Namespace,
    pub server: &'a Namespace,
    pub addresses: [IpAddr; 2],
    /// Ports of the server.
    pub ports: &'a [u16],
}

/// Returns a client's socket, connected to a server and bound to a port.
/// - own: the client's port; 0 = any port.
fn bound(to: SocketAddr, kind: SockType, own: u16) -> nix::Result<std::os::fd::OwnedFd> {
    let (family, any) = match to {
        SocketAddr::V4(_) => (AddressFamily::Inet, IpAddr::from([0; 4])),
        SocketAddr::V6(_) => (AddressFamily::Inet6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let socket = socket(family, kind, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    setsockopt(
        &socket,
        sockopt::SendTimeout,
        &TimeVal::milliseconds(CONNECTED_MS),
    )?;
    let own = SockaddrStorage::from(SocketAddr::new(any, own));
    // With this option, closing the socket sends a reset, so that the ports can be used again at once.
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&socket, sockopt::Linger, &linger)?;
    bind(socket.as_raw_fd(), &own)?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(socket)
}

/// Sends a message from a port. Returns the socket, which keeps the connection open, and the ports; None if the client
/// can't connect.
/// - own: the client's port; 0 = any port.
fn send(
    to: SocketAddr,
    kind: Kind,
    own: u16,
    name: &str,
) -> anyhow::Result<Option<(TcpOrUdp, Ports)>> {
    static CLIENTS: AtomicU16 = AtomicU16::new(1);
    let message = kind.message(name, CLIENTS.fetch_add(1, Ordering::Relaxed))?;
    let type_ = match kind.is_udp() {
        true => SockType::Datagram,
        false => SockType::Stream,
    };
    let socket = bound(to, type_, own);
    let socket = match socket {
        Ok(socket) => socket,
        Err(Errno::EADDRINUSE) => return Err(anyhow::anyhow!("port {own} is in use")),
        Err(_) => return Ok(None),
    };
    if kind.is_udp() {
        let socket = UdpSocket::from(socket);
        let ports = (socket.local_addr()?.port(), to.port());
        let _ = socket.send(&message);
        return Ok(Some((TcpOrUdp::Udp(socket), ports)));
    }
    let mut stream = TcpStream::from(socket);
    let ports = (stream.local_addr()?.port(), to.port());
    let _ = stream.write_all(&message);
    Ok(Some((TcpOrUdp::Tcp(stream), ports)))
}

#[allow(dead_code, reason = "kept open until the server has been looked at")]
enum TcpOrUdp {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// Sockets of the server, on each of its ports.
struct Server {
    streams: Vec<TcpListener>,
    datagrams: Vec<UdpSocket>,
}

impl Server {
    fn new(scene: &Scene) -> anyhow::Result<Server> {
        let mut server = Server {
            streams: Vec::new(),
            datagrams: Vec::new(),
        };
        for port in scene.ports {
            let at = SocketAddr::from((Ipv6Addr::UNSPECIFIED, *port));
            let stream = scene.server.enter(|| TcpListener::bind(at))?;
            stream.set_nonblocking(true)?;
            server.streams.push(stream);
            let datagram = scene.server.enter(|| UdpSocket::bind(at))?;
            datagram.set_nonblocking(true)?;
            server.datagrams.push(datagram);
        }
        Ok(server)
    }

    /// Returns the ports of received messages: streams with at least `bytes` bytes, and all datagrams.
    /// - streams: in/out: accepted connections, with the number of bytes that each has received.
    fn heard(&self, bytes: usize, streams: &mut Vec<(TcpStream, Ports, usize)>) -> BTreeSet<Ports> {
        let mut heard = BTreeSet::new();
        for listener in &self.streams {
            let port = listener.local_addr().map_or(0, |address| address.port());
            while let Ok((stream, peer)) = listener.accept() {
                let _ = stream.set_nonblocking(true);
                streams.push((stream, (peer.port(), port), 0));
            }
        }
        for (stream, ports, got) in streams {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut part) {
                *got += read;
            }
            if *got >= bytes {
                heard.insert(*ports);
            }
        }
        for socket in &self.datagrams {
            let port = socket.local_addr().map_or(0, |address| address.port());
            let mut part = [0; 4096];
            while let Ok((_, peer)) = socket.recv_from(&mut part) {
                heard.insert((peer.port(), port));
            }
        }
        heard
    }
}

impl Scene<'_> {
    /// Sends messages of a kind from each of OWN_PORTS to each port of the server, and then an allowed message: when
    /// that arrives, all earlier messages are decided. Returns the ports between which messages arrived, without those
    /// of the allowed message.
    /// - allowed: kind, name and server's port of the allowed message.
    pub fn round(
        &self,
        kind: Kind,
        name: &str,
        allowed: (Kind, &str, u16),
    ) -> anyhow::Result<BTreeSet<Ports>> {
        let server = Server::new(self)?;
        let mut heard = BTreeSet::new();
        for address in self.addresses {
            let tries = OWN_PORTS
                .iter()
                .flat_map(|own| self.ports.iter().map(move |port| (*own, *port)));
            let sent: Vec<_> = std::thread::scope(|scope| {
                let send = |(own, port): (u16, u16)| {
                    let to = SocketAddr::new(address, port);
                    scope.spawn(move || self.client.enter(|| send(to, kind, own, name)))
                };
                let threads: Vec<_> = tries.map(send).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().expect("no panic"))
                    .collect()
            });
            let sent = sent.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
            let to = SocketAddr::new(address, allowed.2);
            let mut honest = None;
            until("the allowed connection begins", PATIENCE, || {
                honest = self.client.enter(|| send(to, allowed.0, 0, allowed.1))?;
                Ok(honest.is_some())
            })?;
            let (_honest, ports) = honest.context("the allowed connection has ended")?;
            let bytes = kind.message(name, 0)?.len();
            let last = allowed.0.message(allowed.1, 0)?.len();
            let mut streams = Vec::new();
            until("the allowed message comes", PATIENCE, || {
                let came = server.heard(bytes.min(last), &mut streams);
                heard.extend(came.iter().filter(|came| **came != ports));
                Ok(came.contains(&ports))
            })?;
            drop(sent);
        }
        Ok(heard)
    }

    /// Tries each kind with a denied name. Fails if a message arrives for which `is_denied` returns true.
    /// - allowed: allowed message that is sent last, see `round`.
    /// - is_denied: receives the kind of the message and the server's port.
    pub fn try_all(
        &self,
        denied: &str,
        allowed: (Kind, &str, u16),
        is_denied: &dyn Fn(Kind, u16) -> bool,
    ) -> anyhow::Result<()> {
        for kind in KINDS {
            let heard = self.round(kind, denied, allowed)?;
            let holes: Vec<_> = heard
                .iter()
                .filter(|(_, port)| is_denied(kind, *port))
                .collect();
            ensure!(
                holes.is_empty(),
                "{kind:?} with {denied} came by (own port, server's port) {holes:?}"
            );
        }
        Ok(())
    }
}

/// Copies a shipped policy and changes values that its comment tells the operator to change. Returns folder and file.
/// - changed: old and new text of each value.
pub fn shipped(name: &str, changed: &[(&str, &str)]) -> anyhow::Result<(Folder, String)> {
    let folder = Folder::shared()?;
    let policies = root().join("rules/policy");
    let mut text = std::fs::read_to_string(policies.join(format!("{name}.nft")))?;
    for (from, to) in changed {
        ensure!(text.contains(from), "{name} has no {from} to be changed");
        text = text.replace(from, to);
    }
    if let Ok(list) = std::fs::read_to_string(policies.join(format!("{name}.names"))) {
        folder.write(&format!("{name}.names"), list)?;
    }
    let file = folder.write("policy.nft", text)?;
    Ok((folder, file))
}

/// Checks that the policy egress-names, in a firewall on the client's host, drops all messages with a name that is not
/// on its list, and all without a name.
fn egress_names(twin: Twin) -> anyhow::Result<()> {
    const DENIED: &str = "denied.example";
    let allowed = (Kind::Tls, "api.example.com", 443);
    let (client, server) = (namespace()?, namespace()?);
    Namespace::veth_pair(&client, &server)?;
    let scene = Scene {
        client: &client,
        server: &server,
        addresses: [VETH_IPV4.1, VETH_IPV6.1],
        ports: &[22, 53, 80, 443, 853, 8443],
    };
    for tool in ["iptables", "ip6tables"] {
        restore(&client, tool, "-A OUTPUT -j NFQUEUE\n-A INPUT -j NFQUEUE")?;
    }
    let (_folder, file) = shipped("egress-names", &[])?;
    let firewall = start(&client, twin, &["--policy", &file])?;
    scene.try_all(DENIED, allowed, &|_, _| true)?;
    firewall.finish()?;
    let (v4, v6) = (VETH_IPV4.1.to_string(), VETH_IPV6.1.to_string());
    let resolvers = [("192.0.2.53", v4.as_str()), ("2001:db8::53", v6.as_str())];
    let (_folder, file) = shipped("egress-names", &resolvers)?;
    let firewall = start(&client, twin, &["--policy", &file])?;
    scene.try_all(DENIED, allowed, &|_, _| true)?;
    firewall.finish().map(drop)
}

/// Returns a scene in which a gateway forwards the packets.
fn forwarded(net: &Net) -> Scene<'_> {
    Scene {
        client: &net.client,
        server: &net.server,
        addresses: [IpAddr::from(SERVER), IpAddr::from(SERVER_6)],
        ports: &[22, 53, 853, 8080, 8443],
    }
}

const FORWARDED: (Kind, &str, u16) = (Kind::Tls, "allowed.example", 8443);

/// Checks the shipped policy family-filter with a name that its list denies. First, without a firewall, all messages
/// must arrive.
fn family_filter(twin: Twin) -> anyhow::Result<()> {
    const DENIED: &str = "www.casino.example";
    let net = Net::new(Sees::Both)?;
    let scene = forwarded(&net);
    for kind in KINDS {
        let heard = scene.round(kind, DENIED, FORWARDED)?;
        let all = OWN_PORTS.len() * scene.ports.len();
        ensure!(
            heard.len() >= all,
            "without a firewall {kind:?} came by {heard:?} only"
        );
    }
    let (_folder, file) = shipped("family-filter", &[])?;
    let arguments = ["--policy", &file, "--log-level", "warning"];
    let firewall = start(&net.firewall, twin, &arguments)?;
    scene.try_all(DENIED, FORWARDED, &|kind, port| match kind {
        Kind::Tls | Kind::Http | Kind::Quic => true,
        // On port 53 only DNS queries for other names pass; on port 853 nothing passes.
        Kind::DnsTcp | Kind::DnsUdp | Kind::Other => port == 53 || port == 853,
    })?;
    firewall.finish().map(drop)
}

/// Checks that the policy dns-guard drops all messages to port 53 of a host that is not one of the policy's resolvers,
/// and to a resolver those with a name outside the public DNS.
fn dns_guard(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let scene = forwarded(&net);
    let (_folder, file) = shipped("dns-guard", &[])?;
    let firewall = start(&net.firewall, twin, &["--policy", &file])?;
    scene.try_all("allowed.example", FORWARDED, &|_, port| port == 53)?;
    firewall.finish()?;
    let (v4, v6) = (
        IpAddr::from(SERVER).to_string(),
        IpAddr::from(SERVER_6).to_string(),
    );
    let resolvers = [("192.0.2.53", v4.as_str()), ("2001:db8::53", v6.as_str())];
    let (_folder, file) = shipped("dns-guard", &resolvers)?;
    let firewall = start(&net.firewall, twin, &["--policy", &file])?;
    scene.try_all("printer.local", FORWARDED, &|_, port| port == 53)?;
    firewall.finish().map(drop)
}

/// Tries the ways of the part evasion with family-filter, with the evasion's denied names on its list.
fn evasions(twin: Twin) -> anyhow::Result<()> {
    let policy = root().join("rules/policy/family-filter.nft");
    let text = std::fs::read_to_string(policy)?;
    let file = "file \"family-filter.names\"";
    ensure!(text.contains(file), "family-filter has no {file}");
    let text = text.replace(file, NAMES_OF_EVASION);
    evasion::hold(By::Twin(twin), Sees::Both, Version::V4, &text)?;
    evasion::quic::hold(By::Twin(twin), QuinnV4, &text)
}
