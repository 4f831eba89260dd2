// SPDX-License-Identifier: GPL-2.0-or-later
//! Refuses spellings of a policy that nft accepts and that this crate reads differently, or does not follow.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::token::{Kind, Tokens};
use crate::tree::Tree;
use crate::Refusal;

const UNITS: [&str; 5] = ["second", "minute", "hour", "day", "week"];
const VERBS: [&str; 3] = ["add", "update", "delete"];
const ENDS: [&str; 4] = ["saddr", "daddr", "sport", "dport"];
const OPERATORS: [&str; 10] = [
    "|", "^", "&", "<<", ">>", "or", "xor", "and", "lshift", "rshift",
];
/// Beginning of the names of the chains that this crate adds to a policy.
const OWN: &str = "stage-";

/// Reason and cure of a refusal.
type Why = (&'static str, &'static str);

fn is_port(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split('-').all(is_number)
}

/// Returns true for an IPv6 address, prefix or range, a MAC address, or an address with a port.
fn is_address(word: &str) -> bool {
    let is_ipv6 = |text: &str| {
        let (address, length) = text.split_once('/').unwrap_or((text, "0"));
        address.parse::<Ipv6Addr>().is_ok() && is_port(length)
    };
    let is_byte = |text: &str| u8::from_str_radix(text, 16).is_ok() && text.len() <= 2;
    let is_mac = word.split(':').count() == 6 && word.split(':').all(is_byte);
    let with_port = word.rsplit_once(':').is_some_and(|(address, port)| {
        let inner = address
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let is_host = match inner {
            Some(inner) => is_ipv6(inner),
            None => address.is_empty() || address.parse::<Ipv4Addr>().is_ok(),
        };
        is_host && is_port(port)
    });
    is_mac || with_port || word.split('-').all(is_ipv6)
}

/// Returns true for a duration such as `1d2h3m4s` or `10ms`.
fn is_duration(word: &str) -> bool {
    let units = word.split(|letter: char| letter.is_ascii_digit());
    let is_unit = |text: &str| ["", "d", "h", "m", "s", "ms"].contains(&text);
    units.into_iter().all(is_unit)
}

/// Returns true if nft reads a word that begins with a digit as one token, or as numbers and signs.
fn is_number(word: &str) -> bool {
    let hexadecimal = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let is_hexadecimal = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b"-/x".contains(&byte))
    };
    let rate = word
        .split_once('/')
        .is_some_and(|(count, unit)| is_port(count) && UNITS.contains(&unit));
    let is_plain = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".-/".contains(&byte));
    is_plain || rate || is_duration(word) || hexadecimal.is_some_and(is_hexadecimal)
}

/// Returns the reason why a word is refused. nft needs no blanks between tokens: it reads `443jump` as two tokens, and
/// `443:jump` as three.
fn of_word(word: &str) -> Option<Why> {
    const BLANKS: &str = "write blanks between its parts";
    let begins = word.bytes().next().unwrap_or(b' ');
    if word.contains('\\') {
        return Some((
            "a word that ends with a backslash",
            "write a blank before the backslash",
        ));
    }
    let is_joined_name = word.bytes().skip(1).any(|byte| b"@$".contains(&byte));
    if is_joined_name || ["@", "$"].contains(&word) {
        return Some(("a name after @ or $ that is not a word of its own", BLANKS));
    }
    if word.contains(':') && !is_address(word) {
        return Some(("a colon within a word", "write blanks around the colon"));
    }
    let is_joined = begins.is_ascii_digit() && !word.contains(':') && !is_number(word);
    is_joined.then_some(("a number and a word without a blank between them", BLANKS))
}

/// Returns the reason why a statement that begins at a token is refused.
fn of_statement(tokens: &Tokens, at: usize) -> Option<Why> {
    let word = tokens.get(at);
    let before = |count: usize| at.checked_sub(count).map_or("", |at| tokens.get(at));
    let next = tokens.get(at + 1);
    if word == "set" && VERBS.contains(&next) {
        return Some(("`set add` and `set update`", "write `add @s { … }`"));
    }
    if VERBS.contains(&word) && next.starts_with('$') {
        return Some((
            "a set by a definition in a statement that changes it",
            "write the set's own name",
        ));
    }
    if word == "set" && (ENDS.contains(&before(1)) || before(2) == ",") {
        return Some((
            "a statement that changes addresses, ports or bytes of packets: packets are queued by those they have before",
            "translate addresses in a chain of type nat",
        ));
    }
    None
}

/// Returns the first token after a comment line within a statement: nft joins the line after it, too.
fn comment_in_statement(tokens: &Tokens) -> Option<usize> {
    let text = &tokens.text;
    let mut joined = text.match_indices("\\\n").map(|(at, _)| at + 2);
    let at = joined.find(|at| {
        text[*at..]
            .trim_start_matches([' ', '\t', '\r'])
            .starts_with('#')
    })?;
    (0..tokens.list.len()).find(|token| tokens.start(*token) > at)
}

fn fail(tokens: &Tokens, at: usize, (reason, cure): Why) -> Result<(), Refusal> {
    Err(Refusal::at(tokens, at, reason, cure))
}

/// Refuses statements that a class can't be tested before.
fn refuse_flows(tokens: &Tokens, tree: &Tree) -> Result<(), Refusal> {
    for rule in &tree.rules {
        let is_flow = |at: &usize| {
            tokens.get(*at) == "flow" && ["add", "offload"].contains(&tokens.get(at + 1))
        };
        let Some(flow) = rule.tokens.clone().find(is_flow) else {
            continue;
        };
        let is_effect = |at: &usize| {
            let word = tokens.get(*at);
            let is_count = ["counter", "packets", "bytes", "comment"].contains(&word);
            tokens.kind(*at) == Kind::Word && !is_count && !is_port(word)
        };
        if let Some(effect) = (flow + 3..rule.tokens.end).find(is_effect) {
            let why = (
                "a statement after `flow add`: it would have effect for tested connections only",
                "write it as a rule of its own",
            );
            return fail(tokens, effect, why);
        }
    }
    Ok(())
}

/// Refuses a policy with a spelling that is not followed.
pub fn refuse(tokens: &Tokens, tree: &Tree) -> Result<(), Refusal> {
    if let Some(at) = comment_in_statement(tokens) {
        let why = (
            "a comment line after a line that ends with a backslash",
            "write the comment before the statement",
        );
        return fail(tokens, at, why);
    }
    for at in 0..tokens.list.len() {
        if tokens.kind(at) != Kind::Word {
            continue;
        }
        let why = of_word(tokens.get(at)).or_else(|| of_statement(tokens, at));
        if let Some(why) = why {
            return fail(tokens, at, why);
        }
        let is_own = tokens.get(at).starts_with(OWN)
            && tree.chains.iter().any(|chain| chain.name == tokens.get(at));
        if is_own {
            let why = (
                "a chain whose name begins with `stage-`: chains of the stage have such names",
                "choose another name",
            );
            return fail(tokens, at, why);
        }
    }
    if let Some(at) = tree.unknown.first() {
        let why = (
            "a command that is not understood",
            "write rules as `add rule`, elements between braces",
        );
        return fail(tokens, *at, why);
    }
    for value in tree.defines.values() {
        if value.clone().any(|at| OPERATORS.contains(&tokens.get(at))) {
            let why = (
                "a definition with an operator",
                "write its value as one number",
            );
            return fail(tokens, value.start, why);
        }
    }
    refuse_flows(tokens, tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{token, tree};

    fn refusal(text: &str) -> Option<String> {
        let tokens = token::tokens(text);
        let refused = refuse(&tokens, &tree::read(&tokens));
        refused.err().map(|refusal| refusal.reason)
    }

    #[test]
    fn words_that_nft_reads_as_several_are_refused() {
        for word in [
            "443jump",
            "0x1bbjump",
            "10.0.0.0/8jump",
            "443:jump",
            "new:jump",
            "22:0x40",
            "vmap@m",
            "jump$to",
            "@",
            "$",
            "x\\",
            "1flow",
            "aa:bb:cc:dd:ee:ff:0x80",
            "$a-$b",
        ] {
            assert!(of_word(word).is_some(), "{word}");
        }
        for word in [
            "443",
            "0x1bb",
            "80-90",
            "10.0.0.0/8",
            "10/second",
            "1d2h",
            "30s",
            "10ms",
            "2001:db8::1",
            "2001:db8::/32",
            "::1",
            "2001:db8::1-2001:db8::9",
            "00:11:22:aa:bb:cc",
            "10.0.0.1:80",
            "[2001:db8::1]:80-90",
            ":50080",
            "@s",
            "$x",
            "@th",
            "jump",
            "eth0",
            "*",
        ] {
            assert_eq!(of_word(word), None, "{word}");
        }
    }

    #[test]
    fn statements_and_commands_that_are_not_followed_are_refused() {
        let chain = |rule: &str| format!("table inet f {{\n chain c {{\n {rule}\n }}\n}}\n");
        for rule in [
            "set add ip saddr @s",
            "add $s { ip saddr }",
            "ip daddr set 10.0.0.5",
            "@th,16,16 set 443",
            "flow add @ft drop",
            "flow add @ft counter drop",
            "ip saddr 10.0.0.1 \\\n # why\n accept",
        ] {
            assert!(refusal(&chain(rule)).is_some(), "{rule}");
        }
        for rule in [
            "add @s { ip saddr }",
            "ip dscp set 1",
            "flow add @ft counter packets 0 bytes 0 comment \"why\"",
            "drop # why",
        ] {
            assert_eq!(refusal(&chain(rule)), None, "{rule}");
        }
        let table = chain("accept");
        for command in [
            "inet f c tcp dport 443 drop",
            "add inet f c drop",
            "add element inet f s $e",
            "define m = syn | ack",
            "chain inet f stage-ask",
        ] {
            assert!(
                refusal(&format!("{table}{command}\n")).is_some(),
                "{command}"
            );
        }
        for command in [
            "add rule inet f c drop",
            "define m = { 1, 2 }",
            "add counter inet f n",
            "add flowtable inet f g { hook ingress priority 0; devices = { lo }; }",
        ] {
            assert_eq!(refusal(&format!("{table}{command}\n")), None, "{command}");
        }
    }
}
