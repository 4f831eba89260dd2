// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: prints an error as one line on stderr and returns an exit code.

use std::process::ExitCode;

use capture::failure;
use capture_lab::arguments::Arguments;
use capture_lab::tools;
use clap::Parser;

fn main() -> ExitCode {
    let ended = Arguments::try_parse().map(|given| tools::run(&given.tool));
    failure::exit("capture-lab", ended)
}
