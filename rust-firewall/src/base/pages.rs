// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory for large tables with random access: in huge pages, if the kernel has free ones.
//!
//! An access to memory that is in no cache also waits for the page tables, if the memory has more pages than the
//! processor's cache of page addresses (TLB) holds; in a virtual machine there are two levels of page tables.
// seccomp: mmap munmap madvise

use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

const PAGE_BYTES: usize = 4 << 10;
const HUGE_BYTES: usize = 2 << 20;

/// Memory of whole pages, zeroed when it is allocated. None: no memory (length 0).
#[derive(Debug, Default)]
pub struct Pages(Option<MmapMut>);

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().unwrap_or_default()
    }
}

impl Clone for Pages {
    fn clone(&self) -> Pages {
        let copy = |memory: &MmapMut| {
            let mut copied = make(memory.len());
            copied.copy_from_slice(memory);
            copied
        };
        self.0.as_ref().map(copy).unwrap_or_default()
    }
}

/// Returns the size of memory for this many bytes, rounded up to whole pages; from 2 MiB on, to whole huge pages.
pub fn round(bytes: usize) -> usize {
    let page = match bytes < HUGE_BYTES {
        true => PAGE_BYTES,
        false => HUGE_BYTES,
    };
    bytes.next_multiple_of(page)
}

/// Allocates zeroed memory for at least this many bytes. Panics if there is no memory.
pub fn make(bytes: usize) -> Pages {
    let memory = MmapMut::map_anon(round(bytes)).expect("the kernel gives memory");
    // An error is ignored: without huge pages the memory is only slower.
    if memory.len() >= HUGE_BYTES {
        let _ = memory.advise(Advice::HugePage);
    }
    Pages(Some(memory))
}

/// Returns the 64-bit word (in the processor's byte order) at a byte offset; 0 if the offset is out of range.
pub fn word(memory: &[u8], at: usize) -> u64 {
    let bytes = memory.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Sets the 64-bit word (in the processor's byte order) at a byte offset, if the offset is in range.
pub fn set_word(memory: &mut [u8], at: usize, word: u64) {
    let bytes = memory.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(bytes) = bytes {
        *bytes = word.to_ne_bytes();
    }
}
