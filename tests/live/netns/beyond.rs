// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets with headers beyond the copied bytes, or with malformed parts that the policy does not read: real sockets
//! receive their data only if --fail allows that.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::netns::Namespace;
use testbed::packets::{bind, ipv4, ipv6, socket, tcp, RawReceiver, RawSender};
use testbed::place::{namespace, restore, PORT};
use testbed::skip::skip;
use testbed::traffic::VAIN;
use testbed::wait::PATIENCE;
use twinwall_judge::packet::{folded, sum};

use super::policy::PolicyFile;
use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("beyond-the-copy-fails-closed", ports_closed),
    ("beyond-the-copy-fails-open", ports_open),
    ("beyond-eight-extension-headers", extensions),
    ("malformed-whatever-is-read-closed", offsets_closed),
    ("malformed-whatever-is-read-open", offsets_open),
];

const UDP: u8 = libc::IPPROTO_UDP as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP_LITE: u8 = libc::IPPROTO_UDPLITE as u8;
const DESTINATION: u8 = libc::IPPROTO_DSTOPTS as u8;
/// Option that nodes skip if they do not know it (RFC 4727). PadN is not used: the kernel refuses padding of this
/// length.
const EXPERIMENT: u8 = 0x1e;
const HEADER_BYTES: usize = 8;
/// Lengths of a header with destination options, in bytes. After a header of FAR bytes, the ports are beyond the 128
/// copied bytes.
const NEAR: usize = 80;
const FAR: usize = 88;

/// Returns a UDP or UDP-Lite datagram to PORT of ::1, whose checksum covers all of it.
fn datagram(protocol: u8, data: &[u8]) -> Vec<u8> {
    let length = ((HEADER_BYTES + data.len()) as u16).to_be_bytes();
    let mut datagram = [40000_u16.to_be_bytes(), PORT.to_be_bytes(), length].concat();
    datagram.extend([0, 0]);
    datagram.extend(data);
    let addresses = [Ipv6Addr::LOCALHOST.octets(); 2].concat();
    let pseudo = sum(&addresses, u32::from(protocol) + datagram.len() as u32);
    let checksum = folded(sum(&datagram, pseudo)).to_be_bytes();
    datagram[6..8].copy_from_slice(&checksum);
    datagram
}

/// Returns a header with destination options.
/// - next: type of the next header.
/// - bytes: length of the header.
fn options(next: u8, bytes: usize) -> Vec<u8> {
    let mut header = vec![next, (bytes / 8 - 1) as u8, EXPERIMENT, (bytes - 4) as u8];
    header.resize(bytes, 0);
    header
}

/// Returns a packet to ::1 with one header of destination options before a datagram.
/// - bytes: length of this header.
fn behind(protocol: u8, bytes: usize, data: &[u8]) -> Vec<u8> {
    let payload = [options(protocol, bytes), datagram(protocol, data)].concat();
    ipv6(6, DESTINATION, payload.len() as u16, &payload)
}

/// Returns a UDP packet to ::1 with this number of headers of destination options, 8 bytes each.
fn behind_many(count: usize, data: &[u8]) -> Vec<u8> {
    let mut payload = options(DESTINATION, 8).repeat(count - 1);
    payload.extend(options(UDP, 8));
    payload.extend(datagram(UDP, data));
    ipv6(6, DESTINATION, payload.len() as u16, &payload)
}

/// Returns a socket of an application, bound to PORT of ::1.
fn application(namespace: &Namespace, protocol: u8) -> anyhow::Result<UdpSocket> {
    let made = namespace.enter(|| socket(libc::AF_INET6, libc::SOCK_DGRAM, protocol.into()));
    let made = match made {
        Err(error) if error.raw_os_error() == Some(libc::EPROTONOSUPPORT) => {
            return Err(skip(format!("the kernel has no protocol {protocol}")));
        }
        made => made?,
    };
    let address = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), PORT);
    namespace.enter(|| bind(&made, address))?;
    Ok(UdpSocket::from(made))
}

/// Returns the datagram that an application receives within a time; None if there is none.
fn received(application: &UdpSocket, within: Duration) -> anyhow::Result<Option<Vec<u8>>> {
    let mut buffer = [0; 64];
    application.set_read_timeout(Some(within))?;
    match application.recv(&mut buffer) {
        Ok(bytes) => Ok(Some(buffer[..bytes].to_vec())),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns a policy that drops packets to PORT in the hook input, and accepts others.
fn port_closed() -> anyhow::Result<PolicyFile> {
    PolicyFile::new(&format!(
        "table inet filter {{\n\tchain input {{\n\t\ttype filter hook input priority 0; policy accept;\n\
         \t\tth dport {PORT} counter drop\n\t}}\n}}\n"
    ))
}

fn input_queued() -> anyhow::Result<Namespace> {
    let namespace = namespace()?;
    restore(&namespace, "ip6tables", "-A INPUT -s ::1 -d ::1 -j NFQUEUE")?;
    Ok(namespace)
}

/// Sends two datagrams over UDP and two over UDP-Lite, to a port that the policy closes: the ports of the first are
/// within the copied bytes, the ports of the second are beyond them. Checks that the first never arrives, and that the
/// second arrives if and only if `arrives` is true.
/// - fail: value of --fail.
fn ports(subject: &Subject, fail: &str, arrives: bool) -> anyhow::Result<()> {
    let namespace = input_queued()?;
    let policy = port_closed()?;
    let arguments = subject.with(&["--policy", &policy.path, "--fail", fail]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    for protocol in [UDP_LITE, UDP] {
        let application = application(&namespace, protocol)?;
        let sender = RawSender::new(&namespace, IpAddr::V6(Ipv6Addr::LOCALHOST))?;
        sender.send(&behind(protocol, NEAR, b"near"))?;
        sender.send(&behind(protocol, FAR, b"far"))?;
        let patience = if arrives { PATIENCE } else { VAIN };
        let got = received(&application, patience)?;
        let expected = arrives.then(|| b"far".to_vec());
        ensure!(got == expected, "protocol {protocol}: {got:?} arrived");
    }
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 4, 2)?;
    ensure!(
        stats.total.undecidable == 2,
        "not counted as undecidable: {stats:?}"
    );
    Ok(())
}

fn ports_closed(subject: &Subject) -> anyhow::Result<()> {
    ports(subject, "truncated=closed,malformed=open", false)
}

fn ports_open(subject: &Subject) -> anyhow::Result<()> {
    ports(subject, "truncated=open,malformed=closed", true)
}

/// Sends UDP packets with 8 to 14 extension headers to a port that the policy closes, with --malformed policy. More
/// than 8 headers are malformed. Checks that all packets are dropped: by the rule if the ports are within the copied
/// bytes, otherwise as undecidable.
fn extensions(subject: &Subject) -> anyhow::Result<()> {
    let namespace = input_queued()?;
    let policy = port_closed()?;
    let arguments = subject.with(&["--policy", &policy.path, "--malformed", "policy"]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    let application = application(&namespace, UDP)?;
    let sender = RawSender::new(&namespace, IpAddr::V6(Ipv6Addr::LOCALHOST))?;
    for count in [8, 9, 10, 11, 12, 14] {
        sender.send(&behind_many(count, b"many"))?;
    }
    let got = received(&application, VAIN)?;
    ensure!(got.is_none(), "{got:?} arrived");
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 4, 3)?;
    ensure!(
        stats.total.undecidable == 3,
        "not counted as undecidable: {stats:?}"
    );
    Ok(())
}

/// Checks TCP packets with a wrong header length, under a policy that reads only addresses.
/// - fail: value of --fail.
/// - arriving: number of packets that must arrive.
fn offsets(subject: &Subject, fail: &str, arriving: usize) -> anyhow::Result<()> {
    const LIES: [u8; 3] = [1, 2, 15];
    let namespace = namespace()?;
    restore(&namespace, "iptables", "-A OUTPUT -p tcp -j NFQUEUE")?;
    let policy = PolicyFile::new(
        "table ip filter {\n\tchain output {\n\t\ttype filter hook output priority 0; policy accept;\n\
         \t\tip saddr 127.0.0.0/8 counter accept\n\t}\n}\n",
    )?;
    let arguments = subject.with(&["--policy", &policy.path, "--fail", fail]);
    let firewall = Firewall::start(&namespace, subject.twin, &arguments)?;
    let receiver = RawReceiver::new(&namespace, TCP)?;
    let sender = RawSender::new(&namespace, IpAddr::V4(Ipv4Addr::LOCALHOST))?;
    for lie in LIES {
        sender.send(&ipv4(TCP, 0, &tcp(lie)))?;
    }
    let arrived = receiver.count(arriving, VAIN)?;
    ensure!(arrived == arriving, "{arrived} arrived of {arriving}");
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 4, 0)?;
    let counted = stats.total.malformed["tcp-data-offset"];
    ensure!(counted == LIES.len() as u64, "{counted} counted");
    Ok(())
}

fn offsets_closed(subject: &Subject) -> anyhow::Result<()> {
    offsets(subject, "malformed=closed,truncated=open", 0)
}

fn offsets_open(subject: &Subject) -> anyhow::Result<()> {
    offsets(subject, "malformed=open,truncated=closed", 3)
}
