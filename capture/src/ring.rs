// SPDX-License-Identifier: GPL-2.0-or-later
//! A TPACKET_V3 ring (packet(7), Documentation/networking/packet_mmap.rst): the kernel fills blocks of a shared mapping,
//! and what finds no room is counted.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{tpacket3_hdr, tpacket_block_desc};

use crate::packet::{self, Origin, Packet};
use crate::socket::Socket;
use crate::source::{Ready, Source, WAIT};

/// Of the address behind a packet's header: TPACKET_ALIGN(sizeof(struct tpacket3_hdr)).
const ADDRESS_AT: usize = size_of::<tpacket3_hdr>().next_multiple_of(16);
/// The kernel only checks it: version 3 puts packets one after the other.
const FRAME_BYTES: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// A multiple of the page size.
    pub block_bytes: usize,
    pub blocks: usize,
    /// A block that is not full is given after so long.
    pub timeout_ms: u32,
}

impl Shape {
    pub const BLOCK_BYTES: usize = 1 << 20;

    /// As many blocks as go into so many bytes, two at least.
    pub fn of(bytes: u64) -> Shape {
        Shape {
            block_bytes: Shape::BLOCK_BYTES,
            blocks: (bytes as usize / Shape::BLOCK_BYTES).max(2),
            timeout_ms: WAIT.as_millis() as u32,
        }
    }

    pub fn bytes(&self) -> usize {
        self.block_bytes * self.blocks
    }
}

pub struct Ring {
    socket: Socket,
    memory: *mut u8,
    shape: Shape,
    next: usize,
}

// SAFETY: the mapping belongs to this value alone and has no ties to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives a socket a ring; to be done before it is bound.
    pub fn new(socket: Socket, shape: Shape) -> io::Result<Ring> {
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: shape.block_bytes as u32,
            tp_block_nr: shape.blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (shape.bytes() / FRAME_BYTES) as u32,
            tp_retire_blk_tov: shape.timeout_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (access, bytes) = (libc::PROT_READ | libc::PROT_WRITE, shape.bytes());
        // SAFETY: a new shared mapping of the socket's ring, of the size that was just asked for.
        let memory = unsafe {
            let (at, fd) = (std::ptr::null_mut(), socket.as_raw_fd());
            libc::mmap(at, bytes, access, libc::MAP_SHARED, fd, 0)
        };
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            socket,
            memory: memory.cast(),
            shape,
            next: 0,
        })
    }

    /// The block that the kernel fills next, or has filled.
    fn block(&self) -> *mut tpacket_block_desc {
        // SAFETY: `next` stays below the number of blocks, so the block lies inside the mapping.
        unsafe { self.memory.add(self.next * self.shape.block_bytes).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: blocks are aligned to pages; the status is an aligned word that both sides access as a whole.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.block()).hdr.bh1.block_status) }
    }

    fn filled(&self) -> Option<Ready> {
        let status = self.status().load(Ordering::Acquire);
        (status & libc::TP_STATUS_USER != 0).then_some(Ready::Packets {
            losing: status & libc::TP_STATUS_LOSING != 0,
        })
    }
}

impl Source for Ring {
    fn ready(&mut self) -> io::Result<Ready> {
        if let Some(ready) = self.filled() {
            return Ok(ready);
        }
        self.socket.wait(WAIT.as_millis() as i32)?;
        Ok(self.filled().unwrap_or(Ready::Nothing))
    }

    fn take(&mut self, mut each: impl FnMut(&Packet)) {
        if self.filled().is_none() {
            return;
        }
        let block = self.block().cast::<u8>().cast_const();
        // SAFETY: the block is ours until its status is given back below, so nobody writes to it.
        unsafe {
            let header = &(*block.cast::<tpacket_block_desc>()).hdr.bh1;
            let mut at = header.offset_to_first_pkt as usize;
            for _ in 0..header.num_pkts {
                let Some((packet, step)) = packet_at(block, at, self.shape.block_bytes) else {
                    break;
                };
                each(&packet);
                at += step;
            }
        }
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.shape.blocks;
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.socket)
    }
}

/// The packet at an offset of a block, and how far it is to the next. None: it would leave the block.
///
/// # Safety
/// `block` points to so many bytes that nobody writes to as long as the packet lives.
unsafe fn packet_at<'a>(
    block: *const u8,
    at: usize,
    block_bytes: usize,
) -> Option<(Packet<'a>, usize)> {
    if at + ADDRESS_AT + size_of::<libc::sockaddr_ll>() > block_bytes || at % 8 != 0 {
        return None;
    }
    // SAFETY: header and address lie inside the block, as was just checked, aligned to 8 bytes.
    let (header, address) = unsafe {
        let header = &*block.add(at).cast::<tpacket3_hdr>();
        (
            header,
            &*block.add(at + ADDRESS_AT).cast::<libc::sockaddr_ll>(),
        )
    };
    let (from, bytes) = (at + usize::from(header.tp_mac), header.tp_snaplen as usize);
    if from + bytes > block_bytes {
        return None;
    }
    let hv1 = &header.hv1;
    let packet = Packet {
        time_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
        original: header.tp_len,
        // SAFETY: inside the block, as was just checked.
        bytes: unsafe { std::slice::from_raw_parts(block.add(from), bytes) },
        tag: packet::tag(header.tp_status, hv1.tp_vlan_tci as u16, hv1.tp_vlan_tpid),
        origin: Origin::from(address),
        comment: "",
    };
    Some((packet, header.tp_next_offset as usize))
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.memory.cast(), self.shape.bytes()) };
    }
}
