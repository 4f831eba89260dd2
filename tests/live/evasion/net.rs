// SPDX-License-Identifier: GPL-2.0-or-later
//! Network of the evasions: a client that builds its own packets, the forwarding firewall, a router after it at which
//! the time to live of decoys ends, and a real server (nginx: TLS on port 443, HTTP on port 80).

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::frames::{hardware_address, Link};
use testbed::netns::Namespace;
use testbed::place::{namespace, restore, run};
use testbed::wait::{until, PATIENCE};

use super::DECOY;

/// Source address of the client's packets. The client's kernel has it with Hook::Output only (see `own_address`), so
/// that the kernel itself sends no answers.
pub const CLIENT: [u8; 4] = [10, 9, 1, 66];
pub const SERVER: [u8; 4] = [10, 9, 3, 2];
/// Source address of the client's IPv6 packets; the client's kernel has it with Hook::Output only, too.
pub const CLIENT_6: [u16; 8] = [0xfd09, 0, 0, 1, 0, 0, 0, 0x66];
pub const SERVER_6: [u16; 8] = [0xfd09, 0, 0, 3, 0, 0, 0, 2];
/// Number of hops from the client to the server. With one hop less, a packet ends at the router between firewall and
/// server.
pub const HOPS: u8 = 3;

/// Maximum delay of the server's acknowledgements after `acknowledge_late`: more than a server's first two
/// retransmission timeouts, the second of which is twice the first (RFC 6298; Linux begins with 200 ms).
const LATENESS: Duration = Duration::from_secs(2);

/// Part of the traffic that the firewall sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sees {
    /// Packets in both directions.
    Both,
    /// Packets from the client only.
    Client,
}

/// Hook in which the firewall's policy decides, and thus the host that it protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// The firewall is a router between client and server.
    Forward,
    /// The firewall is on the server.
    Input,
    /// The firewall is on the client.
    Output,
}

impl Hook {
    /// Returns the name that nft uses.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Forward => "forward",
            Hook::Input => "input",
            Hook::Output => "output",
        }
    }
}

/// Network of four namespaces. All processes end on drop.
pub struct Net {
    pub client: Namespace,
    /// Namespace of the firewall: the first router, the server or the client.
    pub firewall: Namespace,
    routers: [Namespace; 2],
    pub server: Namespace,
    pub hook: Hook,
    /// Hardware address of the first router's interface to the client.
    pub gateway: [u8; 6],
    /// Number of bytes per segment in the client's packets that a later kernel must split (GSO); None = the client's
    /// segments are separate packets.
    pub gso_bytes: Option<u16>,
    /// Maximum additional delay of the server's answers.
    pub lateness: Duration,
    /// True if the firewall's kernel may drop all packets of a client, since conntrack has no room for its connection:
    /// a missing SYN-ACK is then no error.
    pub loses_openings: bool,
    nginx: Child,
    /// Folder of nginx's certificate, key and logs.
    folder: Folder,
}

impl Drop for Net {
    fn drop(&mut self) {
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
    }
}

/// Joins two namespaces by a pair of interfaces: `right` in the namespace `left`, and `left` in the namespace `right`.
/// - network: number in their addresses: 10.9.NUMBER.0/24 and fd09:0:0:NUMBER::/64.
fn join(left: &Namespace, right: &Namespace, network: u8) -> anyhow::Result<()> {
    let ends = [(left, "right", 1), (right, "left", 2)];
    Namespace::veth_pair(left, right)?;
    for (namespace, name, host) in ends {
        let lines = format!(
            "link set veth down\nlink set veth name {name}\naddress flush dev {name}\n\
             address add 10.9.{network}.{host}/24 dev {name}\n\
             address add fd09:0:0:{network}::{host}/64 dev {name} nodad\nlink set {name} up\n"
        );
        namespace.feed("ip", &["-batch", "-"], &lines)?;
    }
    for (namespace, name, _) in ends {
        namespace.wait_for(name)?;
    }
    Ok(())
}

/// Returns lines for `ip -batch` that add a default route for IPv4 and IPv6 via the gateway `host` of a network (see
/// `join`).
fn default_via(network: u8, host: u8) -> String {
    format!(
        "route add default via 10.9.{network}.{host}\n\
         route add ::/0 via fd09:0:0:{network}::{host}\n"
    )
}

fn forwards(namespace: &Namespace, routes: &str) -> anyhow::Result<()> {
    namespace.feed("ip", &["-batch", "-"], routes)?;
    let both = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"];
    run(namespace, "sysctl", &[&["-qw"], &both[..]].concat()).map(drop)
}

/// Adds CLIENT and CLIENT_6 to the client's kernel, so that the server's packets pass its hook input. A later rule of
/// that hook drops these packets, before the kernel answers them.
fn own_address(client: &Namespace) -> anyhow::Result<()> {
    client.ip("address add 10.9.1.66/32 dev right\n\
         address add fd09:0:0:1::66/128 dev right nodad preferred_lft 0\n")?;
    let silent = "table inet silent {\n\
         chain input {\n\
         type filter hook input priority 400;\n\
         meta l4proto { tcp, udp } ip daddr 10.9.1.66 drop\n\
         meta l4proto { tcp, udp } ip6 daddr fd09:0:0:1::66 drop\n\
         }\n}\n";
    client.feed("nft", &["-f", "-"], silent)
}

/// Starts nginx with a self-signed certificate. The server rejects requests for the name DECOY.
fn start_nginx(server: &Namespace, folder: &Folder) -> anyhow::Result<Child> {
    let file = |name: &str| folder.file(name);
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args(["-days", "1", "-subj", "/CN=denied.example"])
        .args(["-keyout", &file("key.pem"), "-out", &file("cert.pem")])
        .stderr(Stdio::null())
        .status()
        .context("openssl")?;
    ensure!(made.success(), "openssl made no certificate");
    let root = folder.path().display();
    let conf = folder.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n\
             client_header_timeout 1h; keepalive_timeout 1h;\n\
             access_log off; log_format name $ssl_server_name; client_body_temp_path {root}; proxy_temp_path {root};\n\
             fastcgi_temp_path {root}; uwsgi_temp_path {root}; scgi_temp_path {root};\n\
             server {{ listen 80 default_server fastopen=64; listen [::]:80 default_server fastopen=64;\n\
             return 200 \"here\\n\"; }}\n\
             server {{ listen 443 ssl default_server fastopen=64; listen [::]:443 ssl default_server fastopen=64; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate {root}/cert.pem;\n\
             ssl_certificate_key {root}/key.pem; access_log {root}/names name; return 200 \"here\\n\"; }}\n\
             server {{ listen 80; listen [::]:80; server_name {DECOY}; return 404; }}\n\
             server {{ listen 443 ssl; listen [::]:443 ssl; server_name {DECOY}; ssl_reject_handshake on; }}\n\
             }}\n"
        ),
    )?;
    let nginx = server
        .command("nginx")
        .args(["-c", &conf, "-e", &file("error.log")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("nginx could not be started: run make deps")?;
    until("nginx listens", PATIENCE, || {
        let listening = run(server, "ss", &["-Hltn"])?.stdout;
        let text = String::from_utf8_lossy(&listening).into_owned();
        Ok(text.contains(":443") && text.contains(":80"))
    })?;
    Ok(nginx)
}

impl Net {
    /// Opens the client's interface. Each concurrent client must open its own link.
    pub fn link(&self) -> anyhow::Result<Link> {
        let mut link = Link::open(&self.client, "right")?;
        if self.hook == Hook::Output {
            link.send_by_host(&self.client)?;
        }
        if self.gso_bytes.is_some() {
            link.leave_checksums()?;
        }
        Ok(link)
    }

    /// Makes the server lose its first two packets after the SYN-ACK of each connection: it acknowledges received data
    /// after a timeout.
    pub fn acknowledge_late(&mut self) -> anyhow::Result<()> {
        let lost = "-A OUTPUT -p tcp -m connbytes --connbytes 2:3 --connbytes-dir reply --connbytes-mode packets -j DROP";
        for tool in ["iptables", "ip6tables"] {
            restore(&self.server, tool, lost)?;
        }
        self.lateness = LATENESS;
        Ok(())
    }

    /// Returns the hardware address of the router's interface to the server.
    pub fn router_address(&self) -> anyhow::Result<[u8; 6]> {
        hardware_address(&self.routers[1], "right")
    }

    /// Returns the path of nginx's certificate, for other servers.
    pub fn certificate(&self) -> String {
        self.folder.file("cert.pem")
    }

    /// Returns the path of the certificate's key.
    pub fn key(&self) -> String {
        self.folder.file("key.pem")
    }

    /// Returns the names (SNI) of the TLS requests that nginx has answered, in order.
    pub fn answered(&self) -> anyhow::Result<Vec<String>> {
        let names = fs::read_to_string(self.folder.file("names"))?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Creates the network, with a rule that sends the packets in `sees` to queue 0. Queued packets pass until a
    /// firewall runs.
    pub fn new(sees: Sees) -> anyhow::Result<Net> {
        Net::at(Hook::Forward, sees)
    }

    /// Creates the network with the firewall in the place of `hook`. The rule for queue 0 is on the first router in
    /// each case.
    pub fn at(hook: Hook, sees: Sees) -> anyhow::Result<Net> {
        let (client, firewall) = (namespace()?, namespace()?);
        let (router, server) = (namespace()?, namespace()?);
        join(&client, &firewall, 1)?;
        join(&firewall, &router, 2)?;
        join(&router, &server, 3)?;
        let hardware = hardware_address(&client, "right")?;
        let hardware = hardware.map(|byte| format!("{byte:02x}")).join(":");
        forwards(
            &firewall,
            &format!(
                "{}\
                 neighbor replace 10.9.1.66 lladdr {hardware} dev left\n\
                 neighbor replace fd09:0:0:1::66 lladdr {hardware} dev left\n",
                default_via(2, 2)
            ),
        )?;
        forwards(&router, &default_via(2, 1))?;
        client.feed("ip", &["-batch", "-"], &default_via(1, 2))?;
        server.feed("ip", &["-batch", "-"], &default_via(3, 1))?;
        // Makes the server accept data on any SYN (TFO_SERVER_COOKIE_NOT_REQD).
        run(&server, "sysctl", &["-qw", "net.ipv4.tcp_fastopen=0x602"])?;
        let to_server = "-A FORWARD -i left -j NFQUEUE --queue-num 0 --queue-bypass";
        let to_client = "-A FORWARD -o left -j NFQUEUE --queue-num 0 --queue-bypass";
        let rules = match sees {
            Sees::Both => format!("{to_server}\n{to_client}"),
            Sees::Client => to_server.to_owned(),
        };
        restore(&firewall, "iptables", &rules)?;
        restore(&firewall, "ip6tables", &rules)?;
        let folder = Folder::new()?;
        let nginx = start_nginx(&server, &folder)?;
        // Connects once, so that the hardware addresses on the path are known before the first packet of a client.
        for server_at in [SocketAddr::from((SERVER, 80)), (SERVER_6, 80).into()] {
            firewall.enter(|| TcpStream::connect_timeout(&server_at, PATIENCE))?;
        }
        let at = match hook {
            Hook::Forward => firewall.try_clone()?,
            Hook::Input => server.try_clone()?,
            Hook::Output => {
                own_address(&client)?;
                client.try_clone()?
            }
        };
        Ok(Net {
            gateway: hardware_address(&firewall, "left")?,
            client,
            firewall: at,
            routers: [firewall, router],
            server,
            hook,
            gso_bytes: None,
            lateness: Duration::ZERO,
            loses_openings: false,
            nginx,
            folder,
        })
    }
}
