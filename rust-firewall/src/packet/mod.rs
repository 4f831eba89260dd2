// SPDX-License-Identifier: GPL-2.0-or-later
//! Packets: headers, verdicts, interfaces, captures.

#[allow(clippy::module_inception)]
mod packet;
pub mod pcap;
pub mod pcap_link;
pub mod verdict;

pub use packet::*;
