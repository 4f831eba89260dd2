// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: prints an error as one line on stderr and returns an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use capture::arguments::{one_line, Arguments};
use capture::tools;
use clap::Parser;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let ended = match tools::run(&words) {
        Some(ended) => ended,
        None => Arguments::try_parse_from(&words).map(|given| capture::command::run(&given)),
    };
    let ended = match ended {
        Ok(ended) => ended,
        // clap reports --help and --version as errors, too.
        Err(words) if !words.use_stderr() => words.exit(),
        Err(error) => {
            eprintln!("error: {}", one_line(&error));
            return ExitCode::from(capture::failure::EXIT_USAGE);
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
