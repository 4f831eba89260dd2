// SPDX-License-Identifier: GPL-2.0-or-later
//! Code shared by the two judges: policies and packets made from a seed, and the shrinking of disagreements.
//!
//! It imports nothing from a firewall: the language follows rules/policy/GRAMMAR.md, packets follow the RFCs.

pub mod boundary;
pub mod connection;
pub mod field;
pub mod generate;
pub mod hello;
pub mod keep;
pub mod mutate;
pub mod names;
pub mod packet;
pub mod pcap;
pub mod quic;
pub mod random;
pub mod scan;
pub mod shrink;
pub mod style;
pub mod tree;
