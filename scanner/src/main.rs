// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: prints an error as one line on stderr and returns an exit code.

use std::process::ExitCode;

use clap::Parser;
use scanner::arguments::{one_line, Arguments};

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // clap reports --help and --version as errors, too.
        Err(words) if !words.use_stderr() => words.exit(),
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            return ExitCode::from(scanner::failure::EXIT_USAGE);
        }
    };
    match scanner::command::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
