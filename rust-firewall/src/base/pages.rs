// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory for tables that may be large and are read anywhere: of huge pages, if the kernel has some.
//!
//! A read of memory that is in no cache waits for the page tables, too, if there are more pages than the
//! processor keeps in mind; in a virtual machine these are two sets of page tables.
// seccomp: mmap munmap madvise

use std::ops::{Deref, DerefMut};

use memmap2::{Advice, MmapMut};

const PAGE_BYTES: usize = 4 << 10;
const HUGE_BYTES: usize = 2 << 20;

/// Memory, all zero at first; by default none.
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

/// Bytes that memory for so many has: whole pages.
pub fn round(bytes: usize) -> usize {
    let page = match bytes < HUGE_BYTES {
        true => PAGE_BYTES,
        false => HUGE_BYTES,
    };
    bytes.next_multiple_of(page)
}

/// Makes memory of so many bytes.
pub fn make(bytes: usize) -> Pages {
    let memory = MmapMut::map_anon(round(bytes)).expect("the kernel gives memory");
    // Without huge pages all is the same, but slower.
    if memory.len() >= HUGE_BYTES {
        let _ = memory.advise(Advice::HugePage);
    }
    Pages(Some(memory))
}

/// The word that begins at a byte; 0 if there is none.
pub fn word(memory: &[u8], at: usize) -> u64 {
    let bytes = memory.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

/// Sets the word that begins at a byte, if there is one.
pub fn set_word(memory: &mut [u8], at: usize, word: u64) {
    let bytes = memory.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    if let Some(bytes) = bytes {
        *bytes = word.to_ne_bytes();
    }
}
