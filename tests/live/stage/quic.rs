// SPDX-License-Identifier: GPL-2.0-or-later
//! QUIC connections: after the server has answered, its packets are not queued.

use std::time::Duration;

use anyhow::{ensure, Context};
use testbed::twin::{Twin, TWINS};
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::Stage;
use crate::evasion::net::{Net, Sees, SERVER};
use crate::evasion::{ALLOWED, BLOCK_LIST};
use crate::names::ends::{self, Heard, Hello, Identity, QuicClient, QUIC_PORT};

pub const ROWS: &[Row] = &[("an-answered-quic-connection", answered)];

/// Number of bytes that the server sends; the client's acknowledgements are much shorter.
const BULK: u64 = 4 << 20;
const BRIEFLY: Duration = Duration::from_millis(500);

/// Returns the number of bytes that are queued while a client fetches BULK bytes.
fn queued(stage: &Stage, client: &QuicClient) -> anyhow::Result<u64> {
    let before = stage.firewall.settled_ledger()?.total.bytes;
    ensure!(client.fetches(BULK, PATIENCE), "the bytes did not come");
    Ok(stage.firewall.settled_ledger()?.total.bytes - before)
}

/// Checks that a server's packets are not queued after it has answered, not even after an upgrade. Checks that the
/// connection stops after a reload that denies its name.
fn answered(twin: Twin) -> anyhow::Result<()> {
    let net = Net::new(Sees::Both)?;
    let identity = Identity::new(&[ALLOWED])?;
    ends::serve_quic(&net, &identity, QUIC_PORT, false, &Heard::default())?;
    let mut stage = Stage::start(&net, twin, BLOCK_LIST)?;
    let config = identity.client(Hello::Plain, None)?;
    let client = QuicClient::new(&net, 0, SERVER.into(), config, ALLOWED, PATIENCE)?;
    let client = client.context("no handshake")?;
    ensure!(client.fetches(1, PATIENCE), "no answer");
    let before = queued(&stage, &client)?;
    for twin in TWINS {
        stage.upgrade(&net, twin)?;
    }
    let after = queued(&stage, &client)?;
    println!("{before} and {after} of {BULK} bytes were queued");
    ensure!(before.max(after) < BULK / 8, "{before}, {after}");
    let denying = BLOCK_LIST.replace("\"denied.example\"", &format!("\"{ALLOWED}\""));
    stage.reload(&net, &denying, 1)?;
    until("the connection is refused", PATIENCE, || {
        Ok(!client.fetches(1, BRIEFLY))
    })?;
    stage.end()
}
