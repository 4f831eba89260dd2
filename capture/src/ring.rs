// SPDX-License-Identifier: GPL-2.0-or-later
//! A TPACKET_V3 ring (packet(7), Documentation/networking/packet_mmap.rst): the kernel fills blocks of a shared mapping, and
//! counts the packets that find no room.

use std::io;
use std::os::fd::AsRawFd;

use crate::blocks::Blocks;
use crate::packet::Packet;
use crate::pages::Area;
use crate::socket::Socket;
use crate::source::{Ready, Source, WAIT};

/// Frame size, which the kernel only validates: version 3 packs packets one after the other.
const FRAME_BYTES: usize = 2048;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Block size, a multiple of the page size.
    pub block_bytes: usize,
    pub blocks: usize,
    /// Time after which the kernel passes on a block that is not full.
    pub timeout_ms: u32,
}

impl Shape {
    pub const BLOCK_BYTES: usize = 1 << 20;

    /// Returns a shape with the blocks that fit in `bytes`, at least two.
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
    blocks: Blocks,
}

impl Ring {
    /// Creates and maps a ring for a socket that is not bound yet.
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
            // SAFETY: the mapping has `shape.blocks` blocks, and lives as long as this value.
            blocks: unsafe { Blocks::new(memory.cast(), shape.block_bytes, shape.blocks) },
        })
    }
}

impl Source for Ring {
    fn ready(&mut self) -> io::Result<Ready> {
        if let Some(ready) = self.blocks.filled() {
            return Ok(ready);
        }
        self.socket.wait(WAIT.as_millis() as i32)?;
        Ok(self.blocks.filled().unwrap_or(Ready::Nothing))
    }

    fn take(&mut self, each: impl FnMut(&Packet)) {
        self.blocks.take(each);
    }

    fn memory(&self) -> Option<Area> {
        Some(self.blocks.area())
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.socket)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.blocks.start().cast(), self.blocks.bytes()) };
    }
}
