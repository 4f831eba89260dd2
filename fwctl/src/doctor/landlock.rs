// SPDX-License-Identifier: GPL-2.0-or-later
//! Checks whether the kernel has Landlock.
#![allow(unsafe_code)]

/// Flag by which landlock_create_ruleset(2) only returns the ABI version: LANDLOCK_CREATE_RULESET_VERSION
/// (linux/landlock.h).
const VERSION: libc::c_uint = 1;

/// Returns Landlock's ABI version; None without Landlock.
pub fn version() -> Option<i64> {
    // SAFETY: for this flag the kernel reads no memory: the pointer is null, its size 0.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    (version > 0).then_some(version)
}
