// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line of `init`.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use cage::allow::{Allowed, Host};
use clap::Args;
use fleet::local::past::RECORD;

use crate::applied::arguments::{confirm_seconds, StatePlace};
use crate::paths::POLICY;

const ANY: &str = "any";

#[derive(Args, Clone)]
pub struct Init {
    /// The file of the policy
    #[arg(value_name = "POLICY", default_value = POLICY)]
    pub policy: PathBuf,
    /// Ports that are open from everywhere: 80, 443/udp, 8000-8100; separated by
    /// commas, or repeated
    #[arg(long, value_name = "PORT", value_delimiter = ',')]
    pub open: Vec<Ports>,
    /// Addresses and prefixes from which SSH is allowed, or any; separated by
    /// commas, or repeated (default: any)
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub ssh_from: Vec<Origin>,
    /// Destinations of this host: a name (example.org, *.example.org: TLS and
    /// QUIC at port 443, HTTP at 80), or an address or prefix, also with :PORT;
    /// separated by commas, or repeated (default: everything)
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = destination)]
    pub allow: Vec<Allowed>,
    /// Ask no questions: use the defaults for all options that are not given
    #[arg(long)]
    pub yes: bool,
    /// Print the policy; write and load nothing
    #[arg(long)]
    pub print: bool,
    /// Replace an existing policy; the old one is kept as POLICY.old
    #[arg(long)]
    pub force: bool,
    /// Seconds until the policy is reverted unless it is confirmed
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = confirm_seconds())]
    pub confirm: u32,
    /// Folder with the last minute's packets, which the unit twinwall-record
    /// keeps; the policy is tried on them
    #[arg(long, value_name = "FOLDER", default_value = RECORD)]
    pub record: PathBuf,
    #[command(flatten)]
    pub place: StatePlace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        })
    }
}

/// Range of TCP or UDP ports of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ports {
    pub protocol: Protocol,
    pub first: u16,
    pub last: u16,
}

impl Ports {
    pub fn one(protocol: Protocol, port: u16) -> Ports {
        Ports {
            protocol,
            first: port,
            last: port,
        }
    }

    /// Returns true if all ports of `other` are among these, with the same protocol.
    pub fn hold(&self, other: &Ports) -> bool {
        self.protocol == other.protocol && self.first <= other.first && other.last <= self.last
    }
}

/// Formats the ports without the protocol, as a policy has them: "8000-8100".
impl fmt::Display for Ports {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self.first == self.last {
            true => write!(out, "{}", self.first),
            false => write!(out, "{}-{}", self.first, self.last),
        }
    }
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        let (numbers, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        let protocol = match protocol {
            "tcp" => Some(Protocol::Tcp),
            "udp" => Some(Protocol::Udp),
            _ => None,
        };
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        let number = |text: &str| text.parse().ok().filter(|port: &u16| *port > 0);
        match (protocol, number(first), number(last)) {
            (Some(protocol), Some(first), Some(last)) if first <= last => Ok(Ports {
                protocol,
                first,
                last,
            }),
            _ => Err(
                "expected a port (80), a range (8000-8100), and perhaps /tcp or /udp".to_owned(),
            ),
        }
    }
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    pub address: IpAddr,
    pub bits: u8,
}

impl Prefix {
    pub fn holds(&self, address: &IpAddr) -> bool {
        let differs = |own: u128, other: u128, width: u8| {
            (own ^ other)
                .checked_shr(u32::from(width - self.bits))
                .unwrap_or(0)
                != 0
        };
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                !differs(own.to_bits().into(), other.to_bits().into(), 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => !differs(own.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let all = if self.address.is_ipv4() { 32 } else { 128 };
        match self.bits == all {
            true => write!(out, "{}", self.address),
            false => write!(out, "{}/{}", self.address, self.bits),
        }
    }
}

/// Addresses from which SSH is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Any,
    Prefix(Prefix),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        if text == ANY {
            return Ok(Origin::Any);
        }
        match text.parse() {
            Ok(Allowed {
                host: Host::Net(address, bits),
                port: None,
            }) => Ok(Origin::Prefix(Prefix { address, bits })),
            _ => {
                Err("expected an address (192.0.2.7), a prefix (2001:db8::/32), or any".to_owned())
            }
        }
    }
}

/// Parses a destination. Refuses a name with a port: names are only read at the ports of HTTP and HTTPS.
pub fn destination(text: &str) -> Result<Allowed, String> {
    let allowed: Allowed = text.parse()?;
    match (&allowed.host, allowed.port) {
        (Host::Name(_), Some(_)) => Err(
            "a name is read at the ports 80 and 443: leave the port out, or give an address with a port"
                .to_owned(),
        ),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read() {
        let shown = |text: &str| {
            let read: Result<Ports, _> = text.parse();
            read.map_or("refused".to_owned(), |ports| {
                format!("{} {ports}", ports.protocol)
            })
        };
        for (text, expected) in [
            ("80", "tcp 80"),
            ("443/udp", "udp 443"),
            ("8000-8100/tcp", "tcp 8000-8100"),
            ("0", "refused"),
            ("9-8", "refused"),
            ("80/sctp", "refused"),
            ("65536", "refused"),
            ("http", "refused"),
            ("", "refused"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn prefixes_hold_addresses_of_their_family() {
        let holds = |prefix: &str, address: &str| match prefix.parse() {
            Ok(Origin::Prefix(prefix)) => prefix.holds(&address.parse().unwrap()),
            _ => panic!("{prefix}"),
        };
        assert!(holds("192.0.2.7", "192.0.2.7"));
        assert!(!holds("192.0.2.7", "192.0.2.6"));
        assert!(holds("192.0.2.0/24", "192.0.2.255"));
        assert!(!holds("192.0.2.0/24", "192.0.3.0"));
        assert!(holds("0.0.0.0/0", "203.0.113.1"));
        assert!(holds("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!holds("::/0", "192.0.2.1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!("example.org".parse::<Origin>().is_err());
        assert!("192.0.2.1:22".parse::<Origin>().is_err());
        assert_eq!("any".parse(), Ok(Origin::Any));
    }

    #[test]
    fn a_name_has_no_port() {
        assert!(destination("*.example.org").is_ok());
        assert!(destination("192.0.2.1:25").is_ok());
        assert!(destination("example.org:22").is_err());
    }
}
