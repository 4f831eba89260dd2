// SPDX-License-Identifier: GPL-2.0-or-later
//! A reader: its thread reads packets from one ring and encodes them as pcapng blocks. Once started it allocates
//! nothing, unless it follows an interface that went away.

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
use crate::frame;
use crate::link::{Interface, Link};
use crate::look::Seen;
use crate::message;
use crate::nflog::Nflog;
use crate::pages::Pages;
use crate::recvmmsg::Recvmmsg;
use crate::ring::{Ring, Shape};
use crate::socket::Socket;
use crate::source::{Ready, Source, WAIT};
use crate::twinring::{Policy, Twinring, Wanted};
use crate::uring::Uring;

/// Maximum number of batches between two readings of the kernel's counters, which have 32 bits and must not overflow.
const BATCHES_A_COUNT: u32 = 64;
/// Time without a packet after which a stopped ring is not read any further.
const LAST: Duration = Duration::from_secs(2);

/// Parameters for opening a ring.
#[derive(Debug)]
pub struct Opening {
    pub interface: Interface,
    pub filter: Vec<sock_filter>,
    pub snap_bytes: u32,
    pub backend: Kind,
    pub pages: Pages,
    /// Page policy of `Kind::Twinring`; replaces `pages`. None: the policy follows from `pages`.
    pub policy: Option<Policy>,
    /// Size of a ring in bytes, or of a socket's receive buffer.
    pub ring_bytes: u64,
    /// Number of rings that share the interface.
    pub threads: usize,
    pub promiscuous: bool,
    /// Number of the nflog group of `Kind::Nflog`.
    pub group: u16,
}

/// State shared by all readers.
pub struct Shared<'a> {
    pub stop: &'a AtomicBool,
    /// Number of requests for the kernel's counts so far (SIGUSR1). A reader queries the kernel when the number has
    /// increased.
    pub asked: &'a AtomicU64,
    /// True to wait for an interface that has gone away.
    pub follow: bool,
}

/// State of the reader's periodic work.
struct Due {
    batches: u32,
    /// Time of the last flush after a batch of packets; at first the start of the reader.
    flushed: Instant,
}

#[derive(Debug)]
pub enum End {
    Stopped,
    /// The interface no longer exists.
    Gone,
    Failed(io::Error),
}

pub struct Reader<'a> {
    pub ring: Backend,
    pub opening: &'a Opening,
    /// Interface number in the file.
    pub interface: u32,
    /// True if this reader prints messages about the interface; one reader per interface does.
    pub tells: bool,
    pub counts: &'a RingCounts,
    pub outbox: Outbox<'a>,
    pub shared: &'a Shared<'a>,
    pub name: CString,
    /// Index of the interface; a new interface of the same name has another index.
    pub index: u32,
    pub is_down: bool,
    /// Number of dropped packets that no packet block in the file counts yet.
    pub gap: u64,
}

impl Opening {
    /// Opens a ring for the interface with this index. A packet socket accepts no packet until all its options are set,
    /// so none is recorded twice.
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
            // Another process or interface most likely has another group number, which has 16 bits.
            let group = std::process::id().wrapping_mul(31).wrapping_add(index);
            opened.join(group as u16)?;
        }
        opened.filter(&self.filter)?;
        Ok(ring)
    }
}

impl Reader<'_> {
    /// Reads until the capture is stopped, the interface is gone (without --follow), or an error occurs. The packets
    /// that wait in the ring are read at the end, too, except after an error.
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

    /// Stops all readers because this ring has failed: a partial capture is useless.
    fn fail(&mut self, error: io::Error) -> End {
        self.outbox.flush();
        self.shared.stop.store(true, Ordering::Relaxed);
        End::Failed(error)
    }

    /// Handles a batch. Returns false if the interface is gone and all its packets are read.
    fn step(&mut self, ready: Ready, due: &mut Due) -> io::Result<bool> {
        match ready {
            Ready::Packets { losing } => {
                due.batches = due.batches.wrapping_add(1);
                if losing || due.batches % BATCHES_A_COUNT == 0 {
                    self.count()?;
                }
                self.take();
                // Packets may arrive singly and never pause.
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

    /// Encodes the packets of the batch that is ready. Returns their number.
    fn take(&mut self) -> u64 {
        let Reader {
            ring, outbox, gap, ..
        } = self;
        let (interface, link) = (self.interface, self.opening.interface.link);
        let mut packets = 0;
        ring.take(|packet| {
            let chunk = outbox.chunk();
            frame::block(
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
        packets
    }

    /// Adds the kernel's counts since the last call to the counters.
    fn count(&mut self) -> io::Result<()> {
        let new = self.ring.statistics()?;
        add(&self.counts.kernel, new.packets);
        add(&self.counts.drops, new.drops);
        self.gap += new.drops;
        Ok(())
    }

    /// Stops accepting packets and reads the waiting ones, until the kernel's count equals delivered plus dropped, or
    /// no packet has arrived for the time LAST. A slow output does not shorten this time.
    fn finish(&mut self) -> io::Result<()> {
        self.ring.shut()?;
        let mut end = Instant::now() + LAST;
        loop {
            // An error for a downed interface is known or no longer matters.
            let ready = self.ring.ready().unwrap_or(Ready::Nothing);
            self.count()?;
            if ready != Ready::Nothing && self.take() > 0 {
                end = Instant::now() + LAST;
            }
            let counts = self.counts;
            let seen = read(&counts.delivered) + read(&counts.drops);
            // Packets that wait in a socket may not be counted yet.
            let is_all = read(&counts.kernel) == seen && ready == Ready::Nothing;
            if is_all || Instant::now() > end {
                self.outbox.flush();
                return Ok(());
            }
        }
    }

    fn tell(&self, what: &str) {
        if self.tells {
            message::print(format_args!(
                "note: {} {what}\n",
                self.opening.interface.name
            ));
        }
    }

    /// Returns the state of the interface, if it is the one that was opened.
    fn seen(&self) -> Option<Seen> {
        self.looked().ok().filter(|seen| seen.index == self.index)
    }

    /// Checks the interface, and reports if it is down or up again. Returns false if the interface is gone.
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

    /// Waits for an interface of the same name and opens it, or until the capture is stopped. If it can't be opened,
    /// reports that once and tries again, since it may be gone again. Fails if the new interface has another link type.
    fn follow(&mut self) -> io::Result<()> {
        self.tell("is gone: waiting for another of its name");
        let mut has_failed = false;
        while !self.shared.stop.load(Ordering::Relaxed) {
            match self.looked() {
                Ok(seen) if Link::of(seen.hardware) != self.opening.interface.link => {
                    return Err(io::Error::other("it came back with another link type"));
                }
                // Older kernels refuse to share an interface that is down (PACKET_FANOUT).
                Ok(seen) if seen.is_up || self.opening.threads == 1 => {
                    match self.opening.open(seen.index) {
                        Ok(ring) => {
                            self.ring = ring;
                            (self.index, self.is_down) = (seen.index, !seen.is_up);
                            self.tell("is there again");
                            return Ok(());
                        }
                        Err(error) if !has_failed => {
                            has_failed = true;
                            self.tell(&format!("cannot be opened: {error}: trying again"));
                        }
                        Err(_) => (),
                    }
                }
                _ => (),
            }
            thread::sleep(WAIT);
        }
        Ok(())
    }
}
