// SPDX-License-Identifier: GPL-2.0-or-later
//! The firewall that reads names for the applied policy: started, reloaded and ended as its generations need it.
//! systemd runs it as the instance `twinwall` of its units; elsewhere it is a separate process.
//!
//! The folder /run/twinwall/stage belongs to root and is readable for everybody:
//!   names.nft      the firewall's policy
//!   orders.json    program and options of the firewall
//!   twinwall.conf  options of the firewall, for its unit
//!   pid, log       process id and messages of a firewall that systemd doesn't run

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use apply::failure::{system, Failure as Failed};
use apply::firewall::{Firewall, Orders, Twin};
use serde_json::json;

use super::trust::{self, at};
use crate::client;
use crate::failure::Failure;
use crate::upgrade::peer::Peer;

pub mod process;
pub mod program;
mod unit;

/// Name of the firewall's instance, in its unit and its runtime folder.
pub const INSTANCE: &str = "twinwall";
/// Parent of the runtime folders. systemd's units use no other parent.
pub const RUN: &str = "/run/twinwall";

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        system(failure.text)
    }
}

pub fn twin_name(twin: Twin) -> &'static str {
    match twin {
        Twin::Rust => "rust",
        Twin::C => "c",
    }
}

/// The host's firewall, which reads names for the applied policy.
pub struct HostFirewall {
    /// Parent of the folders with the control socket and with the files of the firewall.
    run: PathBuf,
}

impl HostFirewall {
    pub fn new(run: &Path) -> HostFirewall {
        let run = run.to_owned();
        HostFirewall { run }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.run.join("stage").join(name)
    }

    fn names(&self) -> PathBuf {
        self.file("names.nft")
    }

    /// Returns the path of the firewall's control socket.
    pub fn control(&self, twin: Twin) -> PathBuf {
        let folder = format!("{}-{INSTANCE}", twin_name(twin));
        self.run.join(folder).join("control")
    }

    /// Returns true if the firewall is a unit of systemd; false if fwctl starts it as a separate process.
    fn is_unit(&self, twin: Twin) -> bool {
        self.run == Path::new(RUN) && unit::is_there(twin)
    }

    /// Returns the start parameters of the last start; None if the firewall was not started, or was stopped since.
    fn orders(&self) -> Option<Orders> {
        let text = fs::read_to_string(self.file("orders.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns all options of the firewall except those of the control socket.
    fn options(&self, orders: &Orders) -> Vec<String> {
        let names = self.names().to_string_lossy().into_owned();
        let mask = format!("{:#010x}", orders.mask);
        let own = ["--policy", &names, "--stage", &mask].map(str::to_owned);
        [&orders.options[..], &own].concat()
    }

    /// Makes the running firewall reload its policy.
    fn reload(&self, orders: &Orders) -> Result<(), Failure> {
        let mut client = client::connect(&self.control(orders.twin))?;
        client.ask(&json!({"command": "reload"})).map(drop)
    }

    /// Starts the firewall, and waits until it is ready.
    /// - lock: lock of the state folder. Without a unit, the started process holds it until its pid file is written.
    fn start(&self, orders: &Orders, lock: File) -> Result<(), Failure> {
        let options = self.options(orders);
        match self.is_unit(orders.twin) {
            true => {
                let text = format!("# Written by fwctl apply.\nOPTIONS={}\n", options.join(" "));
                trust::replace(&self.file("twinwall.conf"), &text)?;
                unit::start(orders.twin)
            }
            false => process::start(self, orders.twin, &options, lock),
        }
    }

    fn end(&self) -> Result<(), Failure> {
        let Some(orders) = self.orders() else {
            return Ok(());
        };
        match self.is_unit(orders.twin) {
            true => unit::stop(orders.twin)?,
            false => process::stop(self, orders.twin)?,
        }
        for name in ["twinwall.conf", "names.nft", "orders.json"] {
            let path = self.file(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(at(&path)(error))
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn bring(&self, orders: &Orders, names: &str, lock: File) -> Result<(), Failure> {
        trust::folder(&self.run)?;
        trust::folder(&self.run.join("stage"))?;
        if self.orders().as_ref() == Some(orders) {
            trust::replace(&self.names(), names)?;
            if self.reload(orders).is_ok() {
                return Ok(());
            }
        }
        self.end()?;
        trust::replace(&self.names(), names)?;
        let text = serde_json::to_string(orders).unwrap_or_default();
        trust::replace(&self.file("orders.json"), &text)?;
        self.start(orders, lock)
    }

    /// Fails unless the firewall runs with these start parameters and has loaded this policy.
    /// - names: text of the firewall's policy, as in the file names.nft.
    fn examine(&self, orders: &Orders, names: &str) -> Result<(), Failed> {
        let is_known = self.orders().as_ref() == Some(orders);
        let path = self.names();
        let is_there = fs::read_to_string(&path).is_ok_and(|text| text == names);
        if !is_known || !is_there {
            return Err(system(format_args!(
                "{} is another policy's: run fwctl revert, and apply the policy again",
                path.display()
            )));
        }
        let peer = Peer::find(&self.control(orders.twin))?;
        let written = fs::metadata(&path).and_then(|data| data.modified());
        let written = written
            .ok()
            .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let written_ms = written.map_or(0, |time| time.as_millis());
        let policy = peer.status.policy.as_ref();
        let is_read = policy.is_some_and(|policy| {
            Path::new(&policy.file) == path && u128::from(policy.loaded_ms) >= written_ms
        });
        match is_read {
            true => Ok(()),
            false => Err(system(format_args!(
                "the firewall (pid {}) names by another policy: run fwctl revert, and apply the policy again",
                peer.pid
            ))),
        }
    }
}

impl Firewall for HostFirewall {
    fn run(&self, orders: &Orders, names: &str, lock: File) -> Result<(), Failed> {
        Ok(self.bring(orders, names, lock)?)
    }

    fn check(&self, orders: &Orders, names: &str) -> Result<(), Failed> {
        self.examine(orders, names)
    }

    fn stop(&self) -> Result<(), Failed> {
        Ok(self.end()?)
    }
}
