// SPDX-License-Identifier: GPL-2.0-or-later
//! IP version and server of QUIC clients, and the ways for each.

use std::net::IpAddr;

use super::again::AGAIN;
use super::over_ipv6::OVER_IPV6;
use super::packet::{DRAFT_29, DRAFT_34, VERSION_1, VERSION_2};
use super::versions::OF_TWO_VERSIONS;
use super::ways::{Way, WAYS};
use crate::evasion::net::{SERVER, SERVER_6};
use crate::evasion::wire::Version;
use crate::names::ends::Hello;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    QuinnV4,
    QuinnV6,
    /// Server aioquic over IPv4, which also supports QUIC version 2.
    AioquicV4,
    AioquicV6,
}

use Setting::{AioquicV4, AioquicV6, QuinnV4, QuinnV6};

/// Kind of a QUIC client's first bytes: versions and length of the ClientHello.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub what: &'static str,
    /// QUIC version of the first bytes.
    pub version: u32,
    /// Other version whose packets the server also accepts in the same connection; None with quinn.
    pub other_version: Option<u32>,
    pub hello: Hello,
}

const fn kind(what: &'static str, version: u32, hello: Hello) -> Kind {
    Kind {
        what,
        version,
        other_version: None,
        hello,
    }
}

const fn of_two(what: &'static str, versions: (u32, u32), hello: Hello) -> Kind {
    Kind {
        other_version: Some(versions.1),
        ..kind(what, versions.0, hello)
    }
}

const OF_QUINN: &[Kind] = &[
    kind("plain", VERSION_1, Hello::Plain),
    kind("long", VERSION_1, Hello::PostQuantum),
    kind("draft 29", DRAFT_29, Hello::Plain),
    kind("draft 34", DRAFT_34, Hello::Plain),
];
const OF_AIOQUIC: &[Kind] = &[
    of_two("version 2", (VERSION_2, VERSION_1), Hello::Plain),
    of_two(
        "version 2, long",
        (VERSION_2, VERSION_1),
        Hello::PostQuantum,
    ),
    of_two("version 1", (VERSION_1, VERSION_2), Hello::Plain),
];
/// Number of kinds in each list that are tested over IPv6: the first ones. The drafts of QUIC, and version 1 with
/// aioquic, are tested over IPv4 only, because their bytes are the same over IPv6.
const KINDS_OVER_IPV6: usize = 2;

impl Setting {
    /// Returns the IP version.
    pub fn version(self) -> Version {
        match self {
            QuinnV4 | AioquicV4 => Version::V4,
            QuinnV6 | AioquicV6 => Version::V6,
        }
    }

    /// Returns the server's address.
    pub fn server(self) -> IpAddr {
        match self.version() {
            Version::V4 => SERVER.into(),
            Version::V6 => SERVER_6.into(),
        }
    }

    /// Returns true if the server is aioquic.
    pub fn is_aioquic(self) -> bool {
        matches!(self, AioquicV4 | AioquicV6)
    }

    pub fn kinds(self) -> &'static [Kind] {
        match self {
            QuinnV4 => OF_QUINN,
            QuinnV6 => &OF_QUINN[..KINDS_OVER_IPV6],
            AioquicV4 => OF_AIOQUIC,
            AioquicV6 => &OF_AIOQUIC[..KINDS_OVER_IPV6],
        }
    }

    pub fn ways(self) -> impl Iterator<Item = &'static Way> {
        let of_version: &'static [Way] = match self.version() {
            Version::V4 => &[],
            Version::V6 => OVER_IPV6,
        };
        let of_server: [&'static [Way]; 2] = match self.is_aioquic() {
            true => [OF_TWO_VERSIONS, AGAIN],
            false => [&[]; 2],
        };
        let of_server = of_server.into_iter().flatten();
        WAYS.iter().chain(of_version).chain(of_server)
    }
}
