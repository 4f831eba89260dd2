// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory whose end is followed by pages that can't be read (the guard). A parser that reads past its input into the
//! guard crashes, also in C code without a sanitizer.

use std::ptr;
use std::slice;

/// Number of bytes before the guard (pages that can't be read). Longer inputs are cut.
pub const CAPACITY: usize = 1 << 17;
/// Size of the pages that can't be read (the guard), in bytes; at least a page on every machine.
const GUARD_BYTES: usize = 1 << 16;

/// Memory followed by pages that can't be read (the guard). It is mapped as long as the process runs.
pub struct Guarded {
    start: *mut u8,
}

impl Guarded {
    /// Creates the mapping. Panics if there is no memory.
    pub fn new() -> Self {
        // SAFETY: a fresh anonymous mapping overlaps nothing.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                CAPACITY + GUARD_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED, "mmap");
        let start: *mut u8 = start.cast();
        // SAFETY: the range is the second part of the mapping above, nobody holds a reference to it.
        let status =
            unsafe { libc::mprotect(start.add(CAPACITY).cast(), GUARD_BYTES, libc::PROT_NONE) };
        assert_eq!(status, 0, "mprotect");
        Self { start }
    }

    /// Copies the input to the end of the memory, or up to `alignment - 1` bytes before it, so that the copy's start is
    /// a multiple of `alignment` (a power of two). Returns the copy.
    pub fn copy(&mut self, input: &[u8], alignment: usize) -> &[u8] {
        let bytes = input.len().min(CAPACITY);
        let offset = (CAPACITY - bytes) & !(alignment - 1);
        // SAFETY: offset + bytes <= CAPACITY, all of it mapped readable and writable; the input is
        // not part of the mapping, and the copy lives no longer than the borrow of self.
        unsafe {
            ptr::copy_nonoverlapping(input.as_ptr(), self.start.add(offset), bytes);
            slice::from_raw_parts(self.start.add(offset), bytes)
        }
    }
}

impl Default for Guarded {
    fn default() -> Self {
        Self::new()
    }
}
