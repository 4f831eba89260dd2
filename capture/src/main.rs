// SPDX-License-Identifier: GPL-2.0-or-later
//! The program: prints an error as one line on stderr and returns an exit code.

use std::ffi::OsString;
use std::process::ExitCode;

use capture::arguments::Arguments;
use capture::{command, completion, failure};
use clap::Parser;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let ended = match completion::run(&words) {
        Some(ended) => ended,
        None => Arguments::try_parse_from(&words).map(|given| command::run(&given)),
    };
    failure::exit("capture", ended)
}
