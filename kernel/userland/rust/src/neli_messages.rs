// SPDX-License-Identifier: GPL-2.0-or-later
//! Messages in neli's types, for its socket and its router.

use anyhow::{Context, Result};
use neli::consts::nl::NlmF;
use neli::err::Nlmsgerr;
use neli::genl::{AttrTypeBuilder, Genlmsghdr, GenlmsghdrBuilder, NlattrBuilder};
use neli::nl::{NlPayload, Nlmsghdr};
use neli::types::{Buffer, GenlBuffer};

use crate::{control, lab};

/// A message whose commands and attributes are plain numbers; neli's enums would be encoded equally.
pub type Message = Genlmsghdr<u8, u16>;

/// Builds a generic netlink message with at most one attribute.
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

/// Returns a family's name with its terminating 0.
pub fn name_value(name: &str) -> Vec<u8> {
    [name.as_bytes(), &[0]].concat()
}

/// Returns the family's number in an answer of nlctrl.
pub fn family_of(answer: &Nlmsghdr<u16, Message>) -> Result<u16> {
    let payload = answer.get_payload().context("the family's number")?;
    let attributes = payload.attrs().get_attr_handle();
    Ok(attributes.get_attr_payload_as::<u16>(control::FAMILY_ID)?)
}

/// Returns the number of data bytes in an echo.
pub fn data_of(answer: &Nlmsghdr<u16, Message>) -> Result<usize> {
    let payload = answer.get_payload().context("an echo")?;
    let attributes = payload.attrs().get_attr_handle();
    let data = attributes.get_attribute(lab::DATA).context("the data")?;
    Ok(data.nla_payload().as_ref().len())
}

/// Returns true if a message is a part of a dump, and not its end.
pub fn is_part(message: &Nlmsghdr<u16, Message>) -> bool {
    message.nl_flags().contains(NlmF::MULTI)
        && matches!(message.nl_payload(), NlPayload::Payload(part)
            if part.attrs().get_attr_handle().get_attribute(lab::INDEX).is_some())
}

/// Returns the missing attribute's type from an extended ACK.
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
