// SPDX-License-Identifier: GPL-2.0-or-later
//! A fleet: a namespace with etcd and a bridge, hosts in separate namespaces at the bridge, and the operator's fwctl.

mod etcd;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;

use anyhow::{ensure, Context};
use fleet::clock::unix_ms;
use serde_json::Value;
use testbed::firewall::{Firewall, PATIENT_GUARD};
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::place::restore;
use testbed::record::Record;
use testbed::twin::{built, TWINS};
use testbed::wait::{until, PATIENCE};

/// Name and body of a case.
pub type Row = (&'static str, fn() -> anyhow::Result<()>);

/// Address of etcd.
pub const ETCD: &str = "10.78.0.1";
pub const CHANNEL: &str = "web";
/// Port of each host's metrics, as `fwctl fleet targets` prints it.
pub const NUMBERS: u16 = 9100;
/// UDP port whose packets go to the queue of the host's firewall, if hosts have one (`Plan::twins`).
pub const QUEUED: u16 = 5000;

/// Exit code of fwctl if the store can't be reached.
pub const UNREACHABLE: i32 = 3;

/// Returns a policy that drops UDP to a port.
pub fn policy(port: u16) -> String {
    format!(
        "table inet host {{\n\tchain input {{\n\t\ttype filter hook input priority filter; policy accept;\n\
         \t\tudp dport {port} counter drop\n\t}}\n}}\n"
    )
}

/// Policy of a host that drops its packets to etcd's first member (TCP port 2379).
pub const CUT_OFF: &str = "table inet host {
	chain output {
		type filter hook output priority filter; policy accept;
		tcp dport 2379 counter drop
	}
}
";

/// Child process, killed on drop.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Parameters of a fleet.
#[derive(Clone, Default)]
pub struct Plan {
    pub hosts: usize,
    /// True if each host has a firewall on a queue, with alternating twins.
    pub twins: bool,
    /// Number of members of etcd's cluster; 0 means one.
    pub members: usize,
    /// Certificates for etcd's https.
    pub tls: Option<Certificates>,
    /// URL of a folder that agents read instead of etcd. `authority` is the file with the certificate authority of its
    /// server.
    pub folder: Option<String>,
    pub authority: Option<String>,
    /// Prefix of the commands of agents and of the services that run as root, e.g. faketime.
    pub before: Vec<String>,
    /// Prefix of the agents' commands, but not of the services' commands; `{}` is replaced by the agent's staging
    /// folder.
    pub before_agent: Vec<String>,
    /// True if agents serve metrics for Prometheus at port NUMBERS, and write them to a file.
    pub numbers: bool,
    /// Seconds between an agent's checks; 0 means the product's default.
    pub look: u64,
    /// True if etcd and the operator's fwctl get the CPU before all hosts, for measurements: in a fleet they have machines
    /// of their own.
    pub store_first: bool,
}

/// Paths of a server's certificate, of its key, and of the certificate authority.
#[derive(Clone)]
pub struct Certificates {
    pub certificate: String,
    pub key: String,
    pub authority: String,
}

pub struct Host {
    pub id: String,
    pub namespace: Namespace,
    pub address: String,
    /// Firewall on the host's queue; None if there is none (see `Plan::twins`).
    pub firewall: Mutex<Option<Firewall>>,
    local: Option<Running>,
    agent: Option<Running>,
    record: Option<Record>,
}

pub struct Place {
    pub folder: Folder,
    pub operator: Namespace,
    pub hosts: Vec<Host>,
    plan: Plan,
    members: Vec<Option<Running>>,
}

impl Place {
    /// Creates a fleet with this number of hosts. Starts etcd, and on each host the agent and the service that runs as
    /// root. Waits until all agents are alive.
    pub fn new(hosts: usize) -> anyhow::Result<Place> {
        Place::with(Plan {
            hosts,
            look: 2,
            ..Plan::default()
        })
    }

    pub fn with(plan: Plan) -> anyhow::Result<Place> {
        let mut place = Place {
            folder: Folder::new()?,
            operator: Namespace::new()?,
            hosts: Vec::new(),
            members: (0..plan.members.max(1)).map(|_| None).collect(),
            plan,
        };
        place.feed(
            &place.operator,
            &format!(
                "link add fleet type bridge\nlink set fleet up\naddress add {ETCD}/16 dev fleet\n"
            ),
        )?;
        place.start_etcd()?;
        let numbers = 1..=place.plan.hosts;
        let names: Vec<String> = numbers.map(|number| format!("h{number}")).collect();
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
        place.join(names)?;
        for number in 0..place.plan.hosts {
            place.start_host(number)?;
        }
        // A push counts a host without a lease as silent. Measurements wait by themselves, without other processes.
        if place.plan.folder.is_none() && !place.plan.store_first {
            place.wait_for_alive()?;
        }
        Ok(place)
    }

    fn feed(&self, namespace: &Namespace, lines: &str) -> anyhow::Result<()> {
        namespace.feed("ip", &["-batch", "-"], lines)
    }

    /// Creates the hosts' namespaces and connects them to the bridge.
    fn join(&mut self, names: Vec<String>) -> anyhow::Result<()> {
        let mut links = String::new();
        for (number, id) in names.into_iter().enumerate() {
            let namespace = Namespace::new()?;
            let target = namespace.path();
            links += &format!(
                "link add v{number} type veth peer name veth netns {target}\n\
                 link set v{number} master fleet\nlink set v{number} up\n"
            );
            let address = format!("10.78.{}.{}", number / 200, number % 200 + 2);
            self.hosts.push(Host {
                id,
                namespace,
                address,
                firewall: Mutex::new(None),
                local: None,
                agent: None,
                record: None,
            });
        }
        self.feed(&self.operator, &links)?;
        for host in &self.hosts {
            let lines = format!(
                "address add {}/16 dev veth\nlink set veth up\n",
                host.address
            );
            self.feed(&host.namespace, &lines)?;
        }
        for host in &self.hosts {
            host.namespace.wait_for("veth")?;
        }
        Ok(())
    }

    fn start_host(&mut self, number: usize) -> anyhow::Result<()> {
        if self.plan.twins {
            self.start_firewall(number)?;
        }
        self.start_local(number)?;
        self.start_agent(number)
    }

    /// Starts a twin on the queue of the host's UDP port QUEUED.
    pub fn start_firewall(&mut self, number: usize) -> anyhow::Result<()> {
        let host = &self.hosts[number];
        if !Path::new(&self.path(&host.id, "firewall")).exists() {
            let rule = format!("-A INPUT -p udp --dport {QUEUED} -j NFQUEUE --queue-num 0");
            restore(&host.namespace, "iptables", &rule)?;
        }
        // The firewall is not root, and creates its socket in the folder.
        let folder = self.path(&host.id, "firewall");
        std::fs::create_dir_all(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))?;
        let control = self.control(&host.id);
        let options = ["--control", &control, "--receive-buffer", "1048576"];
        // On a busy machine the guard must not answer in place of a firewall that is late.
        let options = [&options[..], &PATIENT_GUARD].concat();
        let twin = TWINS[number % TWINS.len()];
        let firewall = Firewall::start(&host.namespace, twin, &options)?;
        self.hosts[number].firewall = Mutex::new(Some(firewall));
        Ok(())
    }

    /// Returns the path of the control socket of a host's firewall.
    fn control(&self, host: &str) -> String {
        self.path(host, "firewall/control")
    }

    /// Returns the path of a host's file in the fleet's folder.
    /// - name: name of the file, without that of the host.
    pub fn path(&self, host: &str, name: &str) -> String {
        self.folder.file(&format!("{host}-{name}"))
    }

    /// Returns the options for the fleet's store: a folder, or etcd with the login of a host; also --ca if there is an
    /// authority.
    pub fn store(&self, host: &str) -> Vec<String> {
        let mut words = match &self.plan.folder {
            Some(folder) => vec!["--folder".to_owned(), folder.clone()],
            None => vec![
                "--etcd".to_owned(),
                self.etcd_urls(),
                "--login".to_owned(),
                self.folder.file(&format!("out/{host}/fleet.login")),
            ],
        };
        let authority = self.plan.tls.as_ref().map(|tls| &tls.authority);
        if let Some(authority) = authority.or(self.plan.authority.as_ref()) {
            words.extend(["--ca".to_owned(), authority.clone()]);
        }
        words
    }

    /// Starts the listener of a host's service that runs as root, like systemd with twinwall-fleet.socket.
    pub fn start_local(&mut self, number: usize) -> anyhow::Result<()> {
        let host = &self.hosts[number];
        let socket = self.path(&host.id, "socket");
        let _ = std::fs::remove_file(&socket);
        let log = File::create(self.path(&host.id, "local.log"))?;
        // systemd-socket-activate ends now and then, when a child's end interrupts its own log; systemd itself does
        // not.
        let again = "while :; do setpriv --pdeathsig KILL systemd-socket-activate \"$@\"; done";
        let mut command = host.namespace.command("sh");
        command
            .args(["-c", again, "sh"])
            .args(["--accept", "--inetd", "-l", &socket])
            .args(&self.plan.before)
            .arg(built("twinwall-fleet-local"))
            .args(["--host", &host.id, "--channel", CHANNEL])
            .args(["--keys", &self.folder.file("out/fleet.keys")])
            .args(["--state", &self.path(&host.id, "state")])
            .args(["--apply-state", &self.path(&host.id, "apply")])
            .args(["--record", &self.path(&host.id, "record")])
            .arg("--fwctl")
            .arg(built("fwctl"))
            .args(self.store(&host.id));
        if self.plan.twins {
            command.args(["--control", &self.control(&host.id)]);
        }
        let running = Running(command.stdout(Stdio::null()).stderr(log).spawn()?);
        self.hosts[number].local = Some(running);
        until("root's service to listen", PATIENCE, || {
            Ok(Path::new(&socket).exists())
        })
    }

    /// Starts a host's record of the last minute.
    pub fn start_record(&mut self, number: usize) -> anyhow::Result<()> {
        let host = &self.hosts[number];
        let folder = self.path(&host.id, "record");
        let record = Record::start(&host.namespace, &folder)?;
        self.hosts[number].record = Some(record);
        Ok(())
    }

    /// Returns the bytes of a host's record, of all its files.
    pub fn record(&self, number: usize) -> anyhow::Result<Vec<u8>> {
        let folder = self.path(&self.hosts[number].id, "record");
        let mut bytes = Vec::new();
        for entry in std::fs::read_dir(&folder)?.flatten() {
            bytes.extend(std::fs::read(entry.path()).unwrap_or_default());
        }
        Ok(bytes)
    }

    /// Starts a host's agent.
    pub fn start_agent(&mut self, number: usize) -> anyhow::Result<()> {
        let host = &self.hosts[number];
        let staging = self.path(&host.id, "staging");
        std::fs::create_dir_all(&staging)?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path(&host.id, "agent.log"))?;
        let program = built("twinwall-agent").to_string_lossy().into_owned();
        let before = self.plan.before_agent.iter();
        let words = before.map(|word| word.replace("{}", &staging));
        let mut words = words
            .chain(self.plan.before.iter().cloned())
            .chain([program]);
        let mut command = host.namespace.command(words.next().unwrap_or_default());
        command
            .args(words)
            .args(self.store(&host.id))
            .args(["--host", &host.id, "--channel", CHANNEL])
            .args(["--staging", &staging])
            .args(["--local", &self.path(&host.id, "socket")])
            .stderr(log)
            .process_group(0);
        if self.plan.look > 0 {
            command.args(["--look", &self.plan.look.to_string()]);
        }
        if self.plan.numbers {
            let address = format!("{}:{NUMBERS}", host.address);
            let file = self.path(&host.id, "numbers.prom");
            command.args(["--metrics", &address, "--textfile", &file]);
        }
        let running = Running(command.spawn()?);
        self.hosts[number].agent = Some(running);
        Ok(())
    }

    /// Kills a host's agent.
    pub fn stop_agent(&mut self, number: usize) {
        self.hosts[number].agent = None;
    }

    /// Kills a host's agent, and the listener of the service that runs as root.
    pub fn stop_host(&mut self, number: usize) {
        self.hosts[number].agent = None;
        self.hosts[number].local = None;
    }

    /// Returns the process id of a host's agent.
    pub fn agent_pid(&self, number: usize) -> anyhow::Result<u32> {
        let agent = self.hosts[number].agent.as_ref();
        Ok(agent.context("the agent does not run")?.0.id())
    }

    /// Returns the log of a host's agent.
    pub fn agent_log(&self, number: usize) -> anyhow::Result<String> {
        let log = self.path(&self.hosts[number].id, "agent.log");
        std::fs::read_to_string(&log).context(log)
    }

    /// Waits until the log of a host's agent contains words.
    pub fn wait_for_log(&self, number: usize, words: &str) -> anyhow::Result<()> {
        let waited = until(&format!("the agent to log {words}"), PATIENCE, || {
            Ok(self.agent_log(number)?.contains(words))
        });
        waited.with_context(|| self.agent_log(number).unwrap_or_default())
    }

    /// Returns the contents of the state file of a host's service that runs as root; Null if the file is missing or no
    /// JSON.
    pub fn state(&self, number: usize) -> Value {
        let path = self.path(&self.hosts[number].id, "state/state.json");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Runs `fwctl fleet` without a login.
    fn bare(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command(arguments).output()?)
    }

    /// Returns a command in the operator's namespace, which gets the CPU first with `Plan::store_first`.
    fn first(&self, program: impl AsRef<OsStr>) -> Command {
        if !self.plan.store_first {
            return self.operator.command(program);
        }
        let mut command = self.operator.command("nice");
        command.args(["-n", "-20"]).arg(program);
        command
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.first(built("fwctl"));
        command
            .arg("fleet")
            .args(arguments)
            .args(["--etcd", &self.etcd_urls()]);
        if let Some(tls) = &self.plan.tls {
            command.args(["--ca", &tls.authority]);
        }
        command
    }

    /// Runs `fwctl fleet` with the operator's login. Repeats this while fwctl can't reach the store, since etcd may be
    /// late on a busy machine. Returns the exit code, None after a signal, and stdout followed by stderr.
    pub fn fleet(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let mut done = (None, String::new());
        let reached = until("fwctl to reach the store", PATIENCE, || {
            done = self.fleet_once(arguments)?;
            Ok(done.0 != Some(UNREACHABLE))
        });
        reached.with_context(|| done.1.clone())?;
        Ok(done)
    }

    /// Runs `fwctl fleet` once, also if it can't reach the store. Returns the same as [`Place::fleet`].
    pub fn fleet_once(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let login = self.folder.file("out/operator.login");
        let output = self.bare(&[arguments, &["--login", &login]].concat())?;
        let text = [output.stdout, output.stderr].concat();
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&text).into_owned(),
        ))
    }

    /// Pushes a policy, with options. Returns the same as [`Place::fleet`].
    pub fn push(&self, text: &str, options: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
        let policy = self.folder.write("policy.nft", text)?;
        let key = self.folder.file("out/fleet.key");
        let common = ["push", CHANNEL, &policy, "--sign", &key];
        self.fleet(&[&common[..], options].concat())
    }

    /// Pushes a policy to all hosts, which must confirm it.
    pub fn push_well(&self, text: &str) -> anyhow::Result<String> {
        let (code, said) = self.push(text, &["--observe", "1", "--confirm", "300"])?;
        ensure!(
            code == Some(0) && said.contains("is everywhere\n"),
            "{said}"
        );
        Ok(said)
    }

    /// Pushes a policy, and kills the first host's agent while the policy waits for its confirmation. If the agent was
    /// killed too late, pushes the former policy, and tries again.
    /// - confirm: seconds after which the host reverts to the former policy.
    pub fn kill_while_pending(
        &mut self,
        policy: &str,
        former: &str,
        confirm: &str,
    ) -> anyhow::Result<()> {
        let seconds: u64 = 5;
        let observe = seconds.to_string();
        let options = ["--no-wait", "--observe", &observe, "--confirm", confirm];
        until("the agent to be killed in time", PATIENCE, || {
            let (code, said) = self.push(policy, &options)?;
            ensure!(code == Some(0), "{said}");
            let digest = self.wanted_digest()?;
            until("the policy to be loaded", PATIENCE, || {
                let state = self.state(0);
                Ok(state["digest"] == digest && state["phase"] != "started")
            })?;
            self.stop_agent(0);
            let state = self.state(0);
            let applied_ms = state["applied_ms"].as_u64().context("applied_ms")?;
            // An agent requests no confirmation before the end of the observation.
            if unix_ms() < applied_ms + 1000 * seconds {
                ensure!(state["phase"] == "pending", "{state}");
                return Ok(true);
            }
            self.start_agent(0)?;
            until("the policy not to wait any more", PATIENCE, || {
                Ok(self.state(0)["phase"] != "pending")
            })?;
            self.push_well(former)?;
            Ok(false)
        })
    }

    /// Returns the hosts' objects in `status --json`.
    pub fn status(&self) -> anyhow::Result<Vec<Value>> {
        let (_, said) = self.fleet(&["status", CHANNEL, "--json"])?;
        let lines = said.lines().skip(1);
        lines
            .map(|line| serde_json::from_str(line).with_context(|| said.clone()))
            .collect()
    }

    /// Waits until all hosts have reported.
    pub fn wait_for_alive(&self) -> anyhow::Result<()> {
        let list = ["get", "--prefix", "--keys-only", "twinwall/alive/"];
        until("all hosts to be there", PATIENCE, || {
            let (_, said) = self.etcdctl("out/operator.login", &list)?;
            Ok(said.matches("twinwall/alive/").count() == self.hosts.len())
        })
    }

    /// Returns the number of hosts in a state.
    pub fn count(&self, state: &str) -> anyhow::Result<usize> {
        let status = self.status()?;
        Ok(status.iter().filter(|host| host["state"] == state).count())
    }

    /// Waits until this number of hosts is in a state.
    pub fn wait_for(&self, state: &str, count: usize) -> anyhow::Result<()> {
        let waited = until(&format!("{count} hosts {state}"), PATIENCE, || {
            Ok(self.count(state)? == count)
        });
        waited.with_context(|| format!("{:#?}", self.status()))
    }

    /// Returns the rules in a host's kernel.
    pub fn rules(&self, host: &Host) -> anyhow::Result<String> {
        let output = host
            .namespace
            .command("nft")
            .args(["list", "ruleset"])
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Checks that each host's rules contain these words.
    pub fn all_have(&self, words: &str) -> anyhow::Result<()> {
        for host in &self.hosts {
            let rules = self.rules(host)?;
            ensure!(rules.contains(words), "{}: {rules}", host.id);
        }
        Ok(())
    }

    /// Waits until each host's rules contain these words.
    pub fn wait_for_rules(&self, words: &str) -> anyhow::Result<()> {
        let waited = until(&format!("all hosts to have {words}"), PATIENCE, || {
            Ok(self.all_have(words).is_ok())
        });
        waited.and_then(|()| self.all_have(words))
    }
}
