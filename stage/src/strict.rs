// SPDX-License-Identifier: GPL-2.0-or-later
//! Refuses spellings of a policy that nft accepts and that this crate reads differently, or does not follow.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::matches;
use crate::steps::OF_ELEMENTS;
use crate::token::{Kind, Tokens};
use crate::tree::{self, Tree};
use crate::Refusal;

const UNITS: [&str; 5] = ["second", "minute", "hour", "day", "week"];
const VERBS: [&str; 3] = ["add", "update", "delete"];
const ENDS: [&str; 4] = ["saddr", "daddr", "sport", "dport"];
const OPERATORS: [&str; 10] = [
    "|", "^", "&", "<<", ">>", "or", "xor", "and", "lshift", "rshift",
];
/// Words after the word `mark` that are no values.
const NO_MARKS: [&str; 5] = ["type", "check", "mod", "timeout", "expires"];
/// Words of the language that are refused as an object's name or as a log prefix without quotes: `counter name status`.
const FIELDS: [&str; 3] = ["original", "reply", "status"];
/// Beginning of the names of the chains that this crate adds to a policy.
const OWN: &str = "stage-";

/// Reason and cure of a refusal.
type Why = (&'static str, &'static str);

fn is_count(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_port(text: &str) -> bool {
    text.split('-')
        .all(|text| text.parse::<u16>().is_ok() && is_count(text))
}

/// Returns true for an IPv6 address, prefix or range, a MAC address, or an address with a port.
fn is_address(word: &str) -> bool {
    let is_ipv6 = |text: &str| {
        let (address, length) = text.split_once('/').unwrap_or((text, "0"));
        address.parse::<Ipv6Addr>().is_ok() && is_count(length)
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
    let in_brackets = word
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    is_mac || with_port || in_brackets.is_some_and(is_ipv6) || word.split('-').all(is_ipv6)
}

/// Returns true for a duration such as `1d2h3m4s` or `10ms`.
fn is_duration(word: &str) -> bool {
    let units = word.split(|letter: char| letter.is_ascii_digit());
    let is_unit = |text: &str| ["", "d", "h", "m", "s", "ms"].contains(&text);
    units.into_iter().all(is_unit)
}

/// Returns true if a word is a decimal or hexadecimal number, an IPv4 address, a range, a prefix, a rate (`10/second`),
/// a duration (`1d2h`), `8021q` or `8021ad`. A malformed number such as `1..2` also counts; `443jump` does not.
/// - word: begins with a digit.
fn is_number(word: &str) -> bool {
    let hexadecimal = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let is_hexadecimal = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_hexdigit() || b"-/x".contains(&byte))
    };
    let rate = word
        .split_once('/')
        .is_some_and(|(count, unit)| is_count(count) && UNITS.contains(&unit));
    let is_plain = word
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".-/".contains(&byte));
    is_plain
        || rate
        || ["8021q", "8021ad"].contains(&word)
        || is_duration(word)
        || hexadecimal.is_some_and(is_hexadecimal)
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
    if word.as_bytes()[..word.len().saturating_sub(1)].contains(&b'*') {
        return Some(("a word after `*` without a blank between them", BLANKS));
    }
    if begins.is_ascii_digit() && word.ends_with(['-', '/']) {
        return Some((
            "a range or prefix with a blank at one side of its sign",
            "write no blank, or one at each side",
        ));
    }
    let is_joined = begins.is_ascii_digit() && !word.contains(':') && !is_number(word);
    is_joined.then_some(("a number and a word without a blank between them", BLANKS))
}

/// Returns true for the handle of a class of traffic control: `meta priority set 1:10`.
/// - before: word before it.
fn is_handle(before: &str, word: &str) -> bool {
    let is_part = |text: &str| text.len() <= 4 && u16::from_str_radix(text, 16).is_ok();
    let parts = word.split_once(':');
    let is_both = parts.is_some_and(|(major, minor)| is_part(major) && is_part(minor));
    is_both && ["set", "priority"].contains(&before)
}

/// Returns true if a mark is compared with a mark's name (/etc/iproute2/rt_marks).
/// - at: token `mark`.
fn names_mark(tokens: &Tokens, tree: &Tree, at: usize) -> bool {
    let is_name = |at: &usize| {
        let word = tokens.get(*at).trim_matches('"');
        let is_word = word.starts_with(|letter: char| letter.is_ascii_alphabetic());
        is_word && !matches::is_operator(word) && !OF_ELEMENTS.contains(&word)
    };
    // In a key of several fields the words may be values of another field.
    if at > 1 && tokens.get(at - 2) == "." {
        return false;
    }
    let has_name = |range| tree::flat(tokens, tree, &range).iter().any(is_name);
    let mut place = at + 1;
    while OPERATORS.contains(&tokens.get(place)) {
        if has_name(place + 1..place + 2) {
            return true;
        }
        place += 2;
    }
    let is_other = NO_MARKS.contains(&tokens.get(place)) || matches::begins_next(tokens, place);
    let end = matches::right_end(tokens, place, tokens.list.len());
    !is_other && end.is_some_and(|end| has_name(place..end))
}

/// Returns the reason why a statement that begins at a token is refused.
fn of_statement(tokens: &Tokens, tree: &Tree, at: usize) -> Option<Why> {
    let word = tokens.get(at);
    let before = |count: usize| at.checked_sub(count).map_or("", |at| tokens.get(at));
    let next = tokens.get(at + 1);
    let is_signed = ["priority", "="].contains(&before(1)) || before(2) == "priority";
    if word.starts_with('/') || word.starts_with('-') && !is_signed {
        return Some((
            "a range or prefix with a blank at one side of its sign",
            "write no blank, or one at each side",
        ));
    }
    if ["name", "prefix"].contains(&before(1)) && FIELDS.contains(&word) {
        return Some((
            "the name of an object or log that is a word of the language",
            "choose another name, or write the prefix in quotes",
        ));
    }
    if word == "mark" && names_mark(tokens, tree, at) {
        return Some(("the name of a mark", "write its number"));
    }
    if word.starts_with('$') && !tree.defines.contains_key(&word[1..]) {
        return Some((
            "a name without a definition, or with one inside a set, map or object",
            "define it before the table",
        ));
    }
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

/// Returns the first token after a comment line that follows a line with a backslash at its end: nft joins the line
/// after the comment to the statement, too. None: there is no comment line after a backslash.
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

/// Refuses a statement after `flow add` in a rule, except a counter or comment: this crate inserts a test of the class
/// before `flow add`, so the statement would have effect for tested connections only.
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
            let is_counter = ["counter", "packets", "bytes", "comment"].contains(&word);
            tokens.kind(*at) == Kind::Word && !is_counter && !is_count(word)
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

/// Refuses spellings and commands that nft accepts and that this crate reads differently, or does not follow.
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
        let is_handle = at > 0 && is_handle(tokens.get(at - 1), tokens.get(at));
        let why = of_word(tokens.get(at))
            .filter(|_| !is_handle)
            .or_else(|| of_statement(tokens, tree, at));
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
    for at in 0..tokens.list.len() {
        let is_defined = |at: &usize| {
            let name = tokens.get(*at).strip_prefix('$');
            name.is_some_and(|name| tree.defines.contains_key(name))
        };
        if is_defined(&at)
            && tree::flat(tokens, tree, &(at..at + 1))
                .iter()
                .any(is_defined)
        {
            let why = (
                "definitions in one another, more than 16",
                "write the value itself",
            );
            return fail(tokens, at, why);
        }
    }
    for set in tree.sets.iter().filter(|set| !set.is_element) {
        let mut lists = set.inner.clone().filter(|at| tokens.get(*at) == "elements");
        if let Some(second) = lists.nth(1) {
            let why = (
                "a second list of elements in a set, which replaces the first",
                "write one list",
            );
            return fail(tokens, second, why);
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
            "eth*jump",
            "*.x",
            "[::1]:2147483648",
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
            "eth*",
            "*",
        ] {
            assert_eq!(of_word(word), None, "{word}");
        }
    }

    /// Returns definitions of which each contains the one before it, and a rule with the last one.
    fn nested(count: usize) -> String {
        let define = |number: usize| format!("define d{number} = $d{}\n", number - 1);
        let rest: String = (1..count).map(define).collect();
        let last = count - 1;
        format!("define d0 = 1\n{rest}add rule inet f c tcp dport $d{last} drop")
    }

    fn chain(rule: &str) -> String {
        format!("define m = vip\ntable inet f {{\n chain c {{\n {rule}\n }}\n}}\n")
    }

    #[test]
    fn statements_that_are_not_followed_are_refused() {
        for rule in [
            "set add ip saddr @s",
            "add $s { ip saddr }",
            "ip daddr set 10.0.0.5",
            "@th,16,16 set 443",
            "flow add @ft drop",
            "flow add @ft counter drop",
            "ip saddr 10.0.0.1 \\\n # why\n accept",
            "tcp dport 440 -450 drop",
            "ip saddr 10.0.0.0 /8 drop",
            "tcp dport http -https drop",
            "counter name status drop",
            "meta mark vip drop",
            "meta mark != vip drop",
            "meta mark { 1, vip } drop",
            "mark & vip == vip drop",
            "meta mark $m drop",
            "meta mark \"vip\" drop",
            "meta priority set 1jump names",
            "meta priority set 1:10jump names",
            "tcp dport 80- 90 drop",
            "ip saddr 10.0.0.0/ 8 drop",
            "log prefix original accept",
            "jump $c",
        ] {
            assert!(refusal(&chain(rule)).is_some(), "{rule}");
        }
        for rule in [
            "add @s { ip saddr }",
            "ip dscp set 1",
            "flow add @ft counter packets 0 bytes 0 comment \"why\"",
            "drop # why",
            "tcp dport 440 - 450 ip saddr 10.0.0.0 / 8 drop",
            "counter name status1 drop",
            "meta mark set socket mark counter accept",
            "meta mark vmap { 1 : drop }",
            "meta mark & 0xff eq 1-3 ip saddr @s drop",
            "fib daddr . mark type vmap { local : drop }",
            "queue to jhash oif . meta mark mod 32",
            "update @s { ip saddr . meta mark timeout 1h }",
            "meta mark set tcp dport map { 22 : 0x1 }",
            "counter name meta iifname map { lo : a }",
            "meta priority set 1:10",
            "iifname . meta mark { eth0 . 0x1 } drop",
            "meta mark { 1 timeout 1h } drop",
            "dnat to [2001:db8::1]",
            "meta protocol 8021q drop",
        ] {
            assert_eq!(refusal(&chain(rule)), None, "{rule}");
        }
    }

    #[test]
    fn commands_that_are_not_followed_are_refused() {
        let table = chain("accept");
        for command in [
            "inet f c tcp dport 443 drop",
            "add inet f c drop",
            "add element inet f s $e",
            "define m = syn | ack",
            "set inet f s { type mark; elements = { 1 } elements = { 2 } }",
            &nested(17),
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
            "define m = -1",
            "chain inet f d { type filter hook input priority filter -10; }",
            &nested(16),
            "add counter inet f n",
            "add flowtable inet f g { hook ingress priority 0; devices = { lo }; }",
        ] {
            assert_eq!(refusal(&format!("{table}{command}\n")), None, "{command}");
        }
    }
}
