// SPDX-License-Identifier: GPL-2.0-or-later
//! Samples of the firewall's state, taken on a separate thread: a firewall that does not reply does not block the
//! keyboard.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::answer::{Rules, Stats, Status};
use crate::client::{self, Client};
use crate::failure::Failure;

#[derive(Clone, Debug)]
pub struct Sample {
    pub status: Status,
    pub stats: Stats,
    pub rules: Rules,
}

fn ask(client: &mut Client) -> Result<Sample, Failure> {
    Ok(Sample {
        status: client.status()?,
        stats: client.ask(&json!({"command": "stats"}))?.read()?,
        rules: client.ask(&json!({"command": "rules"}))?.read()?,
    })
}

/// Sends a sample of the firewall's state, or the failure, to `out` per interval. Continues after a failure: an upgrade
/// or a restart may be in progress.
fn run(socket: PathBuf, interval: Duration, out: &SyncSender<Result<Sample, Failure>>) {
    let mut connection = None;
    loop {
        let begun = Instant::now();
        let client = match connection.take() {
            Some(client) => Ok(client),
            None => client::connect(&socket),
        };
        let sample = client.and_then(|mut client| {
            let sample = ask(&mut client)?;
            connection = Some(client);
            Ok(sample)
        });
        if out.send(sample).is_err() {
            return;
        }
        thread::sleep(interval.saturating_sub(begun.elapsed()));
    }
}

/// Starts a thread that sends a sample of the firewall's state per interval; it ends when the receiver is dropped.
pub fn start(socket: PathBuf, interval: Duration) -> Receiver<Result<Sample, Failure>> {
    let (send, receive) = mpsc::sync_channel(1);
    thread::spawn(move || run(socket, interval, &send));
    receive
}
