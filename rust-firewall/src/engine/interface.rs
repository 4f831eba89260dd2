// SPDX-License-Identifier: GPL-2.0-or-later
// seccomp: socket ioctl close
//! Network interfaces: index to name, cached for a second, and name to index.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use nix::net::if_::{if_indextoname, if_nametoindex};

/// Number of slots of the cache. Indexes that are equal modulo SLOTS use the same slot, and replace each other.
pub const SLOTS: usize = 64;
/// Age at which a cached name is read again, in nanoseconds.
pub const AGE_NS: u64 = 1_000_000_000;
/// Maximum size of an interface's name with its final NUL.
const NAME_BYTES: usize = libc::IF_NAMESIZE;

/// Function that reads the name of the interface with an index. Returns None if no interface has the index.
pub type InterfaceRead = fn(u32) -> Option<Vec<u8>>;

#[derive(Clone, Copy, Default)]
struct InterfaceSlot {
    /// Index of the interface; 0 = free slot.
    index: u32,
    read_ns: u64,
    name: u128,
}

/// Cache of interface names for one thread; empty at first.
pub struct Interfaces {
    read: InterfaceRead,
    slots: [InterfaceSlot; SLOTS],
}

/// Returns an empty cache.
/// - read: `system`, except in tests.
pub fn init(read: InterfaceRead) -> Interfaces {
    Interfaces {
        read,
        slots: [InterfaceSlot::default(); SLOTS],
    }
}

/// Returns the name of the interface with an index (if_indextoname); None if no interface has the index.
pub fn system(index: u32) -> Option<Vec<u8>> {
    let name = if_indextoname(index).ok()?.into_bytes();
    // nix 0.31 returns an empty name for an index without interface.
    (!name.is_empty()).then_some(name)
}

/// Returns the index of the interface with a name (if_nametoindex); 0 = there is none.
pub fn index(name: &[u8]) -> u32 {
    if_nametoindex(OsStr::from_bytes(name)).unwrap_or(0)
}

/// Returns a name as a value of `Type::Ifname`: its bytes, NUL-padded to 16, as a big-endian number.
pub fn value(name: &[u8]) -> u128 {
    let mut bytes = [0; NAME_BYTES];
    for (to, from) in bytes.iter_mut().zip(name) {
        *to = *from;
    }
    u128::from_be_bytes(bytes)
}

/// Returns the name of an interface as a value of `Type::Ifname`; 0 if there is none.
/// - index: 0 = none.
/// - now_ns: time by a monotonic clock.
pub fn name(interfaces: &mut Interfaces, index: u32, now_ns: u64) -> u128 {
    let Some(slot) = interfaces.slots.get_mut(index as usize % SLOTS) else {
        return 0; // not reached: the slot exists
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
