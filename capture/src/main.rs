// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: what is wrong is one line on stderr and an exit code.

use std::process::ExitCode;

use capture::arguments::{one_line, Arguments};
use clap::Parser;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        // --help and --version are errors, too, in clap's eyes.
        Err(words) if !words.use_stderr() => words.exit(),
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            return ExitCode::from(capture::failure::EXIT_USAGE);
        }
    };
    match capture::command::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
