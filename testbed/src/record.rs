// SPDX-License-Identifier: GPL-2.0-or-later
//! The record of a host's last minute of packets, as the unit twinwall-record keeps it.

use std::fs::{self, File};
use std::process::Child;

use crate::netns::Namespace;
use crate::place;
use crate::twin::{built, root};
use crate::wait::{until, PATIENCE};

/// Process of `capture` that records a host's packets as the unit twinwall-record does. It is killed when this value is
/// dropped.
pub struct Record(Child);

impl Record {
    /// Starts a record, and waits until it has begun.
    /// - folder: folder of its files, which is created.
    pub fn start(namespace: &Namespace, folder: &str) -> anyhow::Result<Record> {
        let rules = root().join("packaging/record.nft");
        place::run(namespace, "nft", &["-f", &rules.to_string_lossy()])?;
        fs::create_dir_all(folder)?;
        let log = format!("{folder}.log");
        let mut command = namespace.command(built("capture"));
        command
            .args(["--nflog", "5", "--ring", "4M", "--user", "root"])
            .args(["--rotate", "4MB,15s", "--keep", "5"])
            .args(["-w", &format!("{folder}/%Y%m%d-%H%M%S.pcapng")])
            .stderr(File::create(&log)?);
        let record = Record(command.spawn()?);
        until("the record to begin", PATIENCE, || {
            Ok(fs::read_to_string(&log)?.contains("capture: "))
        })?;
        Ok(record)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
