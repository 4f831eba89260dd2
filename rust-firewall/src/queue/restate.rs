// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdict that gives a packet back to the kernel, with a correct checksum. The kernel replaces the packet's bytes
//! (nfqnl_mangle), and forgets the checksum that it was to write itself, at an offset that the packet's sender has
//! chosen.

use std::slice;

use nix::errno::Errno;
use sys_bindings::NFQA_PAYLOAD;

use crate::packet::verdict::VerdictRun;
use crate::queue::raw;
use crate::queue::socket;
use crate::queue::types::{Queue, RESTATED_BYTES, RESTATED_PAYLOAD_MAX, VERDICT_BYTES};

const _: () = assert!(VERDICT_BYTES + (4 + RESTATED_PAYLOAD_MAX + 1) == RESTATED_BYTES);

/// Writes the verdict message of a packet that the kernel gets back.
/// - payload: the packet's bytes.
/// - buffer: out: RESTATED_BYTES.
/// - Returns the number of bytes written; 0 if the packet is too long, or its checksum is not within it.
pub fn build(number: u16, run: &VerdictRun, payload: &[u8], buffer: &mut [u8]) -> usize {
    let Some(restated) = run.restated else {
        return 0;
    };
    let place = restated.place as usize;
    if payload.len() > RESTATED_PAYLOAD_MAX || place + 2 > payload.len() {
        return 0;
    }
    let at = raw::build_verdicts(number, slice::from_ref(run), buffer);
    let end = raw::put_attribute(buffer, at, NFQA_PAYLOAD, payload);
    raw::end_message(buffer, 0, end);
    let start = end - payload.len().next_multiple_of(4);
    if let Some(checksum) = buffer.get_mut(start + place..start + place + 2) {
        checksum.copy_from_slice(&restated.checksum.to_be_bytes());
    }
    end
}

/// Sends the verdict of a packet that the kernel gets back, also for backends whose library can't build the message.
/// The packet must be one of the last receive call. Returns the number of runs that were sent.
pub fn verdict(queue: &mut Queue, run: &VerdictRun) -> Result<usize, Errno> {
    let index = run.restated.unwrap_or_default().index;
    let packet = queue.packets.get(index as usize).ok_or(Errno::EINVAL)?;
    let payload = socket::arena(&queue.socket, packet.payload_offset, packet.payload_bytes);
    let length = build(queue.settings.number, run, payload, &mut queue.restated);
    if length == 0 {
        return Err(Errno::EMSGSIZE);
    }
    raw::send_whole(queue, queue.restated.get(..length).unwrap_or_default())?;
    Ok(1)
}
