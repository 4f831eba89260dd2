// SPDX-License-Identifier: GPL-2.0-or-later
//! What the two judges share: policies and packets made from a seed, and how a disagreement is made small.
//!
//! Nothing of a firewall is imported: the language is known from rules/policy/GRAMMAR.md, packets from the RFCs.

pub mod boundary;
pub mod field;
pub mod generate;
pub mod keep;
pub mod mutate;
pub mod packet;
pub mod pcap;
pub mod random;
pub mod scan;
pub mod shrink;
pub mod style;
pub mod tree;
