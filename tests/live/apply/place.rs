// SPDX-License-Identifier: GPL-2.0-or-later
//! Place of a case: a network namespace with another program's rules, a folder for fwctl's state, and fwctl.

use std::process::{Command, Output};

use anyhow::{bail, ensure};
use serde_json::Value;
use testbed::folder::Folder;
use testbed::netns::Namespace;
use testbed::proc;
use testbed::twin::{built, Twin, USER};
use testbed::wait::{until, PATIENCE};

/// Name and body of a case.
pub type Row = (&'static str, fn() -> anyhow::Result<()>);

/// Rules loaded by another program.
const FOREIGN: &str = "table inet docker {
	chain forward {
		type filter hook forward priority filter; policy drop;
		counter packets 7 bytes 700
	}
}
";
pub const POLICY: &str = "table inet host {
	set known {
		type ipv4_addr
		elements = { 192.0.2.1, 192.0.2.2 }
	}
	chain input {
		type filter hook input priority filter; policy accept;
		ip saddr @known counter accept
		udp dport 7777 counter drop
	}
}
";
pub const OTHER_POLICY: &str = "table ip other {
	chain input {
		type filter hook input priority filter; policy accept;
		udp dport 8888 drop
	}
}
";

pub struct Place {
    pub namespace: Namespace,
    pub folder: Folder,
    /// Path of the state folder.
    pub state: String,
}

impl Place {
    pub fn new() -> anyhow::Result<Place> {
        let (namespace, folder) = (Namespace::new()?, Folder::of_root()?);
        let state = folder.file("state");
        namespace.feed("nft", &["-f", "-"], FOREIGN)?;
        Ok(Place {
            namespace,
            folder,
            state,
        })
    }

    /// Creates a place in which a twin reads names for the applied policies.
    pub fn with_twin(twin: Twin) -> anyhow::Result<Place> {
        let place = Place::new()?;
        let twin = match twin {
            Twin::Rust => "rust",
            Twin::C => "c",
        };
        // On a busy machine the guard must not take a delay for a stall.
        let config = format!("FIREWALL={twin}\nOPTIONS=--user {USER} --deadline 60000\n");
        place.folder.write("twinwall.conf", config)?;
        Ok(place)
    }

    /// Returns the process id of the firewall that apply started, if it runs.
    pub fn firewall(&self) -> Option<u32> {
        let text = std::fs::read_to_string(self.folder.file("run/stage/pid")).ok()?;
        let pid = text.split(' ').next()?.parse().ok()?;
        std::path::Path::new(&format!("/proc/{pid}"))
            .exists()
            .then_some(pid)
    }

    /// Creates a place with a confirmed policy. Returns the place and the path of the policy.
    pub fn applied() -> anyhow::Result<(Place, String)> {
        let place = Place::new()?;
        let policy = place.folder.write("policy.nft", POLICY)?;
        place.done(&["apply", "--now", &policy])?;
        Ok((place, policy))
    }

    /// Returns a command that runs fwctl with arguments and the place's folders.
    /// - wrapper: program and arguments that run fwctl; may be empty.
    pub fn command_under(&self, wrapper: &[&str], arguments: &[&str]) -> Command {
        let program = built("fwctl").to_string_lossy().into_owned();
        let words = [wrapper, &[program.as_str()]].concat();
        let mut command = self.namespace.command(words[0]);
        command
            .args(&words[1..])
            .args(arguments)
            .args(["--state", &self.state])
            .args(["--run", &self.folder.file("run")])
            .args(["--config", &self.folder.file("twinwall.conf")]);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> anyhow::Result<Output> {
        Ok(self.command_under(&[], arguments).output()?)
    }

    /// Runs fwctl, and fails unless it succeeds. Returns its stdout.
    pub fn done(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.run(arguments)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "fwctl {arguments:?}: {}: {stderr}",
            output.status
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Applies a policy without a confirmation, checks that `holds` returns true before the deadline, and waits for the
    /// revert. On a busy machine the revert may come first, and end a running `fwctl apply`: the function then tries
    /// again with a later deadline.
    pub fn expires(
        &self,
        policy: &str,
        holds: impl Fn() -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let mut said = String::new();
        for seconds in ["2", "20", "100"] {
            let output = self.run(&["apply", "--confirm", seconds, policy])?;
            let is_held = output.status.success() && holds()?;
            self.wait_settled()?;
            if is_held {
                return Ok(());
            }
            said = String::from_utf8_lossy(&output.stderr).into_owned();
        }
        bail!("{policy} does not hold until its deadline: {said}")
    }

    /// Runs fwctl, and fails unless it ends with this exit code and one line on stderr that contains these words.
    pub fn refused(&self, arguments: &[&str], code: i32, words: &str) -> anyhow::Result<()> {
        let output = self.run(arguments)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.code() == Some(code),
            "fwctl {arguments:?}: {}: {stderr}",
            output.status
        );
        ensure!(
            stderr.lines().count() == 1 && stderr.contains(words),
            "fwctl {arguments:?}: {stderr}"
        );
        Ok(())
    }

    /// Returns all rules of the namespace, with counters and elements, as nft lists them.
    pub fn rules(&self) -> anyhow::Result<String> {
        let output = self
            .namespace
            .command("nft")
            .args(["list", "ruleset"])
            .output()?;
        ensure!(output.status.success(), "nft list ruleset");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the contents of fwctl's state file; null before the first apply.
    pub fn state(&self) -> anyhow::Result<Value> {
        match std::fs::read_to_string(format!("{}/state.json", self.state)) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(_) => Ok(Value::Null),
        }
    }

    pub fn is_pending(&self) -> anyhow::Result<bool> {
        Ok(!self.state()?["pending"].is_null())
    }

    /// Waits until no generation is pending.
    pub fn wait_settled(&self) -> anyhow::Result<()> {
        until("the pending generation to be settled", PATIENCE, || {
            Ok(!self.is_pending()?)
        })
    }

    /// Returns the outcome of the latest generation, and its reason.
    pub fn outcome(&self) -> anyhow::Result<(String, String)> {
        let state = self.state()?;
        let last = state["generations"].as_array().and_then(|all| all.last());
        let text = |key: &str| {
            last.and_then(|last| last[key].as_str())
                .unwrap_or_default()
                .to_owned()
        };
        Ok((text("outcome"), text("why")))
    }

    /// Checks that the rules are as expected.
    pub fn check_rules(&self, expected: &str) -> anyhow::Result<()> {
        let rules = self.rules()?;
        ensure!(
            rules == expected,
            "the rules are\n{rules}\ninstead of\n{expected}"
        );
        Ok(())
    }
}

/// Ends the place's firewall.
impl Drop for Place {
    fn drop(&mut self) {
        if self.firewall().is_some() {
            let _ = self.run(&["unapply"]);
        }
        if let Some(pid) = self.firewall() {
            proc::signal(pid, libc::SIGKILL);
        }
    }
}
