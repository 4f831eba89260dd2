// SPDX-License-Identifier: GPL-2.0-or-later
//! Reader of files with host names in the formats of block lists: hosts files, plain lists, `||name^` of ad blockers,
//! response policy zones, and files of dnsmasq and unbound.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::base::log::Failure;
use crate::policy::hostname::{self, Hostname, Hostnames};
use crate::policy::parse::directive;
use crate::policy::parse::lexer::TOO_LARGE;
use crate::policy::parse::source::{self, reason};
use crate::policy::parse::state::Parser;
use crate::policy::token::TokenKind;
use crate::policy::{Listed, ListedFile};

/// Types of unbound's local-zone that block the zone's name and all names below it.
const ZONE_TYPES: [&str; 7] = [
    "always_null",
    "always_nxdomain",
    "always_refuse",
    "deny",
    "redirect",
    "refuse",
    "static",
];
/// Targets of a CNAME in a response policy zone that block the name.
const REFUSING_TARGETS: [&str; 3] = [".", "*.", "rpz-drop."];
/// Names in hosts files that belong to the machine itself.
const LOCAL_NAMES: [&str; 12] = [
    "0.0.0.0",
    "broadcasthost",
    "ip6-allhosts",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-localhost",
    "ip6-localnet",
    "ip6-loopback",
    "ip6-mcastprefix",
    "local",
    "localhost",
    "localhost.localdomain",
];
/// Byte order mark with which some editors begin UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// Returns a line without blanks around it and without its comment: the text from a `#` at the start or after a blank;
/// or the whole line, if it begins with `!` or `;`.
fn without_comment(line: &[u8]) -> &[u8] {
    let hash = (0..line.len()).find(|&at| line[at] == b'#' && (at == 0 || is_blank(line[at - 1])));
    let mut line = &line[..hash.unwrap_or(line.len())];
    while line.last().is_some_and(|&last| is_blank(last)) {
        line = &line[..line.len() - 1];
    }
    while line.first().is_some_and(|&first| is_blank(first)) {
        line = &line[1..];
    }
    match line.first() {
        Some(b'!' | b';') => &[],
        _ => line,
    }
}

/// Returns true if a word is an address, with which lines of a hosts file begin.
fn is_address(word: &str) -> bool {
    let ipv6 = word.split('%').next().unwrap_or(word);
    word.parse::<Ipv4Addr>().is_ok() || ipv6.parse::<Ipv6Addr>().is_ok()
}

/// Destination of the names in a file: the names of the policy, the names of the set, and the file's counts.
struct Target<'a> {
    hostnames: &'a mut Hostnames,
    ids: &'a mut Vec<u32>,
    file: &'a mut ListedFile,
}

fn add_id(target: &mut Target, name: &Hostname, wildcard: bool) {
    let id = hostname::add(target.hostnames, &name.bytes[..name.length], wildcard);
    target.ids.push(id);
}

/// Adds a name. For a wildcard `*.x` in a file that is read `with parents`, adds x, too. Returns false if the word is
/// not a host name, or is a wildcard that children_too excludes.
/// - children_too: true if all names below the name are also added, as a wildcard. Then the word must be no wildcard.
fn add(target: &mut Target, word: &str, children_too: bool) -> bool {
    let Ok(name) = hostname::parse(word) else {
        return false;
    };
    if children_too && name.wildcard {
        return false;
    }
    add_id(target, &name, name.wildcard);
    if children_too {
        add_id(target, &name, true);
    }
    if name.wildcard && target.file.with_parents {
        add_id(target, &name, false);
    }
    true
}

/// Adds a name of a hosts file, or skips a name of the machine itself. Returns false if the word is neither.
fn add_host(target: &mut Target, word: &str) -> bool {
    let is_local = LOCAL_NAMES.contains(&word);
    target.file.local += u32::from(is_local);
    is_local || add(target, word, false)
}

/// Adds the names of dnsmasq's `address=/NAME/…/ADDRESS`, each with all names below it. ADDRESS can be any address, `#`
/// or empty. Returns false if the line has another form, or at the first invalid NAME; the names before it stay added.
/// - rest: text after `address=/`.
fn add_address(target: &mut Target, rest: &str) -> bool {
    let Some((names, address)) = rest.rsplit_once('/') else {
        return false;
    };
    let is_answer = address.is_empty() || address == "#" || is_address(address);
    let mut names = names.split('/');
    is_answer && names.all(|name| add(target, name, true))
}

/// Adds the name of unbound's `local-zone: "NAME" TYPE`, with all names below it, if the type blocks the name. Returns
/// false if the line has another form or type.
fn add_zone(target: &mut Target, rest: &str) -> bool {
    let blank = |letter: char| letter.is_ascii() && is_blank(letter as u8);
    let mut words = rest.split(blank).filter(|word| !word.is_empty());
    let (name, kind) = (words.next(), words.next());
    let name = name.map(|name| name.trim_matches('"'));
    match (name, kind, words.next()) {
        (Some(name), Some(kind), None) if ZONE_TYPES.contains(&kind) => add(target, name, true),
        _ => false,
    }
}

/// Adds the name of a response policy zone's `NAME [TTL] [IN] CNAME TARGET`, if the target blocks the name. Returns
/// false if the line has another form or target, or if the name's last label begins with `rpz-`: then it stands for
/// another trigger, such as an address.
/// - rest: words after the name.
fn add_record(target: &mut Target, name: &str, rest: &[&str]) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_before = |word: &&&str| is_number(word) || word.eq_ignore_ascii_case("in");
    let mut words = rest.iter().skip_while(is_before);
    let (kind, refusal, more) = (words.next(), words.next(), words.next());
    let is_alias = kind.is_some_and(|kind| kind.eq_ignore_ascii_case("cname"));
    let refuses = refusal.is_some_and(|refusal| REFUSING_TARGETS.contains(refusal));
    let ended = more.is_none_or(|more| more.starts_with(';'));
    // "24.0.2.0.192.rpz-ip" is an address, not a name
    let is_trigger = name.rsplit('.').next().unwrap_or(name).starts_with("rpz-");
    is_alias && refuses && ended && !is_trigger && add(target, name, false)
}

/// Adds the names of a line that is not empty. Returns false if the line has an unknown form, or if a part of it is no
/// name. The other names of the line may then be added nevertheless.
fn add_line(target: &mut Target, line: &[u8]) -> bool {
    let text = std::str::from_utf8(line).ok();
    let Some(text) = text.filter(|text| !text.contains('\0')) else {
        return false;
    };
    let blocked = text.strip_prefix("||");
    if let Some(name) = blocked.and_then(|rest| rest.strip_suffix('^')) {
        return add(target, name, true);
    }
    if let Some(rest) = text.strip_prefix("address=/") {
        return add_address(target, rest);
    }
    if let Some(rest) = text.strip_prefix("local-zone: ") {
        return add_zone(target, rest);
    }
    let blank = |letter: char| letter.is_ascii() && is_blank(letter as u8);
    let mut words = text.split(blank).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    let rest: Vec<&str> = words.collect();
    match (is_address(first), rest.len()) {
        (false, 0) => add(target, first, false),
        (false, _) => add_record(target, first, &rest),
        (true, 0) => false,
        (true, _) => {
            let taken = rest.iter().filter(|word| add_host(target, word));
            taken.count() == rest.len()
        }
    }
}

/// Adds the names in a file's text. Counts them, all lines, and the lines that are left out.
fn add_text(target: &mut Target, bytes: &[u8]) {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let before = target.ids.len();
    for line in bytes.split(|byte| *byte == b'\n') {
        target.file.lines += 1;
        let line = without_comment(line);
        if line.is_empty() || add_line(target, line) {
            continue;
        }
        target.file.left_out += 1;
        if target.file.first_left_out == 0 {
            target.file.first_left_out = target.file.lines;
        }
    }
    target.file.names = (target.ids.len() - before) as u32;
}

/// Returns the path relative to the folder of the policy's first file. Returns the path unchanged if it lies outside
/// this folder.
fn as_written(first: &str, name: &str) -> String {
    let folder = &first[..first.rfind('/').map_or(0, |slash| slash + 1)];
    name.strip_prefix(folder).unwrap_or(name).to_owned()
}

/// Parses the part after `file`: STRING [`with` `parents`] END, and reads the names in the file. Fails if the file
/// can't be read or is too large, or if it has no names but lines of an unknown form.
pub fn read(parser: &mut Parser, listed: &mut Listed) -> Result<(), Failure> {
    let path = parser.lexer.consume();
    if path.kind != TokenKind::String {
        let expected = "the name of a file in quotes";
        return Err(parser.lexer.unexpected(&path, expected));
    }
    let name = directive::file_name(&parser.lexer, &path)?;
    let left = parser.lexer.bytes_left();
    let source = source::read(&name, left).map_err(|error| {
        let cause = format!("cannot read it: {}", reason(&error));
        parser.lexer.wrong(&path, cause)
    })?;
    if source.bytes.len() > left {
        return Err(parser.lexer.wrong(&path, TOO_LARGE));
    }
    let mut file = ListedFile {
        path: as_written(&parser.lexer.names[0], &name),
        file: parser.lexer.add_list(name, source.bytes.len()),
        ..ListedFile::default()
    };
    if parser.lexer.consume_word("with") {
        parser.word("parents", "parents")?;
        file.with_parents = true;
    }
    let mut target = Target {
        hostnames: Arc::make_mut(&mut parser.policy.hostnames),
        ids: &mut listed.ids,
        file: &mut file,
    };
    add_text(&mut target, &source.bytes);
    if file.names == 0 && file.left_out > 0 {
        let cause = format!(
            "no line of it is one that is read, the first at line {}: see `file` in GRAMMAR.md",
            file.first_left_out
        );
        return Err(parser.lexer.wrong(&path, cause));
    }
    listed.files.push(file);
    parser.lexer.consume_end()
}
