// SPDX-License-Identifier: GPL-2.0-or-later
//! Conversation memory of all slots: one mapping, whose pages are allocated only for slots that have had a
//! conversation.

use std::io;
use std::ptr::NonNull;

#[derive(Debug)]
pub struct Memory {
    at: NonNull<u8>,
    bytes: usize,
    input: usize,
    output: usize,
}

// SAFETY: this value alone owns the mapping, and it is not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps memory for `slots` conversations of `input` and `output` bytes each.
    pub fn new(slots: usize, input: usize, output: usize) -> io::Result<Memory> {
        let bytes = slots * (input + output);
        if bytes == 0 {
            return Ok(Memory {
                at: NonNull::dangling(),
                bytes,
                input,
                output,
            });
        }
        // SAFETY: a new private mapping without a file touches no other memory.
        let at = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0)
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(at) if at.as_ptr().cast() != libc::MAP_FAILED => Ok(Memory {
                at,
                bytes,
                input,
                output,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn slot(&self, slot: usize) -> *mut u8 {
        let from = slot * (self.input + self.output);
        assert!(from + self.input + self.output <= self.bytes);
        // SAFETY: the line above keeps it inside the mapping.
        unsafe { self.at.as_ptr().add(from) }
    }

    /// Returns the free part of a slot's input buffer: its address and its size in bytes.
    /// - filled: number of bytes at the start of the buffer that are in use.
    pub fn input(&self, slot: usize, filled: usize) -> (*mut u8, usize) {
        assert!(filled <= self.input);
        // SAFETY: within the slot's input, by the line above.
        (unsafe { self.slot(slot).add(filled) }, self.input - filled)
    }

    /// Returns the bytes `from..to` of a slot's output buffer: their address and number.
    pub fn output(&self, slot: usize, from: usize, to: usize) -> (*const u8, usize) {
        assert!(from <= to && to <= self.output);
        // SAFETY: within the slot's output, by the line above.
        (unsafe { self.slot(slot).add(self.input + from) }, to - from)
    }

    /// Returns a slot's input and output buffers.
    ///
    /// # Safety
    /// The kernel has no operation on the slot.
    pub unsafe fn both(&mut self, slot: usize) -> (&mut [u8], &mut [u8]) {
        if self.bytes == 0 {
            return (&mut [], &mut []);
        }
        let at = self.slot(slot);
        // SAFETY: two parts of the mapping that do not overlap; zeros or written bytes are valid; the mutable borrow of
        // self excludes other references, and the caller excludes the kernel.
        unsafe {
            (
                std::slice::from_raw_parts_mut(at, self.input),
                std::slice::from_raw_parts_mut(at.add(self.input), self.output),
            )
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes != 0 {
            // SAFETY: the mapping of `new`, which nothing uses any more.
            unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
        }
    }
}
