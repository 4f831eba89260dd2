// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket ioctl close
//! Network interfaces: index to name, kept for a second, and name to index.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use nix::net::if_::{if_indextoname, if_nametoindex};

/// Names kept; two indexes that share a slot push each other out.
pub const SLOTS: usize = 64;
/// A name is read again when it is older.
pub const AGE_NS: u64 = 1_000_000_000;
/// Bytes of a name with its final NUL.
const NAME_BYTES: usize = libc::IF_NAMESIZE;

/// Reads the name of an index.
pub type InterfaceRead = fn(u32) -> Option<Vec<u8>>;

#[derive(Clone, Copy, Default)]
struct InterfaceSlot {
    /// 0 = free.
    index: u32,
    read_ns: u64,
    name: u128,
}

/// The names that one thread knows; none at first.
pub struct Interfaces {
    read: InterfaceRead,
    slots: [InterfaceSlot; SLOTS],
}

/// Knows no name. read: `system`, but in tests.
pub fn init(read: InterfaceRead) -> Interfaces {
    Interfaces {
        read,
        slots: [InterfaceSlot::default(); SLOTS],
    }
}

/// Asks the system for the name of an index (if_indextoname).
pub fn system(index: u32) -> Option<Vec<u8>> {
    let name = if_indextoname(index).ok()?.into_bytes();
    // nix 0.31 takes the null of an index without interface for a success.
    (!name.is_empty()).then_some(name)
}

/// Asks the system for the index of a name, 0 if there is none.
pub fn index(name: &[u8]) -> u32 {
    if_nametoindex(OsStr::from_bytes(name)).unwrap_or(0)
}

/// The value of `Type::Ifname` that a name is: its bytes, NUL-padded to 16, as a big-endian number.
pub fn value(name: &[u8]) -> u128 {
    let mut bytes = [0; NAME_BYTES];
    for (to, from) in bytes.iter_mut().zip(name) {
        *to = *from;
    }
    u128::from_be_bytes(bytes)
}

/// The name of an interface as a value of `Type::Ifname`; 0 if there is none.
/// - index: 0 = none.
/// - now_ns: of a clock that doesn't go back.
pub fn name(interfaces: &mut Interfaces, index: u32, now_ns: u64) -> u128 {
    let Some(slot) = interfaces.slots.get_mut(index as usize % SLOTS) else {
        return 0; // can't be
    };
    if index == 0 {
        return 0;
    }
    if slot.index == index && now_ns.wrapping_sub(slot.read_ns) < AGE_NS {
        return slot.name;
    }
    *slot = InterfaceSlot {
        index,
        read_ns: now_ns,
        name: (interfaces.read)(index).map_or(0, |name| value(&name)),
    };
    slot.name
}
