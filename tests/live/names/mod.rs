// SPDX-License-Identifier: GPL-2.0-or-later
//! Decisions by name between real clients and servers. The clients are curl, openssl and Python over TLS, curl over
//! HTTP and dig over DNS; the servers are nginx and dnsmasq. rustls over TLS and quinn over QUIC are both clients and
//! servers. Sets learn addresses from answers.

use std::net::IpAddr;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::control::Client;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::run;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::{for_each_twin, Case, Row};

use crate::evasion::net::{Net, Sees, SERVER, SERVER_6};

mod bounds;
pub mod ends;
pub mod judge;
pub mod learn;
mod nat;
mod others;
mod ports;
pub mod programs;
mod queries;
pub mod reject;
mod shipped;

use ends::{Heard, Hello, Identity, HELLOS};

/// Backends of --backend, each with its own way to receive packets.
const BACKENDS: [&str; 3] = ["raw", "mnl", "classic"];

const POLICY: &str = r#"
table inet filter {
	set denied { type hostname; elements = { "denied.example", "*.denied.example" } }
	chain forward {
		type filter hook forward priority 0; policy accept;
		tls sni @denied counter drop
		http host @denied counter drop
		th dport 53 dns name @denied counter drop
		tls alpn "denied" counter drop
		dns type mx counter drop
	}
}
"#;

const ALLOWED: [&str; 3] = [
    "allowed.example",
    "not-denied.example",
    "denied.example.org",
];
const DENIED: [&str; 3] = [
    "denied.example",
    "WWW.Denied.Example",
    "a.b.c.denied.example",
];

const ROWS: &[Row] = &[
    ("real-ends", real_ends),
    ("rustls-and-quinn", rust_ends),
    ("reload-and-names", reload),
    ("reload-without-names", reload_without_names),
];

pub fn cases() -> Vec<Case> {
    let all = [
        ROWS,
        bounds::ROWS,
        learn::ROWS,
        nat::ROWS,
        others::ROWS,
        ports::ROWS,
        queries::ROWS,
        reject::ROWS,
        shipped::ROWS,
    ]
    .concat();
    let judged = judge::cases();
    for_each_twin(&all).into_iter().chain(judged).collect()
}

/// Client program that sends a request for a host name.
struct Asker {
    /// Name of the client in error messages.
    what: &'static str,
    /// Returns the command line for a host name and a time limit in seconds.
    command: fn(&str, &str) -> Vec<String>,
    /// Text that the client prints if it gets an answer.
    says: &'static str,
}

/// Time limits in seconds: for an answer that must arrive, and for an answer that must not arrive.
const LIMITS: (&str, &str) = ("60", "4");

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn server() -> String {
    let [a, b, c, d] = SERVER;
    format!("{a}.{b}.{c}.{d}")
}

fn curl(name: &str, scheme: &str, port: u16, more: &[&str]) -> Vec<String> {
    let resolve = format!("{name}:{port}:{}", server());
    let url = format!("{scheme}://{name}:{port}/");
    let start = ["curl", "-sk", "--max-time", "5", "--resolve", &resolve];
    words(&[&start, more, &[&url]].concat())
}

pub fn dig(name: &str, more: &[&str]) -> Vec<String> {
    let at = format!("@{}", server());
    words(&[&["dig", &at, name, "+time=4", "+tries=1", "+short"], more].concat())
}

/// Client in Python, whose hello differs from openssl's.
const PYTHON: &str = "
import socket, ssl, sys
context = ssl._create_unverified_context()
context.set_alpn_protocols(['http/1.1'])
stream = socket.create_connection((sys.argv[1], 443))
stream = context.wrap_socket(stream, server_hostname=sys.argv[2])
print('connected', stream.version())
";

const ASKERS: &[Asker] = &[
    Asker {
        what: "curl, TLS",
        command: |name, limit| curl(name, "https", 443, &["--max-time", limit]),
        says: "here",
    },
    Asker {
        what: "curl, TLS 1.2",
        command: |name, limit| {
            curl(
                name,
                "https",
                443,
                &["--max-time", limit, "--tls-max", "1.2"],
            )
        },
        says: "here",
    },
    Asker {
        what: "curl, HTTP",
        command: |name, limit| curl(name, "http", 80, &["--max-time", limit]),
        says: "here",
    },
    Asker {
        what: "openssl s_client",
        command: |name, limit| {
            let to = format!("{}:443", server());
            words(&[
                "timeout",
                limit,
                "openssl",
                "s_client",
                "-connect",
                &to,
                "-servername",
                name,
            ])
        },
        says: "BEGIN CERTIFICATE",
    },
    Asker {
        what: "Python",
        command: |name, limit| words(&["timeout", limit, "python3", "-c", PYTHON, &server(), name]),
        says: "connected",
    },
    Asker {
        what: "dig, UDP",
        command: |name, limit| dig(name, &[&format!("+time={limit}")]),
        says: "192.0.2.77",
    },
    Asker {
        what: "dig, TCP",
        command: |name, limit| dig(name, &["+tcp", &format!("+time={limit}")]),
        says: "192.0.2.77",
    },
];

/// Runs a client. Returns true if its stdout contains `says`, which the client prints if it gets an answer.
pub fn is_answered(client: &Namespace, command: &[String], says: &str) -> anyhow::Result<bool> {
    let (program, arguments) = command.split_first().context("a command")?;
    let output = client
        .command(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} could not be started: run make deps"))?;
    Ok(String::from_utf8_lossy(&output.stdout).contains(says))
}

/// Running dnsmasq, killed on drop.
pub struct Resolver(Child);

impl Drop for Resolver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Option of dnsmasq that gives every name the same address.
pub const EVERY_NAME: &str = "--address=/#/192.0.2.77";

/// Starts dnsmasq on the server.
/// - more: additional options.
pub fn start_resolver(net: &Net, more: &[String]) -> anyhow::Result<Resolver> {
    let child = net
        .server
        .command("dnsmasq")
        .args([
            "--keep-in-foreground",
            "--no-resolv",
            "--no-hosts",
            "--conf-file=/dev/null",
        ])
        .args(["--pid-file=", "--user=root"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("dnsmasq could not be started: run make deps")?;
    let resolver = Resolver(child);
    until("dnsmasq listens", PATIENCE, || {
        let listening = run(&net.server, "ss", &["-Hlun"])?.stdout;
        Ok(String::from_utf8_lossy(&listening).contains(":53"))
    })?;
    Ok(resolver)
}

/// Returns true if curl gets an answer over TLS for a name.
pub fn is_fetched(net: &Net, name: &str) -> anyhow::Result<bool> {
    is_fetched_with(net, name, &[])
}

/// Returns true if curl gets an answer over TLS for a name.
/// - more: additional options of curl.
pub fn is_fetched_with(net: &Net, name: &str, more: &[&str]) -> anyhow::Result<bool> {
    is_answered(&net.client, &curl(name, "https", 443, more), "here")
}

/// Runs each client with each name, all concurrently. Checks which runs get an answer: all with allowed names must.
/// Returns the number of runs.
/// - denied: true if clients with denied names are expected to get an answer.
pub fn ask_all(net: &Net, denied: bool) -> anyhow::Result<usize> {
    let allowed = ALLOWED.map(|name| (name, true));
    let denied = DENIED.map(|name| (name, denied));
    let names = [allowed, denied].concat();
    thread::scope(|scope| {
        let pairs = ASKERS
            .iter()
            .flat_map(|asker| names.iter().map(move |name| (asker, *name)));
        let asked: Vec<_> = pairs
            .map(|(asker, (name, expected))| {
                let client = &net.client;
                let limit = if expected { LIMITS.0 } else { LIMITS.1 };
                let ask = move || is_answered(client, &(asker.command)(name, limit), asker.says);
                (asker, name, expected, scope.spawn(ask))
            })
            .collect();
        let count = asked.len();
        for (asker, name, expected, answer) in asked {
            let answered = answer.join().expect("no panic")?;
            ensure!(
                answered == expected,
                "{} gets an answer from {name}: {answered}",
                asker.what
            );
        }
        Ok(count)
    })
}

/// Starts a firewall whose guard drops no packet on a busy machine: these tests have no stall.
fn start(namespace: &Namespace, twin: Twin, arguments: &[&str]) -> anyhow::Result<Firewall> {
    Firewall::start(namespace, twin, &[&PATIENT_GUARD[..], arguments].concat())
}

/// Returns the number of connections whose names are unreadable.
fn unreadable(firewall: &Firewall) -> anyhow::Result<u64> {
    let connections = firewall.ledger()?.total.connections;
    Ok(connections.get("unreadable").copied().unwrap_or(0))
}

/// Runs clients with a firewall of each backend, one after another.
/// - clients: runs the clients; must end the firewall.
fn behind_each_backend(
    net: &Net,
    twin: Twin,
    policy: &str,
    clients: impl Fn(Firewall) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", policy)?;
    for backend in BACKENDS {
        let arguments = ["--policy", &policy, "--backend", backend];
        let firewall = start(&net.firewall, twin, &arguments)?;
        clients(firewall).context(backend)?;
    }
    Ok(())
}

/// Checks that every client reaches allowed names and no denied name, with each backend of the firewall.
fn real_ends(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let _resolver = start_resolver(&net, &[EVERY_NAME.to_owned()])?;
    behind_each_backend(&net, twin, POLICY, |firewall| {
        ask_all(&net, false)?;
        let mail = dig("allowed.example", &["-t", "mx", "+nocookie", "+comments"]);
        ensure!(
            !is_answered(&net.client, &mail, "NOERROR")?,
            "dig gets an answer to a question that no one may ask"
        );
        let more = ["--no-alpn", "--max-time", LIMITS.0];
        let offers = curl("allowed.example", "https", 443, &more);
        ensure!(
            is_answered(&net.client, &offers, "here")?,
            "curl without ALPN gets no answer"
        );
        let stats = firewall.finish()?;
        let counters = stats.policy.context("a policy")?.counters;
        let [tls, http, dns, alpn, mx] = &counters[..] else {
            anyhow::bail!("{counters:?}");
        };
        ensure!(
            tls.packets > 0 && http.packets > 0 && dns.packets > 0 && mx.packets > 0,
            "{counters:?}"
        );
        ensure!(alpn.packets == 0, "nobody offered it: {alpn:?}");
        Ok(())
    })
}

/// Time after which a handshake counts as refused.
pub const REFUSED: Duration = Duration::from_millis(1_500);
/// Maximum length in bytes of a QUIC datagram before path MTU discovery (RFC 9000, section 14.2).
const DATAGRAM_BYTES: usize = 1_200;

/// Starts handshakes with all hellos and all names concurrently, over TLS and QUIC, IPv4 and IPv6, and also with an
/// allowed name and a denied protocol. Checks which complete. Returns their number.
/// - denied: true if handshakes with denied names and the denied protocol are expected to complete.
fn greet_all(net: &Net, identity: &Identity, denied: bool) -> anyhow::Result<usize> {
    type Completes = fn(&Net, IpAddr, rustls::ClientConfig, &str, Duration) -> anyhow::Result<bool>;
    let ways: [(&str, Completes); 2] =
        [("TLS", ends::completes_tls), ("QUIC", ends::completes_quic)];
    let allowed = ALLOWED.map(|name| (name, None, true));
    let refused = DENIED.map(|name| (name, None, denied));
    let protocol = (ALLOWED[0], Some("denied"), denied);
    let names = [&allowed[..], &refused, &[protocol]].concat();
    let servers = [IpAddr::from(SERVER), IpAddr::from(SERVER_6)];
    let ways = ways.map(|way| servers.map(|server| (way, server)));
    thread::scope(|scope| {
        let mut asked = Vec::new();
        for ((way, completes), server) in ways.concat() {
            for hello in HELLOS {
                for &(name, offers, expected) in &names {
                    let config = identity.client(hello, offers)?;
                    let patience = if expected { PATIENCE } else { REFUSED };
                    let client =
                        scope.spawn(move || completes(net, server, config, name, patience));
                    let what = format!("{way} to {server}, {hello:?}, {name}");
                    asked.push((what, expected, client));
                }
            }
        }
        let count = asked.len();
        for (what, expected, client) in asked {
            let completed = client.join().expect("no panic").context(what.clone())?;
            ensure!(completed == expected, "{what}: completed: {completed}");
        }
        Ok(count)
    })
}

/// Checks that rustls and quinn reach allowed names and no denied name, with hellos of one packet and of several.
fn rust_ends(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let identity = Identity::new(&[ALLOWED, DENIED].concat())?;
    for hello in [Hello::PostQuantum, Hello::Longest] {
        let config = identity.client(hello, None)?;
        let bytes = ends::quic_hello(config, ALLOWED[0], rustls::quic::Version::V1, &[])?.len();
        ensure!(bytes > DATAGRAM_BYTES, "{hello:?} has {bytes} bytes only");
    }
    ends::serve_tls(&net, &identity)?;
    ends::serve_quic(&net, &identity, ends::QUIC_PORT, false, &Heard::default())?;
    behind_each_backend(&net, twin, POLICY, |firewall| {
        greet_all(&net, &identity, false)?;
        let stats = firewall.finish()?;
        let counters = stats.policy.context("a policy")?.counters;
        let [tls, _, _, alpn, _] = &counters[..] else {
            anyhow::bail!("{counters:?}");
        };
        ensure!(tls.packets > 0 && alpn.packets > 0, "{counters:?}");
        Ok(())
    })
}

/// Checks that a known connection stays known after a reload, and that the new policy decides it.
fn reload(twin: Twin) -> anyhow::Result<()> {
    const ASK: &str = "GET / HTTP/1.1\r\nHost: changing.example\r\n\r\n";
    let net = Net::new(Sees::Both)?;
    let folder = Folder::shared()?;
    let policy = folder.write("policy.nft", POLICY)?;
    let firewall = start(&net.firewall, twin, &["--policy", &policy])?;
    let mut client = Talker::start(&net)?;
    client.hear(ASK).context("before the reload")?;
    folder.replace(
        "policy.nft",
        POLICY.replace("\"denied.example\"", "\"changing.example\""),
    )?;
    testbed::proc::signal(firewall.pid, libc::SIGHUP);
    until("the connection is refused", PATIENCE, || {
        let is_answered = client.ask(ASK)?;
        // A late answer is no refusal.
        let counters = firewall.ledger()?.policy.context("a policy")?.counters;
        Ok(!is_answered && counters[1].packets > 0)
    })?;
    folder.replace("policy.nft", POLICY)?;
    testbed::proc::signal(firewall.pid, libc::SIGHUP);
    until("the connection goes on", PATIENCE, || client.ask(ASK))?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.code == Some(0),
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// Checks that a policy without names makes the firewall forget its connections: their packets are not followed then,
/// so a later policy with names must not use their names.
fn reload_without_names(twin: Twin) -> anyhow::Result<()> {
    const ASK: &str = "GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n";
    const NAMELESS: &str = "table inet filter {\n\tchain forward {\n\
        \t\ttype filter hook forward priority 0; policy accept;\n\t\ttcp dport 9 drop\n\t}\n}\n";
    let net = Net::new(Sees::Both)?;
    let folder = Folder::shared()?;
    let (policy, socket) = (folder.write("policy.nft", POLICY)?, folder.file("control"));
    let arguments = ["--policy", &policy, "--control", &socket];
    let firewall = start(&net.firewall, twin, &arguments)?;
    let mut followed = Talker::start(&net)?;
    followed.hear(ASK).context("before the reload")?;
    let mut control = Client::new(&socket)?;
    folder.replace("policy.nft", NAMELESS)?;
    control.command("reload")?;
    let mut listed = Value::Null;
    // A worker without CPU time does not answer.
    until("the connections are listed", PATIENCE, || {
        listed = control.ask(r#"{"command":"connections"}"#)?;
        Ok(listed["ok"] == true)
    })?;
    let listed = listed["connections"].as_array().context("connections")?;
    ensure!(listed.is_empty(), "{listed:?}");
    folder.replace("policy.nft", POLICY)?;
    control.command("reload")?;
    ensure!(!followed.ask(ASK)?, "an answer on a forgotten connection");
    let mut other = Talker::start(&net)?;
    other.hear(ASK).context("on a new connection")?;
    let ended = firewall.end_by(libc::SIGTERM)?;
    ensure!(
        ended.code == Some(0),
        "exit code {:?}: {}",
        ended.code,
        ended.stderr
    );
    Ok(())
}

/// HTTP connection that is kept open.
struct Talker(std::net::TcpStream);

impl Talker {
    fn start(net: &Net) -> anyhow::Result<Talker> {
        let address = std::net::SocketAddr::from((SERVER, 80));
        let stream = net
            .client
            .enter(|| std::net::TcpStream::connect_timeout(&address, PATIENCE))?;
        Ok(Talker(stream))
    }

    /// Sends a request. Returns true if it is answered soon. Skips late answers to earlier requests.
    fn ask(&mut self, text: &str) -> anyhow::Result<bool> {
        self.ask_within(text, Duration::from_millis(700))
    }

    /// Sends a request that must be answered.
    fn hear(&mut self, text: &str) -> anyhow::Result<()> {
        ensure!(self.ask_within(text, PATIENCE)?, "no answer");
        Ok(())
    }

    fn ask_within(&mut self, text: &str, limit: Duration) -> anyhow::Result<bool> {
        use std::io::{ErrorKind, Read, Write};
        let mut answer = [0; 4096];
        self.0.set_read_timeout(Some(Duration::from_millis(10)))?;
        while matches!(self.0.read(&mut answer), Ok(1..)) {}
        self.0.write_all(text.as_bytes())?;
        self.0.set_read_timeout(Some(limit))?;
        match self.0.read(&mut answer) {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
