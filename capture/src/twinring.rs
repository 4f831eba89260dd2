// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures packets in blocks of the kernel module `twinring` (kernel/twinring/twinwall_ring.h). A `Policy` selects the
//! source of the blocks' memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};

use clap::ValueEnum;
use libc::sock_filter;

use crate::blocks::Blocks;
use crate::link::Link;
use crate::look::checked;
use crate::packet::Packet;
use crate::pages::{Area, Entries, Memory, Pages};
use crate::socket::{Socket, Statistics};
use crate::source::{Ready, Source, WAIT};

const DEVICE: &str = "/dev/twinring";
pub const BLOCK_BYTES: usize = 2 << 20;
pub const BLOCKS_MOST: usize = 256;
// Numbers that _IO, _IOW, _IOR and _IOWR compose of 0xd6 and an index (<asm-generic/ioctl.h>).
const SETUP: u64 = 1 << 30 | (size_of::<Setup>() as u64) << 16 | 0xd601;
pub(crate) const STATISTICS: u64 = 2 << 30 | (size_of::<Counts>() as u64) << 16 | 0xd602;
const CENSUS: u64 = 3 << 30 | (size_of::<Census>() as u64) << 16 | 0xd603;
pub(crate) const STOP: u64 = 0xd604;

/// Source of a ring's memory, numbered as enum twinwall_ring_policy of the kernel module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    // Pages as in a ring of AF_PACKET.
    RxRing,
    Gfpnoretry,
    Vzalloc,
    Gfpretry,
    Transhuge,
    Hugetlb,
    // Policies in addition to the published ones.
    Both,
    Dax,
    VmallocHuge,
}

/// Layout of struct twinwall_ring_setup (kernel/twinring/twinwall_ring.h).
#[repr(C)]
struct Setup {
    policy: u32,
    blocks: u32,
    interface: u32,
    snap_bytes: u32,
    timeout_ms: u32,
    steps: u32,
    filter: u64,
    address: u64,
}

/// Layout of struct twinwall_ring_statistics.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counts {
    packets: u64,
    drops: u64,
}

/// Layout of struct twinwall_ring_pages.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Counted {
    small: u64,
    huge: u64,
    giant: u64,
    /// Number of small pages that are not mapped.
    none: u64,
}

impl Counted {
    fn entries(&self) -> Entries {
        Entries {
            small: self.small,
            huge: self.huge,
            giant: self.giant,
        }
    }
}

/// Layout of struct twinwall_ring_census.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Census {
    address: u64,
    kernel: Counted,
    program: Counted,
}

/// Setup of a ring; `ring_bytes` is the size of its blocks in total.
pub struct Wanted<'a> {
    pub interface: u32,
    pub promiscuous: bool,
    pub filter: &'a [sock_filter],
    pub ring_bytes: usize,
    pub snap_bytes: usize,
    pub policy: Policy,
}

enum Held {
    /// Memory that the kernel module has allocated and this program has mapped.
    Mapped,
    /// Memory that this program has allocated and lent to the kernel module.
    #[allow(dead_code)] // It is there to be dropped.
    Lent(Memory),
}

pub struct Twinring {
    blocks: Blocks,
    device: File,
    memory: Held,
    /// Socket for interface queries, and for promiscuous mode if requested; it receives nothing.
    aside: Socket,
    told: Counts,
}

/// Returns the number of blocks for `ring_bytes`: at least 2, at most BLOCKS_MOST.
pub fn blocks(ring_bytes: usize) -> usize {
    (ring_bytes / BLOCK_BYTES).clamp(2, BLOCKS_MOST)
}

impl Policy {
    /// Returns the source of a ring's memory for a kind of pages.
    pub fn of(pages: Pages) -> Policy {
        match pages {
            Pages::Base => Policy::RxRing,
            Pages::Thp => Policy::Dax,
            Pages::Hugetlb => Policy::Both,
        }
    }

    /// Returns true if the program allocates the ring's memory and lends it to the kernel module; false if the module
    /// allocates it.
    pub fn is_lent(self) -> bool {
        matches!(self, Policy::Hugetlb | Policy::Both)
    }
}

impl Twinring {
    /// Receives the packets of an interface from now on. Fails with ENOENT if the module is not loaded.
    pub fn new(wanted: &Wanted) -> io::Result<Twinring> {
        let device = OpenOptions::new().read(true).write(true).open(DEVICE)?;
        let (fd, count) = (device.as_raw_fd(), blocks(wanted.ring_bytes));
        let bytes = count * BLOCK_BYTES;
        let lent = match wanted.policy.is_lent() {
            true => Some(Memory::new(bytes, Pages::Hugetlb)?),
            false => None,
        };
        let aside = Socket::new(Link::Ethernet)?;
        if wanted.promiscuous {
            aside.listen_to_all(wanted.interface)?;
        }
        let setup = Setup {
            policy: wanted.policy as u32,
            blocks: count as u32,
            interface: wanted.interface,
            snap_bytes: wanted.snap_bytes as u32,
            timeout_ms: WAIT.as_millis() as u32,
            steps: wanted.filter.len() as u32,
            filter: wanted.filter.as_ptr() as u64,
            address: lent.as_ref().map_or(0, |memory| memory.start() as u64),
        };
        // SAFETY: the call reads the setup and the filter, which outlive it.
        checked(unsafe { libc::ioctl(fd, SETUP as _, &raw const setup) })?;
        let (start, memory) = match lent {
            Some(memory) => (memory.start(), Held::Lent(memory)),
            None => (map(fd, bytes)?, Held::Mapped),
        };
        Ok(Twinring {
            // SAFETY: `count` blocks exist, and live as long as this value.
            blocks: unsafe { Blocks::new(start, BLOCK_BYTES, count) },
            device,
            memory,
            aside,
            told: Counts::default(),
        })
    }

    /// Waits for a filled block, at most WAIT. Fails with ENETDOWN if the interface is gone.
    fn wait(&self) -> io::Result<()> {
        let mut poll = libc::pollfd {
            fd: self.device.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: poll(2) reads and writes one pollfd, which outlives the call.
        let ready = unsafe { libc::poll(&mut poll, 1, WAIT.as_millis() as i32) };
        match checked(ready) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ if poll.revents & libc::POLLERR != 0 => {
                Err(io::Error::from_raw_os_error(libc::ENETDOWN))
            }
            _ => Ok(()),
        }
    }
}

fn map(device: RawFd, bytes: usize) -> io::Result<*mut u8> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new shared mapping of the blocks, of the size that was just asked for.
    let memory = unsafe {
        let at = std::ptr::null_mut();
        libc::mmap(at, bytes, access, libc::MAP_SHARED, device, 0)
    };
    match memory == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(memory.cast()),
    }
}

impl Source for Twinring {
    fn ready(&mut self) -> io::Result<Ready> {
        if let Some(ready) = self.blocks.filled() {
            return Ok(ready);
        }
        let waited = self.wait();
        match self.blocks.filled() {
            Some(ready) => Ok(ready),
            None => waited.map(|()| Ready::Nothing),
        }
    }

    fn take(&mut self, each: impl FnMut(&Packet)) {
        self.blocks.take(each);
    }

    fn statistics(&mut self) -> io::Result<Statistics> {
        let mut all = Counts::default();
        // SAFETY: the call writes one structure of plain numbers, which outlives it.
        checked(unsafe { libc::ioctl(self.device.as_raw_fd(), STATISTICS as _, &raw mut all) })?;
        let told = std::mem::replace(&mut self.told, all);
        Ok(Statistics {
            packets: all.packets - told.packets,
            drops: all.drops - told.drops,
        })
    }

    fn shut(&self) -> io::Result<()> {
        // SAFETY: the call takes no argument.
        checked(unsafe { libc::ioctl(self.device.as_raw_fd(), STOP as _) }).map(|_| ())
    }

    fn memory(&self) -> Option<Area> {
        Some(self.blocks.area())
    }

    fn census(&self) -> Option<io::Result<(Entries, Entries)>> {
        let mut census = Census {
            address: self.blocks.start() as u64,
            ..Census::default()
        };
        let fd = self.device.as_raw_fd();
        // SAFETY: the call reads and writes one structure of plain numbers, which outlives it.
        let counted = checked(unsafe { libc::ioctl(fd, CENSUS as _, &raw mut census) });
        Some(counted.map(|_| (census.kernel.entries(), census.program.entries())))
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.aside)
    }
}

impl Drop for Twinring {
    fn drop(&mut self) {
        if matches!(self.memory, Held::Mapped) {
            // SAFETY: the mapping of `new`, which nothing uses any more.
            unsafe { libc::munmap(self.blocks.start().cast(), self.blocks.bytes()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_numbered_as_in_the_module() {
        let header = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../kernel/twinring/twinwall_ring.h"
        );
        let text = std::fs::read_to_string(header).unwrap();
        let (_, list) = text.split_once("enum twinwall_ring_policy {").unwrap();
        let (list, _) = list.split_once("};").unwrap();
        let names = list.lines().filter_map(|line| {
            let name = line.trim().strip_prefix("TWINWALL_RING_")?;
            Some(name.split(',').next()?.to_lowercase().replace('_', "-"))
        });
        let names: Vec<String> = names.filter(|name| name != "policies").collect();
        let ours = Policy::value_variants().iter().map(|policy| {
            let value = policy.to_possible_value().unwrap();
            (*policy as usize, value.get_name().to_owned())
        });
        let ours: Vec<(usize, String)> = ours.collect();
        assert_eq!(ours, names.into_iter().enumerate().collect::<Vec<_>>());
    }
}
