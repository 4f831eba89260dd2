// SPDX-License-Identifier: GPL-2.0-or-later
//! Subcommand `capture completion`, whose output the packages contain.

use std::ffi::OsString;
use std::io::{self, Write};

use clap::{CommandFactory, Parser};
use clap_complete::Shell;

use crate::arguments::Arguments;
use crate::failure::{Failure, Result};

/// Prints a shell's completion script.
#[derive(Debug, Parser)]
#[command(name = "capture completion", max_term_width = 100)]
struct CompletionArguments {
    shell: Shell,
}

/// Runs the subcommand `completion` if the command line begins with it, after the program's name; otherwise returns
/// None.
pub fn run(words: &[OsString]) -> Option<std::result::Result<Result<()>, clap::Error>> {
    if words.get(1)? != "completion" {
        return None;
    }
    let rest = words.iter().take(1).chain(words.iter().skip(2));
    Some(CompletionArguments::try_parse_from(rest).map(|given| print(given.shell)))
}

fn print(shell: Shell) -> Result<()> {
    let mut text = Vec::new();
    let mut command = Arguments::command();
    clap_complete::generate(shell, &mut command, "twinwall-capture", &mut text);
    let written = io::stdout().write_all(&text);
    written.map_err(|error| Failure::system("stdout", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_names_it() {
        let words = |text: &str| -> Vec<OsString> { text.split(' ').map(OsString::from).collect() };
        CompletionArguments::command().debug_assert();
        assert!(run(&words("capture")).is_none());
        assert!(run(&words("capture -i completion -w x")).is_none());
        assert!(matches!(run(&words("capture completion")), Some(Err(_))));
    }
}
