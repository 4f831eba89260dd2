// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures answers by a TPACKET_V3 ring (packet(7), Documentation/networking/packet_mmap.rst): the kernel fills blocks
//! of a shared mapping, and counts packets that find no room.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

const BLOCK_BYTES: usize = 1 << 16;
/// Number of the ring's blocks. The kernel passes on a block after BLOCK_TIMEOUT_MS even if the block is nearly empty.
/// So many small blocks bridge a longer pause of the listener than a few large ones.
pub const BLOCKS: usize = 512;
/// Time after which the kernel passes on a block that is not full.
const BLOCK_TIMEOUT_MS: u32 = 5;
const POLL_MS: i32 = 20;
/// Maximum captured bytes of a packet: an answer's headers, and the packet that an ICMP error quotes.
const SNAP_BYTES: u32 = 192;

pub struct Capture {
    socket: OwnedFd,
    ring: *mut u8,
    next: usize,
}

// SAFETY: this value alone owns the mapping, and it is not bound to a thread.
unsafe impl Send for Capture {}

fn checked(value: i32) -> io::Result<i32> {
    match value {
        0.. => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}

fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (at, len) = ((&raw const *value).cast(), size_of::<T>() as u32);
    // SAFETY: setsockopt(2) reads the value, which outlives the call, by its own length.
    checked(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, len) }).map(|_| ())
}

/// Builds a filter for TCP to our port and all ICMP. Offsets count from the IP header, since the socket omits the link
/// layer.
fn filter(port: u16) -> Vec<libc::sock_filter> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let load_byte = |at| step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, at);
    let equal =
        |value: u32, jt, jf| step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, jf, value);
    let give = |bytes| step(libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
    vec![
        load_byte(0),
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 0, 0, 4),
        equal(4, 0, 6),
        // IPv4: protocol, then the port after a header of variable length.
        load_byte(9),
        equal(1, 9, 0),
        equal(6, 0, 9),
        step(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 0, 0, 2),
        step(libc::BPF_JMP | libc::BPF_JA, 0, 0, 4),
        // IPv6: next header, then the port.
        load_byte(6),
        equal(58, 3, 0),
        equal(6, 0, 3),
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 42),
        equal(u32::from(port), 0, 1),
        give(SNAP_BYTES),
        give(0),
    ]
}

impl Capture {
    /// Captures incoming TCP packets to this port, and incoming ICMP packets, on all interfaces.
    pub fn new(port: u16) -> io::Result<Capture> {
        // SAFETY: socket(2) touches no memory; the descriptor is new and owned from here on.
        let socket = unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
            OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_PACKET, kind, 0))?)
        };
        let steps = filter(port);
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_ptr().cast_mut(),
        };
        set(&socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        set(
            &socket,
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            &1i32,
        )?;
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (BLOCKS * BLOCK_BYTES / 2048) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a new shared mapping of the socket's ring, of the size that was just asked for.
        let ring = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            libc::mmap(
                std::ptr::null_mut(),
                BLOCKS * BLOCK_BYTES,
                access,
                libc::MAP_SHARED,
                socket.as_raw_fd(),
                0,
            )
        };
        if ring == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let capture = Capture {
            socket,
            ring: ring.cast(),
            next: 0,
        };
        // Packets arrive from here on: the filter is already set.
        // SAFETY: sockaddr_ll is plain data for which all zeros is valid; bind(2) reads it by its length.
        unsafe {
            let mut all: libc::sockaddr_ll = std::mem::zeroed();
            all.sll_family = libc::AF_PACKET as u16;
            all.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            let len = size_of::<libc::sockaddr_ll>() as u32;
            checked(libc::bind(
                capture.socket.as_raw_fd(),
                (&raw const all).cast(),
                len,
            ))?;
        }
        Ok(capture)
    }

    /// Passes each packet of the next block to `take`, from its IP header on. Returns false if the kernel passed on no
    /// block within POLL_MS.
    pub fn next_block(&mut self, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        // SAFETY: the block lies inside the mapping, and the kernel aligns blocks to pages.
        let (block, header) = unsafe {
            let block = self.ring.add(self.next * BLOCK_BYTES);
            (
                block,
                &raw mut (*block.cast::<libc::tpacket_block_desc>()).hdr.bh1,
            )
        };
        // SAFETY: the status is an aligned word that both sides access as a whole.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*header).block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            let mut poll = libc::pollfd {
                fd: self.socket.as_raw_fd(),
                events: libc::POLLIN | libc::POLLERR,
                revents: 0,
            };
            // SAFETY: poll(2) reads and writes one pollfd, which outlives the call.
            let ready = unsafe { libc::poll(&mut poll, 1, POLL_MS) };
            if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return Err(io::Error::last_os_error());
            }
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return Ok(false);
            }
        }
        // SAFETY: the program owns the block until its status is reset below; the kernel wrote `num_pkts` packets, each
        // at an offset from the previous one, and each with `tp_snaplen` bytes at `tp_net`. A packet that would exceed
        // the block ends the loop.
        unsafe {
            let (count, mut at) = ((*header).num_pkts, (*header).offset_to_first_pkt as usize);
            for _ in 0..count {
                if at + size_of::<libc::tpacket3_hdr>() > BLOCK_BYTES {
                    break;
                }
                let packet = block.add(at).cast::<libc::tpacket3_hdr>();
                let from = at + usize::from((*packet).tp_net);
                let bytes = (*packet).tp_snaplen as usize;
                if from + bytes > BLOCK_BYTES {
                    break;
                }
                take(std::slice::from_raw_parts(block.add(from), bytes));
                at += (*packet).tp_next_offset as usize;
            }
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % BLOCKS;
        Ok(true)
    }

    /// Returns the number of packets dropped for lack of room since the last call.
    pub fn lost(&self) -> io::Result<u64> {
        // SAFETY: all zeros is a valid tpacket_stats_v3, and getsockopt(2) writes at most its length.
        unsafe {
            let mut stats: libc::tpacket_stats_v3 = std::mem::zeroed();
            let mut len = size_of::<libc::tpacket_stats_v3>() as u32;
            let at = (&raw mut stats).cast();
            checked(libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                at,
                &mut len,
            ))?;
            Ok(u64::from(stats.tp_drops))
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.ring.cast(), BLOCKS * BLOCK_BYTES) };
    }
}
