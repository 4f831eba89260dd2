// SPDX-License-Identifier: GPL-2.0-or-later
//! A server that answers a SYN by a SYN (RFC 9293, section 3.5, figure 7): both ends open the connection, and the
//! client still shows a name. Both ends use the kernel's TCP; no denied name may pass.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::TimeVal;
use testbed::netns::Namespace;
use testbed::packets;
use testbed::place::restore;
use testbed::wait::{patience, pause_for};
use twinwall_tests::case::{for_each_twin, Case, Row};

use super::net::{Net, SERVER, SERVER_6};
use super::tried::{self, all_completed, none_completed, Tried};
use super::{hello, By, ALLOW_LIST, BLOCK_LIST, DENIED};

/// Port of the server, which does not listen there.
const PORT: u16 = 8443;
/// Address of the client's kernel; net.rs's CLIENT is for packets that the test builds.
const CLIENT: [u8; 4] = [10, 9, 1, 1];
const CLIENT_6: [u16; 8] = [0xfd09, 0, 0, 1, 0, 0, 0, 1];
/// Time limit for both ends to open a connection, and for data to arrive, if they must not.
const OPENED: Duration = Duration::from_secs(1);
/// Pause between two attempts of the server to connect.
const LOOK: Duration = Duration::from_millis(20);

const ROWS: &[Row] = &[("both-open", |twin| both_open(By::Twin(twin)))];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// Addresses and ports of both ends of a connection.
type Ends = [SocketAddr; 2];

/// Opens a connection from the first to the second end. Returns None if it is not open within `limit`. Neither end
/// listens: it opens only if the second end opens a connection to the first end at the same time.
fn connect(
    namespace: &Namespace,
    [from, to]: Ends,
    limit: Duration,
) -> anyhow::Result<Option<TcpStream>> {
    let domain = if from.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let socket = namespace.enter(|| packets::socket(domain, libc::SOCK_STREAM, 0))?;
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    let limit = TimeVal::new(limit.as_secs() as i64, limit.subsec_micros().into());
    setsockopt(&socket, sockopt::SendTimeout, &limit)?;
    packets::bind(&socket, from)?;
    Ok(packets::connect(&socket, to)
        .is_ok()
        .then(|| TcpStream::from(socket)))
}

/// Returns true if the server receives the client's data.
/// - is_server_first: true if the server also sends a SYN before the client does; the client's kernel refuses that SYN.
/// - limit: time limit for both ends to open the connection, and for the data to arrive.
fn hears(
    net: &Net,
    [client, server]: Ends,
    is_server_first: bool,
    said: &[u8],
    limit: Duration,
) -> anyhow::Result<bool> {
    if is_server_first {
        connect(&net.server, [server, client], OPENED)?;
    }
    let (client, server) = thread::scope(|scope| {
        let first = scope.spawn(|| connect(&net.client, [client, server], limit));
        let deadline = Instant::now() + limit;
        let mut second = Ok(None);
        while matches!(second, Ok(None)) && Instant::now() < deadline {
            pause_for(LOOK);
            second = connect(&net.server, [server, client], limit);
        }
        (first.join().expect("no panic"), second)
    });
    let (Some(mut client), Some(mut server)) = (client?, server?) else {
        return Ok(false);
    };
    client.write_all(said)?;
    server.set_read_timeout(Some(limit))?;
    let mut heard = vec![0; said.len()];
    Ok(server.read_exact(&mut heard).is_ok() && heard == said)
}

/// Sends a denied name over both IP versions, in both orders of the SYNs.
/// - answered: true if the server is expected to receive the name: each combination is then tried up to TRIES times.
fn try_all(net: &Net, answered: bool) -> anyhow::Result<Vec<Tried>> {
    let said = hello::tls(DENIED, 0).bytes;
    let limit = patience(answered, OPENED);
    let ends: [(&str, IpAddr, IpAddr); 2] = [
        ("IPv4", CLIENT.into(), SERVER.into()),
        ("IPv6", CLIENT_6.into(), SERVER_6.into()),
    ];
    let orders = [("the client first", false), ("the server first", true)];
    let jobs: Vec<_> = ends
        .iter()
        .flat_map(|ends| orders.iter().map(move |order| (ends, order)))
        .collect();
    tried::try_all(
        net,
        &jobs,
        |_, ((over, client, server), (way, is_server_first))| {
            Tried::new(way, over, answered, |port| {
                let ends = [
                    SocketAddr::from((*client, port)),
                    SocketAddr::from((*server, PORT)),
                ];
                hears(net, ends, *is_server_first, &said, limit).map(Some)
            })
        },
    )
}

/// Checks that the denied name reaches the server in all cases without a firewall, and in none with a firewall.
pub fn both_open(by: By) -> anyhow::Result<()> {
    let net = by.net()?;
    for tool in ["iptables", "ip6tables"] {
        // The server must not receive the client's SYN before it has sent its own.
        restore(
            &net.server,
            tool,
            "-A INPUT -p tcp --dport 8443 --syn -j DROP",
        )?;
    }
    all_completed(&try_all(&net, true)?)?;
    for text in [BLOCK_LIST, &ALLOW_LIST.replace("443", "8443")] {
        let running = by.start(&net, text)?;
        none_completed(&try_all(&net, false)?)?;
        running.finish()?;
    }
    Ok(())
}
