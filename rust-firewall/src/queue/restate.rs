// SPDX-License-Identifier: GPL-2.0-or-later
//! Verdict that gives a packet back to the kernel, with a correct checksum. The kernel replaces the packet's bytes
//! (nfqnl_mangle), and forgets the checksum that it was to write itself, at an offset that the packet's sender has
//! chosen.

use std::{mem, slice};

use nix::errno::Errno;
use sys_bindings::NFQA_PAYLOAD;

use crate::packet::verdict::{VerdictRun, RESTATED_TOGETHER};
use crate::queue::raw;
use crate::queue::socket;
use crate::queue::types::{Queue, RESTATED_BYTES, RESTATED_PAYLOAD_MAX, VERDICT_BYTES};

const _: () = assert!(VERDICT_BYTES + (4 + RESTATED_PAYLOAD_MAX + 1) == RESTATED_BYTES);
const _: () = assert!(
    4 + RESTATED_PAYLOAD_MAX + 1 > RESTATED_TOGETHER * (1 + (4 + 4)),
    "room in queue.verdicts for packets of at least one byte that share a datagram"
);

/// Writes the verdict message that gives a packet back to the kernel, with the correct checksum.
/// - number: number of the queue.
/// - run: verdict of the packet, and its correct checksum.
/// - payload: the packet's bytes as received.
/// - buffer: out: RESTATED_BYTES.
/// - Returns the number of bytes written; 0 if the run gives no packet back, the packet is too long, or its checksum is
///   not within it.
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

/// Returns true if one of these runs gives its packet back to the kernel, with a correct checksum.
pub fn is_among(runs: &[VerdictRun]) -> bool {
    runs.iter().any(|run| run.restated.is_some())
}

/// Writes the verdict message of a run, with its packet if the kernel gets it back. Returns the number of bytes
/// written; 0 if `build` fails, or the packet's length is not that in the run.
fn build_run(queue: &Queue, run: &VerdictRun, buffer: &mut [u8]) -> usize {
    let Some(restated) = run.restated else {
        return raw::build_verdicts(queue.settings.number, slice::from_ref(run), buffer);
    };
    let packet = queue.packets.get(restated.index as usize);
    let Some(packet) = packet.filter(|packet| packet.payload_bytes == restated.bytes) else {
        return 0;
    };
    let payload = socket::arena(&queue.socket, packet.payload_offset, packet.payload_bytes);
    build(queue.settings.number, run, payload, buffer)
}

/// Sends the verdicts of runs in one datagram, with the packets that the kernel gets back; also for backends whose
/// library can't build such messages. The packets must be those of the last receive call. Returns the number of runs
/// that were sent; fails with EMSGSIZE if a packet's message can't be built, or the datagram is too long.
/// - runs: as many as `verdict::batch_rest` returns.
pub fn verdict(queue: &mut Queue, runs: &[VerdictRun]) -> Result<usize, Errno> {
    let mut verdicts = mem::take(&mut queue.verdicts);
    let built = runs.iter().try_fold(0, |length, run| {
        let buffer = verdicts.get_mut(length..).unwrap_or_default();
        match build_run(queue, run, buffer) {
            0 => Err(Errno::EMSGSIZE),
            bytes => Ok(length + bytes),
        }
    });
    queue.verdicts = verdicts;
    raw::send_whole(queue, queue.verdicts.get(..built?).unwrap_or_default())?;
    Ok(runs.len())
}
