// SPDX-License-Identifier: GPL-2.0-or-later
//! The name stage (docs/STAGE.md): the kernel decides by a policy that `stage` has split, and a firewall only names. The kernel's
//! text is loaded, and rules of iptables lead to the queue, since not every kernel has nft's.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{ensure, Context};
use stage::{Options, Queue, Split};
use testbed::firewall::Firewall;
use testbed::folder::Folder;
use testbed::place::run;
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use crate::evasion::net::{Net, Sees, SERVER};
use crate::names;

const ROWS: &[Row] = &[
    ("real-ends-in-the-stage", 180, real_ends),
    ("a-settled-connection-is-not-queued", 120, settled),
    ("packets-queued-a-connection", 120, packets),
    ("a-reload-asks-again", 120, reload),
    ("foreign-bits-stay", 120, foreign_bits),
];

pub fn cases() -> Vec<Case> {
    for_each_twin(ROWS)
}

/// A firewall that names for the kernel.
pub struct Stage {
    pub firewall: Firewall,
    folder: Folder,
}

fn split(text: &str, generation: u32) -> anyhow::Result<Split> {
    let options = Options {
        queue: Queue::Iptables,
        generation,
        ..Options::default()
    };
    let source = stage::text("policy.nft", text)?;
    stage::split(&source, &options).map_err(|refusal| anyhow::anyhow!("{refusal}"))
}

/// Loads the kernel's text in one transaction.
fn load(net: &Net, folder: &Folder, split: &Split) -> anyhow::Result<()> {
    let kernel = folder.replace("kernel.nft", &split.kernel);
    let kernel = kernel.map(|_| folder.file("kernel.nft"))?;
    run(&net.firewall, "nft", &["-f", &kernel]).map(drop)
}

impl Stage {
    /// Splits a policy and starts a twin that names for it, in place of the rules that lead all packets to the queue.
    pub fn start(net: &Net, twin: Twin, text: &str) -> anyhow::Result<Stage> {
        let folder = Folder::shared()?;
        let split = split(text, 0)?;
        folder.write("kernel.nft", "")?;
        let names = folder.write("names.nft", &split.daemon)?;
        load(net, &folder, &split)?;
        for tool in ["iptables", "ip6tables"] {
            run(&net.firewall, tool, &["--wait", "-F", "FORWARD"])?;
            run(&net.firewall, tool, &["--wait", "-t", "mangle", "-F"])?;
            let rules = split.iptables.as_deref().context("rules of iptables")?;
            net.firewall
                .feed(&format!("{tool}-restore"), &["--noflush", "--wait"], rules)?;
        }
        let arguments = [
            "--policy",
            &names,
            "--stage",
            &split.stage,
            "--hello-timeout",
            "1",
        ];
        let firewall = Firewall::start(&net.firewall, twin, &arguments)?;
        Ok(Stage { firewall, folder })
    }

    /// Puts another policy in the place of the first one: the firewall's first, which the kernel does not believe before it has its own.
    fn reload(&self, net: &Net, text: &str, generation: u32) -> anyhow::Result<()> {
        let split = split(text, generation)?;
        self.folder.replace("names.nft", &split.daemon)?;
        proc::signal(self.firewall.pid, libc::SIGHUP);
        load(net, &self.folder, &split)
    }

    fn received(&self) -> anyhow::Result<u64> {
        Ok(self.firewall.settled_ledger()?.total.received)
    }

    pub fn finish(self) -> anyhow::Result<()> {
        self.firewall.finish().map(drop)
    }
}

const POLICY: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni @denied counter drop
		http host @denied counter drop
		th dport 53 dns name @denied counter drop
		tls alpn "denied" counter drop
	}
}
"#;

/// Every client reaches allowed names and no denied one, and the kernel's own counters say so.
fn real_ends(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let _resolver = names::start_resolver(&net, &[names::EVERY_NAME.to_owned()])?;
    let stage = Stage::start(&net, twin, POLICY)?;
    names::ask_all(&net, false)?;
    stage.finish()?;
    let listed = run(
        &net.firewall,
        "nft",
        &["list", "chain", "inet", "filter", "forward"],
    )?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let counted: Vec<bool> = listed
        .lines()
        .filter(|line| line.contains("counter packets"))
        .map(|line| !line.contains("counter packets 0 "))
        .collect();
    ensure!(counted == [true, true, true, false], "{listed}");
    Ok(())
}

const PORT: u16 = 8080;
/// A client that is neither of TLS nor of HTTP: it has no name.
const NAMELESS: &[u8] = b"SSH-2.0-nameless\r\n";

/// A connection through the firewall, as both ends have it.
struct Ends {
    client: TcpStream,
    server: TcpStream,
}

impl Ends {
    fn new(net: &Net) -> anyhow::Result<Ends> {
        let address = SocketAddr::from((SERVER, PORT));
        let listener = net.server.enter(|| TcpListener::bind(address))?;
        let client = net
            .client
            .enter(|| TcpStream::connect_timeout(&address, PATIENCE))?;
        let (server, _) = listener.accept()?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
        }
        Ok(Ends { client, server })
    }

    /// Bytes there, and back.
    fn exchange(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let Ends { client, server } = self;
        let mut read = vec![0; bytes.len()];
        client.write_all(bytes)?;
        server.read_exact(&mut read)?;
        server.write_all(&read)?;
        client.read_exact(&mut read)?;
        ensure!(read == bytes, "other bytes came");
        Ok(())
    }

    /// Whether the client's bytes still come to the server.
    fn passes(&mut self) -> anyhow::Result<bool> {
        self.server
            .set_read_timeout(Some(Duration::from_millis(300)))?;
        self.client.write_all(b"x")?;
        Ok(self.server.read(&mut [0; 64]).is_ok())
    }
}

/// Once its server has acknowledged what decided, no packet of a connection is queued.
fn settled(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let mut ends = Ends::new(&net)?;
    ends.exchange(NAMELESS)?;
    ends.exchange(b"settled")?;
    let before = stage.received()?;
    let bulk = vec![7; 1 << 16];
    for _ in 0..100 {
        ends.exchange(&bulk)?;
    }
    let after = stage.received()?;
    ensure!(
        before > 0 && after == before,
        "{} packets were queued",
        after - before
    );
    stage.finish()
}

/// So many packets of a connection of TLS are queued at most: its handshake of TCP, its hello, and what acknowledges it.
const QUEUED_MAX: u64 = 7;

fn packets(twin: Twin) -> anyhow::Result<()> {
    const COUNT: u64 = 20;
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let before = stage.received()?;
    for _ in 0..COUNT {
        ensure!(names::is_fetched(&net, "allowed.example")?, "no answer");
    }
    let queued = stage.received()? - before;
    println!("{queued} packets of {COUNT} connections were queued");
    ensure!(
        (4 * COUNT..=QUEUED_MAX * COUNT).contains(&queued),
        "{queued}"
    );
    stage.finish()
}

/// A connection that was settled by one policy is asked about again by the next one.
fn reload(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    let mut ends = Ends::new(&net)?;
    ends.exchange(NAMELESS)?;
    ends.exchange(b"settled")?;
    let denying = POLICY.replace("tls alpn \"denied\"", "tls sni missing");
    stage.reload(&net, &denying, 1)?;
    until(
        "the connection is refused",
        PATIENCE,
        || Ok(!ends.passes()?),
    )?;
    stage.reload(&net, POLICY, 2)?;
    until("the connection goes on", PATIENCE, || ends.passes())?;
    let ended = stage.firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.code == Some(0),
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Bits of marks that are not the stage's stay as they are, in packets and connections.
fn foreign_bits(twin: Twin) -> anyhow::Result<()> {
    const POLICY: &str = r#"
table inet filter {
	chain before {
		type filter hook prerouting priority -160; policy accept;
		meta mark set 0x5
		ct mark set ct mark | 0x60
	}
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni "denied.example" drop
		meta mark != 0x5 counter comment "other mark"
		ct mark & 0x60 != 0x60 counter comment "other ct mark"
	}
}
"#;
    let net = Net::new(Sees::Both)?;
    let stage = Stage::start(&net, twin, POLICY)?;
    for _ in 0..3 {
        ensure!(names::is_fetched(&net, "allowed.example")?, "no answer");
    }
    stage.finish()?;
    let listed = run(
        &net.firewall,
        "nft",
        &["list", "chain", "inet", "filter", "forward"],
    )?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    let clean = listed.matches("counter packets 0 bytes 0").count();
    ensure!(clean == 2, "{listed}");
    Ok(())
}
