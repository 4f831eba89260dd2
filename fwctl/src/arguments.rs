// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

const EXIT_CODES: &str = "\
Exit status: 0 all is well, 1 what was asked for is not well (a ledger that does
not reconcile, flows that flip, findings), 2 bad command line, policy or
capture, 3 no firewall could be asked, 4 the firewall refused, failed or is not
understood.";

/// Looks after a running rust-firewall or c-firewall (docs/OPERATIONS.md).
///
/// The firewall needs a control socket: start it with --control PATH.
#[derive(Parser)]
#[command(version, after_help = EXIT_CODES, term_width = 80)]
#[command(disable_help_subcommand = true, subcommand_required = true)]
pub struct Arguments {
    /// The firewall's control socket
    #[arg(long, value_name = "PATH", global = true, env = "TWINWALL_CONTROL")]
    #[arg(default_value = "/run/twinwall/control", hide_env_values = true)]
    pub socket: PathBuf,
    /// Print JSON, an object a line
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Show who runs, policy, queues, ledger and failure contract
    ///
    /// The exit status is 1 if the ledger does not reconcile.
    Status,
    /// Show the rules of the policy with their counters
    Rules,
    /// Have the policy read anew; a wrong one leaves the old one running
    Reload,
    /// Show or set the level of what the firewall prints on stderr
    Log {
        #[arg(value_name = "LEVEL")]
        level: Option<Level>,
    },
    /// End the firewall when no packet waits for its verdict
    Drain {
        /// How long to wait for that; then it ends all the same
        #[arg(long, value_name = "N", default_value_t = 10)]
        #[arg(value_parser = clap::value_parser!(u32).range(0..=3600))]
        seconds: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Error,
    Warning,
    Info,
    Debug,
}

/// The name of a choice, as on the command line.
pub fn name(choice: impl ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or(String::new(), |value| value.get_name().to_owned())
}
