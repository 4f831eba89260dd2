// SPDX-License-Identifier: GPL-2.0-or-later
//! Formats a packet's comment: `twinwall: verdict=drop by=rule rule=web.nft:6 hook=input iif=eth0 mark=0x0 ct=new`.

use std::fmt::Write;

use rust_firewall::packet::pcap;
use rust_firewall::policy::HOOKS;

use crate::event::{Event, Input};

/// Formats a value without spaces: spaces, percent signs, control characters and bytes beyond ASCII become %XX.
fn value(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'%' | 0..=b' ' | 0x7f.. => drop(write!(out, "%{byte:02x}")),
            _ => out.push(byte.into()),
        }
    }
    out
}

/// Formats the comment of a recorded packet. Attributes that the packet lacks are omitted; so is the chain if a rule
/// decided.
pub fn of(event: &Event, input: &Input) -> String {
    let own = &event.twinwall;
    let hook = HOOKS.iter().map(|hook| hook.1).nth(input.hook.into());
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    let fields = [
        ("verdict", own.verdict.clone()),
        ("by", own.by.clone()),
        ("rule", own.rule.clone()),
        ("chain", own.chain.clone().filter(|_| own.rule.is_none())),
        ("hook", hook.map(str::to_owned)),
        ("iif", text(&input.iifname)),
        ("oif", text(&input.oifname)),
        ("mark", Some(format!("{:#x}", input.mark))),
        ("uid", number(input.uid)),
        ("gid", number(input.gid)),
        ("ct", input.ct_state.clone()),
        ("ctmark", input.ct_mark.map(|mark| format!("{mark:#x}"))),
    ];
    let mut out = pcap::COMMENT_BEGIN.to_owned();
    for (name, field) in fields {
        if let Some(field) = field {
            let _ = write!(out, " {name}={}", value(&field));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use rust_firewall::explain::comment::{self, Comment};
    use rust_firewall::options::OptionsFacts;
    use rust_firewall::packet::verdict::Verdict;

    /// `explain` and `diff` parse verdict and metadata from the comment.
    #[test]
    fn explain_reads_what_is_written() {
        let line = r#"{"timestamp":"2026-01-01T00:00:00.000000+0000","event_type":"drop","twinwall":{"verdict":"drop",
            "by":"rule","rule":"/etc/my web.nft:6"},"packet":"RQ==","input":{"length":60,"ethertype":2048,"hook":1,
            "iifname":"eth 0","oifname":"\u00e4=%","mark":18,"uid":5,"gid":6,"ct_state":"established","ct_mark":7,
            "truncated":false}}"#;
        let event = Event::parse(line).unwrap();
        let text = of(&event, event.input.as_ref().unwrap());
        let comment = comment::parse(text.strip_prefix(pcap::COMMENT_BEGIN).unwrap().as_bytes());
        let Comment { facts, verdict } = comment.unwrap();
        assert_eq!(verdict, Some(Verdict::Drop));
        let expected = OptionsFacts {
            hook: Some(HOOKS[1].0),
            iif: b"eth 0".to_vec(),
            oif: "\u{e4}=%".into(),
            mark: 18,
            uid: Some(5),
            gid: Some(6),
            ct_state: Some(2),
            ct_mark: Some(7),
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_value_has_no_space() {
        assert_eq!(value("/etc/my web.nft:6"), "/etc/my%20web.nft:6");
        assert_eq!(value("100%\n\u{e4}"), "100%25%0a%c3%a4");
    }
}
