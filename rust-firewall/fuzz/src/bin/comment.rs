// SPDX-License-Identifier: GPL-2.0-or-later
//! Fuzzer of `comment::parse`: it must never panic, accepted values must lie within their bounds, and a comment must be
//! equal after it is written and parsed again.
//!
//! Input: a capture's comment without its prefix `COMMENT_BEGIN`.
#![no_main]

use std::fmt::Write;

use libfuzzer_sys::fuzz_target;
use rust_firewall::explain::comment::{self, Comment};
use rust_firewall::packet::verdict;
use rust_firewall::policy::{print, Type, HOOKS};
use rust_firewall::spec::option::INTERFACE_BYTES_MAX;

const CT_STATES: u32 = 0x4f;

fn put<T: std::fmt::Display>(out: &mut String, key: &str, value: Option<T>) {
    if let Some(value) = value {
        let _ = write!(out, " {key}={value}");
    }
}

fn name(bytes: &[u8]) -> Option<String> {
    let coded: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
    (!coded.is_empty()).then_some(coded)
}

fn written(comment: &Comment) -> String {
    let facts = &comment.facts;
    let hook = HOOKS.iter().find(|known| Some(known.0) == facts.hook);
    let states = |state: u32| print::value(Type::CtState, state.into());
    let mut out = format!(" mark={:#x}", facts.mark);
    put(&mut out, "verdict", comment.verdict.map(verdict::name));
    put(&mut out, "hook", hook.map(|hook| hook.1));
    put(&mut out, "iif", name(&facts.iif));
    put(&mut out, "oif", name(&facts.oif));
    put(&mut out, "uid", facts.uid);
    put(&mut out, "gid", facts.gid);
    put(&mut out, "ctmark", facts.ct_mark);
    put(&mut out, "ct", facts.ct_state.map(states));
    out
}

fuzz_target!(|input: &[u8]| {
    let Some(comment) = comment::parse(input) else {
        return;
    };
    let facts = &comment.facts;
    for name in [&facts.iif, &facts.oif] {
        assert!(name.len() <= INTERFACE_BYTES_MAX as usize && !name.contains(&0));
    }
    assert!(facts
        .ct_state
        .is_none_or(|state| state != 0 && state & !CT_STATES == 0));
    let again = written(&comment);
    assert_eq!(comment::parse(again.as_bytes()), Some(comment), "{again}");
});
