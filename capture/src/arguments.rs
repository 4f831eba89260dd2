// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line.

use clap::builder::NonEmptyStringValueParser;
use clap::{value_parser, Parser, ValueEnum};

use crate::backend::Kind;
use crate::failure::{Failure, Result};
use crate::pages::Pages;
use crate::size::{self, Rotation};
use crate::twinring;

/// Records packets as pcapng. Prints a ledger of written and lost packets at the end and on SIGUSR1.
#[derive(Debug, Parser)]
#[command(name = "capture", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 ended by SIGINT or SIGTERM, or the reader of -w - has closed it; 1 a system call \
failed, an interface disappeared, or a disk is full (--on-full stop); 2 bad command line; 3 a right is missing."
)]
pub struct Arguments {
    /// Interfaces to capture from; may be repeated; any means all of them
    #[arg(short, long, value_name = "NAME", required_unless_present = "nflog", value_parser = NonEmptyStringValueParser::new())]
    pub interface: Vec<String>,

    /// Instead of interfaces: packets that rules log to a group (nft: log group 5), with their prefix as a comment
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["interface", "backend", "pages", "threads", "follow", "filter", "no_promiscuous"])]
    pub nflog: Option<u16>,

    /// The file, - for stdout; with --rotate its name may contain the time (%Y%m%d-%H%M%S, strftime(3))
    #[arg(short, long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub write: String,

    /// Begin another file after this size, this time (s, min, h), or both: 1GB,10min
    #[arg(long, value_name = "SIZE,TIME", value_parser = size::rotation)]
    pub rotate: Option<Rotation>,

    /// Keep this number of the latest files of this run, and remove the others
    #[arg(long, value_name = "N", requires = "rotate", value_parser = value_parser!(u32).range(1..))]
    pub keep: Option<u32>,

    /// Compress; .zst is added to the name
    #[arg(long)]
    pub zstd: bool,

    /// Action on a full disk: packets are not written until there is room, or the capture ends
    #[arg(long, value_name = "WHAT", default_value = "go-on")]
    pub on_full: OnFull,

    /// Source of the packets
    #[arg(long, value_name = "NAME", default_value = "tpacket3")]
    pub backend: Kind,

    /// With --backend afxdp: the host does not get the received packets
    #[arg(long)]
    pub take: bool,

    /// Pages of the memory to which packets are copied (not for tpacket3, whose ring is the kernel's)
    #[arg(long, value_name = "KIND", default_value = "4k")]
    pub pages: Pages,

    /// Memory of a thread's ring; as much again is used for packets that wait to be written
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = ring)]
    pub ring: u64,

    /// Threads per interface, each with a ring; all packets of a flow go to one thread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u16).range(1..=64))]
    pub threads: u16,

    /// Record at most this number of bytes of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = value_parser!(u32).range(1..=262_144))]
    pub snaplen: u32,

    /// Record only packets that are sent to this machine
    #[arg(short = 'p', long)]
    pub no_promiscuous: bool,

    /// If an interface disappears, wait for another of the same name
    #[arg(long)]
    pub follow: bool,

    /// The user to which root changes once everything is open (default: the user of sudo, else twinwall, else nobody)
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Allow only needed files and system calls; off: the user still changes
    #[arg(long, value_name = "WHAT", default_value = "on")]
    pub sandbox: Sandbox,

    /// Print no line at the start
    #[arg(short, long)]
    pub quiet: bool,

    /// The packets to record, in the syntax of pcap-filter(7): tcp port 443
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    pub filter: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnFull {
    GoOn,
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sandbox {
    On,
    Off,
}

/// Parses the size of a ring, such as `64M`, to bytes. Fails unless it is from 2 MiB to 16 GiB.
pub fn ring(text: &str) -> std::result::Result<u64, String> {
    match size::bytes(text)? {
        bytes if (2 << 20..=16 << 30).contains(&bytes) => Ok(bytes),
        _ => Err("between 2M and 16G".into()),
    }
}

impl Arguments {
    /// Checks that the options fit together.
    pub fn check(&self) -> Result<()> {
        let (folder, _) = self.write.rsplit_once('/').unwrap_or_default();
        if self.write == "-" && self.rotate.is_some() {
            return Err(Failure::usage(
                "--rotate: stdout has no other file: name one by -w, or leave --rotate out",
            ));
        }
        if self.rotate.is_some() && folder.contains('%') {
            return Err(Failure::usage(format!(
                "-w {}: the time stands in the file's name only, not in the folder's",
                self.write
            )));
        }
        if self.backend == Kind::Tpacket3 && self.pages != Pages::Base {
            return Err(Failure::usage(
                "--pages: the ring of tpacket3 is the kernel's: say --backend recvmmsg or io-uring, too, or leave --pages out",
            ));
        }
        self.check_afxdp()?;
        self.check_twinring()?;
        let mut names: Vec<&String> = self.interface.iter().collect();
        names.sort();
        match names.windows(2).find(|two| two[0] == two[1]) {
            Some(twice) => Err(Failure::usage(format!("-i {}: named twice", twice[0]))),
            None => Ok(()),
        }
    }

    /// Checks the options of afxdp: --take is required; filters, several threads and --follow are not supported.
    /// Refuses --take with another backend.
    fn check_afxdp(&self) -> Result<()> {
        let is_afxdp = self.backend == Kind::Afxdp;
        let refused = |what: &str| Err(Failure::usage(what));
        if is_afxdp != self.take {
            return refused("--backend afxdp takes what comes in from the host: it goes with --take, and --take with it alone");
        }
        if is_afxdp && !self.filter.is_empty() {
            return refused(
                "--backend afxdp has no filter: leave it out, or choose another --backend",
            );
        }
        if is_afxdp && (self.threads > 1 || self.follow) {
            return refused(
                "--backend afxdp: leave --threads and --follow out, or choose another --backend",
            );
        }
        Ok(())
    }

    /// Checks the options of twinring: one thread for each interface, a limited ring, neither --follow nor `-i any`.
    fn check_twinring(&self) -> Result<()> {
        if self.backend != Kind::Twinring {
            return Ok(());
        }
        if self.threads > 1 || self.follow || self.interface.iter().any(|name| name == "any") {
            return Err(Failure::usage(
                "--backend twinring has one thread for each named interface: leave --threads, --follow and -i any out, or choose another --backend",
            ));
        }
        let most = twinring::BLOCKS_MOST * twinring::BLOCK_BYTES;
        match self.ring > most as u64 {
            true => Err(Failure::usage(format!(
                "--backend twinring: --ring has {}M at most",
                most >> 20
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::one_line;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    fn parse(words: &str) -> std::result::Result<Arguments, String> {
        let words = std::iter::once("capture").chain(words.split(' '));
        let arguments =
            Arguments::try_parse_from(words).map_err(|error| one_line("capture", &error))?;
        arguments.check().map_err(|failure| failure.text)?;
        Ok(arguments)
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let all = "-i a -i b -w d/%Y.pcapng --rotate 1GB,10min --keep 3 --zstd tcp port 443";
        assert_eq!(parse(all).unwrap().filter.join(" "), "tcp port 443");
        assert!(parse("-i a -i b -w x --backend twinring").is_ok());
        for words in [
            "-i a",
            "-w x",
            "-i a -w - --rotate 1GB",
            "-i a -w %Y/x --rotate 1GB",
            "-i a -w x --keep 3",
            "-i a -i a -w x",
            "-i a -w x --ring 1M",
            "-i a -w x --threads 0",
            "-i a -w x --pages thp",
            "--nflog 5",
            "--nflog 65536 -w x",
            "--nflog 5 -i a -w x",
            "--nflog 5 -w x --threads 2",
            "--nflog 5 -w x tcp",
            "-i a -w x --backend nflog",
            "-i a -w x --backend afxdp",
            "-i a -w x --take",
            "-i any -w x --backend twinring",
            "-i a -w x --backend twinring --threads 2",
            "-i a -w x --backend twinring --ring 1G",
            "-i a -w x --backend afxdp --take tcp",
            "-i a -w x --backend afxdp --take --threads 2",
            "-i a -w x --backend afxdp --take --follow",
            "-i a -w x --on-full x",
            "-i a -w x --snaplen 0",
        ] {
            let refusal = parse(words).unwrap_err();
            assert!(!refusal.contains('\n'), "{refusal}");
        }
    }
}
