// SPDX-License-Identifier: GPL-2.0-or-later
//! The options of `explain`: what a capture's packets are taken for.

use crate::base::log::Failure;
use crate::options::arguments::{self, Arguments, ArgumentsOption};
use crate::options::daemon;
use crate::options::given;
use crate::options::types::{Options, OptionsExplain};
use crate::policy;

/// Bytes of an interface's name with its final NUL.
const IF_NAMESIZE: usize = libc::IF_NAMESIZE;

fn check_hook(given: &Arguments, explain: &mut OptionsExplain) -> Result<(), Failure> {
    let option = ArgumentsOption::Hook;
    let Some(value) = arguments::value(given, option) else {
        return Ok(());
    };
    let expected = "input, output, forward, prerouting or postrouting";
    let mut hooks = policy::HOOKS.iter();
    let named = hooks.find(|(_, name)| name.as_bytes() == value);
    let (hook, _) = named.ok_or_else(|| given::fail(option, value, expected))?;
    explain.hook = Some(*hook);
    Ok(())
}

fn check_interface(
    given: &Arguments,
    option: ArgumentsOption,
    name: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(value) = arguments::value(given, option) else {
        return Ok(());
    };
    if value.is_empty() || value.len() >= IF_NAMESIZE {
        let expected = "an interface name of 1 to 15 bytes";
        return Err(given::fail(option, value, expected));
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

fn check_mark(given: &Arguments, option: ArgumentsOption) -> Result<Option<u32>, Failure> {
    let Some(value) = arguments::value(given, option) else {
        return Ok(None);
    };
    let read = match value.strip_prefix(b"0x") {
        Some(digits) => read_hexadecimal(digits),
        None => given::read_number(value, u32::MAX),
    };
    let expected = "a number from 0 to 4294967295, decimal or 0x hexadecimal";
    read.map(Some)
        .ok_or_else(|| given::fail(option, value, expected))
}

fn check_id(given: &Arguments, option: ArgumentsOption) -> Result<Option<u32>, Failure> {
    let mut id = 0;
    given::number(given, option, 0, u32::MAX - 1, &mut id)?;
    Ok(arguments::value(given, option).map(|_| id))
}

/// The bits of connection states, as `Type::CtState`.
const CT_STATES: [(u32, &str); 5] = [
    (1, "invalid"),
    (2, "established"),
    (4, "related"),
    (8, "new"),
    (64, "untracked"),
];

fn check_ct_state(given: &Arguments) -> Result<Option<u32>, Failure> {
    let option = ArgumentsOption::CtState;
    let Some(value) = arguments::value(given, option) else {
        return Ok(None);
    };
    let mut state = 0;
    for name in value.split(|byte| *byte == b',') {
        let named = CT_STATES.iter().find(|(_, state)| state.as_bytes() == name);
        let expected = "new, established, related, invalid or untracked";
        let (bit, _) = named.ok_or_else(|| given::fail(option, value, expected))?;
        state |= bit;
    }
    Ok(Some(state))
}

/// Takes the values and words of `explain`, in the order of the help text.
pub fn values(given: &Arguments, o: &mut Options) -> Result<(), Failure> {
    use ArgumentsOption as A;
    daemon::decision(given, o)?;
    daemon::fail(given, o)?;
    o.json = arguments::value(given, A::Json).is_some();
    let explain = &mut o.explain;
    check_hook(given, explain)?;
    check_interface(given, A::Iif, &mut explain.iif)?;
    check_interface(given, A::Oif, &mut explain.oif)?;
    explain.mark = check_mark(given, A::Mark)?.unwrap_or(0);
    explain.uid = check_id(given, A::Uid)?;
    explain.gid = check_id(given, A::Gid)?;
    explain.ct_state = check_ct_state(given)?;
    explain.ct_mark = check_mark(given, A::CtMark)?;
    if let [policy, capture] = given.words.as_slice() {
        o.policy = Some(given::path(policy)?);
        explain.capture = given::path(capture)?;
    }
    Ok(())
}
