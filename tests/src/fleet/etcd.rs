// SPDX-License-Identifier: GPL-2.0-or-later
//! etcd with one or more members, in the operator's namespace.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;

use anyhow::{ensure, Context};
use serde_json::Value;
use testbed::wait::{until, PATIENCE};

use super::{Place, Running, CHANNEL, ETCD};

/// Time limit of each step of etcdctl.
const ETCDCTL_LIMIT: &str = "100s";
/// Parts of etcdctl's errors while etcd is late on a busy machine, or elects a leader.
const LATE: [&str; 4] = ["timed out", "leader", "unavailable", "deadline exceeded"];

/// Returns the client port of an etcd member. Its peer port and its health port are the next higher ports.
fn port(member: usize) -> usize {
    2379 + 100 * member
}

/// Returns the address of an etcd member's reports of its health, on the loopback of the operator's namespace.
fn health_address(member: usize) -> String {
    format!("127.0.0.1:{}", port(member) + 2)
}

impl Place {
    /// Returns the client URLs of all members of etcd, separated by commas.
    pub fn etcd_urls(&self) -> String {
        let scheme = self.plan.tls.as_ref().map_or("http", |_| "https");
        let members = 0..self.members.len();
        let urls: Vec<String> = members
            .map(|member| format!("{scheme}://{ETCD}:{}", port(member)))
            .collect();
        urls.join(",")
    }

    /// Starts all members of etcd that are not running, and waits until all members report that they are healthy: they
    /// have a leader.
    pub fn start_etcd(&mut self) -> anyhow::Result<()> {
        for member in 0..self.members.len() {
            if self.members[member].is_none() {
                self.start_member(member)?;
            }
        }
        for member in 0..self.members.len() {
            until("etcd to be healthy", PATIENCE, || {
                Ok(self.is_healthy(member))
            })?;
        }
        Ok(())
    }

    fn is_healthy(&self, member: usize) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(health_address(member))?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            std::io::read_to_string(stream)
        };
        let said = self.operator.enter(ask);
        said.is_ok_and(|said| said.contains("\"health\":\"true\""))
    }

    pub fn start_member(&mut self, member: usize) -> anyhow::Result<()> {
        let log = File::create(self.folder.file(&format!("etcd{member}.log")))?;
        let peer = |member: usize| format!("http://127.0.0.1:{}", port(member) + 1);
        let members = 0..self.members.len();
        let cluster: Vec<String> = members
            .map(|member| format!("m{member}={}", peer(member)))
            .collect();
        let mut command = self.first("etcd");
        let urls = self.etcd_urls();
        let url = urls.split(',').nth(member).unwrap_or_default();
        command
            .args(["--name", &format!("m{member}"), "--bcrypt-cost", "4"])
            .args(["--data-dir", &self.folder.file(&format!("etcd{member}"))])
            .args(["--listen-client-urls", url, "--advertise-client-urls", url])
            .arg(format!(
                "--listen-metrics-urls=http://{}",
                health_address(member)
            ))
            .args(["--listen-peer-urls", &peer(member)])
            .args(["--initial-advertise-peer-urls", &peer(member)])
            .args(["--initial-cluster", &cluster.join(",")]);
        if let Some(tls) = &self.plan.tls {
            command.args(["--cert-file", &tls.certificate, "--key-file", &tls.key]);
        }
        command.stdout(Stdio::null()).stderr(log);
        self.members[member] = Some(Running(command.spawn().context("make deps")?));
        Ok(())
    }

    /// Kills all members of etcd.
    pub fn stop_etcd(&mut self) {
        self.members.iter_mut().for_each(|member| *member = None);
    }

    /// Kills one member of etcd.
    pub fn stop_member(&mut self, member: usize) {
        self.members[member] = None;
    }

    /// Returns the process id of etcd's first member.
    pub fn etcd_pid(&self) -> anyhow::Result<u32> {
        let first = self.members[0].as_ref();
        Ok(first.context("etcd does not run")?.0.id())
    }

    /// Returns the channel's pointer in etcd: the signed text that names its generation.
    pub fn pointer(&self) -> anyhow::Result<String> {
        let name = format!("twinwall/channel/{CHANNEL}");
        let get = ["get", "--print-value-only", &name];
        let (done, said) = self.etcdctl("out/operator.login", &get)?;
        ensure!(done, "{said}");
        Ok(said.trim().to_owned())
    }

    /// Returns the digest of the bundle that the channel's pointer in etcd names.
    pub fn wanted_digest(&self) -> anyhow::Result<String> {
        let pointer: Value = serde_json::from_str(&self.pointer()?)?;
        let text: Value = serde_json::from_str(pointer["text"].as_str().unwrap_or_default())?;
        let digest = text["digest"].as_str();
        Ok(digest.context("the pointer has no digest")?.to_owned())
    }

    /// Runs etcdctl as the user of a login file. Repeats this while etcd is late (see LATE). Returns true and its
    /// stdout if it succeeded, else false and its stdout followed by stderr.
    /// - login: path of the login file in the fleet's folder.
    pub fn etcdctl(&self, login: &str, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
        let mut done = (false, String::new());
        let answered = until("etcd to answer etcdctl", PATIENCE, || {
            done = self.etcdctl_once(login, arguments)?;
            Ok(done.0 || !LATE.iter().any(|part| done.1.contains(part)))
        });
        answered.with_context(|| done.1.clone())?;
        Ok(done)
    }

    fn etcdctl_once(&self, login: &str, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
        let login = std::fs::read_to_string(self.folder.file(login))?;
        let output = self
            .operator
            .command("etcdctl")
            .env("ETCDCTL_API", "3")
            .envs(
                self.plan
                    .tls
                    .iter()
                    .map(|tls| ("ETCDCTL_CACERT", &tls.authority)),
            )
            .args(["--endpoints", &self.etcd_urls()])
            .args(["--user", login.trim()])
            .args(["--dial-timeout", ETCDCTL_LIMIT])
            .args(["--command-timeout", ETCDCTL_LIMIT])
            .args(arguments)
            .output()?;
        let mut text = output.stdout;
        // After a repeated attempt that has succeeded, stderr has a warning.
        if !output.status.success() {
            text.extend(output.stderr);
        }
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok((output.status.success(), text))
    }
}
