// SPDX-License-Identifier: GPL-2.0-or-later
//! Packet blocks in TPACKET_V3 format (<linux/if_packet.h>): the kernel fills one block after the other and passes it to the
//! program, which returns it.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{tpacket3_hdr, tpacket_block_desc};

use crate::packet::{self, Origin, Packet};
use crate::pages::Area;
use crate::source::Ready;

/// Offset of a packet's sockaddr_ll from the start of the packet's header: TPACKET_ALIGN(sizeof(struct tpacket3_hdr)).
const ADDRESS_AT: usize = size_of::<tpacket3_hdr>().next_multiple_of(16);

pub struct Blocks {
    memory: *mut u8,
    block_bytes: usize,
    count: usize,
    next: usize,
}

// SAFETY: it is not bound to a thread, and the caller of `new` vouches for the memory.
unsafe impl Send for Blocks {}

impl Blocks {
    /// # Safety
    /// `memory` has `count` blocks in a row, aligned to pages, which the kernel fills and nothing else reads. The owner of
    /// this value keeps them as long as the value lives.
    pub unsafe fn new(memory: *mut u8, block_bytes: usize, count: usize) -> Blocks {
        Blocks {
            memory,
            block_bytes,
            count,
            next: 0,
        }
    }

    pub fn start(&self) -> *mut u8 {
        self.memory
    }

    pub fn bytes(&self) -> usize {
        self.block_bytes * self.count
    }

    pub fn area(&self) -> Area {
        Area {
            start: self.memory as usize,
            bytes: self.bytes(),
        }
    }

    /// Returns the next block to read, which the kernel may not have filled yet.
    fn block(&self) -> *mut tpacket_block_desc {
        // SAFETY: `next` stays below the number of blocks, so the block lies inside the mapping.
        unsafe { self.memory.add(self.next * self.block_bytes).cast() }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: blocks are aligned to pages; the status is an aligned word that both sides access as a whole.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.block()).hdr.bh1.block_status) }
    }

    /// Returns the state of the next block, or None while the kernel owns it.
    pub fn filled(&self) -> Option<Ready> {
        let status = self.status().load(Ordering::Acquire);
        (status & libc::TP_STATUS_USER != 0).then_some(Ready::Packets {
            losing: status & libc::TP_STATUS_LOSING != 0,
        })
    }

    /// Passes each packet of the next block to `each`, and returns the block to the kernel. Does nothing while the
    /// kernel owns the block.
    pub fn take(&mut self, mut each: impl FnMut(&Packet)) {
        if self.filled().is_none() {
            return;
        }
        let block = self.block().cast::<u8>().cast_const();
        // SAFETY: the program owns the block until its status is reset below, so nothing writes to it.
        unsafe {
            let header = &(*block.cast::<tpacket_block_desc>()).hdr.bh1;
            let mut at = header.offset_to_first_pkt as usize;
            for _ in 0..header.num_pkts {
                let Some((packet, step)) = packet_at(block, at, self.block_bytes) else {
                    break;
                };
                each(&packet);
                at += step;
            }
        }
        self.status()
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.count;
    }
}

/// Returns the packet at an offset of a block, and the distance to the next packet. Returns None if the packet would
/// exceed the block, or if the offset is no multiple of 8.
///
/// # Safety
/// `block` points to `block_bytes` bytes that nothing writes to as long as the packet lives.
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
