// SPDX-License-Identifier: GPL-2.0-or-later
//! Parses one target. Every text is a target or an error that states what is expected.
//!
//!     10.0.0.1   10.0.0.0/24   10.0.0.1-20   10.0.0.1-10.0.1.9   fe80::1%eth0   fe80::/120%eth0   host.example

use std::net::IpAddr;

use super::{number, Family};

/// A parsed target. The scope is as written: the caller looks it up.
#[derive(Debug, PartialEq, Eq)]
pub enum Word<'a> {
    Range {
        family: Family,
        scope: Option<&'a str>,
        first: u128,
        last: u128,
    },
    /// A host name, to be resolved.
    Name(&'a str),
}

const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// Parses one word without blanks. The error contains neither the word nor its place, since the caller knows both.
pub fn parse(word: &str) -> Result<Word<'_>, String> {
    if word.is_empty() {
        return Err("a target is missing".into());
    }
    let (text, scope) = match word.split_once('%') {
        Some((_, "")) => return Err("the name of an interface is missing behind %".into()),
        Some((text, scope)) => (text, Some(scope)),
        None => (word, None),
    };
    let range = match text.split_once('/') {
        Some((address, length)) => Some(prefix(address, length)?),
        None => span(text)?,
    };
    let Some((family, first, last)) = range else {
        return match scope {
            Some(_) => Err("only IPv6 addresses have an interface".into()),
            None => name(text),
        };
    };
    if scope.is_some() && family == Family::V4 {
        return Err("only IPv6 addresses have an interface".into());
    }
    Ok(Word::Range {
        family,
        scope,
        first,
        last,
    })
}

type Bounds = (Family, u128, u128);

/// Returns the network that contains the address, like nmap: 10.0.0.5/24 is 10.0.0.0/24.
fn prefix(address: &str, length: &str) -> Result<Bounds, String> {
    let ip: IpAddr = address
        .parse()
        .map_err(|_| "an address is expected before /".to_string())?;
    let (family, value) = number(ip);
    let bits: u32 = if family == Family::V4 { 32 } else { 128 };
    let length = decimal(length)
        .filter(|&length| length <= bits)
        .ok_or(format!("a prefix length from 0 to {bits} is expected"))?;
    let hosts = u128::MAX.checked_shr(128 - bits + length).unwrap_or(0);
    Ok((family, value & !hosts, value | hosts))
}

/// Parses one address, or two with a dash; the second may be the last octet only. Returns None if the text looks like a
/// host name.
fn span(text: &str) -> Result<Option<Bounds>, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        let (family, value) = number(ip);
        return Ok(Some((family, value, value)));
    }
    let Some((from, to)) = text.split_once('-') else {
        return match text.contains(':') || all_numbers(text) {
            true => Err("it is no address".into()),
            false => Ok(None),
        };
    };
    let Ok(from) = from.parse::<IpAddr>() else {
        return match from.contains(':') || all_numbers(from) {
            true => Err("an address is expected before -".into()),
            false => Ok(None),
        };
    };
    let (family, first) = number(from);
    let last = match (to.parse::<IpAddr>(), decimal(to), family) {
        (Ok(to), ..) if number(to).0 == family => number(to).1,
        (Ok(_), ..) => return Err("both ends must be of one family".into()),
        (_, Some(octet @ 0..=255), Family::V4) => first & !0xff | u128::from(octet),
        _ => return Err("an address or a last octet is expected behind -".into()),
    };
    match first <= last {
        true => Ok(Some((family, first, last))),
        false => Err("it ends before it begins".into()),
    }
}

/// Returns true if the text has digits and dots only: meant as an address, never as a name.
fn all_numbers(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Parses a decimal number of digits only: `parse` alone would accept "+5".
fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn name(text: &str) -> Result<Word<'_>, String> {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= LONGEST_LABEL
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let labels = text.strip_suffix('.').unwrap_or(text);
    match text.len() <= LONGEST_NAME && labels.split('.').all(label) {
        true => Ok(Word::Name(text)),
        false => Err("neither an address nor the name of a host".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(word: &str) -> (u128, u128) {
        match parse(word).unwrap() {
            Word::Range { first, last, .. } => (first, last),
            Word::Name(name) => panic!("{name} is no range"),
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(range("10.0.0.5/24"), (0x0a00_0000, 0x0a00_00ff));
        assert_eq!(range("10.0.0.1"), (0x0a00_0001, 0x0a00_0001));
        assert_eq!(range("10.0.0.1-20"), (0x0a00_0001, 0x0a00_0014));
        assert_eq!(range("10.0.0.1-10.0.1.9"), (0x0a00_0001, 0x0a00_0109));
        assert_eq!(range("0.0.0.0/0"), (0, 0xffff_ffff));
        assert_eq!(range("::/0"), (0, u128::MAX));
        assert_eq!(range("::1/128"), (1, 1));
        assert_eq!(range("fe80::/120%eth0").1 & 0xff, 0xff);
    }

    #[test]
    fn names() {
        for name in ["host.example", "a", "host-1.example.", "1.example"] {
            assert_eq!(parse(name), Ok(Word::Name(name)));
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        for (word, wanted) in [
            ("", "a target is missing"),
            ("10.0.0.0/33", "a prefix length from 0 to 32"),
            ("::/129", "a prefix length from 0 to 128"),
            ("10.0.0.0/+8", "a prefix length"),
            ("10.0.0.0/", "a prefix length"),
            ("host/24", "an address is expected before /"),
            ("10.0.0", "it is no address"),
            ("1.2.3.999", "it is no address"),
            ("fe80::1%", "the name of an interface"),
            ("10.0.0.1%eth0", "only IPv6"),
            ("host%eth0", "only IPv6"),
            ("10.0.0.9-1", "it ends before"),
            ("10.0.0.9-::1", "one family"),
            ("10.0.0.9-256", "a last octet"),
            ("::1-5", "an address or"),
            ("10-a", "an address is expected before -"),
            ("-a", "neither"),
            ("a..b", "neither"),
            ("a b", "neither"),
            ("\u{e9}", "neither"),
        ] {
            let error = parse(word).expect_err(word);
            assert!(error.contains(wanted), "{word}: {error}");
        }
    }
}
