// SPDX-License-Identifier: GPL-2.0-or-later
//! The options of `explain`: what a capture's packets are taken for.

use crate::base::log::Failure;
use crate::options::arguments::{self, Arguments, ArgumentsOption};
use crate::options::daemon;
use crate::options::types::{Options, OptionsExplain};
use crate::options::values;
use crate::policy;
use crate::spec::option::{facts, INTERFACE_BYTES_MAX};
use crate::spec::symbols::CT_STATES;

const _: () = assert!(INTERFACE_BYTES_MAX as usize == libc::IF_NAMESIZE - 1);

fn check_hook(values: &Arguments, explain: &mut OptionsExplain) -> Result<(), Failure> {
    let option = ArgumentsOption::Hook;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let mut hooks = policy::HOOKS.iter();
    let named = hooks.find(|(_, name)| name.as_bytes() == value);
    let (hook, _) = named.ok_or_else(|| values::fail(option, value))?;
    explain.hook = Some(*hook);
    Ok(())
}

fn check_interface(
    values: &Arguments,
    option: ArgumentsOption,
    name: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    if value.is_empty() || value.len() > facts(option).bytes {
        return Err(values::fail(option, value));
    }
    *name = value.to_vec();
    Ok(())
}

/// Reads hexadecimal digits, and nothing else.
fn read_hexadecimal(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0, |read: u32, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        read.checked_mul(16)?.checked_add(digit)
    })
}

fn check_mark(values: &Arguments, option: ArgumentsOption) -> Result<Option<u32>, Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(None);
    };
    let read = match value.strip_prefix(b"0x") {
        Some(digits) => read_hexadecimal(digits),
        None => values::read_number(value, facts(option).max),
    };
    read.map(Some).ok_or_else(|| values::fail(option, value))
}

fn check_id(values: &Arguments, option: ArgumentsOption) -> Result<Option<u32>, Failure> {
    let mut id = 0;
    values::number(values, option, &mut id)?;
    Ok(arguments::value(values, option).map(|_| id))
}

/// The bit of a state's name.
fn ct_state_of(name: &[u8]) -> Option<u32> {
    let named = CT_STATES.iter().find(|(own, _)| own.as_bytes() == name);
    named.map(|(_, bit)| *bit)
}

fn check_ct_state(values: &Arguments) -> Result<Option<u32>, Failure> {
    let option = ArgumentsOption::CtState;
    let Some(value) = arguments::value(values, option) else {
        return Ok(None);
    };
    let mut state = 0;
    for name in value.split(|byte| *byte == b',') {
        state |= ct_state_of(name).ok_or_else(|| values::fail(option, value))?;
    }
    Ok(Some(state))
}

/// Takes the values and words of `explain`, in the order of the help text.
pub fn values(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    daemon::decision(values, o)?;
    daemon::undecided(values, o)?;
    daemon::fail(values, o)?;
    o.json = arguments::value(values, A::Json).is_some();
    let explain = &mut o.explain;
    check_hook(values, explain)?;
    check_interface(values, A::Iif, &mut explain.iif)?;
    check_interface(values, A::Oif, &mut explain.oif)?;
    explain.mark = check_mark(values, A::Mark)?.unwrap_or(0);
    explain.uid = check_id(values, A::Uid)?;
    explain.gid = check_id(values, A::Gid)?;
    explain.ct_state = check_ct_state(values)?;
    explain.ct_mark = check_mark(values, A::CtMark)?;
    if let [policy, capture] = values.words.as_slice() {
        o.policy = Some(values::path(policy)?);
        explain.capture = values::path(capture)?;
    }
    Ok(())
}
