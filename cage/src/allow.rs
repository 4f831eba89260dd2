// SPDX-License-Identifier: GPL-2.0-or-later
//! A destination that the command may reach, as written after `--allow`: a name, or addresses, with an optional port.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;

const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Name or network of a peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Name in lower case; `*.example.org` is every name below `example.org`.
    Name(String),
    /// Network: address and prefix length.
    Net(IpAddr, u8),
}

/// Allowed destination. Without a port, a name is allowed over TLS, QUIC and HTTP at their usual ports, and an address
/// at all ports of TCP and UDP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allowed {
    pub host: Host,
    pub port: Option<u16>,
}

impl Display for Allowed {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Net(address @ IpAddr::V4(_), 32) => address.to_string(),
            Host::Net(IpAddr::V6(address), 128) => format!("[{address}]"),
            Host::Net(IpAddr::V6(address), bits) => format!("[{address}/{bits}]"),
            Host::Net(address, bits) => format!("{address}/{bits}"),
        };
        match self.port {
            Some(port) => write!(out, "{host}:{port}"),
            None => write!(out, "{host}"),
        }
    }
}

/// Parses an address with an optional prefix length.
fn net(text: &str) -> Option<Host> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some(Host::Net(address, bits))
}

fn is_label(label: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !label.is_empty() && label.len() <= LABEL_MAX && label.bytes().all(is_known)
}

fn name(text: &str) -> Option<Host> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let labels = text.strip_prefix("*.").unwrap_or(text);
    let is_name = text.len() <= NAME_MAX && labels.split('.').all(is_label);
    // An invalid address such as 10.0.0.256 is not a name.
    let is_number = labels
        .rsplit('.')
        .next()
        .is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()));
    (is_name && !is_number).then(|| Host::Name(text.to_ascii_lowercase()))
}

/// Splits host and port, which follows a colon; an IPv6 address with a port is in brackets.
fn split(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => port.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Some((host, Some(port.parse().ok()?))),
        _ => Some((text, None)),
    }
}

impl FromStr for Allowed {
    type Err = String;

    /// Parses `NAME[:PORT]` or `ADDRESS[/BITS][:PORT]`; a user before an `@`, as in ssh, is ignored.
    fn from_str(text: &str) -> Result<Allowed, String> {
        let rest = text.split_once('@').map_or(text, |(_, rest)| rest);
        let known = split(rest).filter(|(_, port)| *port != Some(0));
        let allowed = known.and_then(|(host, port)| {
            let host = net(host).or_else(|| name(host))?;
            Some(Allowed { host, port })
        });
        allowed.ok_or_else(|| {
            "expected a name (example.org, *.example.org), an address or a prefix, and perhaps :PORT; an address of \
             IPv6 with a port is in brackets"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match text.parse::<Allowed>() {
            Ok(allowed) => allowed.to_string(),
            Err(_) => "refused".to_owned(),
        }
    }

    #[test]
    fn names_and_addresses_are_read() {
        for (text, expected) in [
            ("Crates.IO", "crates.io"),
            ("*.crates.io", "*.crates.io"),
            ("example.org.", "example.org"),
            ("git@example.org:22", "example.org:22"),
            ("localserver", "localserver"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.0/24:5432", "192.0.2.0/24:5432"),
            ("2001:db8::1", "[2001:db8::1]"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
            ("2001:db8::/32", "[2001:db8::/32]"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_neither_is_refused() {
        for text in [
            "",
            "*",
            "*.",
            "a..b",
            "a b",
            "ex*ample.org",
            "http://example.org",
            "example.org/path",
            "example.org:0",
            "example.org:65536",
            "example.org:",
            "10.0.0.256",
            "10.0.0.0/33",
            "[2001:db8::1",
            "[::1]x",
            "a\"b",
            "a\nb",
            "1",
        ] {
            assert_eq!(shown(text), "refused", "{text:?}");
        }
    }
}
