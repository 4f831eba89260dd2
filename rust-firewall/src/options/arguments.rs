// SPDX-License-Identifier: GPL-2.0-or-later
//! The structure of the command line: which command, which options with which raw values, which
//! words. What the values mean is for `options`.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{value_parser, Arg, ArgAction, ArgMatches, Command};

use crate::base::log::{failure_set, Failure, LogExit};

/// Bytes of a value that an error message shows; then comes "...".
pub const QUOTE_BYTES: usize = 64;

/// The command: the first argument, if it is `check` or `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsCommand {
    Run,
    Check,
    Explain,
}

/// The options with a meaning of their own, in the order in which their values are looked at: that
/// of the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsOption {
    Queue,
    Pin,
    Backend,
    Profile,
    CopyBytes,
    Batch,
    ReceiveBuffer,
    QueueLength,
    Gso,
    Spin,
    Coalesce,
    Policy,
    Default,
    Malformed,
    Conntrack,
    Fail,
    Deadline,
    Stats,
    Json,
    Metrics,
    Events,
    EventsRate,
    LogLevel,
    Control,
    ControlMode,
    ControlOwner,
    TakeOver,
    User,
    Sandbox,
    Print,
    Hook,
    Iif,
    Oif,
    Mark,
    Uid,
    Gid,
    CtState,
    CtMark,
}

pub const OPTION_COUNT: usize = ArgumentsOption::CtMark as usize + 1;

/// What the command line asks for instead of its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentsText {
    Help,
    Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    pub command: ArgumentsCommand,
    pub text: Option<ArgumentsText>,
    /// Raw, the last one given; empty for an option without a value.
    values: [Option<Vec<u8>>; OPTION_COUNT],
    /// As many as the command takes; none for `Run`.
    pub words: Vec<Vec<u8>>,
}

const RUN: u8 = 1 << ArgumentsCommand::Run as u8;
const CHECK: u8 = 1 << ArgumentsCommand::Check as u8;
const EXPLAIN: u8 = 1 << ArgumentsCommand::Explain as u8;

/// The name of each option, whether it has a value, and the commands that take it.
const OPTIONS: [(&str, bool, u8); OPTION_COUNT] = [
    ("queue", true, RUN),
    ("pin", false, RUN),
    ("backend", true, RUN),
    ("profile", true, RUN),
    ("copy-bytes", true, RUN),
    ("batch", true, RUN),
    ("receive-buffer", true, RUN),
    ("queue-length", true, RUN),
    ("gso", true, RUN),
    ("spin", true, RUN),
    ("coalesce", true, RUN),
    ("policy", true, RUN),
    ("default", true, RUN | EXPLAIN),
    ("malformed", true, RUN | EXPLAIN),
    ("conntrack", true, RUN),
    ("fail", true, RUN | EXPLAIN),
    ("deadline", true, RUN),
    ("stats", true, RUN),
    ("json", false, RUN | EXPLAIN),
    ("metrics", true, RUN),
    ("events", true, RUN),
    ("events-rate", true, RUN),
    ("log-level", true, RUN),
    ("control", true, RUN),
    ("control-mode", true, RUN),
    ("control-owner", true, RUN),
    ("take-over", true, RUN),
    ("user", true, RUN),
    ("sandbox", true, RUN),
    ("print", false, CHECK),
    ("hook", true, EXPLAIN),
    ("iif", true, EXPLAIN),
    ("oif", true, EXPLAIN),
    ("mark", true, EXPLAIN),
    ("uid", true, EXPLAIN),
    ("gid", true, EXPLAIN),
    ("ct-state", true, EXPLAIN),
    ("ct-mark", true, EXPLAIN),
];

/// A command's word, how many words follow, and what they are.
const COMMANDS: [(&str, usize, &str); 3] = [
    ("", 0, ""),
    ("check", 1, "check needs a policy: see --help"),
    (
        "explain",
        2,
        "explain needs a policy and a capture: see --help",
    ),
];

/// Takes what no option is.
const WORDS: &str = "words";

/// The option's name, without its hyphens.
pub fn name(option: ArgumentsOption) -> &'static str {
    OPTIONS.get(option as usize).map_or("", |(name, _, _)| name)
}

/// The raw value of an option, if it was given.
pub fn value(arguments: &Arguments, option: ArgumentsOption) -> Option<&[u8]> {
    arguments.values.get(option as usize)?.as_deref()
}

/// The name and the raw value of every option that was given, in the order of the help text.
pub fn values(arguments: &Arguments) -> impl Iterator<Item = (&'static str, &[u8])> {
    let options = OPTIONS.iter().zip(&arguments.values);
    options.filter_map(|((name, _, _), value)| Some((*name, value.as_deref()?)))
}

fn usage(text: String) -> Failure {
    failure_set(LogExit::Usage, text)
}

/// At most QUOTE_BYTES of a text with everything unprintable, '"' and '\' as \xNN, then "..." if there
/// was more.
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

/// The parser of a command. It checks no value, and takes any word as one, also with a hyphen, as
/// getopt does.
fn table(command: ArgumentsCommand) -> Command {
    let taken = OPTIONS
        .iter()
        .filter(|(_, _, commands)| commands & 1 << command as u8 != 0);
    let options = taken.map(|(name, has_value, _)| {
        let option = Arg::new(*name).long(*name);
        match has_value {
            true => option
                .allow_hyphen_values(true)
                .value_parser(value_parser!(OsString)),
            false => option.action(ArgAction::SetTrue),
        }
    });
    // Without a command the first word ends everything: it is a command that there is not.
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

/// What stands on the command line where the parser found an unknown option: it tells the name as
/// text, in which bytes that are no UTF-8 are replaced.
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

/// Tells what is wrong with an argument that the parser refused.
fn fail_structure(arguments: &[OsString], error: &clap::Error) -> Failure {
    let told = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(told)) => told.as_str(),
        _ => "",
    };
    // For an option that takes a value the parser tells "--name <name>".
    let name = told.split(' ').next().unwrap_or_default();
    usage(match error.kind() {
        ErrorKind::UnknownArgument => {
            let token = quote(&token_of(arguments, told));
            format!("unknown or ambiguous option {token}: see --help")
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
    match arguments.get(1).map(|argument| argument.as_bytes()) {
        Some(b"check") => ArgumentsCommand::Check,
        Some(b"explain") => ArgumentsCommand::Explain,
        _ => ArgumentsCommand::Run,
    }
}

/// Takes what the parser found.
fn take(command: ArgumentsCommand, matches: &mut ArgMatches) -> Result<Arguments, Failure> {
    let values = OPTIONS.map(|(name, has_value, commands)| {
        if commands & 1 << command as u8 == 0 {
            return None;
        }
        match has_value {
            true => matches
                .remove_one::<OsString>(name)
                .map(OsStringExt::into_vec),
            false => matches.get_flag(name).then(Vec::new),
        }
    });
    let words: Vec<Vec<u8>> = matches
        .remove_many::<OsString>(WORDS)
        .map(|words| words.map(OsStringExt::into_vec).collect())
        .unwrap_or_default();
    let (_, count, needs) = COMMANDS[command as usize];
    if let Some(unexpected) = words.get(count) {
        return Err(fail_unexpected(unexpected));
    }
    if words.len() < count {
        return Err(usage(needs.to_owned()));
    }
    Ok(Arguments {
        command,
        text: None,
        values,
        words,
    })
}

/// Takes a command line in its order. The first argument is the program's name and not looked at.
/// --help and --version act when met: what follows is not looked at, and words may be missing.
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
        Ok(mut matches) => take(command, &mut matches),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp => Ok(asks_for(ArgumentsText::Help)),
            ErrorKind::DisplayVersion => Ok(asks_for(ArgumentsText::Version)),
            _ => Err(fail_structure(arguments, &error)),
        },
    }
}
