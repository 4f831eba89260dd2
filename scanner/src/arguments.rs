// SPDX-License-Identifier: GPL-2.0-or-later
//! The command line.

use clap::builder::{NonEmptyStringValueParser, RangedU64ValueParser};
use clap::{value_parser, Args, Parser, ValueEnum};
use clap_complete::Shell;

use crate::failure::{Failure, Result};
use crate::flight::Settings;

/// Tests from outside which packets a firewall accepts: a TCP port scanner on io_uring, and a verifier of policies.
#[derive(Debug, Parser)]
#[command(name = "scanner", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 all targets were probed (--verify: and the results match the policy), 1 a system \
call failed, or --verify found a difference, 2 bad command line, 3 a right is missing, \
4 interrupted, or the reader of the results closed them."
)]
pub struct Arguments {
    /// 10.0.0.1, 10.0.0.0/24, 10.0.0.1-20, fe80::/120%eth0, host.example
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,

    /// 22,80,443,8000-8100; - means all ports
    #[arg(short, long, value_name = "PORTS")]
    pub ports: Option<String>,

    /// Continue an interrupted scan from this file, which is written when a scan is interrupted
    #[arg(long, value_name = "FILE", value_parser = NonEmptyStringValueParser::new())]
    pub resume: Option<String>,

    /// Scan from a network namespace: a name of `ip netns`, or a path
    #[arg(long, value_name = "NAMESPACE")]
    pub from: Option<String>,

    /// Print a shell's completions; the packages include them
    #[arg(long, value_name = "SHELL", hide = true, exclusive = true)]
    pub completion: Option<Shell>,

    #[command(flatten)]
    pub which: Which,
    #[command(flatten)]
    pub probe: Probe,
    #[command(flatten)]
    pub told: Told,
    #[command(flatten)]
    pub speed: Speed,
    #[command(flatten)]
    pub expected: Verify,
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Targets")]
pub struct Which {
    /// Also read targets from a file (-: stdin); # begins a comment
    #[arg(long = "targets", value_name = "FILE")]
    pub target_file: Option<String>,

    /// Leave these addresses out
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    pub exclude: Vec<String>,

    /// Leave out the addresses in a file
    #[arg(long, value_name = "FILE")]
    pub exclude_file: Option<String>,

    /// Never probe the addresses in this file (default /etc/twinwall/scanner.block, if it exists)
    #[arg(long, value_name = "FILE")]
    pub block_file: Option<String>,

    /// Also probe addresses that are neither private nor loopback: their owner has agreed
    #[arg(long)]
    pub i_am_authorised: bool,

    /// Probe the targets in order, not in a keyed permutation
    #[arg(long)]
    pub sequential: bool,

    /// The key of the permutation (default: random; with --verify: 1)
    #[arg(long, value_name = "N", conflicts_with = "sequential")]
    pub seed: Option<u64>,
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Probes")]
pub struct Probe {
    /// Read the version line and match it against an expression
    #[arg(long, value_name = "REGEX", group = "probe")]
    pub ssh: Option<String>,

    /// Request a page and read the head of the response
    #[arg(long, group = "probe")]
    pub http: bool,

    /// Read what the server sends first, without a request
    #[arg(long, group = "probe")]
    pub banner: bool,

    /// Send bare SYNs from a raw socket: no connection is made (needs CAP_NET_RAW)
    #[arg(long, group = "probe", conflicts_with_all = ["engine", "rings", "max_inflight", "read_timeout"])]
    pub syn: bool,

    /// Match the answer against an expression; if repeated, all must match
    #[arg(long = "match", value_name = "REGEX")]
    pub matches: Vec<String>,

    /// A header field of the request (--http)
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,

    /// The path of the request (--http; default /)
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,

    /// Use TLS (--http); certificates are not verified
    #[arg(long)]
    pub tls: bool,
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Output")]
pub struct Told {
    /// Format of the results
    #[arg(short, long, value_name = "FORMAT", default_value = "human")]
    pub output: Format,

    /// The states whose targets are listed; all are counted
    #[arg(
        long,
        value_name = "STATES",
        value_delimiter = ',',
        default_value = "open"
    )]
    pub show: Vec<Show>,

    /// No progress bar, no summary
    #[arg(short, long)]
    pub quiet: bool,
}

/// Returns a parser for time limits in milliseconds: 1 ms to ten minutes; longer waits have no use.
fn milliseconds() -> RangedU64ValueParser {
    value_parser!(u64).range(1..=600_000)
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Speed")]
pub struct Speed {
    /// Probes per second, including repeated ones (default: as fast as possible)
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub rate: u64,

    /// Further attempts if no answer comes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u8).range(..=20))]
    pub retries: u8,

    /// Time limit for a connection
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = milliseconds())]
    pub timeout: u64,

    /// Time limit for the whole exchange with a target
    #[arg(long, value_name = "MS", default_value_t = 3000, value_parser = milliseconds())]
    pub read_timeout: u64,

    /// Maximum number of targets that are probed at the same time
    #[arg(long, value_name = "N", default_value_t = 16384, value_parser = value_parser!(u64).range(1..=1_000_000))]
    pub max_inflight: u64,

    /// Threads, each with a ring (default: one per CPU; fewer for few targets, more if their tables are too small)
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=256))]
    pub rings: Option<u64>,

    /// Mechanism of the sockets; auto is io_uring if it works
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: EngineName,
}

#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Verify")]
pub struct Verify {
    /// Compare the answers with the verdicts of a policy; needs --to
    #[arg(long, value_name = "POLICY",
        conflicts_with_all = ["probe", "matches", "resume", "targets", "target_file", "exclude", "exclude_file", "show"])]
    pub verify: Option<String>,

    /// The host behind the firewall
    #[arg(long, value_name = "ADDRESS")]
    pub to: Option<String>,

    /// The firewall that explains the policy (default: rust-firewall beside this program, or on PATH)
    #[arg(long, value_name = "PROGRAM")]
    pub firewall: Option<String>,

    /// The hook that the probes pass (default input); the answers pass the opposite hook
    #[arg(long, value_name = "HOOK")]
    pub hook: Option<String>,

    /// The interface by which probes come in, as named in the policy
    #[arg(long, value_name = "NAME")]
    pub iif: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Human,
    Json,
    Csv,
    Grepable,
    NmapXml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Show {
    Open,
    Closed,
    Filtered,
    Error,
    All,
    Matched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    Auto,
    #[value(name = "io_uring")]
    IoUring,
    Epoll,
}

impl Speed {
    /// Returns the settings of a scan by connections.
    /// - slots: number of slots of each ring.
    /// - told: true for each state to report, in the order of [`crate::state::STATES`].
    pub fn settings(&self, slots: usize, told: [bool; 4]) -> Settings {
        Settings {
            slots,
            connect_timeout_ns: self.timeout * 1_000_000,
            talk_timeout_ns: self.read_timeout * 1_000_000,
            retries: self.retries,
            rate: self.rate as f64,
            told,
        }
    }
}

impl Arguments {
    /// Fails if an option lacks the option that it depends on (clap accepts that if the missing option would conflict
    /// with a third one), or if --verify has an output format other than human or json.
    pub fn check(&self) -> Result<()> {
        let (probe, expected) = (&self.probe, &self.expected);
        let verify = ("--verify", expected.verify.is_some());
        let http = ("--http", probe.http);
        for (option, is_given, (other, is_there)) in [
            ("--header", !probe.header.is_empty(), http),
            ("--path", probe.path.is_some(), http),
            ("--tls", probe.tls, http),
            ("--to", expected.to.is_some(), verify),
            ("--firewall", expected.firewall.is_some(), verify),
            ("--hook", expected.hook.is_some(), verify),
            ("--iif", expected.iif.is_some(), verify),
            ("--verify", verify.1, ("--to", expected.to.is_some())),
        ] {
            if is_given && !is_there {
                return Err(Failure::usage(format!(
                    "{option}: goes with {other} only: say {other}, too, or leave {option} out"
                )));
            }
        }
        match (verify.1, self.told.output) {
            (false, _) | (true, Format::Human | Format::Json) => Ok(()),
            (true, _) => Err(Failure::usage(
                "--output: --verify tells what it finds as human or json",
            )),
        }
    }
}

/// Joins clap's message to one line, without its usage text, and appends `scanner --help` as the cure.
pub fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let lines = text
        .trim_start_matches("error: ")
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty());
    format!("{}: scanner --help", lines.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Arguments::command().debug_assert();
    }

    fn parse(words: &str) -> std::result::Result<Arguments, String> {
        let words = std::iter::once("scanner").chain(words.split(' '));
        let arguments = Arguments::try_parse_from(words).map_err(|error| one_line(&error))?;
        arguments.check().map_err(|failure| failure.text)?;
        Ok(arguments)
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        for words in [
            "10.0.0.1 -p 22 --ssh x",
            "10.0.0.1 -p 80 --http --tls --path /x",
            "--verify p --to ::1 -o json",
            "10.0.0.1 -p 22 --syn --resume f",
        ] {
            assert!(parse(words).is_ok(), "{words}");
        }
        for words in [
            "10.0.0.1 --ssh x --http",
            "10.0.0.1 --tls",
            "10.0.0.1 --tls --ssh x",
            "10.0.0.1 --path /x --banner",
            "10.0.0.1 --to 10.0.0.2",
            "10.0.0.1 --hook input",
            "10.0.0.1 --verify p --to ::1",
            "--verify p",
            "--verify p --to ::1 -o csv",
            "--verify p --to ::1 --show all",
            "10.0.0.1 --retries 21",
            "10.0.0.1 --max-inflight 0",
            "10.0.0.1 --syn --rings 2",
            "--syn --verify p --to ::1",
        ] {
            let words_of_it = parse(words).unwrap_err();
            assert!(!words_of_it.contains('\n'), "{words_of_it}");
        }
    }

    #[test]
    fn a_refusal_is_one_line() {
        for (words, wanted) in [
            (
                "10.0.0.1 -o xyz",
                "invalid value 'xyz' for '--output <FORMAT>' [possible values: human, json, csv, grepable, nmap-xml]: \
                 scanner --help",
            ),
            (
                "10.0.0.1 --ssh x --http",
                "the argument '--ssh <REGEX>' cannot be used with '--http': scanner --help",
            ),
            (
                "10.0.0.1 --tls",
                "--tls: goes with --http only: say --http, too, or leave --tls out",
            ),
        ] {
            assert_eq!(parse(words).unwrap_err(), wanted);
        }
    }
}
