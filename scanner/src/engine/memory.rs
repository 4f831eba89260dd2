// SPDX-License-Identifier: GPL-2.0-or-later
//! The memory of all slots' conversations: one mapping, which takes real pages only where a slot has been talking.

use std::io;
use std::ptr::NonNull;

#[derive(Debug)]
pub struct Memory {
    at: NonNull<u8>,
    bytes: usize,
    input: usize,
    output: usize,
}

// SAFETY: the mapping belongs to this value alone and has no ties to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Room for `slots` conversations of so many bytes each way.
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

    /// A slot's input from `filled` on: where to, and how many bytes.
    pub fn input(&self, slot: usize, filled: usize) -> (*mut u8, usize) {
        assert!(filled <= self.input);
        // SAFETY: within the slot's input, by the line above.
        (unsafe { self.slot(slot).add(filled) }, self.input - filled)
    }

    /// These bytes of a slot's output.
    pub fn output(&self, slot: usize, from: usize, to: usize) -> (*const u8, usize) {
        assert!(from <= to && to <= self.output);
        // SAFETY: within the slot's output, by the line above.
        (unsafe { self.slot(slot).add(self.input + from) }, to - from)
    }

    /// A slot's input and output.
    ///
    /// # Safety
    /// The kernel has no operation on the slot.
    pub unsafe fn both(&mut self, slot: usize) -> (&mut [u8], &mut [u8]) {
        if self.bytes == 0 {
            return (&mut [], &mut []);
        }
        let at = self.slot(slot);
        // SAFETY: two parts of the mapping that do not overlap; zeros or what was written are valid bytes; the mutable
        // borrow of self keeps others away, and the caller the kernel.
        unsafe {
            (
                std::slice::from_raw_parts_mut(at, self.input),
                std::slice::from_raw_parts_mut(at.add(self.input), self.output),
            )
        }
    }

    /// The whole mapping, for the kernel to pin.
    pub fn whole(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.at.as_ptr().cast(),
            iov_len: self.bytes,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.bytes != 0 {
            // SAFETY: the mapping of `new`, which nobody uses any more.
            unsafe { libc::munmap(self.at.as_ptr().cast(), self.bytes) };
        }
    }
}
