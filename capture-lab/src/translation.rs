// SPDX-License-Identifier: GPL-2.0-or-later
//! A model of a data TLB, for machines whose processor counts no misses. It runs the packets' addresses, with the page
//! size that the census found, through two LRU levels. It ignores the program's other memory and other programs.

use std::collections::{BTreeMap, HashMap};

/// Sizes of the two levels of the TLB: numbers of translations that they hold for pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub first: usize,
    pub second: usize,
    /// True if the processor reported them; otherwise they are common values.
    pub known: bool,
}

const ASSUMED: Sizes = Sizes {
    first: 64,
    second: 2048,
    known: false,
};

impl Sizes {
    /// Returns the sizes of the TLB of this machine's processor; common values if the processor reports none.
    pub fn of_this() -> Sizes {
        cpuid().unwrap_or(ASSUMED)
    }
}

/// Registers of a result of CPUID's leaf 0x18, which describes one TLB.
#[cfg(target_arch = "x86_64")]
struct Translation {
    ebx: u32,
    ecx: u32,
    edx: u32,
}

#[cfg(target_arch = "x86_64")]
impl Translation {
    /// Returns the TLB's level and number of entries; None if the TLB is not for data, or not for pages of 4 KiB.
    fn level(&self) -> Option<(u32, usize)> {
        let (kind, level) = (self.edx & 0x1f, self.edx >> 5 & 7);
        let (ways, sets) = ((self.ebx >> 16) as usize, self.ecx as usize);
        // 1: data, 3: data and instructions, 4: loads.
        let is_data = matches!(kind, 1 | 3 | 4) && self.ebx & 1 != 0;
        is_data.then_some((level, ways * sets))
    }
}

/// Returns the TLB's sizes from Intel's CPUID leaf 0x18, otherwise from AMD's 0x80000005 and 0x80000006. None if the
/// processor does not report the sizes of both levels.
#[cfg(target_arch = "x86_64")]
fn cpuid() -> Option<Sizes> {
    use std::arch::x86_64::__cpuid_count;
    #[allow(unused_unsafe, reason = "newer compilers call it safe")]
    // SAFETY: every processor of this architecture has the instruction.
    let ask = |leaf: u32, part: u32| unsafe { __cpuid_count(leaf, part) };
    let mut levels = [0, 0];
    if ask(0, 0).eax >= 0x18 {
        for part in 0..=ask(0x18, 0).eax {
            let said = ask(0x18, part);
            let one = Translation {
                ebx: said.ebx,
                ecx: said.ecx,
                edx: said.edx,
            };
            if let Some((level @ 1..=2, entries)) = one.level() {
                let known = &mut levels[level as usize - 1];
                *known = entries.max(*known);
            }
        }
    }
    if levels[0] == 0 && ask(0x8000_0000, 0).eax >= 0x8000_0006 {
        levels[0] = (ask(0x8000_0005, 0).ebx >> 16 & 0xff) as usize;
        levels[1] = (ask(0x8000_0006, 0).ebx >> 16 & 0xfff) as usize;
    }
    let [first, second] = levels;
    (first > 0 && second > 0).then_some(Sizes {
        first,
        second,
        known: true,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid() -> Option<Sizes> {
    None
}

/// A TLB level that evicts the page with the oldest use: `used` has the last use by page, `order` the page by last use.
struct Level {
    entries: usize,
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl Level {
    fn new(entries: usize) -> Level {
        Level {
            entries,
            used: HashMap::new(),
            order: BTreeMap::new(),
            clock: 0,
        }
    }

    /// Records an access to a page. The level then holds the page, and drops the least recently used page if it is
    /// full. Returns true if it held the page before.
    fn touch(&mut self, page: u64) -> bool {
        self.clock += 1;
        let before = self.used.insert(page, self.clock);
        if let Some(time) = before {
            self.order.remove(&time);
        }
        self.order.insert(self.clock, page);
        if self.used.len() > self.entries {
            if let Some((_, oldest)) = self.order.pop_first() {
                self.used.remove(&oldest);
            }
        }
        before.is_some()
    }
}

pub struct Model {
    first: Level,
    second: Level,
    page_bytes: u64,
    pub packets: u64,
    /// Number of accesses to a page that missed the first level; the second level may have held the page.
    pub first_missed: u64,
    /// Number of accesses to a page that missed both levels.
    pub missed: u64,
}

impl Model {
    pub fn new(sizes: Sizes, page_bytes: u64) -> Model {
        Model {
            first: Level::new(sizes.first),
            second: Level::new(sizes.second),
            page_bytes,
            packets: 0,
            first_missed: 0,
            missed: 0,
        }
    }

    /// Models reading all bytes of a packet.
    /// - at: address of the packet, or its offset in the ring.
    pub fn packet(&mut self, at: u64, bytes: usize) {
        self.packets += 1;
        let last = at + (bytes.max(1) - 1) as u64;
        for page in at / self.page_bytes..=last / self.page_bytes {
            if !self.first.touch(page) {
                self.first_missed += 1;
                self.missed += u64::from(!self.second.touch(page));
            }
        }
    }

    /// Returns the average number of accesses per packet that missed both levels.
    pub fn misses_a_packet(&self) -> f64 {
        self.missed as f64 / self.packets.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        first: 2,
        second: 4,
        known: true,
    };

    #[test]
    fn what_was_used_longest_ago_is_forgotten() {
        let mut level = Level::new(2);
        let seen = [1, 2, 1, 3, 1, 2].map(|page| level.touch(page));
        assert_eq!(seen, [false, false, true, false, true, false]);
        assert_eq!((level.used.len(), level.order.len()), (2, 2));
    }

    /// A ring of 64 MiB has more small pages than the 2,048 entries of the second level, and fewer huge ones than the
    /// 64 of the first.
    #[test]
    fn a_ring_misses_once_a_page() {
        for (page, misses) in [(4096_u64, 0.275), (2 << 20, 0.00053)] {
            let sizes = Sizes {
                first: 64,
                second: 2048,
                known: true,
            };
            let mut model = Model::new(sizes, page);
            for round in 0..4 {
                for at in (0..(64 << 20) - 1200_u64).step_by(1200) {
                    model.packet(at, 1100);
                }
                // After the first round the TLB holds all huge pages, so there are no misses.
                let known = page > 4096 && round > 0;
                let wanted = if known { 0.0 } else { misses };
                let seen = model.misses_a_packet();
                assert!((seen - wanted).abs() < 0.1 * misses, "{page}: {seen}");
                (model.packets, model.missed) = (0, 0);
            }
        }
    }

    #[test]
    fn a_packet_touches_each_page_that_it_lies_on() {
        let mut model = Model::new(SIZES, 4096);
        model.packet(4000, 200);
        model.packet(4000, 96);
        assert_eq!((model.packets, model.first_missed, model.missed), (2, 2, 2));
        model.packet(3 * 4096, 0);
        assert_eq!(model.missed, 3);
    }

    #[test]
    fn the_processor_or_a_guess_has_two_levels() {
        let sizes = Sizes::of_this();
        assert!(sizes.first > 0 && sizes.second >= sizes.first, "{sizes:?}");
    }
}
