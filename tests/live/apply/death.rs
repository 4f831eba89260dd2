// SPDX-License-Identifier: GPL-2.0-or-later
//! An `apply` that is killed or stopped at any step, and a revert that can write no file: the rules are restored.

use std::os::unix::process::ExitStatusExt;

use anyhow::{ensure, Context};
use testbed::wait::{until, wait_within, PATIENCE};

use super::place::{Place, Row, OTHER_POLICY, POLICY};

pub const ROWS: &[Row] = &[
    ("killed-at-every-step", killed_at_every_step),
    ("stopped-in-the-middle", stopped_in_the_middle),
    ("reverted-on-a-full-disk", reverted_on_a_full_disk),
    (
        "reverted-by-its-own-timer-only",
        reverted_by_its_own_timer_only,
    ),
];

/// System calls before which a command is killed, one group after another: renaming files, writing files, starting
/// programs.
const STEPS: [&str; 3] = ["rename", "fsync", SPAWN];
const SPAWN: &str = "clone,clone3,fork,vfork";
const WAIT: &str = "wait4,waitid";
/// Limit that the number of system calls of a kind in a command never reaches.
pub const CALLS_MAX: u32 = 100;

/// Runs fwctl, and kills it at its nth system call of a kind. Returns true if fwctl was killed.
pub fn kill_in(place: &Place, arguments: &[&str], call: &str, nth: u32) -> anyhow::Result<bool> {
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let wrapper = ["strace", "--quiet=all", "--output=/dev/null", "-e", &inject];
    let mut command = place.command_under(&wrapper, arguments);
    let output = command.output().context("strace")?;
    Ok(output.status.signal().is_some())
}

fn killed_at_every_step() -> anyhow::Result<()> {
    let (place, _) = Place::applied()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    kill_everywhere(&place, &other, &|place| place.rules(), &|_| Ok(()))
}

/// Kills fwctl at every step of an apply. Checks that each time the previous state is restored.
/// - other: path of the policy to apply.
/// - look: returns the state to compare. It must not wait, and is also called while the other policy is loaded.
/// - check: checks the effect of the restored state; it may wait for packets.
pub fn kill_everywhere(
    place: &Place,
    other: &str,
    look: &dyn Fn(&Place) -> anyhow::Result<String>,
    check: &dyn Fn(&Place) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let before = look(place)?;
    for call in STEPS {
        let mut kills = 0;
        for nth in 1..CALLS_MAX {
            let is_killed = kill_in(place, &["apply", "--confirm", "1", other], call, nth)?;
            kills += u32::from(is_killed);
            // If fwctl is killed before it starts the timer, no process waits for the deadline, and no rules are
            // loaded. The next command then reverts the generation.
            let is_armed = look(place)? != before;
            if is_armed {
                place.wait_settled()?;
            } else if place.is_pending()? {
                until("the revert", PATIENCE, || {
                    Ok(place.run(&["revert"])?.status.success() || !place.is_pending()?)
                })?;
            }
            let now = look(place)?;
            ensure!(
                now == before,
                "killed in {call} {nth}: {now}\ninstead of\n{before}"
            );
            check(place).with_context(|| format!("killed in {call} {nth}"))?;
            ensure!(place.state()?["applied"] == 1, "{}", place.state()?);
            if !is_killed {
                break;
            }
        }
        ensure!(
            (1..CALLS_MAX - 1).contains(&kills),
            "{call}: killed {kills} times"
        );
    }
    Ok(())
}

/// Returns the number of waits for a program in an apply. The last program loads the rules.
fn waits(place: &Place, policy: &str) -> anyhow::Result<usize> {
    let (trace, filter) = (place.folder.file("trace"), format!("trace={WAIT}"));
    let wrapper = ["strace", "--quiet=all", "--output", &trace, "-e", &filter];
    let mut apply = place.command_under(&wrapper, &["apply", "--confirm", "600", policy]);
    ensure!(apply.output()?.status.success(), "fwctl apply");
    place.done(&["revert"])?;
    let calls = std::fs::read_to_string(trace)?;
    Ok(calls
        .lines()
        .filter(|line| line.starts_with("wait"))
        .count())
}

/// Stops fwctl, as by Ctrl-Z, while nft loads the rules: the rules must be restored, although fwctl holds the lock and
/// no confirmation is given.
fn stopped_in_the_middle() -> anyhow::Result<()> {
    let (place, _) = Place::applied()?;
    let before = place.rules()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    let last = waits(&place, &other)?;
    let inject = format!("inject={WAIT}:signal=STOP:when={last}");
    let wrapper = ["strace", "--quiet=all", "--output=/dev/null", "-e", &inject];
    let mut apply = place
        .command_under(&wrapper, &["apply", "--confirm", "2", &other])
        .spawn()?;
    until("the new rules", PATIENCE, || {
        Ok(place.rules()?.contains("dport 8888"))
    })?;
    ensure!(apply.try_wait()?.is_none(), "fwctl was not stopped");
    place.wait_settled()?;
    place.check_rules(&before)?;
    ensure!(
        place.outcome()?.1 == "not confirmed in time",
        "{:?}",
        place.outcome()?
    );
    let status = wait_within(&mut apply, PATIENCE).context("the stopped fwctl was not ended")?;
    ensure!(!status.success(), "{status}");
    Ok(())
}

/// Applies a policy with the base chain of the applied one, so that a revert keeps the chain. The policy is the second
/// generation, and waits for its confirmation. Returns the place, and its rules before and after the apply.
fn waiting() -> anyhow::Result<(Place, String, String)> {
    let (place, _) = Place::applied()?;
    let before = place.rules()?;
    let other = place
        .folder
        .write("other.nft", POLICY.replace("7777", "8888"))?;
    place.done(&["apply", "--confirm", "600", &other])?;
    let after = place.rules()?;
    Ok((place, before, after))
}

/// Checks that the timer's command restores the rules although it can write no file, that it fails, and that a later
/// revert writes the outcome.
fn reverted_on_a_full_disk() -> anyhow::Result<()> {
    let (place, before, _) = waiting()?;
    let inject = "inject=fsync:error=ENOSPC";
    let wrapper = ["strace", "--quiet=all", "--output=/dev/null", "-e", inject];
    let mut revert = place.command_under(&wrapper, &["revert", "--pending", "2"]);
    let output = revert.output().context("strace")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(4) && stderr.contains("state.json: No space left on device"),
        "{}: {stderr}",
        output.status
    );
    place.check_rules(&before)?;
    place.done(&["revert"])?;
    place.check_rules(&before)?;
    ensure!(place.outcome()?.0 == "reverted", "{:?}", place.outcome()?);
    Ok(())
}

/// Checks that the timer of an earlier generation reverts nothing, and that a timer is silent if nothing is pending.
fn reverted_by_its_own_timer_only() -> anyhow::Result<()> {
    let (place, before, after) = waiting()?;
    place.done(&["revert", "--pending", "1"])?;
    place.check_rules(&after)?;
    ensure!(place.is_pending()?, "{}", place.state()?);
    place.done(&["revert", "--pending", "2"])?;
    place.check_rules(&before)?;
    let said = place.done(&["revert", "--pending", "2"])?;
    ensure!(said.is_empty(), "{said}");
    Ok(())
}
