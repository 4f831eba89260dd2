// SPDX-License-Identifier: GPL-2.0-or-later
//! Submission queue entries that the engine and the feature probe share.

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{DestinationSlot, Fixed};

use crate::targets::Family;

/// Builds an entry that opens a TCP socket as the direct descriptor of a slot.
pub fn open_entry(slot: usize, family: Family) -> Entry {
    let place = DestinationSlot::try_from_slot_target(slot as u32).ok();
    opcode::Socket::new(family.domain(), libc::SOCK_STREAM, 0)
        .file_index(place)
        .build()
}

/// Builds an entry that reads SO_ERROR of a slot's socket into `to`, which must outlive the entry. The crate only has the
/// entry that sets an option; the entry that gets it differs in the command number.
pub fn error_entry(slot: usize, to: &mut i32) -> Entry {
    const GETSOCKOPT: u32 = 2; // SOCKET_URING_OP_GETSOCKOPT
    const COMMAND: usize = std::mem::offset_of!(Head, command);
    let (level, option) = (libc::SOL_SOCKET as u32, libc::SO_ERROR as u32);
    let at = (&raw mut *to).cast();
    let mut entry = opcode::SetSockOpt::new(
        Fixed(slot as u32),
        level,
        option,
        at,
        size_of::<i32>() as u32,
    )
    .build();
    // SAFETY: an entry is the kernel's io_uring_sqe, 64 bytes of plain data (asserted below) that begin as `Head` says.
    unsafe {
        let command = (&raw mut entry).cast::<u8>().add(COMMAND);
        command.cast::<u32>().write(GETSOCKOPT);
    }
    entry
}

const _: () = assert!(size_of::<Entry>() == 64);

/// The first fields of io_uring_sqe (linux/io_uring.h) of a command entry.
#[repr(C)]
struct Head {
    opcode: u8,
    flags: u8,
    ioprio: u16,
    fd: i32,
    command: u32,
}
