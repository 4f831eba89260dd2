// SPDX-License-Identifier: GPL-2.0-or-later
//! The cage: runs one command that can reach only what a policy allows, without root. It implements `fwctl run`;
//! docs/CAGE.md describes what it prevents.
//!
//!     fwctl (the caller, in the outer user and mount namespaces)
//!      +- hold: init of the outer pid namespace; ends with fwctl, and all others with it
//!      |   +- inside: init of the inner pid namespace, in the inner user and mount namespaces
//!      |       +- the command
//!      +- the firewall, in the cage's network namespace
//!      +- the uplink (pasta, slirp4netns), in the host's network namespace
#![deny(unsafe_code)]

pub mod allow;
mod channel;
mod command;
mod descriptors;
mod event;
pub mod failure;
mod firewall;
mod hosts;
mod inside;
mod learn;
mod namespaces;
mod output;
mod policy;
mod print;
pub mod programs;
mod queue_rules;
mod refused;
pub mod report;
mod run;
mod safe;
mod seccomp;
pub mod settings;
mod settle;
mod sockets;
pub mod stage;
mod start;
pub mod uplink;

use std::ffi::OsString;

use failure::Failure;

pub use print::print;
pub use run::{run, Ended};

/// Runs a stage (one of the cage's own processes, see stage.rs). fwctl calls this for its hidden command `cage-stage`.
pub fn run_stage(name: &str, arguments: Vec<OsString>) -> Result<(), Failure> {
    match (name, arguments.as_slice()) {
        (stage::HOLD, _) => inside::hold(arguments).map(|never| match never {}),
        (stage::INSIDE, _) => inside::inside(&arguments),
        (stage::MAP, [pid]) => namespaces::map(&pid.to_string_lossy()),
        _ => Err(Failure::new("no such stage")),
    }
}
