// SPDX-License-Identifier: GPL-2.0-or-later
//! The new firewall's proof that it may take over (control/proof describes what it proves).

use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{sendto, MsgFlags, NetlinkAddr};
use serde_json::Value;

use crate::base::log::{failure_set, failure_set_start, Failure, LogExit};
use crate::control;
use crate::handover;
use crate::handover::channel::HandoverChannel;

const REQUEST: &str = "{\"command\":\"proof\"}\n";

/// Sends a number as decimal text to a netlink port.
fn send_number(port: u32, number: u64) -> nix::Result<()> {
    let fd = control::proof::make_socket()?;
    let to = NetlinkAddr::new(port, 0);
    let text = number.to_string();
    sendto(fd.as_raw_fd(), text.as_bytes(), &to, MsgFlags::empty()).map(drop)
}

/// Returns the netlink port and the number in the old firewall's answer to the request `proof`.
fn parse_answer(answer: &Value) -> Result<(u32, u64), Failure> {
    if answer.get("ok") == Some(&Value::Bool(false)) {
        return Err(handover::state::fail_refused(answer));
    }
    let number_of = |key| answer.get(key).and_then(Value::as_i64);
    let port = number_of("port").and_then(|port| u32::try_from(port).ok());
    let number = number_of("number").and_then(|number| u64::try_from(number).ok());
    match (port.filter(|port| *port > 0), number) {
        (Some(port), Some(number)) => Ok((port, number)),
        _ => Err(handover::state::fail_stranger()),
    }
}

/// Proves to the old firewall, at the other end of a channel, that this process may take over. Fails also if the old
/// firewall asks for no proof, or is in another network namespace.
pub fn give(channel: &mut HandoverChannel) -> Result<(), Failure> {
    handover::channel::send(channel, REQUEST, None)?;
    let line = handover::channel::line(channel)?;
    let (port, number) = parse_answer(&serde_json::from_slice(line).unwrap_or_default())?;
    send_number(port, number).map_err(|error| match error {
        Errno::EPERM => failure_set(
            LogExit::Capability,
            "taking over needs CAP_NET_ADMIN: use sudo or setcap cap_net_admin+ep",
        ),
        Errno::ECONNREFUSED => failure_set(
            LogExit::Call,
            "the old firewall is in another network namespace: start this one there (ip netns exec)",
        ),
        error => failure_set_start("sendto", error),
    })
}
