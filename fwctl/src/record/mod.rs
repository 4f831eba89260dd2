// SPDX-License-Identifier: GPL-2.0-or-later
//! `record`: writes packets as pcapng when they are decided. The comment of a packet has its verdict and the metadata
//! that a policy can match.

mod comment;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::engine::general_purpose::STANDARD;
use base64::Engine as _;
use pcapng::{Interface, Packet, Totals};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::arguments::{self, Arguments, Record};
use crate::client;
use crate::event::Event;
use crate::failure::{tell, words, Exit, Failure};
use crate::tail;

/// Maximum wait for events between checks for a signal.
const LOOK: Duration = Duration::from_millis(50);

/// Link type of packets that begin with their IP header.
const LINKTYPE_RAW: u16 = 101;

/// Output file in pcapng format. Each write contains complete pcapng blocks.
struct Out {
    name: String,
    file: File,
    /// pcapng blocks that are not written yet.
    block: Vec<u8>,
    start_ns: u64,
    recorded: u64,
    missed: u64,
    /// Number of packets missed since the last recorded packet.
    gap: u64,
}

fn refused(name: &str, error: &io::Error) -> Failure {
    let cure = match error.kind() {
        io::ErrorKind::AlreadyExists => "choose another name, or remove it",
        io::ErrorKind::NotFound => "make the folder",
        io::ErrorKind::StorageFull => "make room",
        _ => "choose another file by -w",
    };
    Failure::new(
        Exit::Refused,
        format_args!("{name}: {}: {cure}", words(error)),
    )
}

/// Creates a new file, readable only by its owner: it can't be a link that another user created. Returns stdout for
/// `-`.
fn create(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        return Ok(io::stdout().as_fd().try_clone_to_owned()?.into());
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

impl Out {
    fn new(path: &Path) -> Result<Out, Failure> {
        let name = path.display().to_string();
        let file = create(path).map_err(|error| refused(&name, &error))?;
        let mut out = Out {
            name,
            file,
            block: Vec::new(),
            start_ns: now_ns(),
            recorded: 0,
            missed: 0,
            gap: 0,
        };
        pcapng::section(&mut out.block, concat!("fwctl ", env!("CARGO_PKG_VERSION")));
        let interface = Interface {
            name: "",
            link: LINKTYPE_RAW,
            snap_bytes: 0,
            filter: "",
        };
        pcapng::interface(&mut out.block, &interface);
        out.write()?;
        Ok(out)
    }

    /// Writes the pcapng blocks made since the last call to the file.
    fn write(&mut self) -> Result<(), Failure> {
        let written = self.file.write_all(&self.block);
        self.block.clear();
        written.map_err(|error| refused(&self.name, &error))
    }

    /// Writes an event's packet, if it has one. Counts the packets that the event reports as missed.
    fn take(&mut self, event: &Event) -> Result<(), Failure> {
        let missed = event.missed();
        self.missed += missed;
        self.gap += missed;
        let (Some(packet), Some(input)) = (&event.packet, &event.input) else {
            return Ok(());
        };
        let Ok(bytes) = STANDARD.decode(packet) else {
            return Ok(());
        };
        let packet = Packet {
            interface: 0,
            time_ns: event.time_ns().unwrap_or(0),
            // A GSO packet may be longer than its header says, never shorter than the bytes present.
            cut: input.length.saturating_sub(bytes.len() as u32),
            drops: std::mem::take(&mut self.gap),
            comment: &comment::of(event, input),
        };
        pcapng::packet(&mut self.block, &packet, |out| {
            out.extend_from_slice(&bytes);
        });
        self.recorded += 1;
        self.write()
    }

    /// Writes the final block: the numbers of all packets, of missed packets and of recorded packets.
    fn end(&mut self) -> Result<(), Failure> {
        let totals = Totals {
            start_ns: self.start_ns,
            now_ns: now_ns(),
            received: self.recorded + self.missed,
            dropped: self.missed,
            delivered: self.recorded,
        };
        pcapng::statistics(&mut self.block, 0, &totals);
        self.write()
    }
}

pub fn run(arguments: &Arguments, record: &Record) -> Result<Exit, Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let set = signal_hook::flag::register(signal, Arc::clone(&ended));
        set.map_err(|error| refused("signal", &error))?;
    }
    let verdicts: Vec<String> = record.verdict.iter().map(|v| arguments::name(*v)).collect();
    let mut client = client::connect(&arguments.socket)?;
    let mut out = Out::new(&record.write)?;
    tail::begin(&mut client, &verdicts, true)?;
    while record.count.is_none_or(|count| out.recorded < count) && !ended.load(Ordering::Relaxed) {
        if !client.wait_until(Instant::now() + LOOK)? {
            continue;
        }
        let Some(line) = client.line()? else {
            tell("note", "the firewall has ended, or ended the connection");
            break;
        };
        out.take(&Event::parse(&line)?)?;
    }
    out.end()?;
    tell(
        "note",
        format_args!("{} packets recorded, {} missed", out.recorded, out.missed),
    );
    Ok(Exit::Fine)
}
