// SPDX-License-Identifier: GPL-2.0-or-later
//! Counts the page-table entries of packet memory, on the program's side and, if the kernel reports them, on the
//! kernel's side.

use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;

use capture::backend::Kind;
use capture::pages::{thousands, Area, Entries, HUGE, SMALL};
use capture::source::Source;

/// The kernel's mapping of the packet memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Page-table entries, counted by the kernel module.
    Counted(Entries),
    /// A contiguous kernel mapping (vmalloc, vmap), always of small pages.
    Vmalloc(Entries),
    /// The kernel's direct map of all memory; the text lists the page sizes of the whole direct map.
    Direct(String),
    /// No mapping of its own: the kernel copies packets to the program's addresses.
    Program,
    Unknown(&'static str),
}

impl Kernel {
    /// Returns the kernel's page-table entries for `bytes` of packet memory, or None if they are unknown. The kernel
    /// does not report the direct map's page sizes for an address range; 2 MiB, the size of most pages, is assumed.
    /// - program: page-table entries of the program, which the kernel uses, too, in the case `Program`.
    pub fn entries(&self, bytes: usize, program: Entries) -> Option<Entries> {
        match self {
            Kernel::Counted(entries) | Kernel::Vmalloc(entries) => Some(*entries),
            Kernel::Direct(_) => Some(Entries {
                huge: (bytes as u64).div_ceil(HUGE),
                ..Entries::default()
            }),
            Kernel::Program => Some(program),
            Kernel::Unknown(_) => None,
        }
    }
}

/// Numbers of the program's page-table entries for a ring's memory, and the kernel's mapping of this memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    pub program: Entries,
    pub kernel: Kernel,
}

/// Counts the page-table entries of a ring on both sides. All pages of the ring's memory must be mapped.
/// - before: result of `vmalloc` before the ring was opened.
pub fn sides(
    ring: &impl Source,
    memory: Area,
    kind: Kind,
    before: Option<u64>,
) -> io::Result<Sides> {
    let Some(counted) = ring.census() else {
        return Ok(Sides {
            program: program(memory.start, memory.bytes)?,
            kernel: kernel(kind, before, vmalloc(kind)),
        });
    };
    let (kernel, program) = counted?;
    Ok(Sides {
        program,
        kernel: Kernel::Counted(kernel),
    })
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Kernel::Counted(entries) => entries.fmt(f),
            Kernel::Vmalloc(entries) => write!(f, "{entries} (vmalloc)"),
            Kernel::Direct(pages) => {
                write!(f, "in the direct map, which has {pages} on this machine")
            }
            Kernel::Program => f.write_str("the program's entries: it copies through them"),
            Kernel::Unknown(why) => write!(f, "not known: {why}"),
        }
    }
}

/// Parses a line `Name:   12 kB` of a file of /proc; returns bytes.
fn bytes_of(line: &str, name: &str) -> Option<u64> {
    let rest = line.strip_prefix(name)?.strip_prefix(':')?;
    let kilobytes = rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(kilobytes << 10)
}

/// Returns the address range of a mapping if `line` is the first line of a mapping in /proc/PID/smaps, otherwise None.
fn addresses(line: &str) -> Option<Range<u64>> {
    let (range, _) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// Counts the page-table entries of the mappings that lie within a range, from the text of /proc/PID/smaps.
fn mapped(smaps: &str, range: &Range<u64>) -> Entries {
    let mut all = Entries::default();
    let (mut inside, mut page) = (false, SMALL);
    for line in smaps.lines() {
        if let Some(mapping) = addresses(line) {
            inside = range.start <= mapping.start && mapping.end <= range.end;
        }
        if !inside {
            continue;
        }
        if let Some(bytes) = bytes_of(line, "KernelPageSize") {
            page = bytes;
        } else if let Some(bytes) = bytes_of(line, "Rss") {
            all.small += bytes / SMALL;
        } else if let Some(bytes) = bytes_of(line, "AnonHugePages") {
            let huge = bytes / HUGE;
            all.huge += huge;
            all.small -= huge * (HUGE / SMALL);
        } else if let Some(bytes) = bytes_of(line, "Private_Hugetlb") {
            // Rss does not include hugetlb pages.
            all.huge += bytes / page.max(HUGE);
        }
    }
    all
}

/// Counts the program's page-table entries for a range of its own memory.
pub fn program(start: usize, bytes: usize) -> io::Result<Entries> {
    let start = start as u64;
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    Ok(mapped(&smaps, &(start..start + bytes as u64)))
}

/// Returns the number of bytes that the kernel functions of a backend have mapped for all programs (vmalloc, vmap).
/// Returns None if /proc/vmallocinfo is not readable.
pub fn vmalloc(kind: Kind) -> Option<u64> {
    let text = fs::read_to_string("/proc/vmallocinfo").ok()?;
    Some(vmalloc_of(&text, kind))
}

/// Sums the sizes, without guard pages, of the lines of /proc/vmallocinfo whose caller is a kernel function of the
/// backend. Fields of a line: addresses, bytes including a guard page, caller.
fn vmalloc_of(text: &str, kind: Kind) -> u64 {
    let callers: &[&str] = match kind {
        Kind::Tpacket3 => &["pg_vec", "packet_set_ring"],
        Kind::Afxdp => &["xdp_umem", "xp_"],
        _ => &[],
    };
    let ours = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let bytes: u64 = words.next()?.parse().ok()?;
        let who = words.next()?;
        callers
            .iter()
            .any(|caller| who.contains(caller))
            .then(|| bytes - SMALL)
    });
    ours.sum()
}

/// Lists the memory in the kernel's direct map by page size, from the text of /proc/meminfo: "8,148 MiB in 2M, 43 MiB
/// in 4K".
fn direct_map(meminfo: &str) -> String {
    let sizes = [
        ("DirectMap1G", "1G"),
        ("DirectMap2M", "2M"),
        ("DirectMap4k", "4K"),
    ];
    let told = sizes.iter().filter_map(|(name, size)| {
        let bytes = meminfo.lines().find_map(|line| bytes_of(line, name))?;
        (bytes > 0).then(|| format!("{} MiB in {size}", thousands(bytes >> 20)))
    });
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => "pages that it does not tell".to_owned(),
        false => told.join(", "),
    }
}

/// Returns the kernel's mapping of the packet memory of a backend that doesn't count page-table entries itself.
/// - before: result of `vmalloc` before the ring was opened.
/// - after: result of `vmalloc` after the ring was opened.
pub fn kernel(kind: Kind, before: Option<u64>, after: Option<u64>) -> Kernel {
    match (kind, before, after) {
        (Kind::Recvmmsg | Kind::IoUring, ..) => Kernel::Program,
        (_, Some(before), Some(after)) if after > before => Kernel::Vmalloc(Entries {
            small: (after - before) / SMALL,
            ..Entries::default()
        }),
        (Kind::Tpacket3, Some(_), Some(_)) => Kernel::Direct(direct_map(
            &fs::read_to_string("/proc/meminfo").unwrap_or_default(),
        )),
        (_, None, _) | (_, _, None) => Kernel::Unknown("/proc/vmallocinfo is root's"),
        _ => Kernel::Unknown("the kernel tells nothing of it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0 [heap]
Size:               4096 kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:                4096 kB
AnonHugePages:      2048 kB
Private_Hugetlb:       0 kB
VmFlags: rd wr hg
7f0000400000-7f0000c00000 rw-p 00000000 00:0f 1 /anon_hugepage (deleted)
KernelPageSize:     2048 kB
Rss:                   0 kB
AnonHugePages:         0 kB
Private_Hugetlb:    8192 kB
7f0000c00000-7f0000c01000 rw-p 00000000 00:00 0
KernelPageSize:        4 kB
Rss:                   4 kB
AnonHugePages:         0 kB
";

    #[test]
    fn entries_are_those_of_the_range() {
        let of = |start, end| mapped(SMAPS, &(start..end)).to_string();
        assert_eq!(of(0x7f00_0000_0000, 0x7f00_0040_0000), "1 x 2M, 512 x 4K");
        assert_eq!(of(0x7f00_0040_0000, 0x7f00_00c0_0000), "4 x 2M");
        assert_eq!(of(0x7f00_00c0_0000, 0x7f00_00c0_1000), "1 x 4K");
        assert_eq!(of(0, 0x1000), "none");
    }

    #[test]
    fn what_the_kernel_maps_for_a_ring_is_found_by_who_asked() {
        let text = "\
0x00000000a-0x00000000b 1052672 alloc_one_pg_vec_page+0x59/0xb0 pages=256 vmalloc N0=256
0x00000000a-0x00000000b 1052672 packet_set_ring+0x59/0xb0 pages=256 vmalloc
0x00000000a-0x00000000b   20480 kernel_clone+0x94/0x3e0 pages=4 vmalloc N0=4
0x00000000a-0x00000000b 2101248 xdp_umem_create+0x59/0xb0 pages=512 vmap
";
        assert_eq!(vmalloc_of(text, Kind::Tpacket3), 2 << 20);
        assert_eq!(vmalloc_of(text, Kind::Afxdp), 2 << 20);
        let side = kernel(Kind::Tpacket3, Some(0), Some(2 << 20));
        assert_eq!(side.to_string(), "512 x 4K (vmalloc)");
        assert_eq!(
            side.entries(2 << 20, Entries::default())
                .map(|all| all.small),
            Some(512)
        );
    }

    #[test]
    fn the_direct_map_is_told_by_its_pages() {
        let text = "MemTotal: 1 kB\nDirectMap4k:      44032 kB\nDirectMap2M:     8343552 kB\n";
        assert_eq!(direct_map(text), "8,148 MiB in 2M, 43 MiB in 4K");
        let side = Kernel::Direct(direct_map(text));
        let entries = side.entries(32 << 20, Entries::default());
        assert_eq!(entries.map(|all| all.to_string()), Some("16 x 2M".into()));
    }
}
