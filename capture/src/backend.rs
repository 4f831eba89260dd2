// SPDX-License-Identifier: GPL-2.0-or-later
//! Capture backends: the kernel interfaces by which packets arrive.

use std::io;

use clap::ValueEnum;

use crate::afxdp::Afxdp;
use crate::nflog::Nflog;
use crate::packet::Packet;
use crate::pages::{Area, Entries};
use crate::recvmmsg::Recvmmsg;
use crate::ring::Ring;
use crate::socket::{Socket, Statistics};
use crate::source::{Ready, Source};
use crate::twinring::Twinring;
use crate::uring::Uring;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    // Ring in kernel memory that this program maps.
    Tpacket3,
    // Copies of packets, many in one system call (recvmmsg).
    Recvmmsg,
    // Copies of packets, each reported by a completion (io_uring).
    IoUring,
    // Packets that an XDP program at the interface redirects from the host.
    Afxdp,
    // Blocks of packets in a ring of Twinwall's own kernel module.
    Twinring,
    // Packets that rules log (`--nflog`).
    #[value(skip)]
    Nflog,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Tpacket3 => "tpacket3",
            Kind::Recvmmsg => "recvmmsg",
            Kind::IoUring => "io-uring",
            Kind::Afxdp => "afxdp",
            Kind::Twinring => "twinring",
            Kind::Nflog => "nflog",
        }
    }
}

pub enum Backend {
    Tpacket3(Ring),
    Recvmmsg(Recvmmsg),
    IoUring(Box<Uring>),
    Afxdp(Afxdp),
    Twinring(Twinring),
    Nflog(Nflog),
}

impl Source for Backend {
    fn ready(&mut self) -> io::Result<Ready> {
        match self {
            Backend::Tpacket3(one) => one.ready(),
            Backend::Recvmmsg(one) => one.ready(),
            Backend::IoUring(one) => one.ready(),
            Backend::Afxdp(one) => one.ready(),
            Backend::Twinring(one) => one.ready(),
            Backend::Nflog(one) => one.ready(),
        }
    }

    fn take(&mut self, each: impl FnMut(&Packet)) {
        match self {
            Backend::Tpacket3(one) => one.take(each),
            Backend::Recvmmsg(one) => one.take(each),
            Backend::IoUring(one) => one.take(each),
            Backend::Afxdp(one) => one.take(each),
            Backend::Twinring(one) => one.take(each),
            Backend::Nflog(one) => one.take(each),
        }
    }

    fn statistics(&mut self) -> io::Result<Statistics> {
        match self {
            Backend::Tpacket3(one) => one.statistics(),
            Backend::Recvmmsg(one) => one.statistics(),
            Backend::IoUring(one) => one.statistics(),
            Backend::Afxdp(one) => one.statistics(),
            Backend::Twinring(one) => one.statistics(),
            Backend::Nflog(one) => one.statistics(),
        }
    }

    fn shut(&self) -> io::Result<()> {
        match self {
            Backend::Tpacket3(one) => one.shut(),
            Backend::Recvmmsg(one) => one.shut(),
            Backend::IoUring(one) => one.shut(),
            Backend::Afxdp(one) => one.shut(),
            Backend::Twinring(one) => one.shut(),
            Backend::Nflog(one) => one.shut(),
        }
    }

    fn memory(&self) -> Option<Area> {
        match self {
            Backend::Tpacket3(one) => one.memory(),
            Backend::Recvmmsg(one) => one.memory(),
            Backend::IoUring(one) => one.memory(),
            Backend::Afxdp(one) => one.memory(),
            Backend::Twinring(one) => one.memory(),
            Backend::Nflog(one) => one.memory(),
        }
    }

    fn census(&self) -> Option<io::Result<(Entries, Entries)>> {
        match self {
            Backend::Tpacket3(one) => one.census(),
            Backend::Recvmmsg(one) => one.census(),
            Backend::IoUring(one) => one.census(),
            Backend::Afxdp(one) => one.census(),
            Backend::Twinring(one) => one.census(),
            Backend::Nflog(one) => one.census(),
        }
    }

    fn socket(&self) -> Option<&Socket> {
        match self {
            Backend::Tpacket3(one) => one.socket(),
            Backend::Recvmmsg(one) => one.socket(),
            Backend::IoUring(one) => one.socket(),
            Backend::Afxdp(one) => one.socket(),
            Backend::Twinring(one) => one.socket(),
            Backend::Nflog(one) => one.socket(),
        }
    }
}
