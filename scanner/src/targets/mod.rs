// SPDX-License-Identifier: GPL-2.0-or-later
//! Addresses to ask: the given targets, minus excluded and forbidden ones.

pub mod authorise;
pub mod grammar;
pub mod read;
pub mod set;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address to connect to; a link-local address also has an interface (`scope`, an index; 0 means none).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub ip: IpAddr,
    pub scope: u32,
}

/// Addresses of one family and one scope; both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub family: Family,
    pub scope: u32,
    pub first: u128,
    pub last: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Range {
    pub fn one(address: Address) -> Range {
        let (family, value) = number(address.ip);
        Range {
            family,
            scope: address.scope,
            first: value,
            last: value,
        }
    }

    pub fn address(&self, value: u128) -> Address {
        let ip = match self.family {
            Family::V4 => IpAddr::V4(Ipv4Addr::from_bits(value as u32)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(value)),
        };
        Address {
            ip,
            scope: self.scope,
        }
    }
}

pub fn number(ip: IpAddr) -> (Family, u128) {
    match ip {
        IpAddr::V4(ip) => (Family::V4, u128::from(ip.to_bits())),
        IpAddr::V6(ip) => (Family::V6, ip.to_bits()),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.ip)?;
        if self.scope != 0 {
            match interface_name(self.scope) {
                Some(name) => write!(f, "%{name}")?,
                None => write!(f, "%{}", self.scope)?,
            }
        }
        Ok(())
    }
}

/// Returns the index of an interface by its name, or a number as it is. None if there is no such name, or for 0.
pub fn interface_index(name: &str) -> Option<u32> {
    if let Ok(index) = name.parse::<u32>() {
        return (index != 0).then_some(index);
    }
    let name = std::ffi::CString::new(name).ok()?;
    // SAFETY: the name ends in a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => None,
        index => Some(index),
    }
}

fn interface_name(index: u32) -> Option<String> {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: if_indextoname writes at most IF_NAMESIZE bytes, the buffer's size, and ends them with a zero.
    let given = unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) };
    if given.is_null() {
        return None;
    }
    let end = name.iter().position(|&byte| byte == 0)?;
    String::from_utf8(name[..end].to_vec()).ok()
}
