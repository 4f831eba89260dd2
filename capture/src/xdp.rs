// SPDX-License-Identifier: GPL-2.0-or-later
//! The XDP program at an interface (bpf(2)): it redirects packets to an AF_XDP socket and counts them in shared memory,
//! so that reading the count and stopping the redirection need no privileged call.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::look::checked;

// Values of <linux/bpf.h>.
const MAP_CREATE: i32 = 0;
const MAP_UPDATE: i32 = 2;
const PROG_LOAD: i32 = 5;
const LINK_CREATE: i32 = 28;
const MAP_ARRAY: u32 = 2;
const MAP_XSK: u32 = 17;
const MAP_MMAPABLE: u32 = 1 << 10;
const PROG_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FUNC_REDIRECT_MAP: i32 = 51;
const PSEUDO_MAP: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
/// Flag of XDP's generic mode, which every interface supports (<linux/if_link.h>).
const SKB_MODE: u32 = 1 << 1;
const XDP_PASS: i32 = 2;
const XDP_REDIRECT: i32 = 4;
/// Offset of rx_queue_index in struct xdp_md.
const QUEUE_AT: i16 = 16;

/// A BPF instruction: code, destination and source register, offset, immediate.
type Step = (u8, u8, u8, i16, i32);
/// An attribute of bpf(2) as 32-bit words; trailing words are zeros.
type Attribute = [u32; 32];

const PAGE: usize = 4096;

/// Memory that the BPF program and this process share.
#[repr(C)]
struct Shared {
    /// Packets redirected to the socket.
    given: AtomicU64,
    /// Not zero if packets are no longer redirected.
    is_shut: AtomicU64,
}

pub struct Program {
    shared: *mut Shared,
    sockets: OwnedFd,
    // The program stays attached while this descriptor is open.
    _link: OwnedFd,
}

// SAFETY: this value alone owns the mapping, and it is not bound to a thread.
unsafe impl Send for Program {}

/// Calls bpf(2).
///
/// # Safety
/// Pointers in the attribute lead to the data that the command reads.
unsafe fn bpf(command: i32, attribute: &Attribute) -> io::Result<i32> {
    // SAFETY: bpf(2) reads the attribute by its length.
    let result = unsafe {
        let at = attribute.as_ptr();
        libc::syscall(libc::SYS_bpf, command, at, size_of::<Attribute>())
    };
    checked(result as i32)
}

fn pointer<T>(to: *const T) -> [u32; 2] {
    let address = to as u64;
    [address as u32, (address >> 32) as u32]
}

fn map(kind: u32, value_bytes: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let mut attribute = [0; 32];
    attribute[..5].copy_from_slice(&[kind, 4, value_bytes, entries, flags]);
    // SAFETY: it has no pointers; the descriptor is new.
    unsafe { bpf(MAP_CREATE, &attribute).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// Returns the BPF program's instructions: redirect a packet to the socket of its queue and count it, or pass it to the
/// host if there is no socket or `is_shut` is set.
fn steps(sockets: RawFd, counts: RawFd) -> [Step; 15] {
    let shut_at = std::mem::offset_of!(Shared, is_shut) as i16;
    [
        (0xbf, 6, 1, 0, 0), // r6 = the packet (struct xdp_md)
        (0x18, 7, PSEUDO_MAP_VALUE, 0, counts),
        (0, 0, 0, 0, 0),
        (0xb7, 0, 0, 0, XDP_PASS),
        (0x79, 1, 7, shut_at, 0),
        (0x55, 1, 0, 8, 0), // to the end
        (0x61, 2, 6, QUEUE_AT, 0),
        (0x18, 1, PSEUDO_MAP, 0, sockets),
        (0, 0, 0, 0, 0),
        (0xb7, 3, 0, 0, XDP_PASS),
        (0x85, 0, 0, 0, FUNC_REDIRECT_MAP),
        (0x55, 0, 0, 2, XDP_REDIRECT), // to the end
        (0xb7, 1, 0, 0, 1),
        (0xdb, 7, 1, std::mem::offset_of!(Shared, given) as i16, 0), // lock *(u64 *)(r7 + at) += r1
        (0x95, 0, 0, 0, 0),
    ]
}

fn load(sockets: RawFd, counts: RawFd) -> io::Result<OwnedFd> {
    let steps = steps(sockets, counts);
    let code: Vec<[u8; 8]> = steps
        .iter()
        .map(|(code, to, from, offset, value)| {
            let ([a, b], [c, d, e, f]) = (offset.to_ne_bytes(), value.to_ne_bytes());
            [*code, to | from << 4, a, b, c, d, e, f]
        })
        .collect();
    let licence = c"GPL";
    let mut attribute = [0; 32];
    attribute[..2].copy_from_slice(&[PROG_XDP, code.len() as u32]);
    attribute[2..4].copy_from_slice(&pointer(code.as_ptr()));
    attribute[4..6].copy_from_slice(&pointer(licence.as_ptr()));
    // SAFETY: instructions and licence live during the call; the descriptor is new.
    unsafe { bpf(PROG_LOAD, &attribute).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

impl Program {
    /// Attaches a BPF program to an interface, in XDP's generic mode. The program redirects nothing before `give`.
    /// Needs CAP_NET_ADMIN and CAP_BPF. Fails with EBUSY if another program is attached in generic mode, with EEXIST
    /// if one is attached in native mode (in the driver).
    pub fn new(interface: u32) -> io::Result<Program> {
        let sockets = map(MAP_XSK, 4, 1, 0)?;
        let counts = map(MAP_ARRAY, size_of::<Shared>() as u32, 1, MAP_MMAPABLE)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new shared mapping of the map's one page.
        let shared = unsafe {
            let (fd, flags) = (counts.as_raw_fd(), libc::MAP_SHARED);
            libc::mmap(null_mut(), PAGE, access, flags, fd, 0)
        };
        if shared == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let program = load(sockets.as_raw_fd(), counts.as_raw_fd());
        let attach = |program: OwnedFd| {
            let mut attribute = [0; 32];
            let fd = program.as_raw_fd() as u32;
            attribute[..4].copy_from_slice(&[fd, interface, ATTACH_XDP, SKB_MODE]);
            // SAFETY: it has no pointers; the descriptor is new.
            unsafe { bpf(LINK_CREATE, &attribute).map(|fd| OwnedFd::from_raw_fd(fd)) }
        };
        match program.and_then(attach) {
            Ok(link) => Ok(Program {
                shared: shared.cast(),
                sockets,
                _link: link,
            }),
            Err(error) => {
                // SAFETY: the mapping from above, which nothing uses.
                unsafe { libc::munmap(shared, PAGE) };
                Err(error)
            }
        }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping lives as long as this value, and both sides access its words as a whole.
        unsafe { &*self.shared }
    }

    /// Redirects the packets of the first queue to a socket from now on.
    pub fn give(&self, socket: RawFd) -> io::Result<()> {
        let (key, value) = (0u32, socket);
        let mut attribute = [0; 32];
        attribute[0] = self.sockets.as_raw_fd() as u32;
        attribute[2..4].copy_from_slice(&pointer(&raw const key));
        attribute[4..6].copy_from_slice(&pointer(&raw const value));
        // SAFETY: key and value live during the call.
        unsafe { bpf(MAP_UPDATE, &attribute).map(|_| ()) }
    }

    /// Returns the number of redirected packets.
    pub fn given(&self) -> u64 {
        self.shared().given.load(Ordering::Relaxed)
    }

    /// Stops the redirection: packets go to the host.
    pub fn shut(&self) {
        self.shared().is_shut.store(1, Ordering::Relaxed);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nothing uses any more.
        unsafe { libc::munmap(self.shared.cast(), PAGE) };
    }
}
