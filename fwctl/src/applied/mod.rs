// SPDX-License-Identifier: GPL-2.0-or-later
//! `apply`, `confirm`, `revert`, `unapply`, `history`, `boot`: policies that the kernel holds, as crate `apply` keeps them.

use std::path::Path;

use nix::unistd::{geteuid, getuid, User};

use crate::arguments::{Apply, Boot, Revert, StatePlace};
use crate::failure::{Exit, Failure};
use crate::output;

mod boot;
pub mod history;
pub mod summary;

/// What /proc/self/loginuid says of a process that no login began.
const NO_LOGIN: u32 = u32::MAX;

impl From<apply::failure::Failure> for Failure {
    fn from(failure: apply::failure::Failure) -> Failure {
        let exit = match failure.kind {
            apply::failure::Kind::Policy => Exit::Usage,
            apply::failure::Kind::System => Exit::Refused,
        };
        Failure::new(exit, failure.text)
    }
}

fn name_of(uid: u32) -> String {
    let user = User::from_uid(uid.into()).ok().flatten();
    user.map_or(uid.to_string(), |user| user.name)
}

/// Who runs the command: the user of the login if the kernel knows one, else of the process.
fn who() -> String {
    let login = std::fs::read_to_string("/proc/self/loginuid").ok();
    let login = login.and_then(|text| text.trim().parse().ok());
    match login.filter(|uid| *uid != NO_LOGIN) {
        Some(uid) if uid != getuid().as_raw() => {
            format!("{} (login {})", name_of(getuid().as_raw()), name_of(uid))
        }
        _ => name_of(getuid().as_raw()),
    }
}

/// Fails for others than root, whose rule sets these commands change.
fn need_root(command: &str) -> Result<(), Failure> {
    match geteuid().is_root() {
        true => Ok(()),
        false => Err(Failure::new(
            Exit::Usage,
            format_args!("fwctl {command} changes the kernel's rules: run it as root or with sudo"),
        )),
    }
}

fn confirm_line(number: u64, seconds: u32) -> String {
    format!("generation {number} is loaded and will be reverted in {seconds} s: run fwctl confirm to keep it")
}

/// Applies a policy's text from a file, for a while or for good.
fn apply_file(folder: &Path, file: &Path, confirm_seconds: Option<u32>) -> Result<u64, Failure> {
    let source = apply::source::read(file)?;
    let request = apply::apply::Request::verbatim(source, who(), confirm_seconds);
    Ok(apply::apply::run(folder, &request)?)
}

fn say_applied(number: u64, confirm_seconds: Option<u32>) {
    output::line(&match confirm_seconds {
        Some(seconds) => confirm_line(number, seconds),
        None => format!("generation {number} is applied"),
    });
}

pub fn apply(asked: &Apply) -> Result<Exit, Failure> {
    need_root("apply")?;
    let confirm_seconds = (!asked.now).then_some(asked.confirm);
    let number = apply_file(&asked.place.state, &asked.policy, confirm_seconds)?;
    say_applied(number, confirm_seconds);
    Ok(Exit::Fine)
}

pub fn confirm(place: &StatePlace) -> Result<Exit, Failure> {
    need_root("confirm")?;
    let number = apply::confirm::run(&place.state)?;
    output::line(&format!("generation {number} is confirmed"));
    Ok(Exit::Fine)
}

pub fn unapply(place: &StatePlace) -> Result<Exit, Failure> {
    need_root("unapply")?;
    let number = apply::undo::all(&place.state)?;
    output::line(&format!("generation {number} and its tables are removed"));
    Ok(Exit::Fine)
}

/// Undoes the pending generation now.
fn revert_pending(folder: &Path, seize: bool, why: &str) -> Result<(), Failure> {
    let mut store = match seize {
        true => apply::store::Store::seize(folder)?,
        false => apply::store::Store::open(folder)?,
    };
    let Some(number) = apply::undo::pending(&mut store, why)? else {
        let text = "nothing waits for a confirmation: name a generation of fwctl history";
        return Err(Failure::new(Exit::Usage, text));
    };
    apply::timer::disarm();
    output::line(&format!("generation {number} is reverted"));
    Ok(())
}

pub fn revert(asked: &Revert) -> Result<Exit, Failure> {
    need_root("revert")?;
    let folder = &asked.place.state;
    if asked.at_deadline {
        apply::guard::run(folder)?;
    } else if asked.pending {
        // What systemd's timer starts. Who confirmed a moment before has won.
        let _ = revert_pending(folder, true, "not confirmed in time");
    } else if let Some(number) = asked.generation {
        let source = apply::store::source(folder, number)?;
        let confirm_seconds = (!asked.now).then_some(asked.confirm);
        let request = apply::apply::Request::verbatim(source, who(), confirm_seconds);
        say_applied(apply::apply::run(folder, &request)?, confirm_seconds);
    } else {
        revert_pending(folder, false, "fwctl revert")?;
    }
    Ok(Exit::Fine)
}

pub fn boot(asked: &Boot) -> Result<Exit, Failure> {
    need_root("boot")?;
    boot::run(&asked.place.state, &asked.policy)
}
