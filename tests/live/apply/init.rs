// SPDX-License-Identifier: GPL-2.0-or-later
//! `fwctl init`: a host and a client in two namespaces, before and after the first policy.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::record::Record;
use testbed::twin::{built, Twin};
use testbed::wait::{patience, until, PATIENCE};

use super::place::{Place, Row, POLICY};

pub const ROWS: &[Row] = &[
    ("init-protects-a-host", init_protects_a_host),
    ("init-knows-its-session", init_knows_its_session),
    ("init-allows-names", init_allows_names),
    ("init-meets-older-connections", init_meets_older_connections),
    ("init-tries-the-last-minute", init_tries_the_last_minute),
    ("init-goes-back", init_goes_back),
    ("init-replaces-no-file", init_replaces_no_file),
];

const SSH: u16 = 22;
const WEB: u16 = 80;
const OTHER: u16 = 5000;
/// Time after which an attempt to connect or read counts as unanswered.
const SOON: Duration = Duration::from_millis(700);

/// Host to be protected, and a client.
struct Hosts {
    host: Place,
    client: Namespace,
}

impl Hosts {
    fn new() -> anyhow::Result<Hosts> {
        let hosts = Hosts {
            host: Place::with_twin(Twin::Rust)?,
            client: Namespace::new()?,
        };
        Namespace::veth_pair(&hosts.host.namespace, &hosts.client)?;
        // The kernel ends duplicate address detection asynchronously, even if it is disabled.
        for (namespace, address) in [
            (&hosts.host.namespace, VETH_IPV6.0),
            (&hosts.client, VETH_IPV6.1),
        ] {
            until("an address that can be bound", PATIENCE, || {
                Ok(listen(namespace, address, OTHER).is_ok())
            })?;
        }
        Ok(hosts)
    }

    fn policy(&self) -> String {
        self.host.folder.file("policy.nft")
    }

    /// Runs fwctl init with the policy's path, without SSH_CONNECTION.
    fn init(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        self.init_in("", arguments)
    }

    /// Runs fwctl init with the policy's path.
    /// - claim: value of SSH_CONNECTION; empty = none.
    fn init_in(&self, claim: &str, arguments: &[&str]) -> anyhow::Result<Output> {
        let policy = self.policy();
        let words = [&["init", policy.as_str()], arguments].concat();
        let mut command = self.host.command_under(&[], &words);
        match claim {
            "" => command.env_remove("SSH_CONNECTION"),
            claim => command.env("SSH_CONNECTION", claim),
        };
        Ok(command.output()?)
    }
}

fn listen(namespace: &Namespace, address: IpAddr, port: u16) -> anyhow::Result<TcpListener> {
    namespace.enter(|| Ok(TcpListener::bind((address, port))?))
}

fn connect(
    namespace: &Namespace,
    address: IpAddr,
    port: u16,
    limit: Duration,
) -> anyhow::Result<TcpStream> {
    let server = SocketAddr::new(address, port);
    let stream = namespace.enter(|| TcpStream::connect_timeout(&server, limit))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Both ends of a connection.
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

impl Connection {
    fn new(client: &Namespace, listener: &TcpListener) -> anyhow::Result<Connection> {
        let address = listener.local_addr()?;
        let client = connect(client, address.ip(), address.port(), PATIENCE)?;
        let (server, _) = listener.accept()?;
        server.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { client, server })
    }

    /// Returns the value of SSH_CONNECTION that sshd would set for this connection.
    fn claim(&self) -> anyhow::Result<String> {
        let (client, server) = (self.server.peer_addr()?, self.server.local_addr()?);
        let (from, to) = (client.ip(), server.ip());
        Ok(format!("{from} {} {to} {}", client.port(), server.port()))
    }

    /// Sends bytes to the client, then to the server. Fails unless both arrive.
    fn check(&mut self) -> anyhow::Result<()> {
        let mut bytes = [0; 4];
        self.server.write_all(b"down")?;
        self.client
            .read_exact(&mut bytes)
            .context("to the client")?;
        self.client.write_all(b"up..")?;
        self.server
            .read_exact(&mut bytes)
            .context("to the server")?;
        Ok(())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn check_done(output: &Output) -> anyhow::Result<()> {
    ensure!(
        output.status.success(),
        "{}: {}",
        output.status,
        said(output)
    );
    Ok(())
}

fn check_refused(output: &Output, words: &str) -> anyhow::Result<()> {
    let text = said(output);
    ensure!(
        output.status.code() == Some(2) && text.contains(words),
        "{}: {text}",
        output.status
    );
    Ok(())
}

/// Checks that sessions over IPv4 and IPv6 continue, although the server sends first, and that ports that were not
/// opened are closed.
fn init_protects_a_host() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let host = &hosts.host.namespace;
    let addresses = [VETH_IPV4.0, VETH_IPV6.0];
    let listeners = |port| -> anyhow::Result<Vec<TcpListener>> {
        addresses
            .iter()
            .map(|one| listen(host, *one, port))
            .collect()
    };
    let (ssh, web, other) = (listeners(SSH)?, listeners(WEB)?, listeners(OTHER)?);
    let sessions = ssh.iter().map(|one| Connection::new(&hosts.client, one));
    let mut sessions: Vec<Connection> = sessions.collect::<anyhow::Result<_>>()?;
    for listener in &other {
        Connection::new(&hosts.client, listener)?;
    }
    let claim = sessions[0].claim()?;
    let output = hosts.init_in(&claim, &["--yes", "--open", "80", "--confirm", "600"])?;
    check_done(&output)?;
    let text = said(&output);
    ensure!(text.contains("no longer reach tcp 5000 ("), "{text}");
    ensure!(!text.contains("not believed"), "{text}");
    for session in &mut sessions {
        session.check()?;
    }
    for listener in web.iter().chain(&ssh) {
        Connection::new(&hosts.client, listener)?.check()?;
    }
    for address in addresses {
        ensure!(
            connect(&hosts.client, address, OTHER, SOON).is_err(),
            "{address}"
        );
    }
    // Answers to connections of the host arrive.
    for address in [VETH_IPV4.1, VETH_IPV6.1] {
        let listener = listen(&hosts.client, address, OTHER)?;
        Connection::new(host, &listener)?.check()?;
    }
    hosts.host.done(&["confirm"])?;
    let mut check = Command::new(built("fwctl"));
    check_done(
        &check
            .args(["check", &hosts.policy(), "--config", "/nonexistent"])
            .output()?,
    )?;
    let text = fs::read_to_string(hosts.policy())?;
    let client = sessions[0].server.peer_addr()?;
    ensure!(
        text.contains(&format!("# expect: in tcp {client} -> ")),
        "{text}"
    );
    Ok(())
}

/// Checks that the kernel's table of sockets identifies the session, whatever SSH_CONNECTION says.
fn init_knows_its_session() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let address = VETH_IPV6.0;
    let ssh = listen(&hosts.host.namespace, address, SSH)?;
    let session = Connection::new(&hosts.client, &ssh)?;
    let claim = session.claim()?;
    let from = ["--print", "--ssh-from", "192.0.2.1"];
    check_refused(
        &hosts.init_in(&claim, &from)?,
        "would end this session, which comes from fd77::2",
    )?;
    check_done(&hosts.init_in(&claim, &["--print", "--ssh-from", "fd77::/16"])?)?;
    let false_claim = claim.replacen("fd77::2", "192.0.2.1", 1);
    let output = hosts.init_in(&false_claim, &from)?;
    check_done(&output)?;
    ensure!(
        said(&output).contains("SSH_CONNECTION is not believed"),
        "{}",
        said(&output)
    );
    // A connection that has ended is not a session.
    drop(session);
    drop(ssh);
    check_done(&hosts.init_in(&claim, &from)?)
}

/// Returns true if a request for a host name reaches the server.
/// - expected: time limit for the request: PATIENCE if true, SOON if false.
fn asks(
    client: &Namespace,
    listener: &TcpListener,
    name: &str,
    expected: bool,
) -> anyhow::Result<bool> {
    let mut connection = Connection::new(client, listener)?;
    let limit = patience(expected, SOON);
    connection.server.set_read_timeout(Some(limit))?;
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
    connection.client.write_all(request.as_bytes())?;
    Ok(connection
        .server
        .read(&mut [0; 64])
        .is_ok_and(|length| length > 0))
}

/// Checks a policy with allowed names. The session's server sends first, and the kernel has no state of the connection:
/// none of its packets was tracked before.
fn init_allows_names() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let host = &hosts.host.namespace;
    let ssh = listen(host, VETH_IPV4.0, SSH)?;
    let mut session = Connection::new(&hosts.client, &ssh)?;
    let servers = [
        listen(&hosts.client, VETH_IPV4.1, WEB)?,
        listen(&hosts.client, VETH_IPV6.1, WEB)?,
    ];
    let other = listen(&hosts.client, VETH_IPV4.1, OTHER)?;
    let names = [
        "--allow",
        "allowed.example,*.allowed.example,10.77.0.2:5000",
    ];
    let output = hosts.init(&[&["--yes", "--confirm", "600"], &names[..]].concat())?;
    check_done(&output)?;
    session.check()?;
    for server in &servers {
        ensure!(
            asks(host, server, "www.allowed.example", true)?,
            "www.allowed.example"
        );
        ensure!(
            !asks(host, server, "denied.example", false)?,
            "denied.example"
        );
    }
    Connection::new(host, &other)?.check()?;
    listen(&hosts.client, VETH_IPV4.1, OTHER + 1)?;
    ensure!(
        connect(host, VETH_IPV4.1, OTHER + 1, SOON).is_err(),
        "another port"
    );
    ensure!(hosts.host.firewall().is_some(), "no firewall runs");
    Connection::new(&hosts.client, &ssh)?.check()?;
    session.check()
}

/// Returns true if bytes that one end sends reach the other end within SOON.
fn arrives(from: &mut TcpStream, to: &mut TcpStream) -> anyhow::Result<bool> {
    from.write_all(b"1")?;
    to.set_read_timeout(Some(SOON))?;
    let arrived = to.read(&mut [0; 1]).is_ok();
    to.set_read_timeout(Some(PATIENCE))?;
    Ok(arrived)
}

/// Checks connections that this host opened before the policy was loaded. If the policy allows all outgoing
/// connections, they continue once the host sends. If the policy allows only a name, data of the host does not go out.
fn init_meets_older_connections() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let host = &hosts.host.namespace;
    let servers = [
        listen(&hosts.client, VETH_IPV4.1, WEB)?,
        listen(&hosts.client, VETH_IPV6.1, OTHER)?,
    ];
    for server in &servers {
        let mut free = Connection::new(host, server)?;
        let mut restricted = Connection::new(host, server)?;
        check_done(&hosts.init(&["--yes", "--confirm", "600"])?)?;
        ensure!(
            !arrives(&mut free.server, &mut free.client)?,
            "the server's packet came in first"
        );
        free.client.write_all(b"up..")?;
        free.server.read_exact(&mut [0; 4])?;
        free.client.read_exact(&mut [0; 1])?;
        free.check()?;
        hosts.host.done(&["revert"])?;
        let names = [
            "--yes",
            "--force",
            "--confirm",
            "600",
            "--allow",
            "allowed.example",
        ];
        check_done(&hosts.init(&names)?)?;
        let Connection { client, server } = &mut restricted;
        ensure!(!arrives(client, server)?, "what is not allowed went out");
        hosts.host.done(&["revert"])?;
        fs::remove_file(hosts.policy())?;
    }
    Ok(())
}

/// Checks that `init` prints the chain policy that would drop packets of the host's last minute, and prints no trial
/// without a record of packets.
fn init_tries_the_last_minute() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let host = &hosts.host.namespace;
    let folder = hosts.host.folder.file("record");
    let options = ["--yes", "--confirm", "600", "--record", &folder];
    let output = hosts.init(&options)?;
    check_done(&output)?;
    ensure!(!said(&output).contains("tried"), "{}", said(&output));
    hosts.host.done(&["unapply"])?;
    fs::remove_file(hosts.policy())?;

    let _record = Record::start(host, &folder)?;
    let other = listen(host, VETH_IPV4.0, OTHER)?;
    let session = listen(host, VETH_IPV4.0, SSH)?;
    Connection::new(&hosts.client, &other)?.check()?;
    Connection::new(&hosts.client, &session)?.check()?;
    until("the record to have the packets", PATIENCE, || {
        let output = hosts.init(&options)?;
        check_done(&output)?;
        hosts.host.done(&["revert"])?;
        fs::remove_file(hosts.policy())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let drops = |line: &&str| line.contains("would be dropped by policy inet");
        let count = text.lines().filter(drops).count();
        ensure!(count <= 1, "{text}");
        Ok(count == 1 && said(&output).contains("of the last"))
    })
}

/// Checks that without a confirmation the rules are restored, and that the next boot does not load the file.
fn init_goes_back() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let before = hosts.host.rules()?;
    let mut deadlines = ["2", "20", "100"].into_iter();
    loop {
        let seconds = deadlines.next().context("no init ended in time")?;
        let output = hosts.init(&["--yes", "--force", "--confirm", seconds])?;
        hosts.host.wait_settled()?;
        hosts.host.check_rules(&before)?;
        // On a busy machine the revert may come first, and end a running `fwctl init`.
        if output.status.success() {
            break;
        }
    }
    let output = hosts.host.run(&["boot", &hosts.policy()])?;
    check_refused(&output, ", which was reverted")?;
    hosts.host.check_rules(&before)
}

fn init_replaces_no_file() -> anyhow::Result<()> {
    let hosts = Hosts::new()?;
    let own = hosts.host.folder.write("own.nft", POLICY)?;
    std::os::unix::fs::symlink(&own, hosts.policy())?;
    check_refused(&hosts.init(&["--yes"])?, "is there: change it")?;
    check_refused(&hosts.init(&[])?, "stdin is no terminal")?;
    // This policy can't be applied, so the existing file must stay unchanged.
    let taken = "table inet host {\n}\n";
    hosts.host.namespace.feed("nft", &["-f", "-"], taken)?;
    check_refused(
        &hosts.init(&["--yes", "--force"])?,
        "another program made it",
    )?;
    ensure!(
        fs::read_link(hosts.policy())?.to_string_lossy() == own,
        "the link is another"
    );
    let untaken = "delete table inet host\n";
    hosts.host.namespace.feed("nft", &["-f", "-"], untaken)?;
    check_done(&hosts.init(&["--yes", "--force", "--confirm", "600"])?)?;
    ensure!(fs::symlink_metadata(hosts.policy())?.is_file(), "a link");
    ensure!(fs::read_to_string(&own)? == POLICY, "the link was followed");
    ensure!(
        fs::read_link(hosts.policy() + ".old")?.to_string_lossy() == own,
        "no old link"
    );
    hosts.host.done(&["revert"])?;
    Ok(())
}
