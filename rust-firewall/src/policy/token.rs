// SPDX-License-Identifier: GPL-2.0-or-later
//! Scanner: finds the token at the start of a text. The lexer handles places, files and $NAME. rules/policy/GRAMMAR.md,
//! "Text".

use crate::policy::{Place, NAME_BYTES};

/// Maximum number of bytes of a token that an error shows, before "...".
pub const QUOTE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// End of the text. Consuming it has no effect: it stays the next token.
    EndOfText,
    /// One or more line ends, with blanks and comments between them.
    LineEnd,
    Semicolon,
    /// A letter, _ or ., then letters, digits, _ - . / (so `mbytes/second` is one word, as in nft).
    Word,
    /// A word with a *: eth*
    Wildcard,
    /// Decimal or hexadecimal number, up to 2^64 - 1.
    Number(u64),
    /// Digits and dots, at least one dot; not checked further.
    Ipv4,
    /// Hexadecimal digits and at least two colons, perhaps with a dotted end; not checked further.
    Ipv6,
    /// Text in quotes; the token's text is the part between the quotes.
    String,
    Sign(Sign),
    /// Any other text, such as 80tcp, or é.
    Other,
    /// $NAME. `Lexer::peek` and `consume` return the tokens of its definition in its place.
    Variable,
    /// Invalid text. `Lexer::unexpected`, `refuse` and `wrong` report its error in place of their own.
    Bad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    BraceOpen,
    BraceClose,
    RoundOpen,
    RoundClose,
    Comma,
    Colon,
    Dot,
    Assign,
    /// ==
    Eq,
    /// !=
    Ne,
    Lt,
    Gt,
    /// <=
    Le,
    /// >=
    Ge,
    And,
    Or,
    Xor,
    Slash,
    Minus,
    Plus,
    At,
}

/// A token; `Lexer::text` returns its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub place: Place,
    /// Offset of the token's text in its file, in bytes.
    pub start: u32,
    /// Length of the token's text in bytes.
    pub length: u32,
}

/// Returns true if a word is reserved by the language (or by nft), so that it can't be a name.
pub fn is_reserved(text: &str) -> bool {
    RESERVED.binary_search(&text).is_ok()
}

/// Returns a text in quotes: at most QUOTE_BYTES of it, with unprintable characters, '"' and '\' as \xNN, and "..." if
/// the text was cut.
pub fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes().take(QUOTE_BYTES) {
        if !(b' '..=b'~').contains(&byte) || matches!(byte, b'"' | b'\\') {
            quoted.push_str(&format!("\\x{byte:02x}"));
        } else {
            quoted.push(char::from(byte));
        }
    }
    quoted.push_str(if text.len() > QUOTE_BYTES {
        "...\""
    } else {
        "\""
    });
    quoted
}

/// Reserved words, sorted by their bytes.
#[rustfmt::skip]
const RESERVED: [&str; 156] = [
    "accept", "add", "ah", "all", "and", "arp", "auto-merge", "bridge", "cgroup", "chain",
    "comment", "comp", "constant", "continue", "counter", "cpu", "create", "ct", "day", "dccp",
    "define", "delete", "describe", "destroy", "device", "devices", "dnat", "drop", "dst", "dup",
    "dynamic", "ecn", "element", "elements", "eq", "esp", "ether", "exists", "expires", "export",
    "exthdr", "fib", "flags", "flow", "flowtable", "flush", "frag", "fwd", "gc-interval", "ge",
    "get", "goto", "gt", "handle", "hbh", "hook", "hour", "ibriport", "ibrname", "icmp", "icmpv6",
    "igmp", "iif", "iifgroup", "iifname", "iiftype", "import", "include", "index", "inet", "insert",
    "interval", "ip", "ip6", "ipsec", "jhash", "jump", "le", "limit", "list", "ll", "log", "lshift",
    "lt", "map", "mark", "masquerade", "meta", "meter", "mh", "missing", "monitor", "ne", "netdev",
    "nftrace", "nh", "not", "notrack", "numgen", "obriport", "obrname", "offload", "oif",
    "oifgroup", "oifname", "oiftype", "or", "osf", "pkttype", "policy", "position", "priority",
    "queue", "quota", "random", "redefine", "redirect", "reject", "rename", "replace", "reset",
    "return", "rshift", "rt", "rt0", "rt2", "rtclassid", "rule", "ruleset", "sctp", "secmark",
    "set", "size", "skgid", "skuid", "snat", "socket", "srh", "symhash", "synproxy", "table", "tcp",
    "th", "time", "timeout", "tproxy", "type", "typeof", "udp", "udplite", "undefine", "update",
    "vlan", "vmap", "xor", "xt",
];

/// Token at the start of a text.
pub struct Scanned {
    pub kind: TokenKind,
    /// Length in bytes, with the quotes of a string.
    pub length: usize,
    /// Error of an invalid token.
    pub cause: Option<&'static str>,
}

/// Returns true if a byte is valid in a word after its first character.
fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/')
}

/// Returns the number of bytes at the start of a text for which `is` returns true.
fn run(text: &[u8], is: impl Fn(u8) -> bool) -> usize {
    text.iter()
        .position(|byte| !is(*byte))
        .unwrap_or(text.len())
}

fn scanned(kind: TokenKind, length: usize) -> Scanned {
    Scanned {
        kind,
        length,
        cause: None,
    }
}

fn scanned_wrong(length: usize, cause: &'static str) -> Scanned {
    Scanned {
        kind: TokenKind::Other,
        length,
        cause: Some(cause),
    }
}

/// Returns a token; a token with an error if it is longer than a name may be.
fn limited(kind: TokenKind, length: usize) -> Scanned {
    if length < NAME_BYTES {
        scanned(kind, length)
    } else {
        scanned_wrong(length, "longer than 127 bytes")
    }
}

fn scan_string(text: &[u8]) -> Scanned {
    let length = 1 + run(&text[1..], |byte| byte != b'"' && byte != b'\n');
    if text.get(length) != Some(&b'"') {
        return scanned_wrong(length, "no closing quote in this line");
    }
    let limited = limited(TokenKind::String, length - 1);
    Scanned {
        length: length + 1,
        ..limited
    }
}

fn scan_variable(text: &[u8]) -> Scanned {
    let length = run(&text[1..], in_word);
    if length > 0 && (text[1].is_ascii_alphabetic() || text[1] == b'_') {
        let limited = limited(TokenKind::Variable, length);
        Scanned {
            length: length + 1,
            ..limited
        }
    } else {
        scanned(TokenKind::Other, 1)
    }
}

fn scan_word(text: &[u8]) -> Scanned {
    let length = run(text, in_word);
    if text.get(length) == Some(&b'*') {
        limited(
            TokenKind::Wildcard,
            run(text, |byte| in_word(byte) || byte == b'*'),
        )
    } else {
        limited(TokenKind::Word, length)
    }
}

/// Returns the length of a text without the dots at its end.
fn without_dots(text: &[u8]) -> usize {
    let dots = text.iter().rev();
    text.len() - dots.take_while(|byte| **byte == b'.').count()
}

/// Returns true if the text after the last colon is a number of decimal digits.
fn ends_decimal(text: &[u8]) -> bool {
    let tail = text.rsplit(|byte| *byte == b':').next().unwrap_or(text);
    !tail.is_empty() && tail.iter().all(u8::is_ascii_digit)
}

/// Scans an IPv6 address: hexadecimal digits and colons, at least two colons, then perhaps a dotted end. A single colon
/// at the end does not belong to it: `::1: accept`. Returns None if the text does not begin with an address.
fn scan_ipv6(text: &[u8]) -> Option<Scanned> {
    let mut length = run(text, |byte| byte.is_ascii_hexdigit() || byte == b':');
    let run_text = &text[..length];
    if run_text.ends_with(b":::") || run_text.ends_with(b":") && !run_text.ends_with(b"::") {
        length -= 1;
    }
    if text[..length].iter().filter(|byte| **byte == b':').count() < 2 {
        return None;
    }
    if ends_decimal(&text[..length]) {
        length += run(&text[length..], |byte| {
            byte.is_ascii_digit() || byte == b'.'
        });
        length = without_dots(&text[..length]);
    }
    Some(limited(TokenKind::Ipv6, length))
}

fn scan_digits(text: &str, base: u32) -> Scanned {
    let (length, digits) = (text.len(), if base == 16 { &text[2..] } else { text });
    match u64::from_str_radix(digits, base) {
        Ok(number) => scanned(TokenKind::Number(number), length),
        Err(_) => scanned_wrong(length, "larger than 18446744073709551615"),
    }
}

/// Scans a number, an IPv4 address, or another text that begins with a digit.
fn scan_number(text: &[u8]) -> Scanned {
    let in_other = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let hexadecimal = text.len() > 2 && matches!(&text[..2], b"0x" | b"0X");
    let length = if hexadecimal {
        2 + run(&text[2..], |byte| byte.is_ascii_hexdigit())
    } else {
        let length = run(text, |byte| byte.is_ascii_digit() || byte == b'.');
        without_dots(&text[..length])
    };
    let whole = length + run(&text[length..], in_other);
    let digits = std::str::from_utf8(&text[..length]).expect("digits and dots");
    if whole > length || hexadecimal && length == 2 {
        limited(TokenKind::Other, whole)
    } else if hexadecimal {
        scan_digits(digits, 16)
    } else if digits.contains('.') {
        limited(TokenKind::Ipv4, length)
    } else if length > 1 && digits.starts_with('0') {
        scanned_wrong(
            length,
            "a leading zero, which nft reads as octal: leave it out",
        )
    } else {
        scan_digits(digits, 10)
    }
}

fn scanned_sign(sign: Sign, length: usize) -> Scanned {
    scanned(TokenKind::Sign(sign), length)
}

/// Scans a sign, or another single character.
fn scan_sign(text: &[u8]) -> Scanned {
    let two = match &text[..text.len().min(2)] {
        b"==" => Some(Sign::Eq),
        b"!=" => Some(Sign::Ne),
        b"<=" => Some(Sign::Le),
        b">=" => Some(Sign::Ge),
        _ => None,
    };
    if let Some(sign) = two {
        return scanned_sign(sign, 2);
    }
    let sign = match text[0] {
        b'{' => Sign::BraceOpen,
        b'}' => Sign::BraceClose,
        b'(' => Sign::RoundOpen,
        b')' => Sign::RoundClose,
        b',' => Sign::Comma,
        b':' => Sign::Colon,
        b'.' => Sign::Dot,
        b'=' => Sign::Assign,
        b'<' => Sign::Lt,
        b'>' => Sign::Gt,
        b'&' => Sign::And,
        b'|' => Sign::Or,
        b'^' => Sign::Xor,
        b'/' => Sign::Slash,
        b'-' => Sign::Minus,
        b'+' => Sign::Plus,
        b'@' => Sign::At,
        // Another character; if it is not ASCII, with its continuation bytes (UTF-8).
        _ => {
            return scanned(
                TokenKind::Other,
                1 + run(&text[1..], |byte| byte & 0xc0 == 0x80),
            )
        }
    };
    scanned_sign(sign, 1)
}

/// Returns the token at the start of a text. The text must not begin with blanks.
pub fn scan(text: &[u8]) -> Scanned {
    let Some(first) = text.first() else {
        return scanned(TokenKind::EndOfText, 0);
    };
    match first {
        b'\n' => scanned(TokenKind::LineEnd, 1),
        b';' => scanned(TokenKind::Semicolon, 1),
        b'"' => scan_string(text),
        b'$' => scan_variable(text),
        b'0'..=b'9' => scan_ipv6(text).unwrap_or_else(|| scan_number(text)),
        b'a'..=b'z' | b'A'..=b'Z' => scan_ipv6(text).unwrap_or_else(|| scan_word(text)),
        b':' => scan_ipv6(text).unwrap_or_else(|| scan_sign(text)),
        b'_' => scan_word(text),
        b'.' if text.get(1).is_some_and(|byte| in_word(*byte)) => scan_word(text),
        _ => scan_sign(text),
    }
}
