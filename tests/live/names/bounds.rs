// SPDX-License-Identifier: GPL-2.0-or-later
//! Maximum cost of decisions by name: unfinished connections, slow clients, and connections over several queues.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::frames::Link;
use testbed::place::restore;
use testbed::proc::peak_memory_mib;
use testbed::twin::Twin;
use testbed::wait::{pause_for, until, PATIENCE};
use twinwall_tests::case::Row;

use super::{curl, is_answered, start, unreadable, Talker, ALLOWED, DENIED, LIMITS, POLICY};
use crate::evasion::net::{Net, Sees, SERVER};
use crate::evasion::quic::half_hello;
use crate::evasion::BLOCK_LIST;

pub const ROWS: &[Row] = &[
    ("flood-of-halves", flood),
    ("slow-client", slow),
    ("several-queues", several_queues),
    ("silent-client", silent),
];

/// Number of packets of a flood, each of a separate connection: six times as many as a firewall follows by default.
const PACKETS: u32 = 400_000;
/// Number of packets to send before waiting until all have verdicts: the case floods connections, not the queue.
const BURST: u32 = 20_000;
/// Allowed growth of the firewall's peak memory in the second half of the flood, in MiB.
const GROWTH_MIB: f64 = 4.0;
/// Address that no host has.
const NOBODY: [u8; 4] = [203, 0, 113, 1];
const TCP: u8 = 6;
const UDP: u8 = 17;
/// SYN without options and with a checksum of 0. It is sent with and without the data HALF; the checksum is set for
/// each packet.
const SYN: [u8; 20] = [
    0, 0, 1, 187, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xfa, 0xf0, 0, 0, 0, 0,
];
/// Start of a TLS record with a ClientHello of 512 bytes. The rest never arrives.
const HALF: [u8; 11] = [0x16, 3, 1, 2, 4, 1, 0, 2, 0, 3, 3];

/// Returns the sum of big-endian 16-bit words, for a checksum (RFC 1071).
fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    let words = words.map(|word| u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)]));
    words.map(u32::from).sum()
}

fn folded(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    (!((once & 0xffff) + (once >> 16)) as u16).to_be_bytes()
}

/// Returns an IPv4 packet to NOBODY from a client that sends no other packet of the flood.
/// - number: number of the packet; it selects the client's address and port.
/// - checksum_at: offset of the checksum in `carried`.
/// - carried: TCP segment or UDP datagram; its first two bytes are replaced by the client's port.
fn packet(number: u32, protocol: u8, checksum_at: usize, carried: &[u8]) -> Vec<u8> {
    let [_, high, low, last] = number.to_be_bytes();
    let source = [10, 66, high, low];
    let mut carried = carried.to_vec();
    carried[..2].copy_from_slice(&[0x80 | last >> 1, last]);
    let length = (20 + carried.len() as u16).to_be_bytes();
    let mut header = vec![
        0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0,
    ];
    header.extend(source);
    header.extend(NOBODY);
    let header_sum = folded(sum(&header));
    header[10..12].copy_from_slice(&header_sum);
    let pseudo = sum(&source) + sum(&NOBODY) + u32::from(protocol) + carried.len() as u32;
    let carried_sum = folded(pseudo + sum(&carried));
    carried[checksum_at..checksum_at + 2].copy_from_slice(&carried_sum);
    [header, carried].concat()
}

/// Sends packets of a flood: by number, one quarter are SYNs, half are SYNs with the first bytes of a hello, and one
/// quarter are QUIC Initials with half a hello. After half of the flood, the firewall's memory for undecided bytes is
/// full.
/// - quic: datagram with the QUIC Initial.
/// - numbers: numbers of the packets.
fn send(net: &Net, link: &Link, quic: &[u8], numbers: std::ops::Range<u32>) -> anyhow::Result<()> {
    let half = [&SYN[..], &HALF].concat();
    for number in numbers {
        let bytes = match number % 4 {
            0 => packet(number, TCP, 16, &SYN),
            1 | 2 => packet(number, TCP, 16, &half),
            _ => packet(number, UDP, 6, quic),
        };
        link.send(net.gateway, &bytes)?;
    }
    Ok(())
}

/// Checks a flood of unfinished connections: memory is limited, a known connection continues, and every packet is
/// counted.
fn flood(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let behind = "*mangle\n-A POSTROUTING -d 203.0.113.0/24 -j DROP\nCOMMIT\n";
    net.firewall
        .feed("iptables-restore", &["--noflush", "--wait"], behind)?;
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    // Only the numbers of connections and bytes must matter, however long the flood takes.
    let arguments = ["--policy", &policy, "--hello-timeout", "600"];
    let firewall = start(&net.firewall, twin, &arguments)?;
    let ask = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", ALLOWED[0]);
    let mut known = Talker::start(&net)?;
    known.hear(&ask).context("before the flood")?;
    let (link, quic) = (net.link()?, half_hello(ALLOWED[0])?);
    let mut full = 0.0;
    for start in (0..PACKETS).step_by(BURST as usize) {
        send(&net, &link, &quic, start..start + BURST)?;
        firewall.settled_ledger()?;
        if start + BURST == PACKETS / 2 {
            full = peak_memory_mib(firewall.pid)?;
        }
        until("the connection goes on", PATIENCE, || known.ask(&ask))?;
    }
    let peak = peak_memory_mib(firewall.pid)?;
    ensure!(
        peak < full + GROWTH_MIB,
        "{full:.1} MiB after half of the flood, {peak:.1} behind it"
    );
    let stats = firewall.finish()?;
    ensure!(stats.reconciled, "{stats:?}");
    let undecided = stats.total.undecided;
    ensure!(
        undecided > u64::from(PACKETS) / 2,
        "{undecided} packets were undecided only"
    );
    println!("{undecided} undecided, {peak:.1} MiB");
    Ok(())
}

/// Sends a request in two halves. Returns true if it is answered within a second.
/// - pause: between the halves.
fn ask_slowly(net: &Net, pause: Duration) -> anyhow::Result<bool> {
    let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", ALLOWED[0]);
    let (first, second) = request.split_at(request.len() / 2);
    let address = SocketAddr::from((SERVER, 80));
    let mut stream = net
        .client
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    stream.set_nodelay(true)?;
    stream.write_all(first.as_bytes())?;
    pause_for(pause);
    stream.write_all(second.as_bytes())?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    match stream.read(&mut [0; 512]) {
        Ok(read) => Ok(read > 0),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Checks --hello-timeout: if the second half of a request comes after that time, the request gets no answer.
fn slow(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let arguments = ["--policy", &policy, "--hello-timeout", "1"];
    let firewall = start(&net.firewall, twin, &arguments)?;
    // On a busy machine the halves may be sent a second apart.
    until("an answer without a pause", PATIENCE, || {
        ask_slowly(&net, Duration::ZERO)
    })?;
    ensure!(
        !ask_slowly(&net, Duration::from_millis(1_200))?,
        "an answer to what came in two halves, long after each other"
    );
    firewall.finish()?;
    Ok(())
}

/// Port of a server that sends first, and to which its clients send nothing, like that of an FTP download.
const DOWNLOAD: u16 = 2121;
/// Length of a download in bytes.
const DOWNLOAD_BYTES: usize = 1_000_000;
/// Number of bytes that pass by default in each direction of a connection without a name.
const UNDECIDED_BYTES: usize = 32_768;

/// Time without data, after which a download may have stopped.
const QUIET: Duration = Duration::from_secs(2);

/// Downloads from the server. Returns the number of received bytes.
/// - is_stopped: returns true if the download has stopped; called after each QUIET without data.
fn download(net: &Net, is_stopped: impl Fn() -> anyhow::Result<bool>) -> anyhow::Result<usize> {
    let address = SocketAddr::from((SERVER, DOWNLOAD));
    let mut stream = net
        .client
        .enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
    stream.set_read_timeout(Some(QUIET))?;
    let mut room = vec![0; 65_536];
    let (mut received, mut since) = (0, Instant::now());
    while received < DOWNLOAD_BYTES {
        match stream.read(&mut room) {
            Ok(0) => break,
            Ok(bytes) => {
                received += bytes;
                since = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if is_stopped()? {
                    break;
                }
                ensure!(since.elapsed() < PATIENCE, "{received} bytes, and no more");
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(received)
}

/// Checks that a client that sends nothing receives no more bytes than --undecided accepts, that its connection then
/// counts as unreadable, and that a rule before the rules by name accepts all of the download.
fn silent(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let listener = net
        .server
        .enter(|| TcpListener::bind(SocketAddr::from((SERVER, DOWNLOAD))))?;
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            // It fails if the client gives up.
            thread::spawn(move || stream.write_all(&vec![0; DOWNLOAD_BYTES]));
        }
    });
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", BLOCK_LIST)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    let received = download(&net, || Ok(unreadable(&firewall)? > 0))?;
    ensure!(
        (1..=UNDECIDED_BYTES).contains(&received),
        "{received} bytes passed without a name"
    );
    let connections = firewall.finish()?.total.connections;
    let unreadable = connections.get("unreadable").copied().unwrap_or(0);
    ensure!(unreadable == 1, "{connections:?}");
    let before = format!("tcp sport {DOWNLOAD} accept\n\t\ttcp dport {DOWNLOAD} accept\n\t\t");
    let text = BLOCK_LIST.replace("tls sni", &format!("{before}tls sni"));
    let policy = folder.write("before.nft", &text)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    let received = download(&net, || Ok(false))?;
    ensure!(received == DOWNLOAD_BYTES, "{received} bytes passed");
    firewall.finish()?;
    Ok(())
}

/// Number of client addresses; a hash of a packet's addresses selects the queue.
const ADDRESSES: u8 = 48;

/// Checks that both directions of a connection use one queue: otherwise the server's answers would not confirm the
/// clients' first packets, and no client would get an answer.
fn several_queues(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let rules = "-F FORWARD\n-A FORWARD -j NFQUEUE --queue-balance 0:3";
    restore(&net.firewall, "iptables", rules)?;
    let addresses: Vec<_> = (0..ADDRESSES)
        .map(|last| Ipv4Addr::new(10, 9, 1, 100 + last).to_string())
        .collect();
    let lines = addresses
        .iter()
        .map(|one| format!("address add {one}/24 dev right\n"));
    net.client
        .feed("ip", &["-batch", "-"], &lines.collect::<String>())?;
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let arguments = ["--policy", &policy, "--queue", "0:3"];
    let firewall = start(&net.firewall, twin, &arguments)?;
    let ask = |address: &str, name: &str, seconds: &str| {
        let from = ["--interface", address, "--max-time", seconds];
        is_answered(&net.client, &curl(name, "https", 443, &from), "here")
    };
    thread::scope(|scope| {
        let asked: Vec<_> = addresses
            .iter()
            .map(|address| {
                scope.spawn(move || -> anyhow::Result<_> {
                    Ok((
                        ask(address, ALLOWED[0], LIMITS.0)?,
                        ask(address, DENIED[0], "1")?,
                    ))
                })
            })
            .collect();
        for (address, clients) in addresses.iter().zip(asked) {
            let answered = clients.join().expect("no panic")?;
            ensure!(
                answered == (true, false),
                "{address}: allowed and denied are answered: {answered:?}"
            );
        }
        Ok(())
    })?;
    // On a busy machine a client may give up before it shows its name.
    let mut turns = addresses.iter().cycle();
    until("each queue has refused a name", PATIENCE, || {
        let queues = firewall.ledger()?.queues;
        if queues.iter().all(|queue| queue.verdict("drop") > 0) {
            return Ok(true);
        }
        let address = turns.next().context("an address")?;
        ensure!(!ask(address, DENIED[0], "1")?, "{address}: an answer");
        Ok(false)
    })?;
    let stats = firewall.finish()?;
    for queue in &stats.queues {
        let has = |verdict: &str| queue.verdicts.get(verdict).is_some_and(|count| *count > 0);
        ensure!(
            has("accept") && has("drop"),
            "a queue decided nothing: {queue:?}"
        );
    }
    ensure!(stats.reconciled, "{stats:?}");
    Ok(())
}
