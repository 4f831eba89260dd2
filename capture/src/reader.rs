// SPDX-License-Identifier: GPL-2.0-or-later
//! A reader: its thread takes packets from one ring and makes blocks of pcapng of them. It allocates nothing once it has
//! started, unless it follows an interface that went away.

use std::ffi::CString;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::sock_filter;

use crate::afxdp::Afxdp;
use crate::backend::{Backend, Kind};
use crate::chunk::Outbox;
use crate::counts::{add, read, RingCounts};
use crate::link::{Interface, Link};
use crate::look::Seen;
use crate::nflog::Nflog;
use crate::pages::Pages;
use crate::pcapng;
use crate::recvmmsg::Recvmmsg;
use crate::ring::{Ring, Shape};
use crate::socket::Socket;
use crate::source::{Ready, Source, WAIT};
use crate::twinring::{Policy, Twinring, Wanted};
use crate::uring::Uring;

/// The kernel's counters have 32 bits: they are read this often, in batches, so that they never overflow.
const BATCHES_A_COUNT: u32 = 64;
/// How long the last packets of a ring may take to come.
const LAST: Duration = Duration::from_secs(2);

/// How a ring is opened.
#[derive(Debug)]
pub struct Opening {
    pub interface: Interface,
    pub filter: Vec<sock_filter>,
    pub snap_bytes: u32,
    pub backend: Kind,
    pub pages: Pages,
    /// Of `Kind::Twinring`, in place of that of the pages.
    pub policy: Option<Policy>,
    /// The bytes of a ring, or the most that may wait in a socket.
    pub ring_bytes: u64,
    /// How many rings share the interface.
    pub threads: usize,
    pub promiscuous: bool,
    /// Of `Kind::Nflog`.
    pub group: u16,
}

/// What all readers share.
pub struct Shared<'a> {
    pub stop: &'a AtomicBool,
    /// Goes up when the counts are wanted.
    pub asked: &'a AtomicU64,
    /// Waits for an interface that has gone away.
    pub follow: bool,
}

/// What is due from time to time.
struct Due {
    batches: u32,
    /// When a chunk was last handed over that was not full.
    flushed: Instant,
}

#[derive(Debug)]
pub enum End {
    Stopped,
    /// The interface is no more.
    Gone,
    Failed(io::Error),
}

pub struct Reader<'a> {
    pub ring: Backend,
    pub opening: &'a Opening,
    /// Its number in the file.
    pub interface: u32,
    /// Tells of the interface; the others of the same keep silent.
    pub tells: bool,
    pub counts: &'a RingCounts,
    pub outbox: Outbox<'a>,
    pub shared: &'a Shared<'a>,
    pub name: CString,
    /// Which interface of this name it is; another gets another number.
    pub index: u32,
    pub is_down: bool,
    /// Drops that no block tells of yet.
    pub gap: u64,
}

impl Opening {
    /// A ring for the interface with this number. Nothing comes until all is set, so no packet comes twice.
    pub fn open(&self, index: u32) -> io::Result<Backend> {
        let (bytes, snap) = (self.ring_bytes as usize, self.snap_bytes as usize);
        let socket = || -> io::Result<Socket> {
            let socket = Socket::new(self.interface.link)?;
            socket.shut().map(|()| socket)
        };
        let ring = match self.backend {
            Kind::Tpacket3 => Backend::Tpacket3(Ring::new(socket()?, Shape::of(self.ring_bytes))?),
            Kind::Recvmmsg => Backend::Recvmmsg(Recvmmsg::new(socket()?, bytes, snap, self.pages)?),
            Kind::IoUring => {
                let uring = Uring::new(socket()?, bytes, snap, self.pages)?;
                Backend::IoUring(Box::new(uring))
            }
            Kind::Afxdp => {
                let of = &self.interface;
                let ring = Afxdp::new(of, self.promiscuous, bytes, snap, self.pages)?;
                return Ok(Backend::Afxdp(ring));
            }
            Kind::Twinring => {
                return Twinring::new(&Wanted {
                    interface: index,
                    promiscuous: self.promiscuous,
                    filter: &self.filter,
                    ring_bytes: bytes,
                    snap_bytes: snap,
                    policy: self.policy.unwrap_or(Policy::of(self.pages)),
                })
                .map(Backend::Twinring);
            }
            Kind::Nflog => return Nflog::new(self.group, bytes, snap).map(Backend::Nflog),
        };
        let Some(opened) = ring.socket() else {
            return Ok(ring);
        };
        let interface = Interface {
            index,
            ..self.interface.clone()
        };
        opened.bind(&interface, self.promiscuous)?;
        if self.threads > 1 {
            // Another process, or another interface, has another group.
            let group = std::process::id().wrapping_mul(31).wrapping_add(index);
            opened.join(group as u16)?;
        }
        opened.filter(&self.filter)?;
        Ok(ring)
    }
}

impl Reader<'_> {
    /// Reads until it is told to stop, or cannot go on. What has come by then is handed over and counted.
    pub fn run(mut self) -> End {
        let mut due = Due {
            batches: 0,
            flushed: Instant::now(),
        };
        loop {
            if self.shared.stop.load(Ordering::Relaxed) {
                return self.finish().map_or_else(End::Failed, |()| End::Stopped);
            }
            let step = match self.ring.ready() {
                Ok(ready) => self.step(ready, &mut due),
                Err(error) if error.raw_os_error() == Some(libc::ENETDOWN) => self.look(),
                Err(error) => Err(error),
            };
            match step {
                Ok(true) => (),
                Ok(false) if self.shared.follow => match self.follow() {
                    Ok(()) => (),
                    Err(error) => return self.fail(error),
                },
                Ok(false) => {
                    self.tell("is gone");
                    return End::Gone;
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    /// What works no more in one ring ends them all: half of a capture is none.
    fn fail(&self, error: io::Error) -> End {
        self.shared.stop.store(true, Ordering::Relaxed);
        End::Failed(error)
    }

    /// False: the interface is no more, and all of its packets are taken.
    fn step(&mut self, ready: Ready, due: &mut Due) -> io::Result<bool> {
        match ready {
            Ready::Packets { losing } => {
                due.batches = due.batches.wrapping_add(1);
                if losing || due.batches % BATCHES_A_COUNT == 0 {
                    self.count()?;
                }
                self.take();
                // Packets may come one by one and never pause.
                if due.flushed.elapsed() >= WAIT {
                    self.outbox.flush();
                    due.flushed = Instant::now();
                }
            }
            Ready::Nothing => {
                self.outbox.flush();
                if self.is_down {
                    return self.look();
                }
            }
        }
        let asked = self.shared.asked.load(Ordering::Relaxed);
        if asked != read(&self.counts.asked) {
            self.count()?;
            self.counts.asked.store(asked, Ordering::Release);
        }
        Ok(true)
    }

    fn take(&mut self) {
        let Reader {
            ring, outbox, gap, ..
        } = self;
        let (interface, link) = (self.interface, self.opening.interface.link);
        let mut packets = 0;
        ring.take(|packet| {
            let chunk = outbox.chunk();
            pcapng::packet(
                &mut chunk.bytes,
                interface,
                link,
                packet,
                std::mem::take(gap),
            );
            chunk.packets += 1;
            packets += 1;
        });
        add(&self.counts.delivered, packets);
    }

    /// Asks the kernel what it counted.
    fn count(&mut self) -> io::Result<()> {
        let new = self.ring.statistics()?;
        add(&self.counts.kernel, new.packets);
        add(&self.counts.drops, new.drops);
        self.gap += new.drops;
        Ok(())
    }

    /// Lets nothing in any more and takes what is in: until the kernel's count is what was delivered and dropped.
    fn finish(&mut self) -> io::Result<()> {
        self.ring.shut()?;
        let end = Instant::now() + LAST;
        loop {
            // That the interface is down is known, or does not matter any more.
            let ready = self.ring.ready().unwrap_or(Ready::Nothing);
            self.count()?;
            if ready != Ready::Nothing {
                self.take();
            }
            let counts = self.counts;
            let seen = read(&counts.delivered) + read(&counts.drops);
            // What waits in a socket may be in no count yet.
            let is_all = read(&counts.kernel) == seen && ready == Ready::Nothing;
            if is_all || Instant::now() > end {
                self.outbox.flush();
                return Ok(());
            }
        }
    }

    fn tell(&self, what: &str) {
        if self.tells {
            eprintln!("note: {} {what}", self.opening.interface.name);
        }
    }

    /// The interface, as long as it is the one that was opened.
    fn seen(&self) -> Option<Seen> {
        self.looked().ok().filter(|seen| seen.index == self.index)
    }

    /// Sees whether the interface is down, up again, or no more (false).
    fn look(&mut self) -> io::Result<bool> {
        match self.seen() {
            Some(seen) if seen.is_up && self.is_down => {
                self.is_down = false;
                self.tell("is up again");
            }
            Some(seen) if !seen.is_up && !self.is_down => {
                self.is_down = true;
                self.tell("is down: waiting for it");
            }
            Some(_) => (),
            None => {
                self.finish()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn looked(&self) -> io::Result<Seen> {
        let gone = || io::Error::from_raw_os_error(libc::ENODEV);
        self.ring.socket().ok_or_else(gone)?.look(&self.name)
    }

    /// Waits for an interface of the same name and opens it.
    fn follow(&mut self) -> io::Result<()> {
        self.tell("is gone: waiting for another of its name");
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.looked() {
                Ok(seen) if Link::of(seen.hardware) == self.opening.interface.link => {
                    self.ring = self.opening.open(seen.index)?;
                    (self.index, self.is_down) = (seen.index, !seen.is_up);
                    self.tell("is there again");
                    return Ok(());
                }
                Ok(_) => return Err(io::Error::other("it came back with another link type")),
                Err(_) => thread::sleep(WAIT),
            }
        }
        Ok(())
    }
}
