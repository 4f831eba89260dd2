// SPDX-License-Identifier: GPL-2.0-or-later
//! Options of `explain`: metadata of a capture's packets. The comments of packets in captures have values in the same
//! syntax.

use crate::base::log::Failure;
use crate::options::arguments::{self, Arguments, ArgumentsOption};
use crate::options::daemon;
use crate::options::types::{Options, OptionsFacts};
use crate::options::values;
use crate::policy::{self, Hook};
use crate::spec::option::{facts, INTERFACE_BYTES_MAX};
use crate::spec::symbols::CT_STATES;

const _: () = assert!(INTERFACE_BYTES_MAX as usize == libc::IF_NAMESIZE - 1);

/// Parses the name of a hook.
pub fn parse_hook(text: &[u8]) -> Option<Hook> {
    let mut hooks = policy::HOOKS.iter();
    let named = hooks.find(|(_, name)| name.as_bytes() == text);
    named.map(|(hook, _)| *hook)
}

fn check_hook(values: &Arguments, facts: &mut OptionsFacts) -> Result<(), Failure> {
    let option = ArgumentsOption::Hook;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let hook = parse_hook(value).ok_or_else(|| values::fail(option, value))?;
    facts.hook = Some(hook);
    Ok(())
}

/// Parses the name of an interface, which need not exist: 1 to INTERFACE_BYTES_MAX bytes of UTF-8.
pub fn parse_interface(text: &[u8]) -> Option<Vec<u8>> {
    let named = (1..=INTERFACE_BYTES_MAX as usize).contains(&text.len());
    (named && std::str::from_utf8(text).is_ok()).then(|| text.to_vec())
}

fn check_interface(
    values: &Arguments,
    option: ArgumentsOption,
    name: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    *name = parse_interface(value).ok_or_else(|| values::fail(option, value))?;
    Ok(())
}

fn check_mark(values: &Arguments, option: ArgumentsOption) -> Result<Option<u32>, Failure> {
    let Some(value) = arguments::value(values, option) else {
        return Ok(None);
    };
    let read = values::parse_mark(value).ok_or_else(|| values::fail(option, value))?;
    Ok(Some(read))
}

/// Parses the numeric ID of a user or a group.
pub fn parse_id(text: &[u8]) -> Option<u32> {
    values::parse_number(text, facts(ArgumentsOption::Uid).max)
}

fn check_id(values: &Arguments, option: ArgumentsOption) -> Result<Option<u32>, Failure> {
    let mut id = 0;
    values::number(values, option, &mut id)?;
    Ok(arguments::value(values, option).map(|_| id))
}

/// Returns the bit of a connection state by its name.
fn ct_state_of(name: &[u8]) -> Option<u32> {
    let named = CT_STATES.iter().find(|(own, _)| own.as_bytes() == name);
    named.map(|(_, bit)| *bit)
}

/// Parses names of connection states, separated by commas. Returns all their bits.
pub fn parse_ct_state(text: &[u8]) -> Option<u32> {
    let mut names = text.split(|byte| *byte == b',');
    names.try_fold(0, |state, name| Some(state | ct_state_of(name)?))
}

fn check_ct_state(values: &Arguments, facts: &mut OptionsFacts) -> Result<(), Failure> {
    let option = ArgumentsOption::CtState;
    let Some(value) = arguments::value(values, option) else {
        return Ok(());
    };
    let state = parse_ct_state(value).ok_or_else(|| values::fail(option, value))?;
    facts.ct_state = Some(state);
    Ok(())
}

/// Stores the values and words of `explain`, in the order of the help text.
pub fn values(values: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    daemon::decision(values, o)?;
    daemon::undecided(values, o)?;
    daemon::fail(values, o)?;
    o.json = arguments::value(values, A::Json).is_some();
    let explain = &mut o.explain;
    let facts = &mut explain.facts;
    check_hook(values, facts)?;
    check_interface(values, A::Iif, &mut facts.iif)?;
    check_interface(values, A::Oif, &mut facts.oif)?;
    facts.mark = check_mark(values, A::Mark)?.unwrap_or(0);
    facts.uid = check_id(values, A::Uid)?;
    facts.gid = check_id(values, A::Gid)?;
    check_ct_state(values, facts)?;
    facts.ct_mark = check_mark(values, A::CtMark)?;
    explain.expect = arguments::value(values, A::Expect).is_some();
    if let [policy, capture] = values.words.as_slice() {
        o.policy = Some(values::path(policy)?);
        explain.capture = values::path(capture)?;
    }
    Ok(())
}
