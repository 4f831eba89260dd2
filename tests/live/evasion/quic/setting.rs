// SPDX-License-Identifier: GPL-2.0-or-later
//! IP version and server of QUIC clients, and the ways for each.

use super::over_ipv6::OVER_IPV6;
use super::packet::{DRAFT_29, DRAFT_34, VERSION_1, VERSION_2};
use super::versions::OF_TWO_VERSIONS;
use super::ways::{Way, WAYS};
use crate::evasion::wire::Version;
use crate::names::ends::Hello;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    QuinnV4,
    QuinnV6,
    /// Server aioquic over IPv4, which also supports QUIC version 2.
    AioquicV4,
}

use Setting::{AioquicV4, QuinnV4, QuinnV6};

/// Kind of a QUIC client's first bytes: versions and length of the ClientHello.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub what: &'static str,
    /// QUIC version of the first bytes.
    pub version: u32,
    /// Other version that the server also supports.
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
/// Number of kinds over IPv6: the drafts are omitted, because the bytes are the same as over IPv4.
const KINDS_OVER_IPV6: usize = 2;

impl Setting {
    /// Returns the IP version.
    pub fn version(self) -> Version {
        match self {
            QuinnV4 | AioquicV4 => Version::V4,
            QuinnV6 => Version::V6,
        }
    }

    pub fn kinds(self) -> &'static [Kind] {
        match self {
            QuinnV4 => OF_QUINN,
            QuinnV6 => &OF_QUINN[..KINDS_OVER_IPV6],
            AioquicV4 => OF_AIOQUIC,
        }
    }

    pub fn ways(self) -> impl Iterator<Item = &'static Way> {
        let own: &'static [Way] = match self {
            QuinnV4 => &[],
            QuinnV6 => OVER_IPV6,
            AioquicV4 => OF_TWO_VERSIONS,
        };
        WAYS.iter().chain(own)
    }
}
