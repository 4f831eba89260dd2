// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures packets by AF_XDP (Documentation/networking/af_xdp.rst). An XDP program at the interface redirects packets to a
//! socket before the host sees them, and the kernel copies them to frames of this program's memory, which may have huge
//! pages. Two rings carry frame addresses: the RX ring the filled frames, the fill ring the free ones.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use libc::{
    sockaddr_xdp, xdp_desc, xdp_mmap_offsets, xdp_ring_offset, xdp_statistics, xdp_umem_reg,
};

use crate::link::{Interface, Link};
use crate::look::checked;
use crate::packet::{Origin, Packet};
use crate::pages::{Area, Memory, Pages};
use crate::socket::{self, Socket, Statistics};
use crate::source::{Ready, Source, WAIT};
use crate::xdp::Program;

/// Frame size: the kernel's maximum with pages of 4 KiB. The kernel leaves 256 bytes of a frame free
/// (XDP_PACKET_HEADROOM), and drops and counts packets that don't fit in the rest.
const FRAME_BYTES: usize = 4096;
const FEWEST_FRAMES: usize = 64;
const MOST_FRAMES: usize = 1 << 18;

/// A ring shared with the kernel: descriptors of received frames, or addresses of free frames.
struct Places<T> {
    mapped: *mut u8,
    bytes: usize,
    producer: *mut u32,
    consumer: *mut u32,
    entries: *mut T,
    count: u32,
}

pub struct Afxdp {
    // Declared first, so that the program is detached before the memory is unmapped.
    program: Program,
    filled: Places<xdp_desc>,
    free: Places<u64>,
    socket: OwnedFd,
    /// Packet socket for promiscuous mode, if requested, and for interface queries; it receives nothing.
    aside: Socket,
    memory: Memory,
    frames: usize,
    snap_bytes: usize,
    /// Totals at the last `statistics` call.
    told: Statistics,
}

// SAFETY: this value alone owns the mappings, and they are not bound to a thread.
unsafe impl Send for Afxdp {}

/// Returns the number of frames in a buffer: the largest power of two that fits, but from FEWEST_FRAMES to MOST_FRAMES.
fn frames(buffer_bytes: usize) -> usize {
    let count = (buffer_bytes / FRAME_BYTES).clamp(FEWEST_FRAMES, MOST_FRAMES);
    1 << count.ilog2()
}

fn set<T>(socket: RawFd, option: i32, value: &T) -> io::Result<()> {
    socket::set(socket, libc::SOL_XDP, option, value)
}

impl<T> Places<T> {
    /// Creates a ring of `count` entries for the socket and maps it.
    /// - option: socket option that creates the ring.
    /// - page: offset for mmap(2) that selects the ring.
    /// - offsets: returns the ring's offsets from those of all rings.
    fn new(
        socket: RawFd,
        option: i32,
        page: libc::off_t,
        count: usize,
        offsets: impl Fn(&xdp_mmap_offsets) -> xdp_ring_offset,
    ) -> io::Result<Places<T>> {
        set(socket, option, &(count as u32))?;
        // SAFETY: plain data for which every content is valid.
        let offsets = unsafe {
            let mut all: xdp_mmap_offsets = std::mem::zeroed();
            socket::get(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut all)?;
            offsets(&all)
        };
        let bytes = offsets.desc as usize + count * size_of::<T>();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a new shared mapping of the socket's ring, of the size that the kernel reported.
        let mapped = unsafe { libc::mmap(null_mut(), bytes, access, flags, socket, page) };
        if mapped == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapped: *mut u8 = mapped.cast();
        // SAFETY: the kernel reported these offsets of the mapping, which are aligned.
        unsafe {
            Ok(Places {
                mapped,
                bytes,
                producer: mapped.add(offsets.producer as usize).cast(),
                consumer: mapped.add(offsets.consumer as usize).cast(),
                entries: mapped.add(offsets.desc as usize).cast(),
                count: count as u32,
            })
        }
    }

    fn words(&self) -> (&AtomicU32, &AtomicU32) {
        // SAFETY: aligned words of the mapping that both sides access as a whole.
        unsafe {
            (
                AtomicU32::from_ptr(self.producer),
                AtomicU32::from_ptr(self.consumer),
            )
        }
    }

    /// Returns the number of entries that the producer has added and the consumer has not read.
    fn waiting(&self) -> u32 {
        let (producer, consumer) = self.words();
        let waiting = producer.load(Ordering::Acquire);
        waiting.wrapping_sub(consumer.load(Ordering::Relaxed))
    }

    /// Returns the entry with a running number; the number modulo `count` is its index.
    fn entry(&self, number: u32) -> *mut T {
        // SAFETY: the number of entries is a power of two, so the masked index lies inside the ring.
        unsafe { self.entries.add((number & (self.count - 1)) as usize) }
    }
}

impl<T> Drop for Places<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.mapped.cast(), self.bytes) };
    }
}

impl Afxdp {
    /// Returns the bytes that `new` needs for packets; [`Memory::new`] rounds them up to huge pages.
    pub fn memory_bytes(buffer_bytes: usize) -> usize {
        frames(buffer_bytes) * FRAME_BYTES
    }

    /// Redirects the packets of an interface's first queue from the host to a new socket, from now on.
    pub fn new(
        interface: &Interface,
        promiscuous: bool,
        buffer_bytes: usize,
        snap_bytes: usize,
        pages: Pages,
    ) -> io::Result<Afxdp> {
        let count = frames(buffer_bytes);
        let aside = Socket::new(Link::Ethernet)?;
        // SAFETY: socket(2) touches no memory; the descriptor is new and owned from here on.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_XDP, kind, 0))?)
        };
        let fd = socket.as_raw_fd();
        let memory = Memory::new(count * FRAME_BYTES, pages)?;
        let area = xdp_umem_reg {
            addr: memory.start() as u64,
            len: (count * FRAME_BYTES) as u64,
            chunk_size: FRAME_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set(fd, libc::XDP_UMEM_REG, &area)?;
        let page = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let free = Places::new(fd, libc::XDP_UMEM_FILL_RING, page, count, |all| all.fr)?;
        // This program sends nothing, but the kernel requires the ring.
        set(fd, libc::XDP_UMEM_COMPLETION_RING, &(FEWEST_FRAMES as u32))?;
        let page = libc::XDP_PGOFF_RX_RING;
        let filled = Places::new(fd, libc::XDP_RX_RING, page, count, |all| all.rx)?;
        let address = sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: libc::XDP_COPY,
            sxdp_ifindex: interface.index,
            sxdp_queue_id: 0,
            sxdp_shared_umem_fd: 0,
        };
        let length = size_of::<sockaddr_xdp>() as u32;
        // SAFETY: bind(2) reads the address by its length.
        checked(unsafe { libc::bind(fd, (&raw const address).cast(), length) })?;
        if promiscuous {
            aside.listen_to_all(interface.index)?;
        }
        let ring = Afxdp {
            program: Program::new(interface.index)?,
            filled,
            free,
            socket,
            aside,
            memory,
            frames: count,
            snap_bytes,
            told: Statistics::default(),
        };
        (0..count).for_each(|frame| ring.release((frame * FRAME_BYTES) as u64));
        ring.program.give(fd)?;
        Ok(ring)
    }

    /// Passes a free frame to the kernel: at the start, and after the frame's packet was read. The ring of free frames
    /// has room for all frames.
    /// - frame: offset of the frame in the memory.
    fn release(&self, frame: u64) {
        let producer = self.free.words().0;
        let number = producer.load(Ordering::Relaxed);
        // SAFETY: an entry of the ring that the kernel reads only after the producer index covers it.
        unsafe { self.free.entry(number).write(frame) };
        producer.store(number.wrapping_add(1), Ordering::Release);
    }
}

impl Source for Afxdp {
    fn ready(&mut self) -> io::Result<Ready> {
        if self.filled.waiting() == 0 {
            socket::wait(self.socket.as_raw_fd(), WAIT.as_millis() as i32)?;
        }
        if self.filled.waiting() == 0 {
            // poll(2) does not report an interface that has gone away.
            socket::noted(self.socket.as_raw_fd())?;
        }
        Ok(match self.filled.waiting() as usize {
            0 => Ready::Nothing,
            // The kernel drops packets only when the ring fills up, apart from packets that are too long.
            waiting => Ready::Packets {
                losing: waiting > self.frames / 2,
            },
        })
    }

    fn take(&mut self, mut each: impl FnMut(&Packet)) {
        // AF_XDP has no packet times, so the packets get the time of reading.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let time_ns = since.map_or(0, |since| since.as_nanos() as u64);
        let consumer = self.filled.words().1;
        for _ in 0..self.filled.waiting() {
            let number = consumer.load(Ordering::Relaxed);
            // SAFETY: the kernel has written the entry, and does not reuse it before the consumer index advances.
            let (at, length) = unsafe {
                let entry = self.filled.entry(number).read();
                (entry.addr as usize, entry.len as usize)
            };
            if at + length <= self.frames * FRAME_BYTES {
                // SAFETY: inside the memory, in a frame that the kernel does not use before `release`.
                let bytes = unsafe {
                    let start = self.memory.start().add(at);
                    std::slice::from_raw_parts(start, length.min(self.snap_bytes))
                };
                each(&Packet {
                    time_ns,
                    original: length as u32,
                    bytes,
                    tag: None,
                    origin: Origin::default(),
                    comment: "",
                });
            }
            consumer.store(number.wrapping_add(1), Ordering::Release);
            self.release((at & !(FRAME_BYTES - 1)) as u64);
        }
    }

    fn statistics(&mut self) -> io::Result<Statistics> {
        // SAFETY: plain data for which every content is valid.
        let counted = unsafe {
            let mut counted: xdp_statistics = std::mem::zeroed();
            let fd = self.socket.as_raw_fd();
            socket::get(fd, libc::SOL_XDP, libc::XDP_STATISTICS, &mut counted)?;
            counted
        };
        let all = Statistics {
            packets: self.program.given(),
            drops: counted.rx_dropped + counted.rx_ring_full,
        };
        let told = std::mem::replace(&mut self.told, all);
        Ok(Statistics {
            packets: all.packets - told.packets,
            drops: all.drops - told.drops,
        })
    }

    fn shut(&self) -> io::Result<()> {
        self.program.shut();
        Ok(())
    }

    fn memory(&self) -> Option<Area> {
        Some(self.memory.area())
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.aside)
    }
}
