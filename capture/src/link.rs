// SPDX-License-Identifier: GPL-2.0-or-later
//! Link types: the header with which an interface's packets begin, and its numbers in pcapng and libpcap.

use std::ffi::CString;
use std::io;

use crate::failure::{Failure, Result};
use crate::look;

/// Name of the pseudo-interface of `-i any`.
pub const ANY: &str = "any";
/// libpcap's link type of raw IP on Linux (<pcap/dlt.h>).
const DLT_RAW: i32 = 12;
/// Hardware type of interfaces with raw IP, such as modems (<linux/if_arp.h>).
const ARPHRD_RAWIP: u16 = 519;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Ethernet,
    /// Packets begin with the IP header.
    Raw,
    /// Packets come without their link-layer header; a "Linux cooked" version 2 header replaces it.
    Cooked,
}

impl Link {
    /// Returns the link of a hardware type, an ARPHRD_* value (<net/if_arp.h>): `Cooked` for all types but Ethernet,
    /// loopback and raw IP.
    pub fn of(hardware: u16) -> Link {
        match hardware {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Link::Ethernet,
            libc::ARPHRD_NONE | ARPHRD_RAWIP => Link::Raw,
            _ => Link::Cooked,
        }
    }

    /// Returns the link type in files (LINKTYPE_*).
    pub fn number(self) -> u16 {
        match self {
            Link::Ethernet => 1,
            Link::Raw => 101,
            Link::Cooked => 276,
        }
    }

    /// Returns the link type in libpcap's calls (DLT_*), which differs for raw IP.
    pub fn libpcap(self) -> i32 {
        match self {
            Link::Raw => DLT_RAW,
            other => i32::from(other.number()),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Link::Ethernet => "Ethernet",
            Link::Raw => "raw IP",
            Link::Cooked => "Linux cooked v2",
        }
    }
}

/// An interface as found at the start.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    /// Interface index; 0: all interfaces, or an nflog group.
    pub index: u32,
    pub link: Link,
    pub is_loopback: bool,
    pub is_up: bool,
}

/// Finds an interface of this network namespace by its name; "any" stands for all interfaces. An unknown name is a
/// usage error.
pub fn find(name: &str) -> Result<Interface> {
    if name == ANY {
        return Ok(Interface {
            name: name.to_owned(),
            index: 0,
            link: Link::Cooked,
            is_loopback: false,
            is_up: true,
        });
    }
    let looked = CString::new(name)
        .map_err(io::Error::from)
        .and_then(|name| look::look_up(&name));
    let seen = looked.map_err(|error| match error.raw_os_error() {
        Some(libc::ENODEV) | None => {
            Failure::usage(format!("-i {name}: no such interface: ip link"))
        }
        _ => Failure::system(&format!("-i {name}"), &error),
    })?;
    Ok(Interface {
        name: name.to_owned(),
        index: seen.index,
        link: Link::of(seen.hardware),
        is_loopback: seen.hardware == libc::ARPHRD_LOOPBACK,
        is_up: seen.is_up,
    })
}
