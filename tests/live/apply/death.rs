// SPDX-License-Identifier: GPL-2.0-or-later
//! An `apply` that is killed or stopped at any step, and a revert that can write no file: the rules are restored.

use std::collections::HashMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;

use anyhow::{bail, ensure, Context};
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

/// End of an fwctl that is to be killed at a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// fwctl succeeded: it has fewer calls.
    Itself,
    /// fwctl was killed at the call.
    AtCall,
    /// fwctl ended before the call: on a busy machine the revert comes first, and kills fwctl or its nft.
    Before,
}

/// Returns the number of calls of the most frequent system call in strace's output. strace counts the calls of each
/// system call for itself.
fn calls_most(trace: &str) -> u32 {
    let mut calls: HashMap<&str, u32> = HashMap::new();
    // Lines about signals and ends begin with `-` and `+`.
    let lines = trace.lines().filter(|line| !line.starts_with(['-', '+']));
    for (name, _) in lines.filter_map(|line| line.split_once('(')) {
        *calls.entry(name).or_default() += 1;
    }
    calls.into_values().max().unwrap_or(0)
}

/// Runs fwctl, and kills it at its nth system call of a kind.
pub fn kill_in(place: &Place, arguments: &[&str], call: &str, nth: u32) -> anyhow::Result<End> {
    let trace = place.folder.file("trace");
    let filter = format!("trace={call}");
    let inject = format!("inject={call}:signal=KILL:when={nth}");
    let mut wrapper = vec!["strace", "--quiet=all", "--output", &trace];
    wrapper.extend(["-e", &filter, "-e", &inject]);
    let mut command = place.command_under(&wrapper, arguments);
    let status = command.output().context("strace")?.status;
    Ok(if status.success() {
        End::Itself
    } else if status.signal().is_some() && calls_most(&fs::read_to_string(&trace)?) >= nth {
        End::AtCall
    } else {
        End::Before
    })
}

fn killed_at_every_step() -> anyhow::Result<()> {
    let (place, _) = Place::applied()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    kill_everywhere(&place, &other, &|place| place.rules(), &|_| Ok(()))
}

/// Waits for the revert of a killed apply, or reverts it. Checks that the previous state is restored.
/// - before: the previous state, as `look` returns it.
fn check_restored(
    place: &Place,
    before: &str,
    look: &dyn Fn(&Place) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    // If fwctl is killed before it starts the timer, no process waits for the deadline, and no rules are loaded. The
    // next command then reverts the generation.
    let is_armed = look(place)? != before;
    if is_armed {
        place.wait_settled()?;
    } else if place.is_pending()? {
        until("the revert", PATIENCE, || {
            Ok(place.run(&["revert"])?.status.success() || !place.is_pending()?)
        })?;
    }
    let now = look(place)?;
    ensure!(now == before, "{now}\ninstead of\n{before}");
    ensure!(place.state()?["applied"] == 1, "{}", place.state()?);
    Ok(())
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
            let step = format!("killed in {call} {nth}");
            let mut end = End::Before;
            for seconds in ["1", "10", "100"] {
                end = kill_in(place, &["apply", "--confirm", seconds, other], call, nth)?;
                check_restored(place, &before, look).context(step.clone())?;
                check(place).context(step.clone())?;
                if end != End::Before {
                    break;
                }
            }
            match end {
                End::Itself => break,
                End::AtCall => kills += 1,
                End::Before => bail!("{step}: it ends before, at each deadline"),
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
    let calls = fs::read_to_string(trace)?;
    Ok(calls
        .lines()
        .filter(|line| line.starts_with("wait"))
        .count())
}

/// Stops fwctl, as by Ctrl-Z, while nft loads the rules: the rules must be restored, although fwctl holds the lock and
/// no confirmation is given.
fn stopped_in_the_middle() -> anyhow::Result<()> {
    let (place, _) = Place::applied()?;
    let other = place.folder.write("other.nft", OTHER_POLICY)?;
    let last = waits(&place, &other)?;
    for seconds in ["2", "20", "100"] {
        if stop_at_wait(&place, &other, last, seconds)? {
            return Ok(());
        }
    }
    bail!("the new rules are never seen while fwctl is stopped")
}

/// Applies a policy, and stops fwctl at its nth wait for a program. Checks that the rules are restored, and that fwctl
/// is ended. Returns true if the new rules were seen while fwctl was stopped; on a busy machine the revert may come
/// before.
/// - seconds: deadline of the apply.
fn stop_at_wait(place: &Place, policy: &str, nth: usize, seconds: &str) -> anyhow::Result<bool> {
    let before = place.rules()?;
    let trace = place.folder.file("trace");
    let filter = format!("trace={WAIT}");
    let inject = format!("inject={WAIT}:signal=STOP:when={nth}");
    let mut wrapper = vec!["strace", "--quiet=all", "--output", &trace];
    wrapper.extend(["-e", &filter, "-e", &inject]);
    let arguments = ["apply", "--confirm", seconds, policy];
    let mut apply = place.command_under(&wrapper, &arguments).spawn()?;
    let (mut is_seen, mut has_ended) = (false, false);
    until("the new rules, or the end of fwctl", PATIENCE, || {
        is_seen = place.rules()?.contains("dport 8888");
        has_ended = apply.try_wait()?.is_some();
        Ok(is_seen || has_ended)
    })?;
    place.wait_settled()?;
    place.check_rules(&before)?;
    let outcome = place.outcome()?;
    ensure!(outcome.1 == "not confirmed in time", "{outcome:?}");
    let status = wait_within(&mut apply, PATIENCE).context("the stopped fwctl was not ended")?;
    ensure!(!status.success(), "fwctl was not stopped: {status}");
    let was_stopped = fs::read_to_string(&trace)?.contains("SIGSTOP");
    Ok(is_seen && !has_ended && was_stopped)
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
