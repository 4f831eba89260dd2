// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl: the operator's tool for both twins of Twinwall.
#![deny(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod answer;
mod arguments;
mod client;
mod drain;
mod failure;
mod level;
mod output;
mod reload;
mod rules;
mod status;
mod table;
mod units;

use arguments::{Arguments, Command};
use failure::{tell, Exit, Failure};

fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Status => status::run(arguments),
        Command::Rules => rules::run(arguments),
        Command::Reload => reload::run(arguments),
        Command::Log { level } => level::run(arguments, *level),
        Command::Drain { seconds } => drain::run(arguments, *seconds),
    }
}

fn main() -> ExitCode {
    let exit = run(&Arguments::parse()).unwrap_or_else(|failure| {
        tell("error", &failure.text);
        failure.exit
    });
    ExitCode::from(exit as u8)
}
