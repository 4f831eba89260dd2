// SPDX-License-Identifier: GPL-2.0-or-later
//! A namespace with etcd and a bridge, hosts in namespaces of their own behind it, and the operator's fwctl.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::twin::built;
use testbed::wait::{until, PATIENCE};

/// Name, limit in seconds and body of a case.
pub type Row = (&'static str, u64, fn() -> anyhow::Result<()>);

/// Address of etcd.
pub const ETCD: &str = "10.78.0.1:2379";
pub const CHANNEL: &str = "web";

/// A policy that drops UDP to a port.
pub fn policy(port: u16) -> String {
    format!(
        "table inet host {{\n\tchain input {{\n\t\ttype filter hook input priority filter; policy accept;\n\
         \t\tudp dport {port} counter drop\n\t}}\n}}\n"
    )
}

/// A policy that lets no packet leave for etcd.
pub const CUT_OFF: &str = "table inet host {
	chain output {
		type filter hook output priority filter; policy accept;
		tcp dport 2379 counter drop
	}
}
";

/// A child that ends with its value.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub struct Host {
    pub id: String,
    pub namespace: Namespace,
    local: Option<Running>,
    agent: Option<Running>,
}

pub struct Place {
    pub folder: Folder,
    pub operator: Namespace,
    pub hosts: Vec<Host>,
    etcd: Option<Running>,
}

impl Place {
    /// A fleet of so many hosts, in which etcd, root's services and agents run.
    pub fn new(count: usize) -> anyhow::Result<Place> {
        let mut place = Place {
            folder: Folder::new()?,
            operator: Namespace::new()?,
            hosts: Vec::new(),
            etcd: None,
        };
        place.feed(
            &place.operator,
            "link add fleet type bridge\nlink set fleet up\naddress add 10.78.0.1/16 dev fleet\n",
        )?;
        place.start_etcd()?;
        let names: Vec<String> = (1..=count).map(|number| format!("h{number}")).collect();
        let hosts = names.iter().flat_map(|name| ["--host", name]);
        let out = place.folder.file("out");
        let arguments = [
            &["init", CHANNEL, "--out", &out, "--enable-auth"],
            &hosts.collect::<Vec<_>>()[..],
        ];
        let made = place.bare(&arguments.concat())?;
        ensure!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        for (number, name) in names.into_iter().enumerate() {
            let namespace = Namespace::new()?;
            let mut host = Host {
                id: name,
                namespace,
                local: None,
                agent: None,
            };
            place.join(number, &host)?;
            place.start_local(&mut host)?;
            place.start_agent(&mut host)?;
            place.hosts.push(host);
        }
        Ok(place)
    }

    fn feed(&self, namespace: &Namespace, lines: &str) -> anyhow::Result<()> {
        namespace.feed("ip", &["-batch", "-"], lines)
    }

    /// Connects a host to the bridge.
    fn join(&self, number: usize, host: &Host) -> anyhow::Result<()> {
        let mut holder = host.namespace.command("sleep");
        let holder = Running(holder.arg("60").spawn()?);
        let pid = holder.0.id();
        let entered = || {
            let own = std::fs::read_link("/proc/self/ns/net")?;
            let its = std::fs::read_link(format!("/proc/{pid}/ns/net"))?;
            Ok(own != its)
        };
        until("a process in the host's namespace", PATIENCE, entered)?;
        self.feed(
            &self.operator,
            &format!(
                "link add v{number} type veth peer name veth netns {pid}\n\
                 link set v{number} master fleet\nlink set v{number} up\n"
            ),
        )?;
        let (high, low) = (number / 200, number % 200 + 2);
        self.feed(
            &host.namespace,
            &format!("address add 10.78.{high}.{low}/16 dev veth\nlink set veth up\n"),
        )?;
        host.namespace.wait_for("veth")
    }

    pub fn start_etcd(&mut self) -> anyhow::Result<()> {
        let log = File::create(self.folder.file("etcd.log"))?;
        let mut command = self.operator.command("etcd");
        command
            .args([
                "--data-dir",
                &self.folder.file("etcd"),
                "--bcrypt-cost",
                "4",
            ])
            .args(["--listen-client-urls", &format!("http://{ETCD}")])
            .args(["--advertise-client-urls", &format!("http://{ETCD}")])
            .args(["--listen-peer-urls", "http://127.0.0.1:2380"])
            .stdout(Stdio::null())
            .stderr(log);
        self.etcd = Some(Running(command.spawn().context("make deps")?));
        until("etcd to answer", PATIENCE, || {
            let connect = || std::net::TcpStream::connect(ETCD);
            Ok(self.operator.enter(connect).is_ok())
        })
    }

    /// Kills etcd.
    pub fn stop_etcd(&mut self) {
        self.etcd = None;
    }

    /// The files of a host.
    pub fn path(&self, host: &str, name: &str) -> String {
        self.folder.file(&format!("{host}-{name}"))
    }

    /// Listens for root's service, as systemd does with twinwall-fleet.socket.
    fn start_local(&self, host: &mut Host) -> anyhow::Result<()> {
        let socket = self.path(&host.id, "socket");
        let log = File::create(self.path(&host.id, "local.log"))?;
        let mut command = host.namespace.command("systemd-socket-activate");
        command
            .args(["--accept", "--inetd", "-l", &socket])
            .arg(built("twinwall-fleet-local"))
            .args(["--host", &host.id, "--channel", CHANNEL])
            .args(["--keys", &self.folder.file("out/fleet.keys")])
            .args(["--state", &self.path(&host.id, "state")])
            .args(["--apply-state", &self.path(&host.id, "apply")])
            .arg("--fwctl")
            .arg(built("fwctl"))
            .stdout(Stdio::null())
            .stderr(log);
        host.local = Some(Running(command.spawn()?));
        until("root's service to listen", PATIENCE, || {
            Ok(Path::new(&socket).exists())
        })
    }

    fn start_agent(&self, host: &mut Host) -> anyhow::Result<()> {
        let staging = self.path(&host.id, "staging");
        std::fs::create_dir_all(&staging)?;
        let login = self.folder.file(&format!("out/{}/fleet.login", host.id));
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path(&host.id, "agent.log"))?;
        let mut command = host.namespace.command(built("twinwall-agent"));
        command
            .args(["--etcd", &format!("http://{ETCD}"), "--login", &login])
            .args(["--host", &host.id, "--channel", CHANNEL])
            .args(["--staging", &staging, "--look", "2"])
            .args(["--local", &self.path(&host.id, "socket")])
            .stderr(log)
            .process_group(0);
        host.agent = Some(Running(command.spawn()?));
        Ok(())
    }

    /// Kills a host's agent.
    pub fn stop_agent(&mut self, number: usize) {
        self.hosts[number].agent = None;
    }

    pub fn restart_agent(&mut self, number: usize) -> anyhow::Result<()> {
        let mut host = self.hosts.remove(number);
        let started = self.start_agent(&mut host);
        self.hosts.insert(number, host);
        started
    }

    /// `fwctl fleet` without a login.
    fn bare(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(arguments).output()?)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.operator.command(built("fwctl"));
        command
            .arg("fleet")
            .args(arguments)
            .args(["--etcd", &format!("http://{ETCD}")]);
        command
    }

    /// `fwctl fleet` with the operator's login: exit code, stdout and stderr.
    pub fn fleet(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let login = self.folder.file("out/operator.login");
        let output = self.bare(&[arguments, &["--login", &login]].concat())?;
        let text = [output.stdout, output.stderr].concat();
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        ))
    }

    /// Pushes a policy, with options.
    pub fn push(&self, text: &str, options: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let policy = self.folder.write("policy.nft", text)?;
        let key = self.folder.file("out/fleet.key");
        let common = ["push", CHANNEL, &policy, "--sign", &key];
        self.fleet(&[&common[..], options].concat())
    }

    /// Pushes a policy to all hosts, which must confirm it.
    pub fn push_well(&self, text: &str) -> anyhow::Result<String> {
        let (code, said) = self.push(text, &["--observe", "1", "--confirm", "30"])?;
        ensure!(code == Some(0) && said.contains("is everywhere"), "{said}");
        Ok(said)
    }

    /// The hosts' objects in `status --json`.
    pub fn status(&self) -> anyhow::Result<Vec<Value>> {
        let (_, said) = self.fleet(&["status", CHANNEL, "--json"])?;
        let lines = said.lines().skip(1);
        lines
            .map(|line| serde_json::from_str(line).with_context(|| said.clone()))
            .collect()
    }

    /// Hosts in a state.
    pub fn count(&self, state: &str) -> anyhow::Result<usize> {
        let status = self.status()?;
        Ok(status.iter().filter(|host| host["state"] == state).count())
    }

    /// Waits until so many hosts are in a state.
    pub fn wait_for(&self, state: &str, count: usize) -> anyhow::Result<()> {
        let waited = until(&format!("{count} hosts {state}"), PATIENCE, || {
            Ok(self.count(state)? == count)
        });
        waited.with_context(|| format!("{:#?}", self.status()))
    }

    /// The rules that a host's kernel holds.
    pub fn rules(&self, host: &Host) -> anyhow::Result<String> {
        let output = host
            .namespace
            .command("nft")
            .args(["list", "ruleset"])
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Checks that each host's rules have these words.
    pub fn all_have(&self, words: &str) -> anyhow::Result<()> {
        for host in &self.hosts {
            let rules = self.rules(host)?;
            ensure!(rules.contains(words), "{}: {rules}", host.id);
        }
        Ok(())
    }

    /// The channel's pointer, as it lies in etcd.
    pub fn pointer(&self) -> anyhow::Result<String> {
        let name = format!("twinwall/channel/{CHANNEL}");
        let get = ["get", "--print-value-only", &name];
        let (done, said) = self.etcdctl("out/operator.login", &get)?;
        ensure!(done, "{said}");
        Ok(said.trim().to_owned())
    }

    /// etcdctl as a user whose login is in a file: whether it succeeded, and all that it said.
    pub fn etcdctl(&self, login: &str, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
        let login = std::fs::read_to_string(self.folder.file(login))?;
        let output = self
            .operator
            .command("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--endpoints", &format!("http://{ETCD}")])
            .args(["--user", login.trim()])
            .args(arguments)
            .output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok((output.status.success(), text))
    }
}
