// SPDX-License-Identifier: GPL-2.0-or-later
//! The writer: its thread receives chunks from the readers and writes them, so that a slow disk does not block a
//! reader.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pcapng::{Interface, Totals};
use zstd::bulk::Compressor;

use crate::chunk::{Chunk, Inbox};
use crate::counts::{add, read, Counts};
use crate::failure::{Failure, Result};
use crate::file::Out;
use crate::frame;
use crate::link::Link;
use crate::message;
use crate::name;
use crate::size::Rotation;

/// Maximum wait for a chunk, after which the time limit of a file is checked.
const WATCH: Duration = Duration::from_millis(200);
const ZSTD_LEVEL: i32 = 1;

/// Description of an interface in the files, and its rings.
#[derive(Debug)]
pub struct Named {
    pub name: String,
    pub link: Link,
    /// Indices of the interface's rings in the counts.
    pub rings: std::ops::Range<usize>,
}

#[derive(Debug)]
pub struct Plan {
    pub interfaces: Vec<Named>,
    pub snap_bytes: u32,
    pub filter: String,
    /// Template of the files' names; None means stdout.
    pub template: Option<String>,
    pub rotation: Option<Rotation>,
    /// Number of files to keep; None keeps all files.
    pub keep: Option<usize>,
    pub zstd: bool,
    /// True if a full disk ends the capture.
    pub stop_when_full: bool,
}

/// State of the output after failures; each state but `Ended` may recover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// The file can't grow, since the disk is full, for example; the writer still tries to write each chunk.
    Full,
    /// The old file is continued, since a new one can't be opened.
    NoNext,
    /// Nothing is written any more: the reader of the pipe has gone, --on-full stop applies, or the file can't be cut
    /// or written for another reason.
    Ended,
}

pub struct Writer<'a> {
    plan: &'a Plan,
    counts: &'a Counts,
    stop: &'a AtomicBool,
    out: Out,
    /// Files of this run that were not removed, oldest first.
    made: VecDeque<PathBuf>,
    packer: Option<Compressor<'static>>,
    packed: Vec<u8>,
    scratch: Vec<u8>,
    start_ns: u64,
    trouble: Trouble,
    /// Number of packets that were not written and that no packet block in the file counts yet.
    gap: u64,
    failure: Option<Failure>,
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl Plan {
    /// Returns the path of the next file.
    pub fn path(&self, template: &str) -> PathBuf {
        let mut name = name::at(template, (now_ns() / 1_000_000_000) as i64);
        if self.zstd && !name.ends_with(".zst") {
            name.push_str(".zst");
        }
        name.into()
    }

    /// Opens the next file. With rotation it never replaces a file.
    pub fn open(&self) -> io::Result<Out> {
        let Some(template) = &self.template else {
            return Out::stdout();
        };
        let path = self.path(template);
        match self.rotation {
            Some(_) => Out::create(&path),
            None => Out::replace(&path),
        }
    }
}

impl<'a> Writer<'a> {
    /// Creates the writer, and writes the start of the first file.
    /// - longest: maximum bytes of a chunk.
    pub fn new(
        plan: &'a Plan,
        counts: &'a Counts,
        stop: &'a AtomicBool,
        out: Out,
        longest: usize,
    ) -> Result<Writer<'a>> {
        let packer = match plan.zstd {
            true => {
                Some(Compressor::new(ZSTD_LEVEL).map_err(|error| Failure::system("zstd", &error))?)
            }
            false => None,
        };
        let packed = packer
            .as_ref()
            .map_or(0, |_| zstd::zstd_safe::compress_bound(longest));
        let mut writer = Writer {
            plan,
            counts,
            stop,
            made: out.path.iter().cloned().collect(),
            out,
            packer,
            packed: Vec::with_capacity(packed),
            scratch: Vec::with_capacity(longest + frame::OVERHEAD),
            start_ns: now_ns(),
            trouble: Trouble::None,
            gap: 0,
            failure: None,
        };
        writer
            .begin()
            .map_err(|error| Failure::system(&writer.out.name(), &error))?;
        Ok(writer)
    }

    /// Writes chunks until all readers have ended, then the end of the file.
    pub fn run(mut self, inbox: Inbox) -> Result<()> {
        loop {
            match inbox.next(WATCH) {
                Ok(chunk) => {
                    self.rotate(chunk.bytes.len());
                    self.write(&chunk);
                    inbox.give(chunk);
                }
                Err(RecvTimeoutError::Timeout) => self.rotate(0),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.trouble != Trouble::Ended {
            self.end();
        }
        match self.failure {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Writes the start of a file: section and interfaces.
    fn begin(&mut self) -> io::Result<()> {
        self.scratch.clear();
        let application = concat!("Twinwall capture ", env!("CARGO_PKG_VERSION"));
        pcapng::section(&mut self.scratch, application);
        for one in &self.plan.interfaces {
            let interface = Interface {
                name: &one.name,
                link: one.link.number(),
                snap_bytes: self.plan.snap_bytes,
                filter: &self.plan.filter,
            };
            pcapng::interface(&mut self.scratch, &interface);
        }
        add(&self.counts.writer.files, 1);
        self.put_scratch()
    }

    /// Writes the end of a file: statistics. Errors are ignored, since the file is valid without them.
    fn end(&mut self) {
        self.scratch.clear();
        for (number, one) in self.plan.interfaces.iter().enumerate() {
            let rings = &self.counts.rings[one.rings.clone()];
            let delivered = rings.iter().map(|ring| read(&ring.delivered)).sum();
            let dropped = rings.iter().map(|ring| read(&ring.drops)).sum();
            let totals = Totals {
                start_ns: self.start_ns,
                now_ns: now_ns(),
                received: delivered + dropped,
                dropped,
                delivered,
            };
            pcapng::statistics(&mut self.scratch, number as u32, &totals);
        }
        let _ = self.put_scratch();
    }

    /// Writes the whole scratch buffer, or nothing. After an error, a part may remain in an output that can't be
    /// truncated.
    fn put_scratch(&mut self) -> io::Result<()> {
        let put = match &mut self.packer {
            Some(packer) => {
                pack(packer, &self.scratch, &mut self.packed)?;
                self.out.put(&self.packed)
            }
            None => self.out.put(&self.scratch),
        };
        put.or_else(|short| self.out.cut(0).and(Err(short.error)))
    }

    fn write(&mut self, chunk: &Chunk) {
        if self.trouble == Trouble::Ended {
            return add(&self.counts.writer.unwritten, chunk.packets);
        }
        let mut blocks: &[u8] = &chunk.bytes;
        if self.gap > 0 {
            let second = pcapng::behind_gap(blocks, self.gap, &mut self.scratch);
            self.scratch.extend_from_slice(&blocks[second..]);
            blocks = &self.scratch;
        }
        let put = match &mut self.packer {
            Some(packer) => match pack(packer, blocks, &mut self.packed) {
                Ok(()) => self.out.put(&self.packed),
                Err(error) => Err(crate::file::Short { written: 0, error }),
            },
            None => self.out.put(blocks),
        };
        let Err(short) = put else {
            add(&self.counts.writer.written, chunk.packets);
            return self.wrote();
        };
        // A partial compressed chunk is unreadable.
        let (packets, bytes) = match self.packer {
            Some(_) => (0, 0),
            None => pcapng::whole(blocks, short.written),
        };
        add(&self.counts.writer.written, packets);
        add(&self.counts.writer.unwritten, chunk.packets - packets);
        // The first written packet records the old gap; the new gap begins after the last one.
        self.gap = chunk.packets - packets + if packets == 0 { self.gap } else { 0 };
        self.cannot(bytes, &short.error);
    }

    fn wrote(&mut self) {
        if self.trouble == Trouble::Full {
            self.trouble = Trouble::None;
            let (name, gap) = (self.out.name(), self.gap);
            message::print(format_args!(
                "note: {name}: there is room again: {gap} packets were not written\n"
            ));
        }
        self.gap = 0;
    }

    /// Handles a short write: cuts the file at a whole block, reports the error, and continues or ends the capture
    /// (--on-full).
    /// - keep: number of bytes of the short write that stay in the file.
    fn cannot(&mut self, keep: usize, error: &io::Error) {
        let name = self.out.name();
        let cut = self.out.cut(keep);
        let full = [libc::ENOSPC, libc::EDQUOT, libc::EFBIG, libc::EIO];
        let may_end = error
            .raw_os_error()
            .is_some_and(|code| full.contains(&code));
        match error.kind() {
            // A closed pipe is not an error.
            ErrorKind::BrokenPipe => self.stop(None),
            _ if may_end && cut.is_ok() && !self.plan.stop_when_full => {
                if self.trouble != Trouble::Full {
                    self.trouble = Trouble::Full;
                    message::print(format_args!(
                        "warning: {name}: {error}: it ends at a whole packet, and goes on when there is room\n"
                    ));
                }
            }
            _ => self.stop(Some(Failure::failed(format!(
                "{name}: {error}: the file ends at a whole packet; make room, or say --on-full go-on"
            )))),
        }
    }

    fn stop(&mut self, failure: Option<Failure>) {
        self.trouble = Trouble::Ended;
        self.failure = failure;
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Begins another file if the present one has reached its time limit, or would exceed its size limit with `more`
    /// bytes (--rotate).
    fn rotate(&mut self, more: usize) {
        let Some(rotation) = self.plan.rotation else {
            return;
        };
        let full = rotation
            .bytes
            .is_some_and(|most| self.out.bytes + more as u64 > most);
        let old = rotation
            .time
            .is_some_and(|most| self.out.since.elapsed() >= most);
        if !(full || old) || self.trouble == Trouble::Ended {
            return;
        }
        match self.next() {
            Ok(()) if self.trouble == Trouble::NoNext => self.trouble = Trouble::None,
            Ok(()) => (),
            Err(error) => {
                if self.trouble == Trouble::None {
                    self.trouble = Trouble::NoNext;
                    let name = self.out.name();
                    message::print(format_args!(
                        "warning: the next file: {error}: going on in {name} until there is one\n"
                    ));
                }
            }
        }
    }

    /// Removes the oldest files beyond `Plan::keep`, begins the next file and ends the old one. On failure the old file
    /// is continued; the removed files are gone.
    fn next(&mut self) -> io::Result<()> {
        while self
            .plan
            .keep
            .is_some_and(|keep| self.made.len() >= keep.max(2))
        {
            if let Some(oldest) = self.made.pop_front() {
                remove(&oldest);
            }
        }
        let next = self.plan.open()?;
        let old = std::mem::replace(&mut self.out, next);
        if let Err(error) = self.begin() {
            let next = std::mem::replace(&mut self.out, old);
            next.path.iter().for_each(|path| remove(path));
            return Err(error);
        }
        let next = std::mem::replace(&mut self.out, old);
        self.end();
        self.out = next;
        self.made.extend(self.out.path.clone());
        if self.plan.keep == Some(1) {
            self.made.pop_front().iter().for_each(|path| remove(path));
        }
        Ok(())
    }
}

/// Compresses a buffer to a separate zstd frame, so that the file is valid after each frame.
fn pack(packer: &mut Compressor, from: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
    to.clear();
    packer.compress_to_buffer(from, to).map(|_| ())
}

/// Removes a file; ignores a file that is already gone.
fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            let path = path.display();
            message::print(format_args!(
                "warning: {path}: cannot be removed: {error}\n"
            ));
        }
        _ => (),
    }
}
