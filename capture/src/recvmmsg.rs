// SPDX-License-Identifier: GPL-2.0-or-later
//! Captures packets by recvmmsg(2): the kernel copies them to this program's mapping, which may have huge pages.

use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;

use libc::{iovec, mmsghdr, sockaddr_ll};

use crate::aside::{self, CONTROL_BYTES};
use crate::look::checked;
use crate::packet::Packet;
use crate::pages::{Area, Memory, Pages};
use crate::socket::Socket;
use crate::source::{Ready, Source, WAIT};

const MOST_SLOTS: usize = 512;
const PAGE: usize = 4096;

/// Buffer for control messages, with their alignment.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

pub struct Recvmmsg {
    socket: Socket,
    messages: Vec<mmsghdr>,
    addresses: Vec<sockaddr_ll>,
    // Referenced by the messages; must not move.
    _slots: Vec<iovec>,
    _controls: Vec<Control>,
    memory: Memory,
    received: usize,
}

// SAFETY: the pointers lead to memory that this value owns, which is not bound to a thread.
unsafe impl Send for Recvmmsg {}

/// Returns the maximum number of packets per call, and the bytes of each packet's slot.
fn slots(buffer_bytes: usize, snap_bytes: usize) -> (usize, usize) {
    let bytes = snap_bytes.next_multiple_of(PAGE);
    ((buffer_bytes / bytes).clamp(8, MOST_SLOTS), bytes)
}

impl Recvmmsg {
    /// Returns the bytes that `new` needs for packets; [`Memory::new`] rounds them up to huge pages.
    pub fn memory_bytes(buffer_bytes: usize, snap_bytes: usize) -> usize {
        let (count, bytes) = slots(buffer_bytes, snap_bytes);
        count * bytes
    }

    /// Prepares a socket before it is bound. `buffer_bytes` is the size of the kernel's receive buffer; the memory here
    /// has the size that `memory_bytes` returns.
    pub fn new(
        socket: Socket,
        buffer_bytes: usize,
        snap_bytes: usize,
        pages: Pages,
    ) -> io::Result<Recvmmsg> {
        let (count, slot_bytes) = slots(buffer_bytes, snap_bytes);
        let memory = Memory::new(count * slot_bytes, pages)?;
        aside::prepare(&socket, buffer_bytes)?;
        let slot = |number: usize| iovec {
            // SAFETY: inside the memory.
            iov_base: unsafe { memory.start().add(number * slot_bytes) }.cast(),
            iov_len: slot_bytes,
        };
        let mut slots: Vec<iovec> = (0..count).map(slot).collect();
        let mut controls = vec![Control([0; CONTROL_BYTES]); count];
        // SAFETY: plain data for which all zeros is valid.
        let (mut addresses, mut messages): (Vec<sockaddr_ll>, Vec<mmsghdr>) =
            unsafe { (vec![zeroed(); count], vec![zeroed(); count]) };
        for (number, message) in messages.iter_mut().enumerate() {
            let head = &mut message.msg_hdr;
            head.msg_name = (&raw mut addresses[number]).cast();
            head.msg_iov = &raw mut slots[number];
            head.msg_iovlen = 1;
            head.msg_control = (&raw mut controls[number]).cast();
        }
        Ok(Recvmmsg {
            socket,
            messages,
            addresses,
            _slots: slots,
            _controls: controls,
            memory,
            received: 0,
        })
    }

    /// Receives the packets that are waiting, at most one per slot; returns their number, 0 if there are none.
    fn receive(&mut self) -> io::Result<usize> {
        for message in &mut self.messages {
            message.msg_hdr.msg_namelen = size_of::<sockaddr_ll>() as u32;
            message.msg_hdr.msg_controllen = CONTROL_BYTES as _;
        }
        let (at, count) = (self.messages.as_mut_ptr(), self.messages.len() as u32);
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: recvmmsg(2) fills at most `count` messages, each within the lengths that it states.
        let received = unsafe {
            let fd = self.socket.as_raw_fd();
            checked(libc::recvmmsg(fd, at, count, flags, std::ptr::null_mut()))
        };
        match received {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other.map(|received| received as usize),
        }
    }
}

impl Source for Recvmmsg {
    fn ready(&mut self) -> io::Result<Ready> {
        if self.received == 0 {
            self.received = self.receive()?;
        }
        if self.received == 0 {
            self.socket.wait(WAIT.as_millis() as i32)?;
            self.received = self.receive()?;
        }
        Ok(match self.received {
            0 => Ready::Nothing,
            // Packets are dropped only when the reader falls behind.
            received => Ready::Packets {
                losing: received == self.messages.len(),
            },
        })
    }

    fn take(&mut self, mut each: impl FnMut(&Packet)) {
        let received = std::mem::take(&mut self.received);
        for (message, address) in self.messages[..received].iter().zip(&self.addresses) {
            // SAFETY: the kernel has filled the message, and writes to it no more before the next `receive`.
            unsafe {
                let head = &message.msg_hdr;
                let (at, length) = ((*head.msg_iov).iov_base.cast(), message.msg_len as usize);
                let bytes = std::slice::from_raw_parts(at, length);
                each(&aside::packet(head, address, bytes));
            }
        }
    }

    fn memory(&self) -> Option<Area> {
        Some(self.memory.area())
    }

    fn socket(&self) -> Option<&Socket> {
        Some(&self.socket)
    }
}
