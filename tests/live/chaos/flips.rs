// SPDX-License-Identifier: GPL-2.0-or-later
//! Bit flips in messages from the kernel: a library between the firewall and its netlink socket (flip.c) flips a bit in
//! about a quarter of the messages, and truncates some. The firewall must continue, and its ledger must count the
//! packets that it could not read.

use anyhow::ensure;
use testbed::folder::Folder;
use testbed::ledger::{Ledger, Stats};
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};
use twinwall_tests::case::Row;

use super::preload::library;
use super::scene::{rule, Scene};

pub const ROWS: &[Row] = &[
    ("flips-closed", |twin| spare_the_header(twin, "closed")),
    ("flips-open", |twin| spare_the_header(twin, "open")),
    ("flips-unread", |twin| unread(twin, "131072")),
    ("flips-unread-full", |twin| unread(twin, "2000")),
    ("flips-anywhere", anywhere),
];

const SENT: u64 = 20_000;
/// Offset of the first byte that may be corrupted: the length of a netlink header. Without a correct header, messages
/// of different types can't be distinguished.
const HEADER: &str = "16";

/// Floods a firewall through a socket that corrupts messages. Returns the last ledger.
/// - from: offset of the first byte that may be corrupted.
/// - pause_us: pause before each receive, in µs.
/// - options: the value of --fail, and then further options.
fn flood(twin: Twin, from: &str, pause_us: u32, options: &[&str]) -> anyhow::Result<Stats> {
    let folder = Folder::shared()?;
    let preload = format!("LD_PRELOAD={}", library(&folder, "flip")?);
    let from = format!("FLIP_FROM={from}");
    let pause = format!("FLIP_PAUSE_US={pause_us}");
    let wrapper = ["env", &preload, &from, &pause, "FLIP_SEED=7"];
    let arguments = [&["--deadline", "200", "--fail"], options].concat();
    let mut scene = Scene::under(twin, &wrapper, &rule(""), &arguments)?;
    scene.send(SENT)?;
    // The guard answers the packets that still wait because their ids were corrupted.
    until("nothing waits any more", PATIENCE, || {
        Ok(scene.waiting()? == Some(0))
    })?;
    ensure!(scene.firewall.is_running()?, "the firewall ended");
    let ended = scene.firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    for line in ended.stderr.lines() {
        let known = [
            "warning: queue 0: no packet ",
            "warning: the ledger does not ",
        ];
        ensure!(
            known.iter().any(|known| line.starts_with(known)),
            "stderr: {line}"
        );
    }
    Stats::parse(ended.lines.last().map_or("", String::as_str))
}

fn spare_the_header(twin: Twin, mode: &str) -> anyhow::Result<()> {
    let modes = format!("malformed={mode},truncated={mode}");
    check_counts(&flood(twin, HEADER, 0, &[&modes])?.total, mode)
}

/// Ends the firewall while its socket is full of unread messages. A corrupted id that is too high also decides packets
/// that were not read yet; their messages stay in the socket, with the errors for their verdicts. The number of these
/// messages may exceed the queue's length.
fn unread(twin: Twin, length: &str) -> anyhow::Result<()> {
    const PAUSE_US: u32 = 2_000;
    let options = [
        "malformed=closed,truncated=closed",
        "--queue-length",
        length,
    ];
    let ledger = flood(twin, HEADER, PAUSE_US, &options)?.total;
    ensure!(ledger.refused > 0, "no verdict was refused: {ledger:?}");
    check_counts(&ledger, "closed")
}

fn check_counts(ledger: &Ledger, mode: &str) -> anyhow::Result<()> {
    ledger.check_reconciled()?;
    let reasons = ledger.malformed_reasons();
    let netlink = ledger.malformed["netlink"];
    let malformed = reasons.values().sum::<u64>() - netlink;
    ensure!(netlink > 0 && malformed > 0, "malformed: {reasons:?}");
    ensure!(ledger.truncated > 0, "nothing was truncated");
    ensure!(
        ledger.received + ledger.without_id + ledger.kernel.queue_full == SENT,
        "received {} of {SENT}, {} without an id, {} not, as the queue was full",
        ledger.received,
        ledger.without_id,
        ledger.kernel.queue_full
    );
    let dropped = match mode {
        "closed" => malformed + ledger.truncated + netlink - ledger.without_id,
        _ => 0,
    };
    ensure!(
        ledger.verdict("drop") == dropped,
        "dropped {} instead of {dropped}: {ledger:?}",
        ledger.verdict("drop")
    );
    Ok(())
}

/// Corrupts the headers, too. A message that is then not recognised as a packet is missed, which the ledger must
/// report.
fn anywhere(twin: Twin) -> anyhow::Result<()> {
    let ledger = flood(twin, "0", 0, &["closed"])?.total;
    let missed = SENT - ledger.received - ledger.without_id;
    ensure!(missed > 0, "no message was taken for another: {ledger:?}");
    ensure!(
        ledger.kernel.unseen + ledger.stalled >= missed
            && ledger.reconciled == (ledger.kernel.unseen == 0),
        "{missed} missed: {ledger:?}"
    );
    Ok(())
}
