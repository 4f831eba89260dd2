// SPDX-License-Identifier: GPL-2.0-or-later
//! Memory for packets in pages of a kind.

use std::io;
use std::ptr::null_mut;

use clap::ValueEnum;

/// The size of the huge pages that are asked for.
const HUGE: usize = 2 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    #[value(name = "4k")]
    Base,
    // Transparent huge pages, as far as the kernel has some.
    Thp,
    // The pool of huge pages (vm.nr_hugepages).
    Hugetlb,
}

impl Pages {
    /// So many huge pages hold these bytes.
    pub fn huge(bytes: usize) -> usize {
        bytes.div_ceil(HUGE)
    }
}

pub struct Memory {
    mapped: *mut u8,
    mapped_bytes: usize,
    /// Aligned to 2 MiB.
    start: *mut u8,
}

// SAFETY: the mapping belongs to this value alone and has no ties to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// So many bytes, all there from the start. ENOMEM with `Hugetlb`: the pool has too few pages.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<Memory> {
        let bytes = Pages::huge(bytes) * HUGE;
        let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapped_bytes = match pages {
            Pages::Hugetlb => {
                flags |= libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
                bytes
            }
            // Only so much may lie before the first multiple.
            Pages::Base | Pages::Thp => bytes + HUGE,
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of our own.
        let mapped = unsafe { libc::mmap(null_mut(), mapped_bytes, access, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped: *mut u8 = mapped.cast();
        let memory = Memory {
            mapped,
            mapped_bytes,
            // SAFETY: the mapping has so many bytes more than are used.
            start: unsafe { mapped.add(mapped.align_offset(HUGE)) },
        };
        let advice = match pages {
            Pages::Thp => libc::MADV_HUGEPAGE,
            _ => libc::MADV_NOHUGEPAGE,
        };
        // SAFETY: advice and bytes are for our own mapping; the kernel may refuse the advice, which changes no contents.
        unsafe {
            if pages != Pages::Hugetlb {
                libc::madvise(memory.start.cast(), bytes, advice);
            }
            memory.start.write_bytes(0, bytes);
        }
        Ok(memory)
    }

    pub fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.mapped.cast(), self.mapped_bytes) };
    }
}
