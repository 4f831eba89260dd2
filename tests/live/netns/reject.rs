// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets that `reject` sends: they must equal those that the kernel's nf_tables sends with the same policy, byte for
//! byte.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};

use anyhow::ensure;
use testbed::firewall::Firewall;
use testbed::frames::{hardware_address, Link};
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::place::{namespace, restore, run};
use testbed::traffic::{udp_client_to, VAIN};

use super::policy::PolicyFile;
use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("reject-as-the-kernel-does", as_the_kernel_does),
    ("reject-what-goes-out", what_goes_out),
];

/// Policy that selects the response by destination port. It accepts neighbour discovery, and rejects all other packets
/// with the default response.
const POLICY: &str = r#"
table inet filter {
	chain input {
		type filter hook input priority 0; policy drop;
		icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, mld2-listener-report } accept
		tcp dport 1 reject with tcp reset
		udp dport 2 reject with icmp host-unreachable
		udp dport 3 reject with icmpv6 no-route
		udp dport 4 reject with icmpx admin-prohibited
		udp dport 5 reject with icmpx no-route
		reject
	}
}
"#;

/// Number of packets that get a response.
const ANSWERS: usize = 37;
const TCP: u8 = libc::IPPROTO_TCP as u8;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const ICMP: u8 = libc::IPPROTO_ICMP as u8;
const ICMPV6: u8 = libc::IPPROTO_ICMPV6 as u8;
const FRAGMENT: u8 = libc::IPPROTO_FRAGMENT as u8;
const HOP_BY_HOP: u8 = libc::IPPROTO_HOPOPTS as u8;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Returns the Internet checksum of the parts (RFC 1071), in network byte order. Each part is padded to 16 bits.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let mut sum = 0_u32;
    for part in parts {
        for word in part.chunks(2) {
            let low = word.get(1).copied().unwrap_or(0);
            sum += u32::from(u16::from_be_bytes([word[0], low]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Source and destination address, both of the same family.
#[derive(Clone, Copy)]
struct Way(IpAddr, IpAddr);

impl Way {
    fn addresses(&self) -> Vec<u8> {
        match (self.0, self.1) {
            (IpAddr::V4(from), IpAddr::V4(to)) => [from.octets(), to.octets()].concat(),
            (IpAddr::V6(from), IpAddr::V6(to)) => [from.octets(), to.octets()].concat(),
            _ => unreachable!("a way has one family"),
        }
    }

    /// Stores a checksum in the payload: over pseudo header and payload, for ICMPv4 over the payload only. Returns the
    /// payload.
    /// - at: offset of the checksum field.
    fn checked(&self, protocol: u8, mut payload: Vec<u8>, at: usize) -> Vec<u8> {
        let length = (payload.len() as u16).to_be_bytes();
        let sum = match (self.0, protocol) {
            (IpAddr::V4(_), ICMP) => checksum(&[&payload]),
            _ => checksum(&[&self.addresses(), &[0, protocol], &length, &payload]),
        };
        payload[at..at + 2].copy_from_slice(&sum);
        payload
    }

    fn packet(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        self.packet_with(protocol, payload, 0, 0)
    }

    /// Returns a packet.
    /// - tos, fragment: fields of the IPv4 header; unused for IPv6.
    fn packet_with(&self, protocol: u8, payload: &[u8], tos: u8, fragment: u16) -> Vec<u8> {
        let mut packet = match self.0 {
            IpAddr::V4(_) => {
                let mut header = vec![0x45, tos];
                header.extend((20 + payload.len() as u16).to_be_bytes());
                header.extend([0, 7]);
                header.extend(fragment.to_be_bytes());
                header.extend([61, protocol, 0, 0]);
                header.extend(self.addresses());
                let sum = checksum(&[&header]);
                header[10..12].copy_from_slice(&sum);
                header
            }
            IpAddr::V6(_) => {
                let mut header = vec![0x60, 0, 0, 0];
                header.extend((payload.len() as u16).to_be_bytes());
                header.extend([protocol, 61]);
                header.extend(self.addresses());
                header
            }
        };
        packet.extend(payload);
        packet
    }

    fn tcp(&self, port: u16, flags: u8, data: &[u8]) -> Vec<u8> {
        let mut segment = 40000_u16.to_be_bytes().to_vec();
        segment.extend(port.to_be_bytes());
        segment.extend(0xffff_fff0_u32.to_be_bytes());
        segment.extend(0x0102_0304_u32.to_be_bytes());
        segment.extend([0x60, flags, 0xff, 0xff, 0, 0, 0, 0]);
        segment.extend([2, 4, 5, 0xb4]); // a segment size: the header has 24 bytes
        segment.extend(data);
        self.checked(TCP, segment, 16)
    }

    fn udp(&self, port: u16, bytes: usize) -> Vec<u8> {
        let mut datagram = 40000_u16.to_be_bytes().to_vec();
        datagram.extend(port.to_be_bytes());
        datagram.extend((8 + bytes as u16).to_be_bytes());
        datagram.extend([0, 0]);
        datagram.extend(vec![0x5a; bytes]);
        self.checked(UDP, datagram, 6)
    }

    fn icmp(&self, kind: u8) -> Vec<u8> {
        let message = [&[kind, 0, 0, 0, 0, 1, 0, 1][..], &[0x5a; 40]].concat();
        let protocol = if self.0.is_ipv4() { ICMP } else { ICMPV6 };
        self.packet(protocol, &self.checked(protocol, message, 2))
    }
}

/// Returns the packets to send: those to the server's own address, and those to all hosts on the link.
fn packets() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let v4 = Way(VETH_IPV4.0, VETH_IPV4.1);
    let v6 = Way(VETH_IPV6.0, VETH_IPV6.1);
    let mut own = Vec::new();
    for way in [v4, v6] {
        for (flags, data) in [
            (SYN, &b""[..]),
            (SYN, b"data"),
            (ACK, b"data"),
            (SYN | ACK, b""),
            (FIN, b"x"),
            (0, b""),
            (RST, b""),
            (RST | ACK, b""),
        ] {
            own.push(way.packet(TCP, &way.tcp(1, flags, data)));
        }
        own.push(way.packet(TCP, &way.tcp(9, SYN, b"")));
        for port in 2..=6 {
            own.push(way.packet(UDP, &way.udp(port, 3)));
        }
        own.push(way.packet(UDP, &way.udp(6, 1400)));
        own.push(way.packet(132, &[0; 12])); // SCTP
    }
    for kind in [0, 3, 5, 8, 11, 12, 13, 14, 30] {
        own.push(v4.icmp(kind));
    }
    for kind in [1, 2, 3, 4, 128, 129, 139] {
        own.push(v6.icmp(kind));
    }
    own.push(v4.packet_with(UDP, &v4.udp(6, 3), 0x2c, 0));
    // A later fragment without its first fragment: reassembly drops it, or it gets no response.
    own.push(v4.packet_with(UDP, &[0; 16], 0, 100));
    own.push(v6.packet(
        FRAGMENT,
        &[&[UDP, 0, 0x03, 0x20, 0, 0, 0, 9][..], &[0; 16]].concat(),
    ));
    let options = [TCP, 0, 1, 4, 0, 0, 0, 0];
    own.push(v6.packet(HOP_BY_HOP, &[&options[..], &v6.tcp(1, SYN, b"")].concat()));
    let broadcast = Way(VETH_IPV4.0, "10.255.255.255".parse().expect("an address"));
    let all4 = Way(VETH_IPV4.0, "224.0.0.1".parse().expect("an address"));
    let all6 = Way(VETH_IPV6.0, "ff02::1".parse().expect("an address"));
    let limited = Way(VETH_IPV4.0, "255.255.255.255".parse().expect("an address"));
    let mut others = Vec::new();
    for way in [broadcast, all4, all6, limited] {
        others.push(way.packet(UDP, &way.udp(6, 3)));
        others.push(way.packet(TCP, &way.tcp(1, SYN, b"")));
    }
    (own, others)
}

/// Clears the fields that are not compared. IPv4: the identification, the header checksum, and the TCP checksum, which
/// the kernel leaves to the interface. IPv6: the flow label and the lower half of the traffic class.
fn normalize(mut packet: Vec<u8>) -> Vec<u8> {
    match packet[0] >> 4 {
        4 => {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
            if packet[9] == TCP {
                packet[36..38].fill(0);
            }
        }
        _ => packet[1..4].fill(0),
    }
    packet
}

/// Returns true unless a packet is IPv4 and TCP with a wrong TCP checksum.
fn is_checked(packet: &[u8]) -> bool {
    let length = ((packet.len() - 20) as u16).to_be_bytes();
    packet[0] >> 4 != 4
        || packet[9] != TCP
        || checksum(&[&packet[12..20], &[0, TCP], &length, &packet[20..]]) == [0, 0]
}

/// Returns true if a packet may be a response to the sent packets; false for other traffic of the kernel.
fn is_answer(packet: &[u8]) -> bool {
    let protocol = if packet[0] >> 4 == 4 {
        packet[9]
    } else {
        packet[6]
    };
    let begin = if packet[0] >> 4 == 4 { 20 } else { 40 };
    match protocol {
        TCP | ICMP => true,
        ICMPV6 => packet[begin] == 1,
        _ => false,
    }
}

/// Sends all packets and returns the responses.
fn answers(client: &Namespace, server: &Namespace) -> anyhow::Result<Vec<Vec<u8>>> {
    let link = Link::open(client, "veth")?;
    let to = hardware_address(server, "veth")?;
    let (own, others) = packets();
    for packet in &own {
        link.send(to, packet)?;
    }
    for packet in &others {
        let multicast = match packet[0] >> 4 {
            6 => [0x33, 0x33, 0, 0, 0, 1],
            _ if packet[16] == 224 => [1, 0, 0x5e, 0, 0, 1],
            _ => [0xff; 6],
        };
        link.send(multicast, packet)?;
    }
    Ok(link.receive(is_answer, ANSWERS, VAIN)?)
}

/// Returns responses with only their compared fields, sorted.
fn comparable(answers: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let mut answers: Vec<Vec<u8>> = answers.into_iter().map(normalize).collect();
    answers.sort();
    answers
}

/// Returns a client's and a server's namespace. The server has no rate limit for responses, and accepts broadcasts to
/// 10.255.255.255.
fn place() -> anyhow::Result<(Namespace, Namespace)> {
    let (client, server) = (namespace()?, namespace()?);
    Namespace::veth_pair(&client, &server)?;
    for setting in ["ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"] {
        server.enter(|| fs::write(format!("/proc/sys/net/{setting}"), "0"))?;
    }
    let broadcast = ["address", "add", "10.255.0.1/16", "dev", "veth"];
    run(
        &server,
        "ip",
        &[&broadcast[..], &["broadcast", "+"]].concat(),
    )?;
    // Fixed hardware addresses prevent address resolution during the comparison.
    for (namespace, other, (ipv4, ipv6)) in [
        (&server, &client, (VETH_IPV4.0, VETH_IPV6.0)),
        (&client, &server, (VETH_IPV4.1, VETH_IPV6.1)),
    ] {
        let address = hardware_address(other, "veth")?;
        let address: Vec<String> = address.iter().map(|byte| format!("{byte:02x}")).collect();
        for ip in [ipv4.to_string(), ipv6.to_string()] {
            let words = [
                "neighbour",
                "replace",
                &ip,
                "lladdr",
                &address.join(":"),
                "dev",
                "veth",
            ];
            run(namespace, "ip", &words)?;
        }
    }
    Ok((client, server))
}

fn shown(packets: &[Vec<u8>]) -> String {
    let line = |packet: &Vec<u8>| {
        let digits: Vec<String> = packet.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.join("") + "\n"
    };
    packets.iter().map(line).collect()
}

fn as_the_kernel_does(subject: &Subject) -> anyhow::Result<()> {
    let policy = PolicyFile::new(POLICY)?;

    let (client, server) = place()?;
    run(&server, "nft", &["-f", &policy.path])?;
    let kernel = comparable(answers(&client, &server)?);
    ensure!(
        kernel.len() == ANSWERS,
        "the kernel gave {} answers",
        kernel.len()
    );
    drop((client, server));

    let (client, server) = place()?;
    for tool in ["iptables", "ip6tables"] {
        restore(&server, tool, "-A INPUT -j NFQUEUE")?;
    }
    let arguments = ["--policy", &policy.path, "--copy-bytes", "1500"];
    let firewall = Firewall::start(&server, subject.twin, &subject.with(&arguments))?;
    let twin = answers(&client, &server)?;
    ensure!(
        twin.iter().all(|packet| is_checked(packet)),
        "a wrong checksum:\n{}",
        shown(&twin)
    );
    let twin = comparable(twin);
    check_no_port(&server)?;
    let stats = firewall.finish()?;
    stats.total.check_reconciled()?;
    let answered = stats.total.replies;
    ensure!(
        answered.sent == twin.len() as u64 && answered.failed == 0,
        "{answered:?}, and {} came",
        twin.len()
    );
    ensure!(answered.not_due > 10, "{answered:?}");
    let only = |a: &[Vec<u8>], b: &[Vec<u8>]| -> Vec<Vec<u8>> {
        a.iter()
            .filter(|packet| !b.contains(packet))
            .cloned()
            .collect()
    };
    ensure!(
        twin == kernel,
        "only the kernel:\n{}only the twin:\n{}",
        shown(&only(&kernel, &twin)),
        shown(&only(&twin, &kernel))
    );
    Ok(())
}

/// Checks that a firewall that rejects has no UDP socket: it would receive packets that are never read.
fn check_no_port(namespace: &Namespace) -> anyhow::Result<()> {
    for table in ["udp", "udp6"] {
        let path = format!("/proc/thread-self/net/{table}");
        let text = namespace.enter(|| fs::read_to_string(&path))?;
        ensure!(text.lines().count() == 1, "UDP sockets:\n{text}");
    }
    Ok(())
}

/// Checks that local programs learn at once that their connection is rejected, as if the other end had refused it.
fn what_goes_out(subject: &Subject) -> anyhow::Result<()> {
    let (client, server) = (namespace()?, namespace()?);
    Namespace::veth_pair(&client, &server)?;
    for tool in ["iptables", "ip6tables"] {
        restore(&client, tool, "-A OUTPUT -j NFQUEUE")?;
    }
    let policy = PolicyFile::new(
        "table inet t { chain c {\ntype filter hook output priority 0; policy accept;\n\
         tcp dport 81 reject with tcp reset\ntcp dport 82 reject\nudp dport 83 reject\n}\n}\n",
    )?;
    let firewall = Firewall::start(
        &client,
        subject.twin,
        &subject.with(&["--policy", &policy.path]),
    )?;
    for address in [VETH_IPV4.1, VETH_IPV6.1] {
        for port in [81, 82] {
            let to = SocketAddr::new(address, port);
            // Without a timeout: poll(2) can report an error of a connecting socket before SO_ERROR has it.
            let error = client
                .enter(|| TcpStream::connect(to))
                .expect_err("no server");
            ensure!(
                error.kind() == ErrorKind::ConnectionRefused,
                "{to}: {error}"
            );
        }
        let socket = udp_client_to(&client, SocketAddr::new(address, 83))?;
        socket.send(b"x")?;
        let kind = socket.recv(&mut [0]).err().map(|error| error.kind());
        ensure!(
            kind == Some(ErrorKind::ConnectionRefused),
            "{address}: {kind:?}"
        );
    }
    let stats = firewall.finish()?;
    stats.total.check_reconciled()?;
    let answers = stats.total.replies;
    ensure!(answers.sent >= 6 && answers.failed == 0, "{answers:?}");
    Ok(())
}
