// SPDX-License-Identifier: GPL-2.0-or-later
//! More packets than a queue or a socket's buffer holds: the outcome must be as the contract says, with overload=open
//! and overload=closed.

use anyhow::ensure;
use testbed::ledger::Ledger;
use testbed::twin::Twin;
use twinwall_tests::case::Row;

use super::scene::{rule, Scene};

pub const ROWS: &[Row] = &[
    ("overload-closed-queue", closed_queue),
    ("overload-closed-buffer", closed_buffer),
    ("overload-open-queue", open_queue),
    ("overload-open-buffer", open_buffer),
];

const SENT: u64 = 1000;
const QUEUE: [&str; 2] = ["--queue-length", "16"];
const BUFFER: [&str; 2] = ["--receive-buffer", "4096"];

/// Sends more packets than fit while the firewall is stopped, and checks how many arrive. Returns the ledger.
/// - room: option that makes the queue or the buffer small.
/// - really: expected text of the contract's row about an overload.
/// - arrives: computes from the ledger the number of datagrams that must arrive.
fn overload(
    twin: Twin,
    room: [&str; 2],
    mode: &str,
    really: &str,
    arrives: fn(&Ledger) -> u64,
) -> anyhow::Result<Ledger> {
    let modes = format!("overload={mode}");
    // With a deadline, the guard would answer the waiting packets while a slow machine still sends.
    let arguments = [room[0], room[1], "--fail", &modes, "--deadline", "0"];
    let scene = Scene::new(twin, &rule(""), &arguments)?;
    scene.check_contract("overload", [mode, really])?;
    scene.stop_and_send(SENT)?;
    scene.go_on();
    let ledger = scene.firewall.finish()?.total;
    ledger.check_reconciled()?;
    scene.server.check_arrived(arrives(&ledger))?;
    Ok(ledger)
}

fn closed_queue(twin: Twin) -> anyhow::Result<()> {
    let really = "dropped: counted as user drop if the socket's 67108864 bytes are full, as queue full if 16 packets wait";
    let ledger = overload(twin, QUEUE, "closed", really, |ledger| ledger.received)?;
    ensure!(ledger.received == 16, "received {}", ledger.received);
    ensure!(ledger.kernel.queue_full == SENT - 16, "{ledger:?}");
    Ok(())
}

fn closed_buffer(twin: Twin) -> anyhow::Result<()> {
    let really = "dropped: counted as user drop if the socket's 4096 bytes are full, as queue full if 131072 packets wait";
    let ledger = overload(twin, BUFFER, "closed", really, |ledger| ledger.received)?;
    ensure!(ledger.kernel.user_drop > 0, "{ledger:?}");
    ensure!(
        ledger.received + ledger.kernel.user_drop == SENT,
        "{ledger:?}"
    );
    Ok(())
}

fn open_queue(twin: Twin) -> anyhow::Result<()> {
    let really =
        "passes unseen: counted as unseen if the socket's 67108864 bytes are full, by nobody if 16 packets wait";
    let ledger = overload(twin, QUEUE, "open", really, |_| SENT)?;
    ensure!(ledger.received == 16, "received {}", ledger.received);
    ensure!(ledger.kernel.unseen == 0 && ledger.lost == 0, "{ledger:?}");
    Ok(())
}

fn open_buffer(twin: Twin) -> anyhow::Result<()> {
    let really =
        "passes unseen: counted as unseen if the socket's 4096 bytes are full, by nobody if 131072 packets wait";
    let ledger = overload(twin, BUFFER, "open", really, |_| SENT)?;
    ensure!(ledger.kernel.unseen > 0 && ledger.lost == 0, "{ledger:?}");
    ensure!(ledger.received + ledger.kernel.unseen == SENT, "{ledger:?}");
    Ok(())
}
