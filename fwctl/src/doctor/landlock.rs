// SPDX-License-Identifier: GPL-2.0-or-later
//! Whether the kernel has Landlock.
#![allow(unsafe_code)]

/// LANDLOCK_CREATE_RULESET_VERSION (linux/landlock.h)
const VERSION: libc::c_uint = 1;

/// Its ABI version; none without it.
pub fn version() -> Option<i64> {
    // SAFETY: asked for the version, the kernel looks at no memory: the pointer is null, its size 0.
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
