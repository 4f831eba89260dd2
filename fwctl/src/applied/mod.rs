// SPDX-License-Identifier: GPL-2.0-or-later
//! `apply`, `confirm`, `revert`, `unapply`, `history`, `boot`: policies in the kernel, managed by crate `apply`.

use std::ffi::OsStr;
use std::path::Path;

use apply::apply::{Applied, Request};
use apply::kernel::Wanted;
use apply::source::Source;
use apply::store::{Host, Store};
use nix::unistd::{geteuid, getuid, User};

use crate::failure::{tell, Exit, Failure};
use crate::output;

pub mod arguments;
mod boot;
pub mod config;
pub mod firewall;
pub mod history;
pub mod summary;
pub mod trust;

use arguments::{Apply, Boot, Revert, StatePlace};
use config::Config;
use firewall::HostFirewall;

/// Value of /proc/self/loginuid for a process without a login.
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

/// Returns the user of the process, and the user of the login if the two differ.
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

/// Fails for users other than root: the command changes the rule set.
pub fn need_root(command: &str) -> Result<(), Failure> {
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

/// Calls `act` with the generations and the firewall of a host.
fn on_host<T>(
    place: &StatePlace,
    act: impl FnOnce(Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let firewall = HostFirewall::new(&place.run);
    let places = [
        OsStr::new("--state"),
        place.state.as_os_str(),
        OsStr::new("--run"),
        place.run.as_os_str(),
    ];
    act(Host {
        folder: &place.state,
        places: &places,
        firewall: &firewall,
    })
}

/// Applies a policy.
/// - confirm_seconds: seconds until the policy is reverted unless it is confirmed; None: it needs no confirmation.
fn apply_source(
    place: &StatePlace,
    source: Source,
    wanted: Wanted,
    confirm_seconds: Option<u32>,
) -> Result<Applied, Failure> {
    let request = Request {
        source,
        wanted,
        by: who(),
        confirm_seconds,
    };
    on_host(place, |host| Ok(apply::apply::run(host, &request)?))
}

/// Applies a policy from a file.
/// - confirm_seconds: seconds until the policy is reverted unless it is confirmed; None: it needs no confirmation.
pub fn apply_file(
    place: &StatePlace,
    file: &Path,
    confirm_seconds: Option<u32>,
) -> Result<Applied, Failure> {
    let wanted = config::read(&place.config)?.wanted()?;
    let source = apply::source::read(file)?;
    apply_source(place, source, wanted, confirm_seconds)
}

/// Applies an earlier generation. If its policy has names, the firewall gets the same twin and options as then.
/// - confirm_seconds: seconds until the policy is reverted unless it is confirmed; None: it needs no confirmation.
fn apply_again(
    place: &StatePlace,
    config: &Config,
    number: u64,
    confirm_seconds: Option<u32>,
) -> Result<Applied, Failure> {
    let state = apply::store::read(&place.state)?.unwrap_or_default();
    let naming = state.generation(number).and_then(|one| one.naming.as_ref());
    let wanted = match naming {
        Some(naming) => config.wanted_again(&naming.orders)?,
        None => config.wanted()?,
    };
    let source = apply::store::source(&place.state, number)?;
    apply_source(place, source, wanted, confirm_seconds)
}

/// Prints the warnings about a policy that has been applied.
pub fn warn_of(applied: &Applied) {
    for warning in &applied.warnings {
        tell("warning", warning);
    }
}

pub fn say_applied(applied: &Applied, confirm_seconds: Option<u32>) {
    warn_of(applied);
    let number = applied.number;
    output::line(&match confirm_seconds {
        Some(seconds) => confirm_line(number, seconds),
        None => format!("generation {number} is applied"),
    });
}

pub fn apply(asked: &Apply) -> Result<Exit, Failure> {
    need_root("apply")?;
    let confirm_seconds = (!asked.now).then_some(asked.confirm);
    let applied = apply_file(&asked.place, &asked.policy, confirm_seconds)?;
    say_applied(&applied, confirm_seconds);
    Ok(Exit::Fine)
}

pub fn confirm(place: &StatePlace) -> Result<Exit, Failure> {
    need_root("confirm")?;
    let number = on_host(place, |host| Ok(apply::confirm::run(host)?))?;
    output::line(&format!("generation {number} is confirmed"));
    Ok(Exit::Fine)
}

pub fn unapply(place: &StatePlace) -> Result<Exit, Failure> {
    need_root("unapply")?;
    let number = on_host(place, |host| Ok(apply::undo::all(host)?))?;
    output::line(&format!("generation {number} and its tables are removed"));
    Ok(Exit::Fine)
}

/// Stops the timer of a reverted generation, and prints the generation's number.
fn say_reverted(number: u64) {
    apply::timer::disarm();
    output::line(&format!("generation {number} is reverted"));
}

/// Reverts the pending generation now. Waits for the end of a running operation.
fn revert_pending(host: Host) -> Result<(), Failure> {
    let mut store = Store::open(host)?;
    let Some(number) = apply::undo::pending(&mut store, "fwctl revert")? else {
        let text = "nothing waits for a confirmation: name a generation of fwctl history";
        return Err(Failure::new(Exit::Usage, text));
    };
    say_reverted(number);
    Ok(())
}

/// Reverts a generation at its deadline, for systemd's timer. Kills a running operation. Does nothing if the generation
/// is no longer pending: an earlier confirmation takes precedence.
/// - number: number of the generation; None: the pending generation, for a timer that an earlier version started.
fn revert_late(host: Host, number: Option<u64>) -> Result<(), Failure> {
    let mut store = Store::seize(host)?;
    if let Some(number) = apply::undo::at_deadline(&mut store, number)? {
        say_reverted(number);
    }
    Ok(())
}

pub fn revert(asked: &Revert) -> Result<Exit, Failure> {
    need_root("revert")?;
    let place = &asked.place;
    if asked.at_deadline {
        on_host(place, |host| Ok(apply::guard::run(host)?))?;
    } else if asked.pending {
        on_host(place, |host| revert_late(host, asked.generation))?;
    } else if let Some(number) = asked.generation {
        let confirm_seconds = (!asked.now).then_some(asked.confirm);
        let config = config::read(&place.config)?;
        let applied = apply_again(place, &config, number, confirm_seconds)?;
        say_applied(&applied, confirm_seconds);
    } else {
        on_host(place, revert_pending)?;
    }
    Ok(Exit::Fine)
}

pub fn boot(asked: &Boot) -> Result<Exit, Failure> {
    need_root("boot")?;
    boot::run(&asked.place, &asked.policy)
}
