// SPDX-License-Identifier: GPL-2.0-or-later
//! Scene of a case: a host with an uplink, an internet with test servers, and an ordinary user with commands in cages.

use std::net::IpAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use anyhow::{ensure, Context};
use testbed::firewall::{GUARD_READY, NO_GUARD};
use testbed::folder::Folder;
use testbed::netns::{Namespace, VETH_IPV4, VETH_IPV6};
use testbed::place::{namespace, run};
use testbed::skip::not_installed;
use testbed::twin::{built, Twin};
use testbed::wait::{until, PATIENCE};

/// IPv4 and IPv6 addresses of the test servers. GOOD is for allowed names, BAD for denied names, SHARED for names of
/// both kinds.
pub const GOOD: [&str; 2] = ["203.0.113.10", "2001:db8:2::10"];
pub const BAD: [&str; 2] = ["203.0.113.11", "2001:db8:2::11"];
pub const SHARED: [&str; 2] = ["203.0.113.12", "2001:db8:2::12"];
/// Names with their addresses.
pub const NAMES: [(&str, [&str; 2]); 5] = [
    ("good.example", GOOD),
    ("bad.example", BAD),
    ("front.example", SHARED),
    ("hidden.example", SHARED),
    ("wild.example", GOOD),
];
/// Exit code of fwctl if the cage could not be started.
const NOT_STARTED: i32 = 125;
/// Parts of the warnings of fwctl that lines or connections of the firewall are missing, as can happen on a busy machine.
const MISSING: [&str; 2] = [
    "the firewall did not end in time",
    "does not list its connections",
];
/// Id of the ordinary user that runs cages; the user has no further groups.
pub const USER: u32 = 65534;

/// Shell script that prepares the host for cages and then runs a command. It sets the resolver's address, creates a tap
/// device that users may open, as udev does, mounts control groups for containers, as systemd does, and mounts a folder
/// in a root-only folder, as the kernel does for debugfs.
const HOST: &str = r#"
mount --bind "$1" /etc/resolv.conf
mount -t tmpfs -o mode=755 none /dev/net
mknod -m 666 /dev/net/tun c 10 200
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs -o mode=700 none /sys/kernel/debug
mkdir /sys/kernel/debug/tracing
mount -t tmpfs none /sys/kernel/debug/tracing
shift
exec "$@"
"#;

/// Configuration of nginx, whose answer names the requested host.
const NGINX: &str = "
daemon off;
master_process off;
pid FOLDER/nginx.pid;
error_log FOLDER/nginx.log;
events { worker_connections 4096; }
http {
	access_log off;
	client_body_temp_path FOLDER/body;
	proxy_temp_path FOLDER/proxy;
	fastcgi_temp_path FOLDER/fastcgi;
	uwsgi_temp_path FOLDER/uwsgi;
	scgi_temp_path FOLDER/scgi;
	server {
		listen [::]:80 ipv6only=off backlog=4096;
		listen [::]:443 ssl ipv6only=off backlog=4096;
		ssl_certificate FOLDER/cert.pem;
		ssl_certificate_key FOLDER/key.pem;
		location = / { return 200 \"$host here\\n\"; }
		location / { root FOLDER/www; autoindex on; }
	}
}
";

/// Server process, killed on drop.
pub struct Server(Child);

impl Server {
    /// Starts a program in a namespace. Its output goes to the file `log`.
    pub fn start(namespace: &Namespace, log: &str, words: &[&str]) -> anyhow::Result<Server> {
        let log = std::fs::File::create(log)?;
        let mut command = namespace.command(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn();
        Ok(Server(child.with_context(|| {
            format!("{} could not be started: run make deps", words[0])
        })?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

/// Exit code and output of a command.
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    pub fn of(output: Output) -> Said {
        Said {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn all(&self) -> String {
        let Said {
            code,
            stdout,
            stderr,
        } = self;
        format!("exit code {code:?}; stdout: {stdout}; stderr: {stderr}")
    }

    /// Checks the exit code; returns stdout.
    pub fn code(&self, code: i32) -> anyhow::Result<&str> {
        ensure!(self.code == Some(code), "not {code}: {}", self.all());
        Ok(&self.stdout)
    }

    /// Checks that stderr contains words.
    /// Returns true if fwctl warns that lines or connections of the firewall are missing.
    pub fn is_incomplete(&self) -> bool {
        MISSING.iter().any(|part| self.stderr.contains(part))
    }

    pub fn says(&self, words: &str) -> anyhow::Result<()> {
        ensure!(
            self.stderr.contains(words),
            "\"{words}\" is not said: {}",
            self.all()
        );
        Ok(())
    }
}

pub struct Scene {
    // Fields are dropped in this order: the servers before their folder.
    servers: Vec<Server>,
    pub host: Namespace,
    pub internet: Namespace,
    pub folder: Folder,
    twin: Twin,
}

fn ip(namespace: &Namespace, lines: &str) -> anyhow::Result<()> {
    namespace.feed("ip", &["-batch", "-"], lines)
}

impl Scene {
    pub fn new(twin: Twin) -> anyhow::Result<Scene> {
        let lines = "PATH=$PATH:/usr/sbin:/sbin command -v pasta";
        if !Command::new("sh")
            .args(["-c", lines])
            .output()?
            .status
            .success()
        {
            return Err(not_installed("pasta"));
        }
        let (host, internet) = (namespace()?, namespace()?);
        Namespace::veth_pair(&host, &internet)?;
        ip(
            &host,
            &format!(
                "route add default via {}\nroute add default via {}\n",
                VETH_IPV4.1, VETH_IPV6.1
            ),
        )?;
        for [v4, v6] in [GOOD, BAD, SHARED] {
            ip(
                &internet,
                &format!("address add {v4}/32 dev lo\naddress add {v6}/128 dev lo nodad\n"),
            )?;
        }
        let folder = Folder::shared()?;
        for program in ["fwctl", twin.program()] {
            let source = built(program);
            ensure!(
                source.is_file(),
                "there is no {}: run make build",
                source.display()
            );
            std::fs::copy(&source, folder.file(program))?;
        }
        folder.write("resolv.conf", format!("nameserver {}\n", VETH_IPV4.1))?;
        std::fs::create_dir(folder.file("www"))?;
        std::fs::create_dir(folder.file("home"))?;
        std::os::unix::fs::chown(folder.file("home"), Some(USER), Some(USER))?;
        let mut scene = Scene {
            servers: Vec::new(),
            host,
            internet,
            folder,
            twin,
        };
        scene.serve_names()?;
        scene.serve_web()?;
        Ok(scene)
    }

    fn serve_names(&mut self) -> anyhow::Result<()> {
        let mut text = format!(
            "no-daemon\nno-resolv\nno-hosts\nbind-interfaces\nlog-queries\naddress=/crates.io/203.0.113.10\naddress=/rebound.example/169.254.169.254\nlocal-ttl=0\nlisten-address={}\n",
            VETH_IPV4.1
        );
        for (name, addresses) in NAMES {
            for address in addresses {
                text += &format!("address=/{name}/{address}\n");
            }
        }
        let file = self.folder.write("dnsmasq.conf", text)?;
        let log = self.folder.file("dnsmasq.log");
        let words = ["dnsmasq", "-C", &file, "--pid-file=", "--user=root"];
        self.servers
            .push(Server::start(&self.internet, &log, &words)?);
        let at = format!("@{}", VETH_IPV4.1);
        until("dnsmasq answers", PATIENCE, || {
            let output = self
                .host
                .command("dig")
                .args([&at, "good.example", "+short"])
                .output()?;
            Ok(output.stdout.starts_with(GOOD[0].as_bytes()))
        })
    }

    fn serve_web(&mut self) -> anyhow::Result<()> {
        let (key, cert) = (self.folder.file("key.pem"), self.folder.file("cert.pem"));
        let names = NAMES.map(|(name, _)| format!("DNS:{name}")).join(",");
        let names = &format!("subjectAltName={names},DNS:*.wild.example,DNS:*.crates.io");
        let new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example -addext";
        let mut words: Vec<&str> = new.split(' ').collect();
        words.extend([names, "-keyout", &key, "-out", &cert]);
        run(&self.host, "openssl", &words)?;
        let text = NGINX.replace("FOLDER", &self.folder.path().to_string_lossy());
        let file = self
            .folder
            .write("nginx.conf", format!("user root;\n{text}"))?;
        self.serve("nginx", &["nginx", "-c", &file], 443)
    }

    /// Starts a server in the namespace `internet`, and waits until it accepts connections at GOOD's IPv4 address.
    pub fn serve(&mut self, name: &str, words: &[&str], port: u16) -> anyhow::Result<()> {
        self.serve_at(GOOD[0], name, words, port)
    }

    /// Starts a server in the namespace `internet`, and waits until it accepts connections at this address.
    /// - name: name of the server, for its log.
    /// - words: program and arguments.
    pub fn serve_at(
        &mut self,
        address: &str,
        name: &str,
        words: &[&str],
        port: u16,
    ) -> anyhow::Result<()> {
        let log = self.folder.file(&format!("{name}.out"));
        self.servers
            .push(Server::start(&self.internet, &log, words)?);
        let address: IpAddr = address.parse()?;
        until(&format!("{name} listens"), PATIENCE, || {
            Ok(self
                .internet
                .enter(|| std::net::TcpStream::connect((address, port)).is_ok()))
        })
    }

    /// Starts a server in the namespace `internet`, and waits until it prints `ready`.
    pub fn serve_ready(&mut self, name: &str, words: &[&str]) -> anyhow::Result<()> {
        let log = self.folder.file(&format!("{name}.out"));
        self.servers
            .push(Server::start(&self.internet, &log, words)?);
        until(&format!("{name} is ready"), PATIENCE, || {
            Ok(std::fs::read_to_string(&log)?.contains("ready"))
        })
    }

    /// Returns a command that runs on the host outside any cage, as root or as the user.
    pub fn on_host(&self, is_root: bool, words: &[&str]) -> Command {
        let mut command = self.host.command("unshare");
        command.args([
            "--mount",
            "sh",
            "-ec",
            HOST,
            "sh",
            &self.folder.file("resolv.conf"),
        ]);
        if !is_root {
            let user = USER.to_string();
            command.args([
                "setpriv",
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
            ]);
        }
        command
            .env("HOME", self.folder.file("home"))
            .env("CURL_CA_BUNDLE", self.folder.file("cert.pem"));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command.args(words);
        command
    }

    /// Returns a command that runs `fwctl run` with these arguments, as root or as the user.
    pub fn run_as(&self, is_root: bool, words: &[&str]) -> Command {
        let fwctl = self.folder.file("fwctl");
        self.on_host(
            is_root,
            &[&[fwctl.as_str(), "run", "--twin", self.twin.name()], words].concat(),
        )
    }

    /// Runs `fwctl run` as the user until it ends.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<Said> {
        self.run_whole(false, words)
    }

    /// Runs `fwctl run` as root or as the user until it ends. Repeats this if the cage could not be started because the
    /// guard of its firewall had no CPU time.
    pub fn run_whole(&self, is_root: bool, words: &[&str]) -> anyhow::Result<Said> {
        let end = Instant::now() + PATIENCE;
        loop {
            let begin = Instant::now();
            let said = Said::of(self.run_as(is_root, words).output()?);
            let is_late = said.code == Some(NOT_STARTED)
                && said.stderr.contains(NO_GUARD)
                && begin.elapsed() >= GUARD_READY;
            if !is_late || begin > end {
                return Ok(said);
            }
        }
    }

    /// Runs `fwctl run`, whose command must fail, and checks that stderr contains these texts. Repeats this if lines of
    /// the firewall are missing ([`Said::is_incomplete`]).
    pub fn run_saying(
        &self,
        is_root: bool,
        words: &[&str],
        texts: &[&str],
    ) -> anyhow::Result<Said> {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = self.run_whole(is_root, words)?;
            ensure!(
                said.code != Some(0),
                "{words:?} came through: {}",
                said.all()
            );
            let is_told = texts.iter().all(|text| said.stderr.contains(text));
            if is_told {
                return Ok(said);
            }
            ensure!(
                said.is_incomplete() && Instant::now() < end,
                "not {texts:?}: {}",
                said.all()
            );
        }
    }

    /// Runs shell lines in a cage of the user.
    pub fn shell(&self, options: &[&str], lines: &str) -> anyhow::Result<Said> {
        self.run(&[options, &["--", "sh", "-c", lines]].concat())
    }

    /// Runs shell lines, which must fail, in a cage of the user by [`Scene::run_saying`].
    pub fn shell_saying(
        &self,
        options: &[&str],
        lines: &str,
        texts: &[&str],
    ) -> anyhow::Result<Said> {
        let words = [options, &["--", "sh", "-c", lines]].concat();
        self.run_saying(false, &words, texts)
    }

    /// Returns the resolver's log of all queries so far.
    pub fn asked(&self) -> anyhow::Result<String> {
        Ok(std::fs::read_to_string(self.folder.file("dnsmasq.log"))?)
    }
}
