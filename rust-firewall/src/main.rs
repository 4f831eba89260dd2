// SPDX-License-Identifier: GPL-2.0-or-later
//! rust-firewall: the Rust twin of Twinwall, a userspace firewall on NFQUEUE.
#![deny(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use rust_firewall::base::log::{self, Failure, LogExit};
use rust_firewall::base::output;
use rust_firewall::daemon;
use rust_firewall::explain;
use rust_firewall::explain::check;
use rust_firewall::guard;
use rust_firewall::options::{self, OptionsAction};
use rust_firewall::privilege;

fn start(arguments: &[OsString]) -> Result<LogExit, Failure> {
    if arguments
        .get(1)
        .is_some_and(|first| first == guard::COMMAND)
    {
        return Ok(guard::run::run(arguments));
    }
    match options::parse(arguments)? {
        OptionsAction::Run(options) => daemon::run(options),
        action => run_without_rights(action),
    }
}

/// Executes an action that needs no rights: check, explain, --help or --version.
fn run_without_rights(action: OptionsAction) -> Result<LogExit, Failure> {
    privilege::none()?;
    match action {
        OptionsAction::Check(options) => return Ok(check::run(&options)),
        OptionsAction::Explain(options) => return Ok(explain::run(&options)),
        OptionsAction::Help => output::print(options::HELP),
        OptionsAction::Version | OptionsAction::Run(_) => {
            output::print(&format!("{} {}\n", options::PROGRAM, options::VERSION));
        }
    }
    Ok(LogExit::Stopped)
}

fn main() -> ExitCode {
    log::open();
    log::abort_on_panic();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = start(&arguments).unwrap_or_else(|failure| log::fail(&failure));
    ExitCode::from(code as u8)
}
