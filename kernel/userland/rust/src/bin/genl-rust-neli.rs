// SPDX-License-Identifier: GPL-2.0-or-later
//! Generic netlink by neli's socket.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use exchange::neli_messages::{
    data_of, family_of, is_part, message, missing_in, name_value, Message,
};
use exchange::{control, lab, Genl};
use neli::consts::nl::{NlmF, Nlmsg};
use neli::consts::socket::NlFamily;
use neli::nl::{NlPayload, Nlmsghdr, NlmsghdrBuilder};
use neli::socket::synchronous::NlSocketHandle;
use neli::utils::Groups;

struct Neli {
    socket: NlSocketHandle,
    sequence: u32,
    explains: bool,
}

impl Neli {
    fn transmit(&mut self, family: u16, flags: NlmF, payload: Message) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = NlmsghdrBuilder::default()
            .nl_type(family)
            .nl_flags(NlmF::REQUEST | flags)
            .nl_seq(self.sequence)
            .nl_payload(NlPayload::Payload(payload))
            .build()?;
        Ok(self.socket.send(&message)?)
    }

    /// Receives the single answer to the last request.
    fn answer(&mut self) -> Result<Nlmsghdr<u16, Message>> {
        let (mut messages, _) = self.socket.recv::<u16, Message>()?;
        let answer = messages.next().context("an answer")??;
        ensure!(*answer.nl_seq() == self.sequence, "not the answer");
        if let NlPayload::Err(error) = answer.nl_payload() {
            let error = std::io::Error::from_raw_os_error(-error.error());
            return Err(error).context("the kernel's answer");
        }
        Ok(answer)
    }

    fn ask_parts(&mut self, family: u16, parts: u32) -> Result<()> {
        let parts = parts.to_ne_bytes();
        let request = message(lab::COUNT, lab::VERSION, Some((lab::PARTS, &parts)))?;
        self.transmit(family, NlmF::DUMP, request)
    }

    /// Receives once and adds the number of received dump parts to `count`. Returns false if the dump's end was
    /// received.
    /// - count: in/out: number of parts.
    fn read_parts(&mut self, count: &mut usize) -> Result<bool> {
        let (messages, _) = self.socket.recv::<u16, Message>()?;
        for part in messages {
            let part = part?;
            ensure!(*part.nl_seq() == self.sequence, "dump: not its part");
            if *part.nl_type() == u16::from(Nlmsg::Done) {
                return Ok(false);
            }
            ensure!(is_part(&part), "dump: not its part");
            *count += 1;
        }
        Ok(true)
    }
}

impl Genl for Neli {
    fn open() -> Result<Neli> {
        let socket = NlSocketHandle::connect(NlFamily::Generic, None, Groups::empty())?;
        Ok(Neli {
            socket,
            sequence: 0,
            explains: false,
        })
    }

    fn family(&mut self, name: &str) -> Result<u16> {
        let name = name_value(name);
        let request = message(control::GETFAMILY, 1, Some((control::FAMILY_NAME, &name)))?;
        self.transmit(control::ID, NlmF::empty(), request)?;
        family_of(&self.answer()?)
    }

    fn echo(&mut self, family: u16, data: &[u8]) -> Result<usize> {
        let request = message(lab::ECHO, lab::VERSION, Some((lab::DATA, data)))?;
        self.transmit(family, NlmF::empty(), request)?;
        data_of(&self.answer()?)
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
            self.socket.enable_ext_ack(true)?;
            self.explains = true;
        }
        let request = message(lab::ECHO, lab::VERSION, None)?;
        self.transmit(family, NlmF::ACK, request)?;
        let (mut messages, _) = self.socket.recv::<u16, Message>()?;
        let refusal = messages.next().context("a refusal")??;
        match refusal.nl_payload() {
            NlPayload::Err(error) => missing_in(error).map(Some),
            _ => bail!("not a refusal"),
        }
    }
}

fn main() -> ExitCode {
    exchange::run::<Neli>()
}
