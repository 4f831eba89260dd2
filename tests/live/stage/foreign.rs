// SPDX-License-Identifier: GPL-2.0-or-later
//! Bits of marks that other programs use in their own tables and routing rules: those of kube-proxy and wg-quick. A
//! queued packet keeps them, and is routed by them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use anyhow::ensure;
use nix::sys::socket::{setsockopt, sockopt};
use testbed::packets;
use testbed::place::run;
use testbed::twin::Twin;
use testbed::wait::{patience, PATIENCE};
use twinwall_tests::case::Row;

use super::ends::QUIET;
use super::{check_fetched, Stage};
use crate::evasion::net::{Hook, Net, Sees, SERVER};
use crate::evasion::{hello, ALLOWED, BLOCK_LIST, DENIED};
use crate::names;

pub const ROWS: &[Row] = &[
    ("bits-of-others-in-output", output),
    ("bits-of-others-in-forward", forward),
];

/// Mark of wg-quick's own packets (51820). It contains both bits of kube-proxy: 0x4000 and 0x8000.
const WG: u32 = 0xca6c;
const PORT: u16 = 8080;

/// Tables of wg-quick, which store the whole mark of its UDP connections, and counters of other marks. A packet has the
/// mark WG and nothing else wherever other programs read it.
const IN_OUTPUT: &str = r#"
table inet others {
	chain restore {
		type filter hook prerouting priority -150; policy accept;
		meta l4proto udp meta mark set ct mark
	}
	chain input {
		type filter hook input priority 100; policy accept;
		ip saddr 10.9.3.2 udp sport 8080 meta mark 0xca6c counter comment "kept"
		ip saddr 10.9.3.2 udp sport 8080 meta mark != 0xca6c counter comment "lost"
	}
	chain output {
		type filter hook output priority 100; policy accept;
		ip daddr 10.9.3.2 meta mark 0xca6c counter comment "kept"
		ip daddr 10.9.3.2 meta mark != 0xca6c counter comment "lost"
	}
	chain save {
		type filter hook postrouting priority -150; policy accept;
		ip daddr 10.9.3.2 meta mark 0xca6c counter comment "kept"
		ip daddr 10.9.3.2 meta mark != 0xca6c counter comment "lost"
		meta l4proto udp meta mark 0xca6c ct mark set meta mark
	}
}
"#;

/// Rules like those of kube-proxy.
const IN_FORWARD: &str = r#"
table inet others {
	chain bits {
		type filter hook prerouting priority -100; policy accept;
		ip daddr 10.9.3.2 meta mark set meta mark | 0x4000
		ip daddr 10.9.3.2 ct mark set ct mark | 0x2000
	}
	chain denied {
		type filter hook forward priority 10; policy accept;
		meta mark & 0x8000 == 0x8000 drop
		ct mark & 0x2000 != 0x2000 counter comment "lost"
	}
	chain hidden {
		type filter hook postrouting priority 90; policy accept;
		ip daddr 10.9.3.2 meta mark 0x4000 counter comment "kept"
		ip daddr 10.9.3.2 meta mark != 0x4000 counter comment "lost"
		meta mark set meta mark ^ 0x4000
	}
}
"#;

/// Makes the firewall's only route to the server depend on a mark: packets without the mark have no route.
/// - mark: mark and mask as for `ip rule fwmark`, e.g. 0x4000/0x4000.
/// - via: address of the next router.
fn route_by(net: &Net, mark: &str, via: &str) -> anyhow::Result<()> {
    net.firewall.ip(&format!(
        "route add 10.9.3.0/24 via {via} table 100\n\
         rule add fwmark {mark} lookup 100 priority 100\n\
         route add unreachable 10.9.3.0/24\n"
    ))?;
    // The way back has no route without the mark, either.
    let loose = ["all", "right"].map(|name| format!("net.ipv4.conf.{name}.rp_filter=0"));
    run(&net.firewall, "sysctl", &["-qw", &loose[0], &loose[1]]).map(drop)
}

/// Checks that the counters `kept` have counted, and that the counters `lost` have not.
fn check_counters(net: &Net) -> anyhow::Result<()> {
    let listed = run(&net.firewall, "nft", &["list", "table", "inet", "others"])?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for line in listed.lines().filter(|line| line.contains("comment")) {
        let is_zero = line.contains("counter packets 0 ");
        ensure!(is_zero == line.contains("\"lost\""), "{listed}");
    }
    Ok(())
}

/// Returns true if a client's bytes reach the server in time. The client's packets have the mark WG.
/// - expected: true for a time limit of PATIENCE, since the bytes must arrive; false for QUIET.
fn comes(net: &Net, bytes: &[u8], expected: bool) -> anyhow::Result<bool> {
    let address = SocketAddr::from((SERVER, PORT));
    let listener = net.server.enter(|| TcpListener::bind(address))?;
    let socket = net
        .client
        .enter(|| packets::socket(libc::AF_INET, libc::SOCK_STREAM, 0))?;
    setsockopt(&socket, sockopt::Mark, &WG)?;
    packets::connect(&socket, address)?;
    let (mut client, (mut server, _)) = (TcpStream::from(socket), listener.accept()?);
    client.write_all(bytes)?;
    server.set_read_timeout(Some(patience(expected, QUIET)))?;
    Ok(server.read_exact(&mut vec![0; bytes.len()]).is_ok())
}

/// Checks datagrams like those of a tunnel, in both directions. Two answers follow each other: the client's next
/// datagram would store the mark again.
fn exchange_datagrams(net: &Net) -> anyhow::Result<()> {
    let address = SocketAddr::from((SERVER, PORT));
    let server = net.server.enter(|| UdpSocket::bind(address))?;
    let client = net.client.enter(|| UdpSocket::bind("0.0.0.0:0"))?;
    setsockopt(&client, sockopt::Mark, &WG)?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    for number in 0..5_u8 {
        let mut read = [0; 64];
        client.send_to(&[4, 0, 0, 0, number], address)?;
        let (_, from) = server.recv_from(&mut read)?;
        for _ in 0..2 {
            server.send_to(&[4, 0, 0, 0, number], from)?;
            client.recv_from(&mut read)?;
        }
    }
    Ok(())
}

fn output(twin: Twin) -> anyhow::Result<()> {
    let net = Net::at(Hook::Output, Sees::Both)?;
    let stage = Stage::start(&net, twin, BLOCK_LIST)?;
    net.firewall.feed("nft", &["-f", "-"], IN_OUTPUT)?;
    route_by(&net, &format!("{WG:#x}/0xffff"), "10.9.1.2")?;
    for _ in 0..2 {
        let is_allowed = comes(&net, &hello::tls(ALLOWED, 0).bytes, true)?;
        ensure!(is_allowed, "an allowed name does not come");
        let is_denied = !comes(&net, &hello::tls(DENIED, 0).bytes, false)?;
        ensure!(is_denied, "a denied name comes");
    }
    exchange_datagrams(&net)?;
    check_counters(&net)?;
    stage.end()
}

fn forward(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, BLOCK_LIST)?;
    net.firewall.feed("nft", &["-f", "-"], IN_FORWARD)?;
    route_by(&net, "0x4000/0x4000", "10.9.2.2")?;
    for _ in 0..2 {
        check_fetched(&net, "allowed.example", &[])?;
        ensure!(!names::is_fetched(&net, DENIED)?, "a denied name");
    }
    check_counters(&net)?;
    stage.end()
}
