// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet memory in pages of a chosen kind, and its page-table entries.

use std::fmt;
use std::io;
use std::ptr::null_mut;

use clap::ValueEnum;

/// Numbers of page-table entries, by page size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entries {
    pub small: u64,
    /// Entries for pages of 2 MiB.
    pub huge: u64,
    /// Entries for pages of 1 GiB.
    pub giant: u64,
}

impl Entries {
    pub fn count(&self) -> u64 {
        self.small + self.huge + self.giant
    }

    /// Returns the smallest page size that has page-table entries, in bytes; SMALL if there are no entries.
    pub fn least_bytes(&self) -> u64 {
        match self {
            Entries {
                small: 0,
                huge: 0,
                giant: 1..,
            } => GIANT,
            Entries {
                small: 0,
                huge: 1..,
                ..
            } => HUGE,
            _ => SMALL,
        }
    }
}

pub const SMALL: u64 = 4 << 10;
/// Size of the huge pages that are requested.
pub const HUGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;

/// Formats a number with thousands separators.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let places = digits.char_indices().map(|(at, digit)| match at {
        0 => digit.to_string(),
        at if at % 3 == lead => format!(",{digit}"),
        _ => digit.to_string(),
    });
    places.collect()
}

impl fmt::Display for Entries {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let kinds = [(self.giant, "1G"), (self.huge, "2M"), (self.small, "4K")];
        let told = kinds.iter().filter(|(count, _)| *count > 0);
        let told: Vec<String> = told
            .map(|(count, size)| format!("{} x {size}", thousands(*count)))
            .collect();
        match told.as_slice() {
            [] => f.write_str("none"),
            some => f.write_str(&some.join(", ")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    #[value(name = "4k")]
    Base,
    // Transparent huge pages, if the kernel has some.
    Thp,
    // Pages of the huge-page pool (vm.nr_hugepages).
    Hugetlb,
}

impl Pages {
    /// Returns the number of huge pages for `bytes`.
    pub fn huge(bytes: usize) -> usize {
        bytes.div_ceil(HUGE as usize)
    }
}

/// A range of the program's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    pub start: usize,
    pub bytes: usize,
}

impl Area {
    /// Reads a byte of each page, so that all pages are mapped.
    ///
    /// # Safety
    /// The source that reported the area still exists.
    pub unsafe fn touch(&self) {
        const PAGE: usize = 4096;
        for at in (self.start..self.start + self.bytes).step_by(PAGE) {
            // SAFETY: it lies inside the memory; the value, which the kernel may change meanwhile, is not used.
            std::hint::black_box(unsafe { std::ptr::read_volatile(at as *const u8) });
        }
    }
}

pub struct Memory {
    mapped: *mut u8,
    mapped_bytes: usize,
    /// Start of the memory, aligned to 2 MiB.
    start: *mut u8,
    bytes: usize,
}

// SAFETY: this value alone owns the mapping, and it is not bound to a thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Maps and zeroes memory of at least `bytes`, rounded up to huge pages. With `Hugetlb` it fails with ENOMEM if the
    /// pool has too few pages.
    pub fn new(bytes: usize, pages: Pages) -> io::Result<Memory> {
        let bytes = Pages::huge(bytes) * HUGE as usize;
        let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let mapped_bytes = match pages {
            Pages::Hugetlb => {
                flags |= libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
                bytes
            }
            // The alignment to 2 MiB skips at most this much.
            Pages::Base | Pages::Thp => bytes + HUGE as usize,
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
            // SAFETY: the mapping is larger than `bytes` by the alignment's maximum.
            start: unsafe { mapped.add(mapped.align_offset(HUGE as usize)) },
            bytes,
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

    pub fn area(&self) -> Area {
        Area {
            start: self.start as usize,
            bytes: self.bytes,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.mapped.cast(), self.mapped_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_commas() {
        let told = [0, 16, 512, 8192, 12_345_678].map(thousands);
        assert_eq!(told, ["0", "16", "512", "8,192", "12,345,678"]);
    }

    #[test]
    fn the_smallest_pages_count() {
        let of = |small, huge, giant| {
            let entries = Entries { small, huge, giant };
            (entries.count(), entries.least_bytes())
        };
        assert_eq!(of(8192, 0, 0), (8192, SMALL));
        assert_eq!(of(512, 15, 0), (527, SMALL));
        assert_eq!(of(0, 16, 1), (17, HUGE));
        assert_eq!(of(0, 0, 1), (1, GIANT));
        assert_eq!(of(0, 0, 0), (0, SMALL));
    }
}
