// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line. The text of --help is cli/help.txt, embedded when the program is built.
//!
//! Theory of operation: phase 1 takes the structure in command-line order and keeps raw values, of
//! which the last given wins; --help and --version act when met. Phase 2 checks the values in the
//! order of the help text.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{value_parser, Arg, ArgAction, ArgMatches, Command};

use crate::log::{failure_set, Failure, LogExit};
use crate::queue::{QueueKind, QueueSettings};
use crate::queue_socket;
use crate::verdict::{self, Verdict};

pub const PROGRAM: &str = "rust-firewall";
pub const VERSION: &str = "0.1.0";

pub const QUEUES_MAX: u32 = 256;
/// Of a value that an error message shows; then comes "...".
pub const QUOTE_BYTES: usize = 64;
/// What --profile paper allots to its only slot; committed as far as it is touched.
pub const PAPER_SLOT_BYTES: u64 = 1 << 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionsProfile {
    Fast,
    Paper,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub queue_first: u16,
    pub queue_last: u16,
    pub pin: bool,
    pub backend: QueueKind,
    pub profile: OptionsProfile,
    pub copy_bytes: u32,
    pub batch: u32,
    /// Bytes.
    pub receive_buffer: u32,
    /// On the command line, so a smaller one is a failure.
    pub receive_buffer_given: bool,
    pub queue_length: u32,
    pub gso: bool,
    /// Without meaning in the profile paper.
    pub spin_us: u32,
    pub coalesce_us: u32,
    /// `Accept` or `Drop`.
    pub default_verdict: Verdict,
    pub fail_open: bool,
    /// 0 = no interval.
    pub stats_s: u32,
    pub json: bool,
}

/// What to do with a good command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OptionsAction {
    Run(Options),
    /// Print `HELP`, nothing else.
    Help,
    /// Print "rust-firewall 0.1.0".
    Version,
}

/// Of --spin and --coalesce.
const WAIT_US_MAX: u32 = 1000;
/// Of --stats.
const STATS_SECONDS_MAX: u32 = 86400;

/// The text of --help.
pub const HELP: &str = include_str!("../../cli/help.txt");

/// The options that take a value, and those that take none, in the order of the help text.
const OPTIONS_WITH_VALUE: [&str; 13] = [
    "queue",
    "backend",
    "profile",
    "copy-bytes",
    "batch",
    "receive-buffer",
    "queue-length",
    "gso",
    "spin",
    "coalesce",
    "default",
    "fail",
    "stats",
];
const OPTIONS_WITHOUT_VALUE: [&str; 2] = ["pin", "json"];

/// Takes everything from the first argument on that is no option: none is expected.
const UNEXPECTED: &str = "unexpected";

/// The parser of phase 1. It checks no value, and takes any word as one, also with a hyphen, as
/// getopt does.
fn command() -> Command {
    let with_value = OPTIONS_WITH_VALUE.map(|name| {
        let any = value_parser!(OsString);
        Arg::new(name)
            .long(name)
            .allow_hyphen_values(true)
            .value_parser(any)
    });
    let without_value =
        OPTIONS_WITHOUT_VALUE.map(|name| Arg::new(name).long(name).action(ArgAction::SetTrue));
    let unexpected = Arg::new(UNEXPECTED)
        .num_args(0..)
        .trailing_var_arg(true)
        .value_parser(value_parser!(OsString));
    Command::new(PROGRAM)
        .version(VERSION)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .args(with_value)
        .args(without_value)
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
        .arg(unexpected)
}

const BACKEND_NAMES: [(QueueKind, &str); 3] = [
    (QueueKind::Classic, "classic"),
    (QueueKind::Mnl, "mnl"),
    (QueueKind::Raw, "raw"),
];
const PROFILE_NAMES: [(OptionsProfile, &str); 2] = [
    (OptionsProfile::Fast, "fast"),
    (OptionsProfile::Paper, "paper"),
];
const GSO_NAMES: [(bool, &str); 2] = [(false, "off"), (true, "on")];
const DEFAULT_NAMES: [(Verdict, &str); 2] = [(Verdict::Accept, "accept"), (Verdict::Drop, "drop")];
const FAIL_NAMES: [(bool, &str); 2] = [(false, "closed"), (true, "open")];

fn name_of<T: Copy + PartialEq>(names: &[(T, &'static str)], choice: T) -> &'static str {
    names
        .iter()
        .find(|(named, _)| *named == choice)
        .map_or("", |(_, name)| name)
}

/// The name of a backend, as on the command line.
pub fn backend_name(kind: QueueKind) -> &'static str {
    name_of(&BACKEND_NAMES, kind)
}

/// The name of a profile, as on the command line.
pub fn profile_name(profile: OptionsProfile) -> &'static str {
    name_of(&PROFILE_NAMES, profile)
}

/// What phase 1 found.
enum Given {
    /// Raw values, of which the last given won.
    Values(ArgMatches),
    Help,
    Version,
}

fn usage(text: String) -> Failure {
    failure_set(LogExit::Usage, text)
}

/// At most QUOTE_BYTES of a text with everything unprintable, '"' and '\' as \xNN, then "..." if there
/// was more.
fn quote(text: &[u8]) -> String {
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

/// Phase 1.
fn take_structure(arguments: &[OsString]) -> Result<Given, Failure> {
    match command().try_get_matches_from(arguments) {
        Ok(matches) => match matches.get_one::<OsString>(UNEXPECTED) {
            Some(argument) => {
                let quoted = quote(argument.as_bytes());
                Err(usage(format!(
                    "unexpected argument \"{quoted}\": see --help"
                )))
            }
            None => Ok(Given::Values(matches)),
        },
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp => Ok(Given::Help),
            ErrorKind::DisplayVersion => Ok(Given::Version),
            _ => Err(fail_structure(arguments, &error)),
        },
    }
}

/// The value of an option, if it was given.
fn value_of<'a>(values: &'a ArgMatches, option: &str) -> Option<&'a [u8]> {
    values
        .get_one::<OsString>(option)
        .map(|value| value.as_bytes())
}

fn fail_value(option: &str, value: &[u8], expected: &str) -> Failure {
    usage(format!(
        "--{option} \"{}\": expected {expected}",
        quote(value)
    ))
}

/// Reads decimal digits, and nothing else.
fn read_number(text: &[u8], max: u32) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0, |read: u32, digit| {
        let digit = digit.is_ascii_digit().then(|| u32::from(digit - b'0'))?;
        read.checked_mul(10)?
            .checked_add(digit)
            .filter(|read| *read <= max)
    })
}

/// Sets a number if the option was given.
fn check_number(
    values: &ArgMatches,
    option: &str,
    min: u32,
    max: u32,
    number: &mut u32,
) -> Result<(), Failure> {
    let Some(value) = value_of(values, option) else {
        return Ok(());
    };
    *number = read_number(value, max)
        .filter(|read| *read >= min)
        .ok_or_else(|| {
            fail_value(
                option,
                value,
                &format!("a whole number from {min} to {max}"),
            )
        })?;
    Ok(())
}

/// Sets a choice if the option was given.
fn check_choice<T: Copy>(
    values: &ArgMatches,
    option: &str,
    names: &[(T, &str)],
    expected: &str,
    choice: &mut T,
) -> Result<(), Failure> {
    let Some(value) = value_of(values, option) else {
        return Ok(());
    };
    let chosen = names.iter().find(|(_, name)| name.as_bytes() == value);
    *choice = chosen
        .map(|(named, _)| *named)
        .ok_or_else(|| fail_value(option, value, expected))?;
    Ok(())
}

/// The first and the last queue of "N" or "N:M".
fn read_queues(value: &[u8]) -> Option<(u16, u16)> {
    let mut numbers = value.splitn(2, |byte| *byte == b':');
    let first = read_number(numbers.next()?, u16::MAX.into())?;
    let last = match numbers.next() {
        Some(last) => read_number(last, u16::MAX.into())?,
        None => first,
    };
    if last < first || last - first >= QUEUES_MAX {
        return None;
    }
    Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?))
}

fn check_queue(values: &ArgMatches, options: &mut Options) -> Result<(), Failure> {
    let Some(value) = value_of(values, "queue") else {
        return Ok(());
    };
    let expected = "N or N:M, 0 <= N <= M <= 65535, at most 256 queues";
    (options.queue_first, options.queue_last) =
        read_queues(value).ok_or_else(|| fail_value("queue", value, expected))?;
    Ok(())
}

const fn profile(profile: OptionsProfile) -> Options {
    const FAST: Options = Options {
        queue_first: 0,
        queue_last: 0,
        pin: false,
        backend: QueueKind::Raw,
        profile: OptionsProfile::Fast,
        copy_bytes: 128,
        batch: 64,
        receive_buffer: 67108864,
        receive_buffer_given: false,
        queue_length: 131072,
        gso: true,
        spin_us: 50,
        coalesce_us: 60,
        default_verdict: Verdict::Accept,
        fail_open: false,
        stats_s: 0,
        json: false,
    };
    match profile {
        OptionsProfile::Fast => FAST,
        OptionsProfile::Paper => Options {
            backend: QueueKind::Classic,
            profile: OptionsProfile::Paper,
            copy_bytes: 65535,
            batch: 1,
            receive_buffer: 0,
            queue_length: 1024,
            gso: false,
            spin_us: 0,
            coalesce_us: 0,
            ..FAST
        },
    }
}

fn fail_fixed(option: &str) -> Failure {
    usage(format!(
        "--profile paper fixes --{option}: leave it out or use --profile fast"
    ))
}

/// What the profile paper doesn't allow.
fn check_paper(values: &ArgMatches, options: &Options) -> Result<(), Failure> {
    if options.batch != 1 {
        return Err(fail_fixed("batch"));
    }
    for option in ["spin", "coalesce"] {
        if value_of(values, option).is_some() {
            return Err(fail_fixed(option));
        }
    }
    if options.default_verdict == Verdict::Accept {
        return Ok(());
    }
    Err(usage(
        "--profile paper accepts every packet: leave --default out or use --profile fast"
            .to_owned(),
    ))
}

/// The profile whose values options that weren't given have; a wrong name is found by check_values.
fn profile_of(values: &ArgMatches) -> OptionsProfile {
    match value_of(values, "profile") {
        Some(b"paper") => OptionsProfile::Paper,
        _ => OptionsProfile::Fast,
    }
}

/// Phase 2: the values, in the order of the help text.
fn check_values(values: &ArgMatches) -> Result<Options, Failure> {
    let mut o = profile(profile_of(values));
    check_queue(values, &mut o)?;
    o.pin = values.get_flag("pin");
    check_choice(
        values,
        "backend",
        &BACKEND_NAMES,
        "classic, mnl or raw",
        &mut o.backend,
    )?;
    check_choice(
        values,
        "profile",
        &PROFILE_NAMES,
        "fast or paper",
        &mut o.profile,
    )?;
    check_number(values, "copy-bytes", 0, u16::MAX.into(), &mut o.copy_bytes)?;
    check_number(values, "batch", 1, verdict::RUNS_MAX as u32, &mut o.batch)?;
    check_number(
        values,
        "receive-buffer",
        0,
        i32::MAX as u32 / 2,
        &mut o.receive_buffer,
    )?;
    o.receive_buffer_given = value_of(values, "receive-buffer").is_some();
    check_number(values, "queue-length", 1, u32::MAX, &mut o.queue_length)?;
    check_choice(values, "gso", &GSO_NAMES, "on or off", &mut o.gso)?;
    check_number(values, "spin", 0, WAIT_US_MAX, &mut o.spin_us)?;
    check_number(values, "coalesce", 0, WAIT_US_MAX, &mut o.coalesce_us)?;
    check_choice(
        values,
        "default",
        &DEFAULT_NAMES,
        "accept or drop",
        &mut o.default_verdict,
    )?;
    check_choice(
        values,
        "fail",
        &FAIL_NAMES,
        "open or closed",
        &mut o.fail_open,
    )?;
    check_number(values, "stats", 1, STATS_SECONDS_MAX, &mut o.stats_s)?;
    o.json = values.get_flag("json");
    if o.profile == OptionsProfile::Paper {
        check_paper(values, &o)?;
    }
    Ok(o)
}

/// Parses a command line, of which the first argument is the program's name and not looked at.
pub fn parse(arguments: &[OsString]) -> Result<OptionsAction, Failure> {
    match take_structure(arguments)? {
        Given::Values(values) => check_values(&values).map(OptionsAction::Run),
        Given::Help => Ok(OptionsAction::Help),
        Given::Version => Ok(OptionsAction::Version),
    }
}

/// Makes the settings of one of the queues.
pub fn queue(options: &Options, number: u16) -> QueueSettings {
    QueueSettings {
        number,
        kind: options.backend,
        copy_bytes: options.copy_bytes,
        batch: options.batch,
        slot_bytes: match options.profile {
            OptionsProfile::Paper => PAPER_SLOT_BYTES,
            OptionsProfile::Fast => queue_socket::slot_bytes(options.copy_bytes),
        },
        receive_buffer: options.receive_buffer,
        receive_buffer_required: options.receive_buffer_given,
        queue_length: options.queue_length,
        gso: options.gso,
        fail_open: options.fail_open,
        uid_gid: false,
        conntrack: false,
    }
}
