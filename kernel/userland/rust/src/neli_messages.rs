// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages as neli has them, for its socket and its router.

use anyhow::{Context, Result};
use neli::consts::nl::NlmF;
use neli::err::Nlmsgerr;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder};
use neli::nl::{NlPayload, Nlmsghdr};
use neli::types::{Buffer, GenlBuffer};

use crate::{control, lab};

/// Commands and attributes are numbers: neli's enums would be the same to the kernel.
pub type Message = Genlmsghdr<u8, u16>;

/// A generic netlink message with at most one attribute.
pub fn message(command: u8, version: u8, attribute: Option<(u16, &[u8])>) -> Result<Message> {
    let mut attributes = GenlBuffer::<u16, Buffer>::new();
    if let Some((kind, value)) = attribute {
        let kind = AttrTypeBuilder::default().nla_type(kind).build()?;
        attributes.push(
            NlattrBuilder::default()
                .nla_type(kind)
                .nla_payload(value)
                .build()?,
        );
    }
    let message = GenlmsghdrBuilder::default().cmd(command).version(version);
    Ok(message.attrs(attributes).build()?)
}

/// A family's name with the 0 that ends it.
pub fn name_value(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// The number that an answer of nlctrl has.
pub fn family_of(answer: &Nlmsghdr<u16, Message>) -> Result<u16> {
    let payload = answer.get_payload().context("the family's number")?;
    let attributes = payload.attrs().get_attr_handle();
    Ok(attributes.get_attr_payload_as::<u16>(control::FAMILY_ID)?)
}

/// The bytes of an echo.
pub fn data_of(answer: &Nlmsghdr<u16, Message>) -> Result<usize> {
    let payload = answer.get_payload().context("an echo")?;
    let attributes = payload.attrs().get_attr_handle();
    let data = attributes.get_attribute(lab::DATA).context("the data")?;
    Ok(data.nla_payload().as_ref().len())
}

/// Whether a message is a part of a dump, and not its end.
pub fn is_part(message: &Nlmsghdr<u16, Message>) -> bool {
    message.nl_flags().contains(NlmF::MULTI)
        && matches!(message.nl_payload(), NlPayload::Payload(part)
            if part.attrs().get_attr_handle().get_attribute(lab::INDEX).is_some())
}

/// Which attribute an extended ACK says is missing.
pub fn missing_in<M>(error: &Nlmsgerr<M>) -> Result<u32> {
    let missing = error
        .ext_ack()
        .iter()
        .find(|attribute| u16::from(attribute.nla_type().nla_type()) == control::MISSING_TYPE);
    let missing = missing.context("the missing attribute isn't named")?;
    Ok(u32::from_ne_bytes(
        missing.nla_payload().as_ref().try_into()?,
    ))
}
