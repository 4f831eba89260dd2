// SPDX-License-Identifier: GPL-2.0-or-later
//! The options of a daemon: what fails how, where it reports, who may operate it, which privileges
//! it keeps. In the order of the help text.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::base::log::{Failure, LogLevel};
use crate::options::arguments::{self, Arguments, ArgumentsOption};
use crate::options::types::{Options, OptionsSituation, SITUATION_COUNT};
use crate::options::values;
use crate::packet::verdict::Verdict;

/// The most seconds of --stats.
const STATS_SECONDS_MAX: u32 = 86400;
/// The range of --deadline in milliseconds, if it is not 0.
const DEADLINE_MS_MIN: u32 = 10;
const DEADLINE_MS_MAX: u32 = 60000;
const EVENTS_RATE_MAX: u32 = 1000000;
/// The largest --control-mode, and its digits.
const MODE_MAX: u32 = 0o777;
const MODE_DIGITS_MAX: usize = 4;
/// Bytes of a user's name.
const USER_BYTES_MAX: usize = 256;
/// Bytes of a file's path.
const PATH_BYTES_MAX: usize = libc::PATH_MAX as usize - 1;
/// Bytes of a socket's path: sun_path without its NUL.
const SOCKET_BYTES_MAX: usize = 107;

const UNIX_PREFIX: &str = "unix:";

/// All of them in order, with their names as on the command line.
pub const SITUATION_NAMES: [(OptionsSituation, &str); SITUATION_COUNT] = [
    (OptionsSituation::Overload, "overload"),
    (OptionsSituation::Stall, "stall"),
    (OptionsSituation::Crash, "crash"),
    (OptionsSituation::Malformed, "malformed"),
    (OptionsSituation::Truncated, "truncated"),
];
const DEFAULT_NAMES: [(Verdict, &str); 2] = [(Verdict::Accept, "accept"), (Verdict::Drop, "drop")];
const MALFORMED_NAMES: [(bool, &str); 2] = [(false, "fail"), (true, "policy")];
const MODE_NAMES: [(bool, &str); 2] = [(false, "closed"), (true, "open")];
const SANDBOX_NAMES: [(bool, &str); 2] = [(false, "off"), (true, "on")];
const LEVEL_NAMES: [(LogLevel, &str); 4] = [
    (LogLevel::Error, "error"),
    (LogLevel::Warning, "warning"),
    (LogLevel::Info, "info"),
    (LogLevel::Debug, "debug"),
];

/// The name of a situation, as on the command line.
pub fn situation_name(situation: OptionsSituation) -> &'static str {
    SITUATION_NAMES[situation as usize].1
}

/// The name of a mode, as on the command line.
pub fn mode_name(open: bool) -> &'static str {
    MODE_NAMES[usize::from(open)].1
}

/// The modes as --fail takes them: open, closed, or those that are open.
pub fn fail_text(options: &Options) -> String {
    let open: Vec<String> = SITUATION_NAMES
        .iter()
        .filter(|(situation, _)| options.fail_open[*situation as usize])
        .map(|(_, name)| format!("{name}=open"))
        .collect();
    match open.len() {
        0 => mode_name(false).to_owned(),
        SITUATION_COUNT => mode_name(true).to_owned(),
        _ => open.join(","),
    }
}

/// What a name stands for.
fn named<T: Copy>(name: &[u8], names: &[(T, &str)]) -> Option<T> {
    let found = names.iter().find(|(_, known)| known.as_bytes() == name);
    found.map(|(what, _)| *what)
}

/// The situation and the mode of `overload=open`.
fn read_mode(item: &[u8]) -> Option<(OptionsSituation, bool)> {
    let mut parts = item.splitn(2, |byte| *byte == b'=');
    let situation = named(parts.next()?, &SITUATION_NAMES)?;
    Some((situation, named(parts.next()?, &MODE_NAMES)?))
}

/// The values of --default and --malformed, which `explain` takes too.
pub fn decision(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    let (names, expected) = (&DEFAULT_NAMES, "accept or drop");
    values::choice(values, A::Default, names, expected, &mut o.default_verdict)?;
    let (names, expected) = (&MALFORMED_NAMES, "fail or policy");
    let malformed = &mut o.malformed_by_policy;
    values::choice(values, A::Malformed, names, expected, malformed)
}

/// --fail.
pub fn fail(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Fail;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    if let Some(open) = named(value, &MODE_NAMES) {
        o.fail_open = [open; SITUATION_COUNT];
        return Ok(());
    }
    let mut seen = [false; SITUATION_COUNT];
    for item in value.split(|byte| *byte == b',') {
        let expected = "open or closed, or a list like overload=open,crash=closed of \
                        overload, stall, crash, malformed and truncated";
        let (situation, open) =
            read_mode(item).ok_or_else(|| values::fail(option, value, expected))?;
        if std::mem::replace(&mut seen[situation as usize], true) {
            return Err(values::usage(format!(
                "--fail \"{}\": {} is there twice: leave one out",
                arguments::quote(value),
                situation_name(situation)
            )));
        }
        o.fail_open[situation as usize] = open;
    }
    Ok(())
}

fn check_deadline(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Deadline;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let read = values::read_number(value, DEADLINE_MS_MAX);
    o.deadline_ms = read
        .filter(|read| *read == 0 || *read >= DEADLINE_MS_MIN)
        .ok_or_else(|| values::fail(option, value, "0 or a whole number from 10 to 60000"))?;
    Ok(())
}

/// Whether a text is ADDRESS:PORT or [ADDRESS]:PORT.
fn is_endpoint(text: &str) -> bool {
    let Some((address, port)) = text.rsplit_once(':') else {
        return false;
    };
    let port = values::read_number(port.as_bytes(), u16::MAX.into());
    let address_is_good = match address.strip_prefix('[') {
        Some(ipv6) => ipv6
            .strip_suffix(']')
            .is_some_and(|ipv6| ipv6.parse::<Ipv6Addr>().is_ok()),
        None => address.parse::<Ipv4Addr>().is_ok(),
    };
    address_is_good && port.is_some_and(|port| port > 0)
}

fn check_metrics(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Metrics;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let expected = "an address with a port, like 127.0.0.1:9630 or [::1]:9630";
    let text = String::from_utf8(value.to_vec()).ok();
    let endpoint = text.filter(|text| is_endpoint(text));
    o.metrics = Some(endpoint.ok_or_else(|| values::fail(option, value, expected))?);
    Ok(())
}

fn check_events(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Events;
    let expected = "a file, - or unix:PATH of at most 107 bytes";
    o.events = values::text(values, option, PATH_BYTES_MAX, expected)?;
    let Some(events) = &o.events else {
        return Ok(());
    };
    match events.strip_prefix(UNIX_PREFIX) {
        Some(path) if path.is_empty() || path.len() > SOCKET_BYTES_MAX => {
            Err(values::fail(option, events.as_bytes(), expected))
        }
        _ => Ok(()),
    }
}

/// Reads octal digits, and nothing else.
fn read_mode_bits(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > MODE_DIGITS_MAX {
        return None;
    }
    text.iter().try_fold(0, |read, digit| {
        Some(read << 3 | char::from(*digit).to_digit(8)?)
    })
}

fn check_mode(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::ControlMode;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    o.control_mode = read_mode_bits(value)
        .filter(|mode| *mode <= MODE_MAX)
        .ok_or_else(|| values::fail(option, value, "an octal mode from 0 to 0777"))?;
    Ok(())
}

fn check_owner(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::ControlOwner;
    let expected = "USER or USER:GROUP";
    o.control_owner = values::text(values, option, USER_BYTES_MAX, expected)?;
    let Some(owner) = &o.control_owner else {
        return Ok(());
    };
    match owner.split_once(':') {
        Some((user, group)) if user.is_empty() || group.is_empty() || group.contains(':') => {
            Err(values::fail(option, owner.as_bytes(), expected))
        }
        _ => Ok(()),
    }
}

/// The values of --deadline to --sandbox.
pub fn values(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    let socket = "a path of 1 to 107 bytes";
    check_deadline(values, o)?;
    values::number(values, A::Stats, 1, STATS_SECONDS_MAX, &mut o.stats_s)?;
    o.json = arguments::value(values, A::Json).is_some();
    check_metrics(values, o)?;
    check_events(values, o)?;
    let rate = &mut o.events_rate;
    values::number(values, A::EventsRate, 1, EVENTS_RATE_MAX, rate)?;
    let (names, expected) = (&LEVEL_NAMES, "error, warning, info or debug");
    values::choice(values, A::LogLevel, names, expected, &mut o.log_level)?;
    o.control = values::text(values, A::Control, SOCKET_BYTES_MAX, socket)?;
    check_mode(values, o)?;
    check_owner(values, o)?;
    o.take_over = values::text(values, A::TakeOver, SOCKET_BYTES_MAX, socket)?;
    o.user = values::text(values, A::User, USER_BYTES_MAX, "a user's name")?;
    let (names, expected) = (&SANDBOX_NAMES, "on or off");
    values::choice(values, A::Sandbox, names, expected, &mut o.sandbox)
}

/// Looks for what the profile paper does without: it is the published program.
pub fn paper(values: &Arguments) -> Result<(), Failure> {
    use ArgumentsOption as A;
    for option in [A::Metrics, A::Events, A::Control, A::TakeOver] {
        if arguments::value(values, option).is_some() {
            return Err(values::usage(format!(
                "--profile paper does without --{}: leave it out or use --profile fast",
                arguments::name(option)
            )));
        }
    }
    Ok(())
}

/// Looks for what has no meaning without another option.
pub fn alone(values: &Arguments) -> Result<(), Failure> {
    use ArgumentsOption as A;
    for (option, needed) in [
        (A::EventsRate, A::Events),
        (A::ControlMode, A::Control),
        (A::ControlOwner, A::Control),
    ] {
        let is_given = |option| arguments::value(values, option).is_some();
        if is_given(option) && !is_given(needed) {
            let needed = format!("--{}", arguments::name(needed));
            return Err(values::fail_without(option, &needed, &needed));
        }
    }
    Ok(())
}
