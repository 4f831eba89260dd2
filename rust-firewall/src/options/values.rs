// SPDX-License-Identifier: GPL-2.0-or-later
//! Parsing and checking of single values of the command line. The error for an invalid value is one line that quotes
//! the value, and names the option unless the value is a path.

use crate::base::log::{failure_set, Failure, LogExit};
use crate::options::arguments::{self, Arguments, ArgumentsOption};
use crate::spec::option::facts;

/// Returns a failure of the command line.
pub fn usage(text: String) -> Failure {
    failure_set(LogExit::Usage, text)
}

/// Returns the failure of an option with an invalid value, which names the expected values.
pub fn fail(option: ArgumentsOption, value: &[u8]) -> Failure {
    usage(format!(
        "--{} \"{}\": expected {}",
        arguments::name(option),
        arguments::quote(value),
        facts(option).expected
    ))
}

/// Returns the failure of an option that needs another option.
/// - what: phrase for the other option: "a policy".
/// - other: the other option: "--policy".
pub fn fail_without(option: ArgumentsOption, what: &str, other: &str) -> Failure {
    usage(format!(
        "--{} has no meaning without {what}: add {other} or leave it out",
        arguments::name(option)
    ))
}

/// Parses a decimal number from 0 to `max`.
pub fn parse_number(text: &[u8], max: u32) -> Option<u32> {
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

/// Parses the digits of a hexadecimal number of at most 32 bits.
fn parse_hexadecimal(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0, |read: u32, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        read.checked_mul(16)?.checked_add(digit)
    })
}

/// Parses a mark of 32 bits: hexadecimal after 0x, or decimal.
pub fn parse_mark(text: &[u8]) -> Option<u32> {
    match text.strip_prefix(b"0x") {
        Some(digits) => parse_hexadecimal(digits),
        None => parse_number(text, u32::MAX),
    }
}

/// Stores the number of an option, if the option was given. Fails if the number is outside the option's range.
/// - number: in/out: changed if the option was given and is valid.
pub fn number(
    values: &Arguments,
    option: ArgumentsOption,
    number: &mut u32,
) -> Result<(), Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let facts = facts(option);
    *number = parse_number(value, facts.max)
        .filter(|read| *read >= facts.min || facts.zero && *read == 0)
        .ok_or_else(|| fail(option, value))?;
    Ok(())
}

/// Stores the choice that an option's value names, if the option was given. Fails if the value is not in `names`.
/// - names: choices of the option, with their names.
pub fn choice<T: Copy>(
    values: &Arguments,
    option: ArgumentsOption,
    names: &[(T, &str)],
    choice: &mut T,
) -> Result<(), Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let chosen = names.iter().find(|(_, name)| name.as_bytes() == value);
    *choice = chosen
        .map(|(named, _)| *named)
        .ok_or_else(|| fail(option, value))?;
    Ok(())
}

/// Returns the value of an option, if it was given: a text in UTF-8, neither empty nor too long for the option.
pub fn text(values: &Arguments, option: ArgumentsOption) -> Result<Option<String>, Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(None);
    };
    let text = String::from_utf8(value.to_vec()).ok();
    text.filter(|text| !text.is_empty() && text.len() <= facts(option).bytes)
        .map(Some)
        .ok_or_else(|| fail(option, value))
}

/// Returns a path as text. Fails if it is not UTF-8.
pub fn path(value: &[u8]) -> Result<String, Failure> {
    String::from_utf8(value.to_vec()).map_err(|_| {
        let quoted = arguments::quote(value);
        usage(format!("\"{quoted}\": expected a path in UTF-8"))
    })
}
