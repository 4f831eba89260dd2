// SPDX-License-Identifier: GPL-2.0-or-later
//! Syntax of the command line: command, options with their raw values, and words (arguments that are not options).
//! `options` checks the values.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{value_parser, Arg, ArgAction, ArgMatches, Command};

use crate::base::log::{failure_set, Failure, LogExit};
use crate::spec::option::{facts, COMMANDS, GONE, OPTIONS, OPTION_COUNT};
pub use crate::spec::option::{ArgumentsCommand, ArgumentsOption};

/// Maximum number of bytes of a value that an error message shows, before "...".
pub const QUOTE_BYTES: usize = 64;

/// Option that is executed instead of the command: --help or --version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsText {
    Help,
    Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    pub command: ArgumentsCommand,
    pub text: Option<ArgumentsText>,
    /// Raw value of each option: the last value, if the option is given several times; empty for an option without a
    /// value; None = not given.
    values: [Option<Vec<u8>>; OPTION_COUNT],
    /// Words of the command: arguments that are not options; none for `Run`.
    pub words: Vec<Vec<u8>>,
}

/// Name by which clap knows the command's words.
const WORDS: &str = "words";

/// Returns an option's name without its hyphens.
pub fn name(option: ArgumentsOption) -> &'static str {
    facts(option).name
}

/// Returns the raw value of an option, if it was given.
pub fn value(arguments: &Arguments, option: ArgumentsOption) -> Option<&[u8]> {
    arguments.values.get(option as usize)?.as_deref()
}

/// Returns name and raw value of every option that was given, in the order of the help text.
pub fn values(arguments: &Arguments) -> impl Iterator<Item = (&'static str, &[u8])> {
    let options = OPTIONS.iter().zip(&arguments.values);
    options.filter_map(|(facts, value)| Some((facts.name, value.as_deref()?)))
}

fn usage(text: String) -> Failure {
    failure_set(LogExit::Usage, text)
}

/// Returns at most QUOTE_BYTES of a text, with '"', '\' and bytes that are not printable ASCII as \xNN, and "..." if
/// the text was cut.
pub fn quote(text: &[u8]) -> String {
    let mut quoted = String::new();
    for byte in text.iter().take(QUOTE_BYTES) {
        if !(b' '..=b'~').contains(byte) || matches!(byte, b'"' | b'\\') {
            quoted.push_str(&format!("\\x{byte:02x}"));
        } else {
            quoted.push(char::from(*byte));
        }
    }
    if text.len() > QUOTE_BYTES {
        quoted.push_str("...");
    }
    quoted
}

/// Returns the parser of a command. It checks no value, and accepts any argument as a value, even if it begins with a
/// hyphen, as getopt does.
fn table(command: ArgumentsCommand) -> Command {
    let taken = OPTIONS
        .iter()
        .filter(|facts| facts.commands & 1 << command as u32 != 0);
    let options = taken.map(|facts| {
        let option = Arg::new(facts.name).long(facts.name);
        match facts.has_value {
            true => option
                .allow_hyphen_values(true)
                .value_parser(value_parser!(OsString)),
            false => option.action(ArgAction::SetTrue),
        }
    });
    // Without a command, the first word ends the command line: it is an unknown command.
    let words = Arg::new(WORDS)
        .num_args(0..)
        .trailing_var_arg(command == ArgumentsCommand::Run)
        .action(ArgAction::Append)
        .value_parser(value_parser!(OsString));
    Command::new("")
        .version("")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .args(options)
        .arg(
            Arg::new("help")
                .long("help")
                .short('h')
                .action(ArgAction::Help),
        )
        .arg(
            Arg::new("version")
                .long("version")
                .short('V')
                .action(ArgAction::Version),
        )
        .arg(words)
}

/// Returns an unknown option as the command line has it, without its value. The parser reports the option's name as
/// text, in which bytes that are no UTF-8 are replaced.
/// - told: option's name, as the parser reports it.
fn token_of(arguments: &[OsString], told: &str) -> Vec<u8> {
    let token = arguments
        .iter()
        .skip(1)
        .find(|token| token.to_string_lossy().starts_with(told));
    let token = token.map_or(told.as_bytes(), |token| token.as_bytes());
    let length = match token {
        [b'-', b'-', ..] => token
            .iter()
            .position(|byte| *byte == b'=')
            .unwrap_or(token.len()),
        _ => token.len().min(2),
    };
    token.get(..length).unwrap_or_default().to_vec()
}

/// Returns the failure for an argument that the parser refused.
fn fail_structure(arguments: &[OsString], error: &clap::Error) -> Failure {
    let told = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(told)) => told.as_str(),
        _ => "",
    };
    // The parser reports an option that needs a value as "--name <name>".
    let name = told.split(' ').next().unwrap_or_default();
    usage(match error.kind() {
        ErrorKind::UnknownArgument => {
            let token = token_of(arguments, told);
            let mut gone = GONE.iter().filter(|(name, _)| token == name.as_bytes());
            match gone.next() {
                Some((name, instead)) => format!("there is no option {name} any more: {instead}"),
                None => format!("unknown or ambiguous option {}: see --help", quote(&token)),
            }
        }
        ErrorKind::TooManyValues => format!("option {name} takes no value: see --help"),
        _ => format!("option {name} needs a value: see --help"),
    })
}

fn fail_unexpected(word: &[u8]) -> Failure {
    usage(format!(
        "unexpected argument \"{}\": see --help",
        quote(word)
    ))
}

fn command_of(arguments: &[OsString]) -> ArgumentsCommand {
    let word = arguments.get(1).map(|argument| argument.as_bytes());
    let named = COMMANDS
        .iter()
        .skip(1)
        .find(|facts| Some(facts.name.as_bytes()) == word);
    named.map_or(ArgumentsCommand::Run, |facts| facts.command)
}

/// Returns the values and words that the parser found. Fails if the command has too many or too few words.
fn collect(command: ArgumentsCommand, matches: &mut ArgMatches) -> Result<Arguments, Failure> {
    let values = OPTIONS.map(|facts| {
        if facts.commands & 1 << command as u32 == 0 {
            return None;
        }
        match facts.has_value {
            true => matches
                .remove_one::<OsString>(facts.name)
                .map(OsStringExt::into_vec),
            false => matches.get_flag(facts.name).then(Vec::new),
        }
    });
    let words: Vec<Vec<u8>> = matches
        .remove_many::<OsString>(WORDS)
        .map(|words| words.map(OsStringExt::into_vec).collect())
        .unwrap_or_default();
    let facts = &COMMANDS[command as usize];
    if let Some(unexpected) = words.get(facts.words) {
        return Err(fail_unexpected(unexpected));
    }
    if words.len() < facts.words {
        let (name, needs) = (facts.name, facts.needs);
        return Err(usage(format!("{name} needs {needs}: see --help")));
    }
    Ok(Arguments {
        command,
        text: None,
        values,
        words,
    })
}

/// Parses a command line in its order. The first argument, the program's name, is ignored. --help and --version take
/// effect at once: later arguments are ignored, and words may be missing.
pub fn parse(arguments: &[OsString]) -> Result<Arguments, Failure> {
    let command = command_of(arguments);
    let skipped = usize::from(command != ArgumentsCommand::Run);
    let arguments = arguments.get(skipped..).unwrap_or_default();
    let asks_for = |text| Arguments {
        command,
        text: Some(text),
        values: [const { None }; OPTION_COUNT],
        words: Vec::new(),
    };
    match table(command).try_get_matches_from(arguments) {
        Ok(mut matches) => collect(command, &mut matches),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp => Ok(asks_for(ArgumentsText::Help)),
            ErrorKind::DisplayVersion => Ok(asks_for(ArgumentsText::Version)),
            _ => Err(fail_structure(arguments, &error)),
        },
    }
}
