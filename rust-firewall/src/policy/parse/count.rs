// SPDX-License-Identifier: GPL-2.0-or-later
//! Parser of statements with state: counter, limit, quota, log.

use crate::base::log::Failure;
use crate::policy::parse::refuse::{self, unexpected, Where};
use crate::policy::parse::state::Parser;
use crate::policy::token::{Sign, Token, TokenKind};
use crate::policy::value;
use crate::policy::{Counter, Limit, Log, Quota, LIMIT_BURST_PACKETS, NAME_BYTES};

const SIZE: &str = "bytes, kbytes or mbytes";
const UNIT: &str = "second, minute, hour, day or week";
const NANOSECONDS: u64 = 1_000_000_000;

/// Returns the number of bytes of a unit: 1 (bytes), 1,024 (kbytes) or 1,048,576 (mbytes); None for other texts.
fn find_size(text: &str) -> Option<u64> {
    match text {
        "bytes" => Some(1),
        "kbytes" => Some(1 << 10),
        "mbytes" => Some(1 << 20),
        _ => None,
    }
}

/// Multiplies a number by the bytes of its unit. Fails if the product is too large.
fn sized(parser: &Parser, token: &Token, number: u64, size: u64) -> Result<u64, Failure> {
    number
        .checked_mul(size)
        .ok_or_else(|| parser.lexer.wrong(token, "too many bytes"))
}

/// Parses a unit: bytes, kbytes or mbytes. Returns the number of bytes that it stands for.
fn parse_size(parser: &mut Parser) -> Result<u64, Failure> {
    let token = parser.lexer.consume();
    let found = match token.kind {
        TokenKind::Word => find_size(parser.lexer.text(&token)),
        _ => None,
    };
    found.ok_or_else(|| parser.lexer.unexpected(&token, SIZE))
}

/// Parses a number and its unit. Returns the number's token, and the number of bytes.
fn parse_bytes(parser: &mut Parser) -> Result<(Token, u64), Failure> {
    let (token, number) = parser.number()?;
    let size = parse_size(parser)?;
    let bytes = sized(parser, &token, number, size)?;
    Ok((token, bytes))
}

/// Parses `packets N` and `bytes N`, in either order, after `counter`; both are optional.
pub fn counter(parser: &mut Parser) -> Result<Counter, Failure> {
    let mut counter = Counter {
        packets: 0,
        bytes: 0,
    };
    let next = parser.lexer.peek(0);
    refuse::check(&parser.lexer, Where::Named, &next)?;
    loop {
        if parser.lexer.consume_word("packets") {
            counter.packets = parser.number()?.1;
        } else if parser.lexer.consume_word("bytes") {
            counter.bytes = parser.number()?.1;
        } else {
            return Ok(counter);
        }
    }
}

/// Parses a unit of time after a `/`. Returns its length in seconds.
fn parse_unit(parser: &mut Parser) -> Result<u64, Failure> {
    let token = parser.lexer.consume();
    let found = match token.kind {
        TokenKind::Word => value::find_unit(parser.lexer.text(&token)),
        _ => None,
    };
    found.ok_or_else(|| parser.lexer.unexpected(&token, UNIT))
}

/// Parses the units of a rate: `/TIME`, or `UNIT/TIME` such as kbytes/second (one word, unless blanks divide it).
/// Returns the number of bytes of UNIT (0 = the rate counts packets) and the seconds of TIME.
fn parse_rate_unit(parser: &mut Parser) -> Result<(u64, u64), Failure> {
    const EXPECTED: &str = "\"/\", bytes, kbytes or mbytes";
    if parser.lexer.consume_sign(Sign::Slash) {
        return Ok((0, parse_unit(parser)?));
    }
    let token = parser.lexer.consume();
    if token.kind != TokenKind::Word {
        return Err(parser.lexer.unexpected(&token, EXPECTED));
    }
    let text = parser.lexer.text(&token);
    let (word, rest) = match text.split_once('/') {
        Some((word, rest)) => (word, Some(rest)),
        None => (text, None),
    };
    let Some(size) = find_size(word) else {
        return Err(parser.lexer.unexpected(&token, EXPECTED));
    };
    let Some(rest) = rest else {
        parser.sign(Sign::Slash, "\"/\" and a unit of time")?;
        return Ok((size, parse_unit(parser)?));
    };
    match value::find_unit(rest) {
        Some(seconds) => Ok((size, seconds)),
        None => Err(parser.lexer.unexpected(&token, EXPECTED)),
    }
}

/// Parses the part after `burst`: N and a unit of bytes if `of_bytes` is true (the rate counts bytes), otherwise
/// `N packets`. Returns the number of bytes or packets.
fn parse_burst(parser: &mut Parser, of_bytes: bool) -> Result<u64, Failure> {
    let (token, burst) = if of_bytes {
        parse_bytes(parser)?
    } else {
        let (token, number) = parser.number()?;
        parser.word("packets", "packets")?;
        if number == 0 {
            return Err(parser.lexer.wrong(&token, "a burst is at least 1 packet"));
        }
        (token, number)
    };
    if burst > u32::MAX.into() {
        return Err(parser.lexer.wrong(&token, "a burst is at most 4294967295"));
    }
    Ok(burst)
}

/// Returns true if nf_tables can represent a limit's tokens in 64 bits (nft_limit_init in net/netfilter/nft_limit.c).
fn limit_fits(limit: &Limit) -> bool {
    let time = limit.unit_s * NANOSECONDS;
    let Some(both) = limit.rate.checked_add(limit.burst) else {
        return false;
    };
    if limit.of_bytes {
        time.checked_mul(both).is_some()
    } else {
        (time / limit.rate).checked_mul(limit.burst).is_some()
    }
}

/// Parses the part after `limit`.
pub fn limit(parser: &mut Parser) -> Result<Limit, Failure> {
    let next = parser.lexer.peek(0);
    if !parser.lexer.consume_word("rate") {
        return Err(unexpected(&parser.lexer, Where::Named, &next, "rate"));
    }
    let over = parser.lexer.consume_word("over");
    let (token, number) = parser.number()?;
    let (size, unit_s) = parse_rate_unit(parser)?;
    let of_bytes = size > 0;
    let mut limit = Limit {
        over,
        of_bytes,
        rate: sized(parser, &token, number, size.max(1))?,
        unit_s,
        burst: if of_bytes { 0 } else { LIMIT_BURST_PACKETS },
    };
    if parser.lexer.consume_word("burst") {
        limit.burst = parse_burst(parser, of_bytes)?;
    }
    if limit.rate == 0 {
        return Err(parser.lexer.wrong(&token, "a rate is at least 1"));
    }
    if !limit_fits(&limit) {
        let cause = "rate and burst are more than the kernel can count";
        return Err(parser.lexer.wrong(&token, cause));
    }
    Ok(limit)
}

/// Parses the part after `quota`.
pub fn quota(parser: &mut Parser) -> Result<Quota, Failure> {
    let next = parser.lexer.peek(0);
    refuse::check(&parser.lexer, Where::Named, &next)?;
    let over = parser.lexer.consume_word("over");
    if !over {
        parser.lexer.consume_word("until");
    }
    let (token, bytes) = parse_bytes(parser)?;
    if bytes > i64::MAX as u64 {
        return Err(parser.lexer.wrong(&token, "too many bytes"));
    }
    let mut used = 0;
    if parser.lexer.consume_word("used") {
        let (token, bytes_used) = parse_bytes(parser)?;
        if bytes_used > bytes {
            return Err(parser.lexer.wrong(&token, "more than the quota"));
        }
        used = bytes_used;
    }
    Ok(Quota { over, bytes, used })
}

/// Parses the level of a log, after the word `level`.
fn parse_level(parser: &mut Parser) -> Result<u8, Failure> {
    let word = parser.lexer.consume();
    let found = value::find_level(word.kind, parser.lexer.text(&word));
    let expected = "emerg, alert, crit, err, warn, notice, info or debug";
    found.ok_or_else(|| parser.lexer.unexpected(&word, expected))
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Appends the part of a prefix after a `$`. The part begins with a name, which is replaced by its value.
fn append_part(
    parser: &mut Parser,
    token: &Token,
    part: &str,
    prefix: &mut String,
) -> Result<(), Failure> {
    let end = part.bytes().position(|byte| !in_name(byte));
    let (name, rest) = part.split_at(end.unwrap_or(part.len()));
    if name.is_empty() {
        let cause = "$ begins a name in a prefix, and none follows: leave it out";
        return Err(parser.lexer.wrong(token, cause));
    }
    *prefix += &parser.lexer.value_within(token, name)?;
    *prefix += rest;
    Ok(())
}

/// Replaces each $NAME in a prefix by its value, like nft: the name consists of letters, digits and `_`.
fn replace_names(parser: &mut Parser, token: &Token, text: &str) -> Result<String, Failure> {
    let mut parts = text.split('$');
    let mut prefix = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        append_part(parser, token, part, &mut prefix)?;
    }
    if prefix.len() >= NAME_BYTES {
        let cause = "longer than 127 bytes when $NAME is replaced";
        return Err(parser.lexer.wrong(token, cause));
    }
    Ok(prefix)
}

/// Parses the prefix of a log, and replaces each $NAME in it.
fn parse_prefix(parser: &mut Parser) -> Result<String, Failure> {
    let token = parser.lexer.peek(0);
    let text = parser.string()?;
    replace_names(parser, &token, &text)
}

/// Parses the part after `log`.
pub fn log(parser: &mut Parser) -> Result<Log, Failure> {
    let (mut prefix, mut level) = (None, None);
    loop {
        let token = parser.lexer.peek(0);
        if parser.lexer.is(&token, "prefix") && prefix.is_none() {
            parser.lexer.consume();
            prefix = Some(parse_prefix(parser)?);
        } else if parser.lexer.is(&token, "level") && level.is_none() {
            parser.lexer.consume();
            level = Some(parse_level(parser)?);
        } else if parser.lexer.is(&token, "prefix") || parser.lexer.is(&token, "level") {
            return Err(parser.lexer.wrong(&token, "given twice"));
        } else {
            refuse::check(&parser.lexer, Where::Log, &token)?;
            break;
        }
    }
    Ok(Log {
        prefix: prefix.unwrap_or_default(),
        level: level.unwrap_or(4),
    })
}
