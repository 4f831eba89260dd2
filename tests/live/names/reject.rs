// SPDX-License-Identifier: GPL-2.0-or-later
//! `reject` of a connection that shows a denied name: both ends receive a reset, wherever the firewall runs.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::ledger::Stats;
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::place::{restore, run, veth};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::start;
use crate::evasion::net::{Net, Sees, SERVER, SERVER_6};
use crate::evasion::wire::Version;

pub const ROWS: &[Row] = &[
    ("reject-where-it-forwards", forwards),
    ("reject-at-the-server", at_the_server),
    ("reject-by-another-policy", by_another_policy),
    ("reject-without-names", without_names),
];

/// Policy that rejects two names: the first by a plain `reject`, the second with a TCP reset. The firewall must reset
/// both ends for the plain `reject`, too: an ICMP error, its usual response, ends no established connection.
pub const POLICY: &str = r#"
table inet filter {
	chain forward {
		type filter hook forward priority 0; policy accept;
		http host "denied.example" counter reject
		http host "reset.example" counter reject with tcp reset
	}
	chain input {
		type filter hook input priority 0; policy accept;
		http host "denied.example" counter reject
		http host "reset.example" counter reject with tcp reset
	}
}
"#;

const PORT: u16 = 8080;
const DENIED: [&str; 2] = ["denied.example", "reset.example"];

/// Both ends of a connection.
pub struct Ends {
    client: TcpStream,
    server: TcpStream,
}

impl Ends {
    fn new(client: &Namespace, server: &Namespace, address: IpAddr) -> anyhow::Result<Ends> {
        let address = SocketAddr::from((address, PORT));
        let listener = server.enter(|| TcpListener::bind(address))?;
        let client = client.enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
        let (server, _) = listener.accept()?;
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_nodelay(true)?;
        }
        Ok(Ends { client, server })
    }

    pub fn of(net: &Net) -> anyhow::Result<Ends> {
        Ends::over(net, Version::V4)
    }

    pub fn over(net: &Net, version: Version) -> anyhow::Result<Ends> {
        let address: IpAddr = match version {
            Version::V4 => SERVER.into(),
            Version::V6 => SERVER_6.into(),
        };
        Ends::new(&net.client, &net.server, address)
    }

    /// Sends bytes from one end of a connection to the other end, and receives them there.
    fn pass(from: &mut TcpStream, to: &mut TcpStream, bytes: &[u8]) -> anyhow::Result<()> {
        from.write_all(bytes)?;
        let mut read = vec![0; bytes.len()];
        to.read_exact(&mut read)?;
        ensure!(read == bytes, "other bytes came");
        Ok(())
    }

    /// Fails unless both ends are reset, and neither has received the withheld bytes.
    fn are_reset(mut self, withheld: &[u8]) -> anyhow::Result<()> {
        is_reset(&mut self.client, withheld).context("client")?;
        is_reset(&mut self.server, withheld).context("server")
    }
}

/// Fails unless the end is reset. Reads all data before the reset first, and fails if it ends with the withheld bytes.
fn is_reset(end: &mut TcpStream, withheld: &[u8]) -> anyhow::Result<()> {
    let mut got = Vec::new();
    let ended = end.read_to_end(&mut got);
    let is_reset = matches!(&ended, Err(error) if error.kind() == ErrorKind::ConnectionReset);
    ensure!(is_reset, "it sees no reset: {ended:?}");
    ensure!(!got.ends_with(withheld), "it got what was denied");
    Ok(())
}

fn request(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
}

/// Sends requests with denied names: whole, in two parts at once, and with the second part after the server has
/// received the first. Checks that both ends are reset, and that an allowed request passes.
/// - connect: opens a connection.
pub fn ask(connect: &dyn Fn() -> anyhow::Result<Ends>) -> anyhow::Result<()> {
    for host in DENIED {
        let bytes = request(host);
        let (head, tail) = bytes.split_at(bytes.len() / 2);
        let mut whole = connect()?;
        whole.client.write_all(&bytes)?;
        whole.are_reset(tail).context("whole")?;
        let mut halves = connect()?;
        halves.client.write_all(head)?;
        halves.client.write_all(tail)?;
        halves.are_reset(tail).context("in two parts")?;
        let mut slow = connect()?;
        Ends::pass(&mut slow.client, &mut slow.server, head)?;
        slow.client.write_all(tail)?;
        slow.are_reset(tail).context("one part after the other")?;
    }
    let mut allowed = connect()?;
    let Ends { client, server } = &mut allowed;
    Ends::pass(client, server, &request("allowed.example"))?;
    Ends::pass(server, client, b"here")
}

fn ensure_reset(stats: &Stats) -> anyhow::Result<()> {
    let counters = &stats.policy.as_ref().context("a policy")?.counters;
    let counted: u64 = counters.iter().map(|counter| counter.packets).sum();
    ensure!(
        counted == 3 * DENIED.len() as u64,
        "one packet of each connection is refused by its name: {counters:?}"
    );
    Ok(())
}

/// Tests a firewall between both ends.
fn forwards(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    ask(&|| Ends::of(&net))?;
    ensure_reset(&firewall.finish()?)
}

/// Tests a firewall on the server's host, where the resets are queued, too.
fn at_the_server(twin: Twin) -> anyhow::Result<()> {
    let (client, server) = veth()?;
    for tool in ["iptables", "ip6tables"] {
        let rules = "-A INPUT -p tcp -j NFQUEUE\n-A OUTPUT -p tcp -j NFQUEUE";
        restore(&server, tool, rules)?;
    }
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    for address in [VETH_IPV4.1, VETH_IPV6.1] {
        let firewall = start(&server, twin, &["--policy", &policy])?;
        ask(&|| Ends::new(&client, &server, address)).with_context(|| address.to_string())?;
        ensure_reset(&firewall.finish()?)?;
    }
    Ok(())
}

/// Sends a packet from one end of a connection that the policy now rejects, and checks that both ends are reset. The
/// sender may be reset before: the policy also rejects a late acknowledgement.
fn refuse(mut from: TcpStream, mut to: TcpStream) -> anyhow::Result<()> {
    match from.write_all(b"more") {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        written => {
            written?;
            is_reset(&mut from, b"more").context("its sender")?;
        }
    }
    is_reset(&mut to, b"more").context("its receiver")
}

/// Checks that a policy that is loaded later rejects an established connection, by a packet of the client and by one of
/// the server.
fn by_another_policy(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let folder = Folder::shared()?;
    let open = POLICY.replace("denied.example", "other.example");
    let policy = folder.write("policy.nft", &open)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    let mut all = [Ends::of(&net)?, Ends::of(&net)?];
    for Ends { client, server } in &mut all {
        Ends::pass(client, server, &request(DENIED[0]))?;
        Ends::pass(server, client, b"here")?;
    }
    folder.replace("policy.nft", POLICY)?;
    testbed::proc::signal(firewall.pid, libc::SIGHUP);
    until("the new policy decides", PATIENCE, || {
        let mut probe = Ends::of(&net)?;
        probe.client.write_all(&request(DENIED[0]))?;
        let mut byte = [0; 1];
        Ok(probe.server.read(&mut byte).is_err())
    })?;
    let [by_client, by_server] = all;
    refuse(by_client.client, by_client.server).context("by the client")?;
    refuse(by_server.server, by_server.client).context("by the server")?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    Ok(())
}

/// Checks that a packet rejected for another reason than its name is answered as its rule specifies, and that the
/// server receives nothing.
fn without_names(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    // Otherwise the client sends the packet again if the machine is busy.
    let route = "route change default via 10.9.1.2 rto_min 100s\n";
    net.client.ip(route)?;
    let no_probe = ["-qw", "net.ipv4.tcp_early_retrans=0"];
    run(&net.client, "sysctl", &no_probe)?;
    let folder = Folder::shared()?;
    let text = POLICY.replace(
        "http host \"denied.example\" counter reject",
        "tcp dport 8080 tcp flags psh / psh counter reject with tcp reset",
    );
    let policy = folder.write("policy.nft", text)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    let mut ends = Ends::of(&net)?;
    ends.client.write_all(b"hello")?;
    let ended = ends.client.read(&mut [0; 1]);
    ensure!(
        matches!(&ended, Err(error) if error.kind() == ErrorKind::ConnectionReset),
        "the client sees no reset: {ended:?}"
    );
    let stats = firewall.finish()?;
    let sent = stats.policy.context("a policy")?.counters[0].packets;
    ensure!(sent == 1, "{sent} packets were rejected");
    ends.server.set_nonblocking(true)?;
    let ended = ends.server.read(&mut [0; 1]);
    ensure!(
        matches!(&ended, Err(error) if error.kind() == ErrorKind::WouldBlock),
        "the server hears of it: {ended:?}"
    );
    Ok(())
}
