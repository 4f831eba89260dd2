// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: selects the command and reports its failure.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use harness::synthetic::SyntheticKind;
use harness::{commands, instructions, interrupt, load, micro};
use testbed::skip::Skip;

/// Measures the firewalls against each other and against no firewall.
///
/// An experiment runs in slices or interleaved rounds, with separate network namespaces for each subject. It writes a folder with raw output, samples, summaries, figures and a report. Needs root.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the shipped experiments: the question that each answers, and its duration
    List,
    /// Run an experiment, then show its table, findings and figures
    Run(commands::RunArguments),
    /// Draw the figures of a result folder from its saved data
    Plot {
        /// The result folder [default: all folders in result/]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Show the table and the findings of a result folder and write its report.md (not of scans)
    Report {
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Also write report.html: one self-contained page with figures, tables, findings and metadata
        #[arg(long)]
        html: bool,
    },
    /// Compare results with the files of their experiments, and list outdated results
    Verify {
        /// The result folder [default: all folders in result/]
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
    /// Run the twins' micro-benchmarks in turn and compare them: nanoseconds per decision
    Micro(micro::MicroArguments),
    /// Count the instructions per decision of both twins with valgrind, and compare them with a file
    Instructions(instructions::InstructionsArguments),
    /// Print a generated policy of the experiments: of a kind, with a number of rules or elements
    Policy { kind: SyntheticKind, size: u32 },
    /// Generate traffic
    #[command(subcommand)]
    Load(load::Load),
}

/// Exit status of a test that this machine can't run.
const SKIPPED: u8 = 77;
/// Exit status after a signal that interrupts a run: the status that a shell reports for a program that SIGINT has
/// ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::List => commands::list(),
        Command::Run(arguments) => commands::run_experiment(arguments),
        Command::Plot { folder } => commands::plot(folder.as_deref()),
        Command::Report { folder, html } => commands::report(&folder, html),
        Command::Verify { folder } => commands::verify(folder.as_deref()),
        Command::Micro(arguments) => micro::run(&arguments),
        Command::Instructions(arguments) => instructions::run(&arguments),
        Command::Policy { kind, size } => commands::policy(kind, size),
        Command::Load(arguments) => load::command(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<Skip>() => {
            println!("{error}");
            ExitCode::from(SKIPPED)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if interrupt::interrupted() {
                INTERRUPTED
            } else {
                1
            })
        }
    }
}
