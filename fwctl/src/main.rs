// SPDX-License-Identifier: GPL-2.0-or-later
//! fwctl: the operator's tool for both twins of Twinwall.
#![deny(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

mod answer;
mod applied;
mod arguments;
mod check;
mod client;
mod connections;
mod contract;
mod diff;
mod doctor;
mod drain;
mod drops;
mod event;
mod explain;
mod failure;
mod fleet;
mod init;
mod instance;
mod level;
mod output;
mod paths;
mod queue_rules;
mod record;
mod reload;
mod rights;
mod rules;
mod run;
mod running;
mod split;
mod status;
mod table;
mod tail;
mod top;
mod units;
mod upgrade;

use arguments::{Arguments, Command};
use failure::{tell, Exit, Failure};

fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    match &arguments.command {
        Command::Status(place) => status::run(arguments, place),
        Command::Rules => rules::run(arguments),
        Command::Connections(asked) => connections::run(arguments, asked),
        Command::Reload => reload::run(arguments),
        Command::Log { level } => level::run(arguments, *level),
        Command::Drain { seconds } => drain::run(arguments, *seconds),
        Command::Top(top) => top::run(arguments, top),
        Command::Explain(explain) => explain::run(arguments, explain),
        Command::Diff(diff) => diff::run(arguments, diff),
        Command::Tail(tail) => tail::run(arguments, tail),
        Command::Record(record) => record::run(arguments, record),
        Command::Upgrade {
            binary,
            arguments: given,
        } => upgrade::run(arguments, binary.as_deref(), given),
        Command::Completion { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "fwctl", &mut text);
            let text = String::from_utf8_lossy(&text);
            output::lines(&text.lines().collect::<Vec<_>>());
            Ok(Exit::Fine)
        }
        Command::UnitReload { unit, command } => upgrade::unit::run(arguments, unit, command),
        Command::Launch { orphan, detach } => upgrade::launch::run(*orphan, *detach),
        Command::QueueRules { queues } => queue_rules::run(*queues),
        Command::Init(asked) => init::run(arguments, asked),
        Command::Apply(asked) => applied::apply(asked),
        Command::Confirm(place) => applied::confirm(place),
        Command::Revert(asked) => applied::revert(asked),
        Command::Unapply(place) => applied::unapply(place),
        Command::History(place) => applied::history::run(arguments, place),
        Command::Boot(asked) => applied::boot(asked),
        Command::StartFirewall { pid_file, command } => {
            applied::firewall::process::become_firewall(pid_file, command)
        }
        Command::Fleet(asked) => fleet::run(arguments, asked),
        Command::Drops(asked) => drops::run(arguments, asked),
        Command::Check(asked) => check::run(arguments, asked),
        Command::Split(asked) => split::run(arguments, asked),
        Command::Doctor(doctor) => doctor::run(arguments, doctor),
        Command::Run(asked) => run::run(asked),
        Command::CageStage { name, arguments } => run::stage(name, arguments),
    }
}

/// Parses the command line. If the command uses a firewall, finds its control socket.
fn prepare() -> Result<Arguments, Failure> {
    let mut arguments = Arguments::parse();
    if arguments.command.asks_firewall() {
        arguments.socket = instance::socket(&arguments)?;
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let exit = rights::give_up()
        .and_then(|()| prepare())
        .and_then(|arguments| run(&arguments));
    let exit = exit.unwrap_or_else(|failure| {
        tell("error", &failure.text);
        failure.exit
    });
    ExitCode::from(exit as u8)
}
