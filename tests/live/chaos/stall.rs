// SPDX-License-Identifier: GPL-2.0-or-later
//! A firewall that is stopped (SIGSTOP) while packets wait: the guard must answer the packets, and the ledger must
//! count them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{ensure, Context};
use testbed::folder::Folder;
use testbed::ledger::{Ledger, Stats};
use testbed::packets::force_send_buffer;
use testbed::place::LOCALHOST;
use testbed::proc;
use testbed::traffic::{udp_client, udp_send};
use testbed::twin::Twin;
use testbed::wait::{until, watch_silence, PATIENCE};
use twinwall_tests::case::Row;

use super::scene::{rule, Scene, DEADLINE, STALLS, WAITING};

pub const ROWS: &[Row] = &[
    ("stall-closed", closed),
    ("stall-open", open),
    ("stall-in-a-full-buffer", in_a_full_buffer),
    ("stall-twice-is-two-stalls", twice),
    ("stall-then-sigterm", then_sigterm),
    ("stall-then-a-ledger", then_a_ledger),
    ("stall-that-does-not-end", without_an_end),
    ("stall-said-as-loud-as-asked", not_said),
    ("stall-without-a-deadline", without_a_deadline),
    ("stall-of-the-guard-itself", of_the_guard_itself),
];

/// Time of DEADLINE: in less time a guard detects no stall.
const BRIEF: Duration = Duration::from_secs(5);
/// Number of requests before a stall, and after it, one at a time.
const REQUESTS: u64 = 10;

fn scene(twin: Twin, modes: &str, more: &[&str]) -> anyhow::Result<Scene> {
    Scene::new(
        twin,
        &rule(""),
        &[&["--fail", modes], &DEADLINE[..], more].concat(),
    )
}

/// Ends the scene's firewall by SIGTERM, and checks its exit code and stderr. Returns the last ledger.
/// - stderr: the expected text.
fn end(scene: Scene, stderr: &str) -> anyhow::Result<Ledger> {
    let ended = scene.firewall.end_by(libc::SIGTERM)?;
    ensure!(ended.code == Some(0), "exit code {:?}", ended.code);
    ensure!(ended.stderr == stderr, "stderr: {}", ended.stderr);
    let last = ended.lines.last().context("no ledger at exit")?;
    Ok(Stats::parse(last)?.total)
}

/// Stops the firewall until its guard has answered the waiting packets, with traffic before and after the stall. Checks
/// the warning and the ledger.
/// - verb: the guard's action as the warning names it: `drop` or `accept`.
/// - arrives: number of waiting packets that must arrive at the server.
fn stall(scene: Scene, verb: &str, arrives: u64) -> anyhow::Result<()> {
    scene.exchange(REQUESTS)?;
    scene.stop_and_send(WAITING)?;
    scene.until_answered()?;
    // The firewall is still stopped, so only the guard can have answered.
    ensure!(proc::state(scene.firewall.pid)? == 'T');
    scene.server.check_arrived(REQUESTS + arrives)?;
    scene.go_on();
    scene.exchange(REQUESTS)?;
    let ledger = scene.firewall.settled_ledger()?.total;
    ledger.check_reconciled()?;
    ensure!(ledger.received == 2 * REQUESTS + WAITING, "{ledger:?}");
    ensure!(ledger.stalled == WAITING, "stalled {}", ledger.stalled);
    let ledger = end(scene, &format!("{STALLS} {verb} waiting packets\n"))?;
    ledger.check_reconciled()
}

fn closed(twin: Twin) -> anyhow::Result<()> {
    let scene = scene(twin, "closed", &[])?;
    let really = "dropped by the guard when none was answered for 5000 ms";
    scene.check_contract("stall", ["closed", really])?;
    stall(scene, "drop", 0)
}

fn open(twin: Twin) -> anyhow::Result<()> {
    let scene = scene(twin, "stall=open", &[])?;
    let really = "accepted by the guard when none was answered for 5000 ms";
    scene.check_contract("stall", ["open", really])?;
    stall(scene, "accept", WAITING)
}

/// Checks that the ledger reconciles after a stall with a full receive buffer (overload=open): packets that the guard
/// has dropped count as stalled, packets that the kernel has accepted for lack of room count as unseen.
fn in_a_full_buffer(twin: Twin) -> anyhow::Result<()> {
    until("the guard counts only packets that wait", PATIENCE, || {
        fill_buffer(twin)
    })
}

/// Does the same as `in_a_full_buffer`. Returns false if the guard has also counted packets that were sent while it
/// answered (see the function `settled` of guard/watch).
fn fill_buffer(twin: Twin) -> anyhow::Result<bool> {
    let modes = "overload=open,stall=closed";
    let scene = scene(twin, modes, &["--receive-buffer", "4096"])?;
    let guard = scene.guard.context("there is no guard")?;
    // It must not answer before all packets are sent.
    proc::stop(guard)?;
    scene.stop_and_send(1000)?;
    let waiting = scene.waiting()?.context("nobody owns the queue")?;
    ensure!((1..1000).contains(&waiting), "{waiting} packets wait");
    proc::signal(guard, libc::SIGCONT);
    // Packets that the guard accepts arrive meanwhile.
    until("the guard answers what waits", PATIENCE, || {
        scene.send(1)?;
        Ok(scene.waiting()? == Some(0))
    })?;
    scene.until_answered()?;
    scene.go_on();
    // Unseen packets have ids, too: when the buffer has room again, the id of the next packet shows that all messages
    // are received.
    until("the firewall has emptied the socket", PATIENCE, || {
        scene.firewall.is_idle()
    })?;
    scene.exchange(1)?;
    let ledger = scene.firewall.settled_ledger()?.total;
    ledger.check_reconciled()?;
    ensure!(ledger.stalled >= waiting, "{waiting} waited: {ledger:?}");
    scene.server.check_arrived(ledger.kernel.unseen + 1)?;
    end(scene, &format!("{STALLS} drop waiting packets\n"))?;
    Ok(ledger.stalled == waiting)
}

fn twice(twin: Twin) -> anyhow::Result<()> {
    let folder = Folder::shared()?;
    let events = folder.file("events.json");
    let scene = scene(twin, "closed", &["--events", &events])?;
    for _ in 0..2 {
        scene.stop_and_send(WAITING)?;
        scene.until_answered()?;
        // While the firewall is stopped, this is still the same stall.
        scene.send(WAITING)?;
        scene.until_answered()?;
        scene.go_on();
        scene.exchange(REQUESTS)?;
    }
    let ledger = end(scene, &format!("{STALLS} drop waiting packets\n").repeat(2))?;
    ensure!(ledger.stalled == 4 * WAITING, "stalled {}", ledger.stalled);
    let told = fs::read_to_string(&events)?;
    let stalls = told.lines().filter(|line| line.contains("\"stall\""));
    ensure!(stalls.count() == 2, "events: {told}");
    Ok(())
}

/// Checks that messages of packets that the guard has answered count as received when the firewall stops. The firewall
/// reads one message per batch, so that most are unread when the signal arrives.
fn then_sigterm(twin: Twin) -> anyhow::Result<()> {
    const MANY: u64 = 5000;
    let scene = scene(twin, "closed", &["--batch", "1"])?;
    scene.exchange(REQUESTS)?;
    let client = udp_client(&scene.namespace, LOCALHOST)?;
    force_send_buffer(&client, 64 << 20)?; // none leaves it before its verdict
    proc::stop(scene.firewall.pid)?;
    udp_send(&client, MANY, 18)?;
    scene.until_answered()?;
    proc::signal(scene.firewall.pid, libc::SIGTERM);
    scene.go_on();
    let ledger = end(scene, &format!("{STALLS} drop waiting packets\n"))?;
    ledger.check_reconciled()?;
    ensure!(ledger.stalled == MANY, "stalled {}", ledger.stalled);
    ensure!(ledger.received == REQUESTS + MANY, "{ledger:?}");
    Ok(())
}

/// Checks that a ledger that is requested during a stall counts the packets that the guard has answered.
fn then_a_ledger(twin: Twin) -> anyhow::Result<()> {
    let scene = scene(twin, "closed", &[])?;
    scene.exchange(REQUESTS)?;
    scene.stop_and_send(WAITING)?;
    scene.until_answered()?;
    // The signal is pending when the firewall goes on.
    proc::signal(scene.firewall.pid, libc::SIGUSR1);
    scene.go_on();
    // A batch may be in flight, so that received packets have no verdict yet.
    let ledger = scene.firewall.ledger()?.total;
    let unexplained = ledger.difference + ledger.kernel.unseen;
    ensure!(unexplained == 0, "not reconciled: {ledger:?}");
    ensure!(ledger.stalled == WAITING, "stalled {}", ledger.stalled);
    end(scene, &format!("{STALLS} drop waiting packets\n")).map(drop)
}

/// Checks that the guard itself reports a stall that never ends: the stopped firewall can't report it.
fn without_an_end(twin: Twin) -> anyhow::Result<()> {
    let scene = scene(twin, "closed", &[])?;
    scene.stop_and_send(WAITING)?;
    scene.until_waiting(Some(0))?;
    ensure!(proc::state(scene.firewall.pid)? == 'T');
    let ended = scene.firewall.end_by(libc::SIGKILL)?;
    let expected = format!("{STALLS} drop waiting packets\n");
    ensure!(ended.stderr == expected, "stderr: {}", ended.stderr);
    Ok(())
}

fn not_said(twin: Twin) -> anyhow::Result<()> {
    let scene = scene(twin, "closed", &["--log-level", "error"])?;
    scene.stop_and_send(WAITING)?;
    scene.until_answered()?;
    scene.go_on();
    let ledger = end(scene, "")?;
    ensure!(ledger.stalled == WAITING, "stalled {}", ledger.stalled);
    Ok(())
}

fn without_a_deadline(twin: Twin) -> anyhow::Result<()> {
    let scene = Scene::new(twin, &rule(""), &["--deadline", "0"])?;
    scene.check_contract("stall", ["closed", "waits for ever: --deadline is 0"])?;
    ensure!(scene.guard.is_none(), "there is a guard");
    scene.stop_and_send(WAITING)?;
    watch_silence(Duration::from_millis(800));
    ensure!(scene.waiting()? == Some(WAITING), "somebody answered");
    scene.go_on();
    scene.server.check_arrived(WAITING)?;
    scene.firewall.finish()?.total.check_clean()
}

/// Checks that a guard that was stopped itself reports no stall: it can't know which process has stalled.
fn of_the_guard_itself(twin: Twin) -> anyhow::Result<()> {
    until("both are stopped and go on in time", PATIENCE, || {
        stop_both(twin)
    })
}

/// Does the same as `of_the_guard_itself`. Returns false if packets waited for BRIEF while the guard was not stopped:
/// then a stall is correct.
fn stop_both(twin: Twin) -> anyhow::Result<bool> {
    let scene = scene(twin, "closed", &[])?;
    let guard = scene.guard.context("there is no guard")?;
    let since = Instant::now();
    scene.stop_and_send(WAITING)?;
    proc::stop(guard)?;
    if since.elapsed() >= BRIEF {
        return Ok(false);
    }
    watch_silence(BRIEF * 3 / 2);
    let since = Instant::now();
    scene.go_on();
    proc::signal(guard, libc::SIGCONT);
    scene.until_waiting(Some(0))?;
    if since.elapsed() >= BRIEF {
        return Ok(false);
    }
    scene.server.check_arrived(WAITING)?;
    let ledger = end(scene, "")?;
    ledger.check_clean()?;
    Ok(true)
}
