// SPDX-License-Identifier: GPL-2.0-or-later
//! Generic netlink by netlink-packet-generic and netlink-sys.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{bail, ensure, Context, Result};
use exchange::{control, lab, Genl};
use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NetlinkDeserializable, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable, Nla, NlaBuffer, NlasIterator, Parseable, ParseableParametrized, NLM_F_ACK,
    NLM_F_DUMP, NLM_F_REQUEST,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket, SocketAddr};

const BUFFER_BYTES: usize = 65536;

/// A message of the lab's generic netlink family.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lab {
    command: u8,
    attributes: Vec<DefaultNla>,
}

impl GenlFamily for Lab {
    fn family_name() -> &'static str {
        lab::FAMILY
    }

    fn command(&self) -> u8 {
        self.command
    }

    fn version(&self) -> u8 {
        lab::VERSION
    }
}

impl Emitable for Lab {
    fn buffer_len(&self) -> usize {
        self.attributes.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.attributes.as_slice().emit(buffer)
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Lab {
    fn parse_with_param(buffer: &[u8], header: GenlHeader) -> Result<Lab, DecodeError> {
        let attributes = NlasIterator::new(buffer).map(|nla| DefaultNla::parse(&nla?));
        Ok(Lab {
            command: header.cmd,
            attributes: attributes.collect::<Result<_, _>>()?,
        })
    }
}

struct Packet {
    socket: Socket,
    sequence: u32,
    explains: bool,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Packet {
    fn transmit<F>(&mut self, message: GenlMessage<F>, flags: u16) -> Result<()>
    where
        GenlMessage<F>: NetlinkSerializable + Into<NetlinkPayload<GenlMessage<F>>>,
        F: std::fmt::Debug,
    {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::new(Default::default(), message.into());
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        self.out.resize(message.buffer_len(), 0);
        message.serialize(&mut self.out);
        self.socket.send(&self.out, 0)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<()> {
        self.input.clear();
        let length = self.socket.recv(&mut self.input, 0)?;
        ensure!(length == self.input.len(), "recv: truncated");
        Ok(())
    }

    /// Receives the single answer to the last request.
    fn answer<F>(&mut self) -> Result<F>
    where
        GenlMessage<F>: NetlinkDeserializable,
        <GenlMessage<F> as NetlinkDeserializable>::Error: std::error::Error,
        F: std::fmt::Debug,
    {
        self.receive()?;
        let message = NetlinkMessage::<GenlMessage<F>>::deserialize(&self.input)?;
        ensure!(
            message.header.sequence_number == self.sequence,
            "not the answer"
        );
        match message.payload {
            NetlinkPayload::InnerMessage(message) => Ok(message.payload),
            NetlinkPayload::Error(error) => Err(error.to_io()).context("the kernel's answer"),
            _ => bail!("not the answer"),
        }
    }

    fn ask_lab(
        &mut self,
        family: u16,
        flags: u16,
        command: u8,
        attributes: Vec<DefaultNla>,
    ) -> Result<()> {
        let mut message = GenlMessage::from_payload(Lab {
            command,
            attributes,
        });
        message.set_resolved_family_id(family);
        self.transmit(message, flags)
    }

    fn ask_parts(&mut self, family: u16, parts: u32) -> Result<()> {
        let attribute = DefaultNla::new(lab::PARTS, parts.to_ne_bytes().to_vec());
        self.ask_lab(family, NLM_F_DUMP, lab::COUNT, vec![attribute])
    }

    /// Receives once and adds the number of received dump parts to `count`. Returns false if the dump's end was
    /// received.
    /// - count: in/out: number of parts.
    fn read_parts(&mut self, count: &mut usize) -> Result<bool> {
        self.receive()?;
        let mut at = 0;
        while at < self.input.len() {
            let message = NetlinkMessage::<GenlMessage<Lab>>::deserialize(&self.input[at..])?;
            at += (message.header.length as usize).next_multiple_of(4);
            ensure!(
                message.header.sequence_number == self.sequence,
                "dump: not its part"
            );
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(false),
                NetlinkPayload::InnerMessage(part) => {
                    let mut attributes = part.payload.attributes.iter();
                    ensure!(
                        attributes.any(|nla| nla.kind() == lab::INDEX),
                        "dump: no index"
                    );
                    *count += 1;
                }
                _ => bail!("dump: not its part"),
            }
        }
        Ok(true)
    }
}

impl Genl for Packet {
    fn open() -> Result<Packet> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Packet {
            socket,
            sequence: 0,
            explains: false,
            out: Vec::new(),
            input: Vec::with_capacity(BUFFER_BYTES),
        })
    }

    fn family(&mut self, name: &str) -> Result<u16> {
        let request = GenlMessage::from_payload(GenlCtrl {
            cmd: GenlCtrlCmd::GetFamily,
            nlas: vec![GenlCtrlAttrs::FamilyName(name.to_owned())],
        });
        self.transmit(request, 0)?;
        let answer: GenlCtrl = self.answer()?;
        let number = answer.nlas.iter().find_map(|attribute| match attribute {
            GenlCtrlAttrs::FamilyId(number) => Some(*number),
            _ => None,
        });
        number.context("the family's number")
    }

    fn echo(&mut self, family: u16, data: &[u8]) -> Result<usize> {
        let attribute = DefaultNla::new(lab::DATA, data.to_vec());
        self.ask_lab(family, 0, lab::ECHO, vec![attribute])?;
        let answer: Lab = self.answer()?;
        let data = answer.attributes.iter().find(|nla| nla.kind() == lab::DATA);
        Ok(data.context("the data")?.value_len())
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

    /// Sends an echo request without its attribute; returns the missing attribute's type. The library leaves the data
    /// after the error code unparsed, so this function parses them.
    fn refused(&mut self, family: u16) -> Result<Option<u32>> {
        if !self.explains {
            self.socket.set_ext_ack(true)?;
            self.explains = true;
        }
        self.ask_lab(family, NLM_F_ACK, lab::ECHO, Vec::new())?;
        self.receive()?;
        let message = NetlinkMessage::<GenlMessage<Lab>>::deserialize(&self.input)?;
        let NetlinkPayload::Error(error) = message.payload else {
            bail!("not a refusal");
        };
        let request = error.header.get(..4).context("the request")?;
        let request = u32::from_ne_bytes(request.try_into()?) as usize;
        let explained = error.header.get(request..).context("the extended ACK")?;
        for nla in NlasIterator::new(explained) {
            let nla: NlaBuffer<&[u8]> = nla?;
            if nla.kind() == control::MISSING_TYPE {
                return Ok(Some(u32::from_ne_bytes(nla.value().try_into()?)));
            }
        }
        bail!("the missing attribute isn't named")
    }
}

fn main() -> ExitCode {
    exchange::run::<Packet>()
}
