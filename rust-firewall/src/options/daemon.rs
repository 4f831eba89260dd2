// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of a running firewall: names, failure modes, reports, access, privileges. They are checked in the order of
//! the help text.

use crate::base::log::Failure;
use crate::options::arguments::{self, Arguments, ArgumentsOption};
use crate::options::types::{Options, OptionsSituation, SITUATION_COUNT};
use crate::options::values;
use crate::packet::verdict::Verdict;
use crate::spec::option::{
    facts, OptionFacts, DEFAULT_NAMES, LOG_LEVEL_NAMES, MALFORMED_NAMES, MODE_NAMES,
    SOCKET_BYTES_MAX, SWITCH_NAMES,
};
pub use crate::spec::option::{mode_name, situation_name, SITUATION_NAMES};

const UNIX_PREFIX: &str = "unix:";

/// Returns the failure modes in the format of --fail: open, closed, or a list of the open situations.
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

/// Returns the value with a name, from a list of values and their names.
fn named<T: Copy>(name: &[u8], names: &[(T, &str)]) -> Option<T> {
    let found = names.iter().find(|(_, known)| known.as_bytes() == name);
    found.map(|(what, _)| *what)
}

/// Parses an item of --fail, e.g. `overload=open`. Returns its situation, and true for the mode open.
fn parse_mode(item: &[u8]) -> Option<(OptionsSituation, bool)> {
    let mut parts = item.splitn(2, |byte| *byte == b'=');
    let situation = named(parts.next()?, &SITUATION_NAMES)?;
    Some((situation, named(parts.next()?, &MODE_NAMES)?))
}

/// Stores the value of an option that is a verdict: accept or drop.
fn store_verdict(
    values: &Arguments,
    option: ArgumentsOption,
    verdict: &mut Verdict,
) -> Result<(), Failure> {
    let mut drops = *verdict == Verdict::Drop;
    values::choice(values, option, &DEFAULT_NAMES, &mut drops)?;
    *verdict = if drops {
        Verdict::Drop
    } else {
        Verdict::Accept
    };
    Ok(())
}

/// Stores the values of --default and --malformed, which `explain` has, too.
pub fn decision(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    store_verdict(values, A::Default, &mut o.default_verdict)?;
    let malformed = &mut o.malformed_by_policy;
    values::choice(values, A::Malformed, &MALFORMED_NAMES, malformed)
}

/// Parses a value of --undecided, e.g. `accept:8192`. Returns the verdict and the number of bytes; None = no number.
fn parse_undecided(value: &[u8], facts: &OptionFacts) -> Option<(Verdict, Option<u32>)> {
    let mut parts = value.splitn(2, |byte| *byte == b':');
    let drops = named(parts.next()?, &DEFAULT_NAMES)?;
    let Some(bytes) = parts.next() else {
        let verdict = if drops {
            Verdict::Drop
        } else {
            Verdict::Accept
        };
        return Some((verdict, None));
    };
    let bytes = values::parse_number(bytes, facts.max)?;
    (!drops && bytes >= facts.min).then_some((Verdict::Accept, Some(bytes)))
}

/// Stores the value of --undecided, which `explain` has, too.
pub fn undecided(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Undecided;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let read = parse_undecided(value, facts(option));
    let (verdict, bytes) = read.ok_or_else(|| values::fail(option, value))?;
    o.undecided_verdict = verdict;
    o.undecided_bytes = bytes.unwrap_or(o.undecided_bytes);
    Ok(())
}

/// Minimum number of bits of --stage: one for "final", and at least two each for classes and for generations.
const STAGE_BITS_MIN: u32 = 5;

/// Returns true if a mask has enough bits, and these bits are adjacent.
fn is_stage(mask: u32) -> bool {
    let bits = mask.count_ones();
    bits >= STAGE_BITS_MIN && mask.leading_zeros() + bits + mask.trailing_zeros() == u32::BITS
}

/// Stores the value of --stage.
fn check_stage(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Stage;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let mask = values::parse_mark(value).filter(|mask| is_stage(*mask));
    o.stage = mask.ok_or_else(|| values::fail(option, value))?;
    Ok(())
}

/// Stores the value of --settled.
fn check_settled(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Settled;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    o.settled = values::parse_mark(value).ok_or_else(|| values::fail(option, value))?;
    Ok(())
}

/// Stores the values of the options that the help text lists from --undecided to --settled.
pub fn names(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    undecided(values, o)?;
    values::number(values, A::Connections, &mut o.connections)?;
    values::number(values, A::HelloMemory, &mut o.hello_memory)?;
    values::number(values, A::HelloTimeout, &mut o.hello_timeout_s)?;
    values::number(values, A::Learned, &mut o.learned)?;
    check_stage(values, o)?;
    check_settled(values, o)
}

/// Stores the value of --fail.
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
        let (situation, open) = parse_mode(item).ok_or_else(|| values::fail(option, value))?;
        if std::mem::replace(&mut seen[situation as usize], true) {
            return Err(values::usage(format!(
                "--fail \"{}\": {} is given twice: leave one out",
                arguments::quote(value),
                situation_name(situation)
            )));
        }
        o.fail_open[situation as usize] = open;
    }
    Ok(())
}

fn check_events(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::Events;
    o.events = values::text(values, option)?;
    let Some(events) = &o.events else {
        return Ok(());
    };
    match events.strip_prefix(UNIX_PREFIX) {
        Some(path) if path.is_empty() || path.len() > SOCKET_BYTES_MAX as usize => {
            Err(values::fail(option, events.as_bytes()))
        }
        _ => Ok(()),
    }
}

/// Parses the octal digits of a file's mode.
fn parse_mode_bits(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > facts(ArgumentsOption::ControlMode).bytes {
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
    o.control_mode = parse_mode_bits(value)
        .filter(|mode| *mode <= facts(option).max)
        .ok_or_else(|| values::fail(option, value))?;
    Ok(())
}

fn check_owner(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    let option = ArgumentsOption::ControlOwner;
    o.control_owner = values::text(values, option)?;
    let Some(owner) = &o.control_owner else {
        return Ok(());
    };
    match owner.split_once(':') {
        Some((user, group)) if user.is_empty() || group.is_empty() || group.contains(':') => {
            Err(values::fail(option, owner.as_bytes()))
        }
        _ => Ok(()),
    }
}

/// Stores the values of the options that the help text lists from --deadline to --sandbox.
pub fn values(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    values::number(values, A::Deadline, &mut o.deadline_ms)?;
    values::number(values, A::Stats, &mut o.stats_s)?;
    o.json = arguments::value(values, A::Json).is_some();
    check_events(values, o)?;
    values::number(values, A::EventsRate, &mut o.events_rate)?;
    values::choice(values, A::LogLevel, &LOG_LEVEL_NAMES, &mut o.log_level)?;
    o.control = values::text(values, A::Control)?;
    check_mode(values, o)?;
    check_owner(values, o)?;
    o.take_over = values::text(values, A::TakeOver)?;
    o.user = values::text(values, A::User)?;
    values::choice(values, A::Sandbox, &SWITCH_NAMES, &mut o.sandbox)
}

/// Checks that --events, --control and --take-over are not given. --profile paper excludes them, because the published
/// program has no such functions.
pub fn paper(values: &Arguments) -> Result<(), Failure> {
    use ArgumentsOption as A;
    for option in [A::Events, A::Control, A::TakeOver] {
        if arguments::value(values, option).is_some() {
            return Err(values::usage(format!(
                "--profile paper does without --{}: leave it out or use --profile fast",
                arguments::name(option)
            )));
        }
    }
    Ok(())
}

/// Checks that --events-rate is not given without --events, and --control-mode and --control-owner not without
/// --control.
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
