// SPDX-License-Identifier: GPL-2.0-or-later
//! Records packets and loses none silently. The ring (`ring`, `socket`, `packet`) serves other programs, too.

pub mod arguments;
pub mod aside;
pub mod backend;
pub mod chunk;
pub mod command;
pub mod counts;
pub mod failure;
pub mod file;
pub mod filter;
pub mod link;
pub mod look;
pub mod name;
pub mod packet;
pub mod pages;
pub mod pcapng;
pub mod privilege;
pub mod reader;
pub mod recvmmsg;
pub mod ring;
pub mod sandbox;
pub mod size;
pub mod socket;
pub mod source;
pub mod uring;
pub mod writer;
