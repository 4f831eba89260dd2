// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: prints an error as one line on stderr and returns an exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
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
    if let Some(shell) = arguments.completion {
        let mut text = Vec::new();
        clap_complete::generate(
            shell,
            &mut Arguments::command(),
            "twinwall-scanner",
            &mut text,
        );
        return ExitCode::from(u8::from(io::stdout().write_all(&text).is_err()));
    }
    match scanner::command::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
