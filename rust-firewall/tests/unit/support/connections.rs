// SPDX-License-Identifier: GPL-2.0-or-later
//! Connections in the form in which an upgrade hands them over.

use rust_firewall::connection::Connections;
use rust_firewall::handover::connections::write;
use rust_firewall::handover::memory;

/// Returns a worker's connections in the form in which an upgrade hands them over.
/// - room: number of bytes that may be written.
pub fn written(connections: &mut Connections, room: u64, now_ns: u64) -> Vec<u8> {
    let mut made = memory::make().expect("memory");
    write(&mut made, connections, room, now_ns).expect("room");
    memory::seal(&mut made).expect("a seal");
    let fd = memory::fd(&made).try_clone_to_owned();
    let sealed = memory::open(fd.expect("a descriptor"), u64::MAX).expect("sealed memory");
    memory::read(&sealed).expect("bytes")
}
