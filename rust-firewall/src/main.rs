// SPDX-License-Identifier: GPL-2.0-or-later
//! rust-firewall: the Rust twin of Twinwall, a userspace firewall on NFQUEUE.
#![deny(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

use rust_firewall::check;
use rust_firewall::daemon;
use rust_firewall::explain;
use rust_firewall::guard;
use rust_firewall::guard_run;
use rust_firewall::log::{self, Failure, LogExit};
use rust_firewall::options::{self, OptionsAction};
use rust_firewall::report;

fn start(arguments: &[OsString]) -> Result<LogExit, Failure> {
    if arguments
        .get(1)
        .is_some_and(|first| first == guard::COMMAND)
    {
        return Ok(guard_run::run(arguments));
    }
    match options::parse(arguments)? {
        OptionsAction::Run(options) => return daemon::run(options),
        OptionsAction::Check(options) => return Ok(check::run(&options)),
        OptionsAction::Explain(options) => return Ok(explain::run(&options)),
        OptionsAction::Help => report::print(options::HELP),
        OptionsAction::Version => {
            report::print(&format!("{} {}\n", options::PROGRAM, options::VERSION));
        }
    }
    Ok(LogExit::Stopped)
}

fn main() -> ExitCode {
    log::abort_on_panic();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let code = start(&arguments).unwrap_or_else(|failure| log::fail(&failure));
    ExitCode::from(code as u8)
}
