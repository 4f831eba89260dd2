// SPDX-License-Identifier: GPL-2.0-or-later
//! Policies decide real packets: accepted packets arrive, dropped packets do not, marks are set, and rules match the
//! metadata that the kernel sends with a packet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::firewall::{run_to_end, Firewall};
use testbed::folder::Folder;
use testbed::ledger::{Policy, Stats};
use testbed::netns::{Namespace, VETH_IPV4};
use testbed::packets::{force_receive_buffer, ipv4, ipv6, tcp, RawReceiver, RawSender};
use testbed::place::{namespace, namespace_with, restore, run, LOCALHOST, PORT};
use testbed::skip::not_installed;
use testbed::traffic::{tcp_ask, tcp_connect, tcp_echo, VAIN};
use testbed::wait::{pause_for, until, PATIENCE};

use super::{Row, Subject};

pub const ROWS: &[Row] = &[
    ("policy-mixed-verdicts-keep-order", mixed_verdicts),
    ("policy-marks-leave-with-the-packet", marks),
    ("policy-ct-state-by-marks", ct_state_by_marks),
    ("policy-ct-state-by-attribute", ct_state_by_attribute),
    ("policy-socket-owner", socket_owner),
    ("policy-interface-names", interface_names),
    ("policy-malformed-by-policy", malformed_by_policy),
    ("policy-cut-before-what-it-reads", cut),
    ("policy-metadata-only", metadata_only),
    ("policy-limit-is-one-for-all-queues", limit_of_all_queues),
];

const TCP: u8 = libc::IPPROTO_TCP as u8;

/// Policy file, deleted on drop.
pub struct PolicyFile {
    pub path: String,
    _folder: Folder,
}

impl PolicyFile {
    pub fn new(text: &str) -> anyhow::Result<PolicyFile> {
        let folder = Folder::new()?;
        Ok(PolicyFile {
            path: folder.write("policy.nft", text)?,
            _folder: folder,
        })
    }

    /// Returns packets and bytes of the counter statement on a line of the policy.
    fn counter(&self, policy: &Policy, line: u32) -> anyhow::Result<(u64, u64)> {
        let rule = format!("{}:{line}", self.path);
        let mut counters = policy.counters.iter();
        let counter = counters.find(|counter| counter.rule == rule);
        let counter = counter.with_context(|| format!("no counter at line {line}: {policy:?}"))?;
        Ok((counter.packets, counter.bytes))
    }

    pub fn check_counter(&self, stats: &Stats, line: u32, packets: u64) -> anyhow::Result<()> {
        let policy = stats.policy.as_ref().context("no policy in the ledger")?;
        let (counted, _) = self.counter(policy, line)?;
        ensure!(
            counted == packets,
            "line {line} counted {counted} instead of {packets}: {policy:?}"
        );
        Ok(())
    }
}

/// Returns a policy of one base chain, with the rules from line 3 on.
/// - policy: verdict of the chain without a rule's verdict: accept or drop.
fn chain(hook: &str, policy: &str, rules: &str) -> anyhow::Result<PolicyFile> {
    PolicyFile::new(&format!(
        "table inet t {{ chain c {{\ntype filter hook {hook} priority 0; policy {policy};\n{rules}\n}}\n}}\n"
    ))
}

fn start(
    subject: &Subject,
    namespace: &Namespace,
    policy: &PolicyFile,
    more: &[&str],
) -> anyhow::Result<Firewall> {
    let arguments = [&["--policy", &policy.path], more].concat();
    Firewall::start(namespace, subject.twin, &subject.with(&arguments))
}

/// Returns a UDP socket in a namespace, with a receive buffer for all packets of a case.
fn receiver(namespace: &Namespace, address: IpAddr, port: u16) -> anyhow::Result<UdpSocket> {
    let socket = namespace.enter(|| UdpSocket::bind((address, port)))?;
    force_receive_buffer(&socket, 16 << 20)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Returns the datagrams that arrive: waits for the expected number, and then until no more arrive.
fn arrived(socket: &UdpSocket, expected: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut datagrams = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let limit = if datagrams.len() < expected {
            PATIENCE
        } else {
            VAIN
        };
        socket.set_read_timeout(Some(limit))?;
        match socket.recv(&mut buffer) {
            Ok(bytes) => datagrams.push(buffer[..bytes].to_vec()),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(datagrams),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Checks that packets of one batch get different verdicts, and that the kernel applies each verdict to the right
/// packet.
fn mixed_verdicts(subject: &Subject) -> anyhow::Result<()> {
    const EACH: u16 = 400;
    const GROUP: u16 = 20;
    let namespace = namespace()?;
    restore(&namespace, "iptables", "-A OUTPUT -p udp -j NFQUEUE")?;
    let policy = chain(
        "output",
        "accept",
        "udp dport 1001 counter drop\nudp dport 1002 counter meta mark set 7\nudp dport 1003 counter\n\
         udp dport 1004 counter meta mark set 8\nudp dport 1005 counter drop",
    )?;
    let firewall = start(subject, &namespace, &policy, &[])?;
    let receivers: Vec<UdpSocket> = (1001..=1005)
        .map(|port| receiver(&namespace, LOCALHOST, port))
        .collect::<anyhow::Result<_>>()?;
    let client = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    let passes = |port: u16| port != 1001 && port != 1005;
    // The firewall is stopped while packets are sent, so that they are received in full batches. A larger group would
    // not fit into the sender's buffer.
    for group in 0..EACH / GROUP {
        let numbers = group * GROUP..(group + 1) * GROUP;
        testbed::proc::signal(firewall.pid, libc::SIGSTOP);
        for number in numbers.clone() {
            for port in 1001..=1005 {
                client.send_to(&number.to_be_bytes(), (LOCALHOST, port))?;
            }
        }
        testbed::proc::signal(firewall.pid, libc::SIGCONT);
        for (port, receiver) in (1001..).zip(&receivers) {
            for number in numbers.clone().filter(|_| passes(port)) {
                let mut datagram = [0; 8];
                let bytes = receiver.recv(&mut datagram)?;
                ensure!(
                    datagram[..bytes] == number.to_be_bytes(),
                    "port {port}: another one arrived than {number}"
                );
            }
        }
    }
    for (port, receiver) in (1001..).zip(&receivers) {
        let more = arrived(receiver, 0)?.len();
        ensure!(more == 0, "port {port}: {more} more arrived");
    }
    let stats = firewall.finish()?;
    let ledger = &stats.total;
    ledger.check_clean()?;
    let each = u64::from(EACH);
    for (verdict, count) in [("accept", each), ("drop", 2 * each), ("mark", 2 * each)] {
        ensure!(ledger.verdict(verdict) == count, "{verdict}: {ledger:?}");
    }
    for line in 3..=7 {
        policy.check_counter(&stats, line, each)?;
    }
    Ok(())
}

/// Checks that packets have the marks that rules set, after the queue.
fn marks(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace()?;
    restore(&namespace, "iptables", "-A OUTPUT -p udp -j NFQUEUE")?;
    restore(
        &namespace,
        "iptables",
        "-A INPUT -m mark --mark 0x77 -j DROP",
    )?;
    restore(
        &namespace,
        "iptables",
        "-A INPUT -m mark --mark 0x1f05 -p udp --dport 1003 -j DROP",
    )?;
    let policy = chain(
        "output",
        "accept",
        "udp dport 1001 meta mark set 0x77 accept\nudp dport 1002 meta mark set 0x78 accept\n\
         meta mark 5 counter meta mark set meta mark | 0x1f00\nudp dport 1003 counter",
    )?;
    let firewall = start(subject, &namespace, &policy, &[])?;
    let [first, second, third] =
        [1001, 1002, 1003].map(|port| receiver(&namespace, LOCALHOST, port));
    let client = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    for port in [1001, 1002, 1003] {
        client.send_to(b"x", (LOCALHOST, port))?;
    }
    mark_socket(&client, 5)?;
    client.send_to(b"marked", (LOCALHOST, 1003))?;
    ensure!(
        arrived(&first?, 0)?.is_empty(),
        "the mark did not leave with the packet"
    );
    ensure!(arrived(&second?, 1)?.len() == 1, "another mark was seen");
    ensure!(
        arrived(&third?, 1)? == [b"x"],
        "the mark of the socket was not seen, or not changed"
    );
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 5, 1)?;
    policy.check_counter(&stats, 6, 2)?;
    ensure!(stats.total.verdict("mark") == 3, "{:?}", stats.total);
    stats.total.check_clean()
}

/// Sets the mark of a socket's packets (SO_MARK, socket(7)).
fn mark_socket(socket: &UdpSocket, mark: u32) -> anyhow::Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: the kernel reads one word.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MARK,
            (&raw const mark).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    ensure!(result == 0, "SO_MARK: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Checks that a policy distinguishes new, established and invalid packets by the marks that rules/queue/conntrack-9999
/// sets.
fn ct_state_by_marks(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace_with("conntrack-9999")?;
    let policy = chain(
        "input",
        "drop",
        "meta mark != 0 counter drop\nct state established counter accept\nct state new counter meta mark set 0x100 accept\n\
         ct state invalid counter drop\ncounter",
    )?;
    // After the queue, packets of new connections have the policy's mark, without the bits of the state.
    let firewall = start(subject, &namespace, &policy, &["--conntrack", "mark"])?;
    tcp_echo(&namespace, LOCALHOST)?;
    let mut stream = tcp_connect(&namespace, LOCALHOST, PATIENCE)?;
    tcp_ask(&mut stream)?;
    drop(stream);
    // A RST that belongs to no connection: its state is invalid.
    let mut segment = tcp(5);
    segment[13] = 0x04;
    RawSender::new(&namespace, LOCALHOST)?.send(&ipv4(TCP, 0, &segment))?;
    until("the RST is counted", PATIENCE, || {
        let policy_ledger = firewall
            .ledger()?
            .policy
            .context("no policy in the ledger")?;
        Ok(policy.counter(&policy_ledger, 6)?.0 == 1)
    })?;
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 3, 0)?;
    policy.check_counter(&stats, 5, 1)?;
    policy.check_counter(&stats, 6, 1)?;
    policy.check_counter(&stats, 7, 0)?;
    let seen = stats.policy.as_ref().context("no policy")?;
    ensure!(policy.counter(seen, 4)?.0 >= 2, "{seen:?}");
    ensure!(stats.total.without_ct_state == 0, "{stats:?}");
    ensure!(stats.total.verdict("mark") == 1, "{:?}", stats.total);
    stats.total.check_reconciled()
}

/// Checks `ct state` without --conntrack mark: either the kernel sends the state with each packet, or the firewall does
/// not start, and its error says what to do.
fn ct_state_by_attribute(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace()?;
    let policy = chain("input", "accept", "ct state new counter\nct mark 0 counter")?;
    let arguments = subject.with(&["--policy", &policy.path]);
    if let Ok(firewall) = Firewall::start(&namespace, subject.twin, &arguments) {
        return attribute_is_seen(&namespace, firewall, &policy);
    }
    let ended = run_to_end(&namespace, &[], subject.twin, &arguments)?;
    let error = "error: the policy uses ct, and this kernel gives no connection tracking with a packet: load \
                 nf_conntrack_netlink, or have the state put into marks (load conntrack-input, of rules/ or \
                 /usr/share/twinwall) and start with --conntrack mark\n";
    ensure!(
        ended.code == Some(4) && ended.stderr == error,
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

fn attribute_is_seen(
    namespace: &Namespace,
    firewall: Firewall,
    policy: &PolicyFile,
) -> anyhow::Result<()> {
    // The conntrack match makes the kernel track connections in this namespace.
    let rules = "-A INPUT -m conntrack --ctstate NEW -p udp -j NFQUEUE";
    restore(namespace, "iptables", rules)?;
    let receiver = receiver(namespace, LOCALHOST, PORT)?;
    let client = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    client.send_to(b"x", (LOCALHOST, PORT))?;
    ensure!(arrived(&receiver, 1)?.len() == 1, "it did not arrive");
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 3, 1)?;
    policy.check_counter(&stats, 4, 1)
}

/// Checks that meta skuid and meta skgid are the user and the group that own the socket of a packet.
fn socket_owner(subject: &Subject) -> anyhow::Result<()> {
    const UID: &str = "12345";
    let namespace = namespace()?;
    restore(&namespace, "iptables", "-A OUTPUT -p udp -j NFQUEUE")?;
    let policy = chain(
        "output",
        "accept",
        "meta skuid 12345 counter drop\nmeta skgid 0 counter accept",
    )?;
    let firewall = start(subject, &namespace, &policy, &[])?;
    let receiver = receiver(&namespace, LOCALHOST, PORT)?;
    let client = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    client.send_to(b"root", (LOCALHOST, PORT))?;
    let say = format!("echo other > /dev/udp/127.0.0.1/{PORT}");
    let as_other = ["--reuid", UID, "--clear-groups", "bash", "-c", &say];
    let sent = namespace.command("setpriv").args(as_other).output();
    let sent = sent.map_err(|_| not_installed("setpriv"))?;
    ensure!(
        sent.status.success(),
        "setpriv: {}",
        String::from_utf8_lossy(&sent.stderr)
    );
    ensure!(
        arrived(&receiver, 1)? == [b"root"],
        "not what root sent, alone"
    );
    let stats = firewall.finish()?;
    policy.check_counter(&stats, 3, 1)?;
    policy.check_counter(&stats, 4, 1)?;
    stats.total.check_clean()
}

/// Checks that iifname and iif match the packet's interface, by its current name.
fn interface_names(subject: &Subject) -> anyhow::Result<()> {
    let (client, server) = (namespace()?, namespace()?);
    Namespace::veth_pair(&client, &server)?;
    restore(&server, "iptables", "-A INPUT -p udp -j NFQUEUE")?;
    let policy = chain(
        "input",
        "drop",
        "iif \"lo\" counter drop\niifname \"lo\" counter drop\niifname \"ve*\" counter accept\n\
         iifname \"other\" counter accept\ncounter",
    )?;
    let firewall = start(subject, &server, &policy, &[])?;
    let receiver = receiver(&server, IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT)?;
    let own = server.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    own.send_to(b"own", (LOCALHOST, PORT))?;
    let socket = client.enter(|| UdpSocket::bind((VETH_IPV4.0, 0)))?;
    socket.send_to(b"one", (VETH_IPV4.1, PORT))?;
    ensure!(arrived(&receiver, 1)? == [b"one"], "before the renaming");
    for words in [
        &["link", "set", "veth", "down"][..],
        &["link", "set", "veth", "name", "other"],
        &["link", "set", "other", "up"],
    ] {
        run(&server, "ip", words)?;
    }
    for (namespace, name) in [(&client, "veth"), (&server, "other")] {
        namespace.wait_for(name)?;
    }
    // The firewall caches a name for a second.
    pause_for(Duration::from_millis(1100));
    socket.send_to(b"two", (VETH_IPV4.1, PORT))?;
    ensure!(arrived(&receiver, 1)? == [b"two"], "after the renaming");
    let stats = firewall.finish()?;
    for (line, packets) in [(3, 1), (4, 0), (5, 1), (6, 1), (7, 0)] {
        policy.check_counter(&stats, line, packets)?;
    }
    stats.total.check_clean()
}

/// Checks that with --malformed policy, rules match the fields that a malformed packet has.
fn malformed_by_policy(subject: &Subject) -> anyhow::Result<()> {
    let short = ipv4(TCP, 0, &tcp(5)[..4]);
    let rules = "tcp dport 9999 counter accept\ntcp flags syn counter accept\ncounter";
    for (more, passes) in [(&["--malformed", "policy"][..], true), (&[], false)] {
        let namespace = namespace()?;
        restore(&namespace, "iptables", "-A OUTPUT -p tcp -j NFQUEUE")?;
        let policy = chain("output", "drop", rules)?;
        let firewall = start(subject, &namespace, &policy, more)?;
        let receiver = RawReceiver::new(&namespace, TCP)?;
        RawSender::new(&namespace, LOCALHOST)?.send(&short)?;
        let arrived = receiver.count(usize::from(passes), VAIN)?;
        ensure!(
            arrived == usize::from(passes),
            "{arrived} packets arrived with {more:?}"
        );
        let stats = firewall.finish()?;
        policy.check_counter(&stats, 3, u64::from(passes))?;
        policy.check_counter(&stats, 4, 0)?;
        ensure!(
            stats.total.malformed["tcp-short"] == 1,
            "{:?}",
            stats.total.malformed_reasons()
        );
        stats.total.check_reconciled()?;
    }
    Ok(())
}

/// Checks that a packet whose transport header is beyond the copied bytes is decided by --fail, and counted.
fn cut(subject: &Subject) -> anyhow::Result<()> {
    const DESTINATION_OPTIONS: u8 = 60;
    const PAD_N: u8 = 1;
    const OPTIONS_BYTES: u8 = 248;
    let localhost = IpAddr::V6(Ipv6Addr::LOCALHOST);
    let mut payload = vec![TCP, OPTIONS_BYTES / 8 - 1, PAD_N, OPTIONS_BYTES - 4];
    payload.resize(OPTIONS_BYTES.into(), 0);
    payload.extend(tcp(5));
    for (mode, verdict) in [("closed", "drop"), ("open", "accept")] {
        let namespace = namespace()?;
        restore(
            &namespace,
            "ip6tables",
            "-A OUTPUT -s ::1 -d ::1 -j NFQUEUE",
        )?;
        let policy = chain("output", "accept", "counter tcp dport 1 drop")?;
        let firewall = start(subject, &namespace, &policy, &["--fail", mode])?;
        let packet = ipv6(6, DESTINATION_OPTIONS, payload.len() as u16, &payload);
        RawSender::new(&namespace, localhost)?.send(&packet)?;
        until("the packet is counted", PATIENCE, || {
            Ok(firewall.ledger()?.total.undecidable == 1)
        })?;
        let stats = firewall.finish()?;
        // Statements before the match that can't be decided have taken effect.
        policy.check_counter(&stats, 3, stats.total.received)?;
        ensure!(
            stats.total.verdict(verdict) >= 1 && stats.total.beyond_copy == 1,
            "{:?}",
            stats.total
        );
        stats.total.check_reconciled()?;
    }
    Ok(())
}

/// Checks that a policy starts with the smallest --copy-bytes that it requires: 0 if it reads no byte, 1 if it counts,
/// 20 for a field of the IPv4 header.
fn metadata_only(subject: &Subject) -> anyhow::Result<()> {
    for (rules, copy_bytes) in [
        ("meta mark 5 drop", 0),
        ("counter", 1),
        ("ip ttl 64 accept", 20),
    ] {
        let namespace = namespace()?;
        restore(&namespace, "iptables", "-A OUTPUT -p udp -j NFQUEUE")?;
        let policy = chain("output", "accept", rules)?;
        let bytes = copy_bytes.to_string();
        let firewall = start(subject, &namespace, &policy, &["--copy-bytes", &bytes])?;
        let started = firewall.start_line()?;
        let requirement = started.requirement.context("no requirement")?;
        ensure!(
            started.copy_bytes == copy_bytes && requirement.copy_bytes == copy_bytes,
            "\"{rules}\": copies {} bytes, reads {requirement:?}",
            started.copy_bytes
        );
        let receiver = receiver(&namespace, LOCALHOST, PORT)?;
        let client = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
        client.send_to(&[0; 72], SocketAddr::new(LOCALHOST, PORT))?;
        ensure!(
            arrived(&receiver, 1)?.len() == 1,
            "\"{rules}\": it did not arrive"
        );
        let stats = firewall.finish()?;
        if copy_bytes == 1 {
            let seen = stats.policy.as_ref().context("no policy")?;
            ensure!(policy.counter(seen, 3)? == (1, 100), "{seen:?}");
        }
        stats.total.check_clean()?;
    }
    Ok(())
}

/// Checks that one limit counts the packets of all queues together.
fn limit_of_all_queues(subject: &Subject) -> anyhow::Result<()> {
    let namespace = namespace()?;
    restore(
        &namespace,
        "iptables",
        "-A OUTPUT -p udp --dport 1001 -j NFQUEUE --queue-num 0",
    )?;
    restore(
        &namespace,
        "iptables",
        "-A OUTPUT -p udp --dport 1002 -j NFQUEUE --queue-num 1",
    )?;
    let policy = chain(
        "output",
        "drop",
        "counter limit rate 1/hour burst 7 packets counter accept",
    )?;
    let firewall = start(subject, &namespace, &policy, &["--queue", "0:1"])?;
    let receivers = [1001, 1002].map(|port| receiver(&namespace, LOCALHOST, port));
    let client = namespace.enter(|| UdpSocket::bind((LOCALHOST, 0)))?;
    for _ in 0..20 {
        // Sending fails with EPERM if the previous packet was dropped.
        let _ = client.send_to(b"x", (LOCALHOST, 1001));
        let _ = client.send_to(b"x", (LOCALHOST, 1002));
    }
    // Every datagram that passes has then arrived.
    firewall.settled_ledger()?;
    let mut sum = 0;
    for receiver in receivers {
        sum += arrived(&receiver?, 0)?.len();
    }
    ensure!(sum == 7, "{sum} datagrams arrived");
    let stats = firewall.finish()?;
    ensure!(stats.total.verdict("accept") == 7, "{:?}", stats.total);
    stats.total.check_clean()
}
