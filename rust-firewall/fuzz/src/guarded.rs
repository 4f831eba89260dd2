// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory whose end is followed by a page that can't be read: a parser that reads past its input
//! dies on the spot, also where it is C code that no sanitizer watches.

use std::ptr;
use std::slice;

/// Bytes in front of the guard. Inputs are cut to this.
pub const CAPACITY: usize = 1 << 17;
/// The size of the guard; at least a page on every machine.
const GUARD_BYTES: usize = 1 << 16;

/// A mapping that lasts as long as the process.
pub struct Guarded {
    start: *mut u8,
}

impl Guarded {
    /// Panics if the kernel gives no memory.
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

    /// A copy of the input whose end is the guard, or up to `alignment - 1` bytes before it so that
    /// its start is a multiple of `alignment` (a power of two).
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
