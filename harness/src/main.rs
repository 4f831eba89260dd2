// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: which command was asked for, and how its failure is said.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures the firewalls against each other and against no firewall
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// One end of the embedded load; started by a run
    #[command(hide = true, disable_help_flag = true)]
    Load {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Load { arguments } => harness::load::command(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
