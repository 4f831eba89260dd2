// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: what is wrong is one line on stderr and an exit code.

use std::process::ExitCode;

use clap::Parser;
use scanner::arguments::Arguments;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match scanner::command::run(&arguments) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.code)
        }
    }
}
