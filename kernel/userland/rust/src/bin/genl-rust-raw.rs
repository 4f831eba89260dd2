// SPDX-License-Identifier: GPL-2.0-or-later
//! Generic netlink with send and recv only. netlink-sys only opens and binds the socket and enables the extended ACK,
//! for which no other crate has a safe call.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::mem::take;
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use exchange::{control, lab, Genl};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket, SocketAddr};
use nix::sys::socket::{recv, send, MsgFlags};

const BUFFER_BYTES: usize = 65536;
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
/// Bytes of the error in struct nlmsgerr; the request's header and payload follow.
const ERROR: usize = 4;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const EINVAL: i32 = 22;

struct Raw {
    socket: Socket,
    sequence: u32,
    explains: bool,
    out: Vec<u8>,
    input: Vec<u8>,
}

thread_local! {
    /// Buffers of the socket closed last, reused by the next: as in C, reopening a socket allocates no memory.
    static KEPT: Cell<(Vec<u8>, Vec<u8>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

impl Drop for Raw {
    fn drop(&mut self) {
        KEPT.set((take(&mut self.out), take(&mut self.input)));
    }
}

fn align(length: usize) -> usize {
    (length + 3) & !3
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Returns the value of an attribute in a message whose attributes begin at `at`.
fn find(message: &[u8], mut at: usize, kind: u16) -> Result<&[u8]> {
    while at + ATTRIBUTE_HEADER <= message.len() {
        let length = usize::from(u16_at(message, at));
        if length < ATTRIBUTE_HEADER || at + length > message.len() {
            break;
        }
        if u16_at(message, at + 2) == kind {
            return Ok(&message[at + ATTRIBUTE_HEADER..at + length]);
        }
        at += align(length);
    }
    bail!("attribute {kind} is missing")
}

/// Returns the message at the start of `bytes`.
fn message(bytes: &[u8]) -> Result<&[u8]> {
    ensure!(bytes.len() >= HEADER, "a message is cut");
    let length = u32_at(bytes, 0) as usize;
    ensure!(
        (HEADER..=bytes.len()).contains(&length),
        "a message's length is wrong"
    );
    Ok(&bytes[..length])
}

impl Raw {
    /// Writes the headers of a request to `out`; returns their length.
    /// - kind: number of the generic netlink family.
    fn begin(&mut self, kind: u16, flags: u16, command: u8, version: u8) -> usize {
        self.sequence = self.sequence.wrapping_add(1);
        self.out[4..6].copy_from_slice(&kind.to_ne_bytes());
        self.out[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        self.out[8..12].copy_from_slice(&self.sequence.to_ne_bytes());
        self.out[12..16].fill(0);
        self.out[16..20].copy_from_slice(&[command, version, 0, 0]);
        HEADER + GENERIC_HEADER
    }

    /// Appends an attribute to the request in `out`, which has `length` bytes; returns the new length.
    fn put(&mut self, length: usize, kind: u16, value: &[u8]) -> usize {
        let end = length + ATTRIBUTE_HEADER + value.len();
        let size = (ATTRIBUTE_HEADER + value.len()) as u16;
        self.out[length..length + 2].copy_from_slice(&size.to_ne_bytes());
        self.out[length + 2..length + 4].copy_from_slice(&kind.to_ne_bytes());
        self.out[length + ATTRIBUTE_HEADER..end].copy_from_slice(value);
        self.out[end..align(end)].fill(0);
        align(end)
    }

    fn transmit(&mut self, length: usize) -> Result<()> {
        self.out[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        let sent = send(
            self.socket.as_raw_fd(),
            &self.out[..length],
            MsgFlags::empty(),
        )?;
        ensure!(sent == length, "send: {sent} of {length} bytes");
        Ok(())
    }

    fn receive(&mut self) -> Result<usize> {
        let length = recv(
            self.socket.as_raw_fd(),
            &mut self.input[..],
            MsgFlags::MSG_TRUNC,
        )?;
        ensure!(length <= BUFFER_BYTES, "recv: truncated");
        Ok(length)
    }

    /// Receives the single answer to the last request.
    fn answer(&mut self) -> Result<&[u8]> {
        let length = self.receive()?;
        let message = message(&self.input[..length])?;
        ensure!(u32_at(message, 8) == self.sequence, "not the answer");
        if u16_at(message, 4) == NLMSG_ERROR {
            let error = u32_at(message, HEADER) as i32;
            return Err(std::io::Error::from_raw_os_error(-error)).context("the kernel's answer");
        }
        Ok(message)
    }

    fn ask_parts(&mut self, family: u16, parts: u32) -> Result<()> {
        let length = self.begin(family, NLM_F_DUMP, lab::COUNT, lab::VERSION);
        let length = self.put(length, lab::PARTS, &parts.to_ne_bytes());
        self.transmit(length)
    }

    /// Receives once and adds the number of received dump parts to `count`. Returns false if the dump's end was
    /// received.
    /// - count: in/out: number of parts.
    fn read_parts(&mut self, count: &mut usize) -> Result<bool> {
        let length = self.receive()?;
        let mut rest = &self.input[..length];
        while !rest.is_empty() {
            let part = message(rest)?;
            match u16_at(part, 4) {
                NLMSG_DONE => return Ok(false),
                NLMSG_ERROR => bail!("dump: not its part"),
                _ => ensure!(u32_at(part, 8) == self.sequence, "dump: not its part"),
            }
            find(part, HEADER + GENERIC_HEADER, lab::INDEX)?;
            *count += 1;
            rest = &rest[align(part.len()).min(rest.len())..];
        }
        Ok(true)
    }
}

impl Genl for Raw {
    fn open() -> Result<Raw> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind(&SocketAddr::new(0, 0))?;
        let (mut out, mut input) = KEPT.take();
        out.resize(BUFFER_BYTES, 0);
        input.resize(BUFFER_BYTES, 0);
        Ok(Raw {
            socket,
            sequence: 0,
            explains: false,
            out,
            input,
        })
    }

    fn family(&mut self, name: &str) -> Result<u16> {
        let mut value = [0; 64];
        value[..name.len()].copy_from_slice(name.as_bytes());
        let length = self.begin(control::ID, 0, control::GETFAMILY, 1);
        let length = self.put(length, control::FAMILY_NAME, &value[..=name.len()]);
        self.transmit(length)?;
        let answer = self.answer()?;
        Ok(u16_at(
            find(answer, HEADER + GENERIC_HEADER, control::FAMILY_ID)?,
            0,
        ))
    }

    fn echo(&mut self, family: u16, data: &[u8]) -> Result<usize> {
        let length = self.begin(family, 0, lab::ECHO, lab::VERSION);
        let length = self.put(length, lab::DATA, data);
        self.transmit(length)?;
        let answer = self.answer()?;
        Ok(find(answer, HEADER + GENERIC_HEADER, lab::DATA)?.len())
    }

    fn dump(&mut self, family: u16, parts: u32) -> Result<usize> {
        let mut count = 0;
        self.ask_parts(family, parts)?;
        while self.read_parts(&mut count)? {}
        Ok(count)
    }

    fn dump_begin(&mut self, family: u16, parts: u32) -> Result<()> {
        self.ask_parts(family, parts)?;
        ensure!(self.read_parts(&mut 0)?, "dump: over at once");
        Ok(())
    }

    fn dump_rest(&mut self) -> Result<()> {
        while self.read_parts(&mut 0)? {}
        Ok(())
    }

    fn refused(&mut self, family: u16) -> Result<Option<u32>> {
        if !self.explains {
            self.socket.set_ext_ack(true)?;
            self.explains = true;
        }
        let length = self.begin(family, NLM_F_ACK, lab::ECHO, lab::VERSION);
        self.transmit(length)?;
        let length = self.receive()?;
        let refusal = message(&self.input[..length])?;
        let explained = u16_at(refusal, 6) & NLM_F_ACK_TLVS != 0;
        ensure!(
            u16_at(refusal, 4) == NLMSG_ERROR && explained,
            "not a refusal"
        );
        ensure!(u32_at(refusal, HEADER) as i32 == -EINVAL, "another refusal");
        let request = u32_at(refusal, HEADER + ERROR) as usize;
        let missing = find(refusal, HEADER + ERROR + request, control::MISSING_TYPE)?;
        Ok(Some(u32_at(missing, 0)))
    }
}

fn main() -> ExitCode {
    exchange::run::<Raw>()
}
