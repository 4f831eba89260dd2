// SPDX-License-Identifier: GPL-2.0-or-later
//! A machine that restarts at any step of a command: `fwctl boot` loads the old policy, or the new policy if the
//! command has confirmed it.

use std::fs;

use anyhow::{ensure, Context};
use testbed::proc;
use testbed::twin::Twin;
use testbed::wait::{until, PATIENCE};

use super::death::{kill_in, End, CALLS_MAX};
use super::names::{passes, NAMES, OTHER_NAMES};
use super::place::{Place, Row, OTHER_POLICY, POLICY};

pub const ROWS: &[Row] = &[
    ("restarted-at-every-step", restarted_at_every_step),
    (
        "names-restarted-at-every-step",
        names_restarted_at_every_step,
    ),
];

/// System call that puts a written file in its place. fwctl is killed before each of these calls.
const RENAME: &str = "rename";
/// Other system calls that create or remove files or folders.
const CREATE_OR_REMOVE: &str = "unlink,unlinkat,rmdir,mkdir";

/// Command whose steps are tried.
struct Tried {
    arguments: &'static [&'static str],
    /// True if the policy is an argument. Otherwise the command is about a generation that waits for its confirmation.
    has_policy: bool,
    /// True if the new policy may be loaded after a restart.
    may_confirm: bool,
}

const TRIED: [Tried; 4] = [
    Tried {
        arguments: &["apply", "--confirm", "600"],
        has_policy: true,
        may_confirm: false,
    },
    Tried {
        arguments: &["apply", "--now"],
        has_policy: true,
        may_confirm: true,
    },
    Tried {
        arguments: &["confirm"],
        has_policy: false,
        may_confirm: true,
    },
    Tried {
        arguments: &["revert"],
        has_policy: false,
        may_confirm: false,
    },
];

/// Place with two policies. The boot loads the old policy's file unless the new policy is confirmed.
struct Scene {
    place: Place,
    old: String,
    new: String,
    /// Function that returns the part of the kernel's state in which the policies differ.
    look: fn(&Place) -> anyhow::Result<String>,
}

impl Scene {
    fn new(
        place: Place,
        old: &str,
        new: &str,
        look: fn(&Place) -> anyhow::Result<String>,
    ) -> anyhow::Result<Scene> {
        let old = place.folder.write("old.nft", old)?;
        let new = place.folder.write("new.nft", new)?;
        Ok(Scene {
            place,
            old,
            new,
            look,
        })
    }

    /// Applies a policy without a trial time (`--now`), and restarts. Returns the kernel's state after the restart.
    fn reference(&self, policy: &str) -> anyhow::Result<String> {
        self.place.done(&["apply", "--now", policy])?;
        self.restart()?;
        (self.look)(&self.place)
    }

    /// Ends all processes of the namespace, deletes the kernel's rules and the run folder, and runs the boot's command.
    fn restart(&self) -> anyhow::Result<()> {
        let namespace = &self.place.namespace;
        until("the end of all processes", PATIENCE, || {
            let processes = namespace.processes()?;
            for pid in &processes {
                proc::signal(*pid, libc::SIGKILL);
            }
            Ok(processes.is_empty())
        })?;
        let run = self.place.folder.file("run");
        if fs::exists(&run)? {
            fs::remove_dir_all(run)?;
        }
        namespace.feed("nft", &["-f", "-"], "flush ruleset\n")?;
        self.place.done(&["boot", &self.old]).map(drop)
    }

    /// Returns true if the new policy is the applied one.
    fn is_new(&self) -> anyhow::Result<bool> {
        let state = self.place.state()?;
        let mut generations = state["generations"]
            .as_array()
            .context("generations")?
            .iter();
        let applied = generations.find(|one| one["number"] == state["applied"]);
        Ok(applied.context("an applied generation")?["file"] == self.new.as_str())
    }

    /// Kills fwctl at every step of a command, simulates a restart of the machine each time, and checks the loaded
    /// policy.
    /// - steps: system calls before which fwctl is killed.
    fn try_command(&self, tried: &Tried, steps: &[&str]) -> anyhow::Result<()> {
        let (new, old) = (self.reference(&self.new)?, self.reference(&self.old)?);
        ensure!(new != old, "the policies do not differ: {new}");
        let arguments = match tried.has_policy {
            true => &[tried.arguments, &[self.new.as_str()]].concat(),
            false => tried.arguments,
        };
        let mut kills = 0;
        for call in steps {
            for nth in 1..CALLS_MAX {
                if !tried.has_policy {
                    self.place.done(&["apply", "--confirm", "600", &self.new])?;
                }
                let end = kill_in(&self.place, arguments, call, nth)?;
                let is_killed = end == End::AtCall;
                kills += u32::from(is_killed);
                self.restart()?;
                let (now, is_new) = ((self.look)(&self.place)?, self.is_new()?);
                let expected = if is_new { &new } else { &old };
                let which = format!("{arguments:?} killed in {call} {nth}");
                ensure!(end != End::Before, "{which}: it ended before");
                ensure!(now == *expected, "{which}: {now}\ninstead of\n{expected}");
                ensure!(
                    !is_new || tried.may_confirm,
                    "{which}: the new policy is loaded"
                );
                ensure!(is_killed || is_new == tried.may_confirm, "{which}: {now}");
                if is_new {
                    ensure!(
                        self.reference(&self.old)? == old,
                        "{which}: another state of the old policy"
                    );
                }
                if !is_killed {
                    break;
                }
            }
        }
        ensure!(kills > 0, "{arguments:?} was not killed");
        Ok(())
    }

    fn try_all(&self, steps: &[&str]) -> anyhow::Result<()> {
        let mut tried = TRIED.iter();
        tried.try_for_each(|tried| self.try_command(tried, steps))
    }
}

/// Returns all rules, without the number of the generation.
fn look_at_rules(place: &Place) -> anyhow::Result<String> {
    let rules = place.rules()?;
    let same = rules
        .lines()
        .filter(|line| !line.contains("comment \"generation "));
    Ok(same.collect::<Vec<_>>().join("\n"))
}

fn restarted_at_every_step() -> anyhow::Result<()> {
    Scene::new(Place::new()?, POLICY, OTHER_POLICY, look_at_rules)?
        .try_all(&[RENAME, CREATE_OR_REMOVE])
}

/// Returns the tables in the kernel, and for each of two names whether it passes.
fn look_at_names(place: &Place) -> anyhow::Result<String> {
    let rules = place.rules()?;
    let tables = rules.lines().filter(|line| line.starts_with("table "));
    let tables: Vec<_> = tables.collect();
    let names = ["denied.example", "other.example"];
    let mut passing = Vec::new();
    // Each policy allows one of the names. On a busy machine its request may take longer than `passes` waits.
    until("a name that passes", PATIENCE, || {
        let answers = names.iter().map(|name| passes(place, name, false));
        passing = answers.collect::<anyhow::Result<Vec<bool>>>()?;
        Ok(passing.contains(&true))
    })?;
    Ok(format!("{tables:?} {passing:?}"))
}

fn names_restarted_at_every_step() -> anyhow::Result<()> {
    let place = Place::with_twin(Twin::C)?;
    // A request for a denied name takes half a second, so it is not made after the other calls.
    Scene::new(place, NAMES, OTHER_NAMES, look_at_names)?.try_all(&[RENAME])
}
